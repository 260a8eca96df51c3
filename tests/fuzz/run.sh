#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Runs every libFuzzer program of a build tree for a bounded time, several at once, and keeps what
# it finds.
#
# usage: tests/fuzz/run.sh BUILD_DIR [TARGET...]
#   BUILD_DIR     configured with --enable-fuzzers --enable-sanitize=address,undefined, "make
#     fuzzers" done
#   FUZZ_SECONDS  per target (default 10); protocol, whose inputs take longest, has twice as long;
#     auth, header, record and villas, whose corpus reaches all of the code, a third
#   FUZZ_JOBS     targets at a time (default: the number of processors)
# Inputs that fail are left in BUILD_DIR/fuzz/NAME/ (crash-*, timeout-*, oom-*), new coverage in
# BUILD_DIR/fuzz/NAME/corpus. The last line is "fuzz: N passed, N failed, 0 skipped"; the exit code
# is 0 if none failed.
set -u
build=${1:?usage: run.sh BUILD_DIR [TARGET...]}
shift
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$build" && pwd) || exit 2
seconds=${FUZZ_SECONDS:-10}
jobs=${FUZZ_JOBS:-$(nproc)}
export RIPC_INTERFACES=lo
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:allocator_may_return_null=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

names=()
if [ $# -gt 0 ]; then
	names=("$@")
else
	for program in "$build"/tests/fuzz/fuzz_*; do
		[ -f "$program" ] && [ -x "$program" ] &&
			names+=("$(basename "$program" | sed 's/^fuzz_//')")
	done
fi
if [ ${#names[@]} -eq 0 ]; then
	echo "$build/tests/fuzz: no fuzz target was built"
	echo "fuzz: 0 passed, 1 failed, 0 skipped"
	exit 1
fi

# One target, in its own directory, because libFuzzer writes its findings into the current
# directory.
fuzz_one()
{
	local name=$1 dir=$build/fuzz/$1 rc found
	local seconds=$seconds
	case $name in
	protocol) seconds=$((2 * seconds)) ;;
	auth | header | record | villas) seconds=$(((seconds + 2) / 3)) ;;
	esac
	mkdir -p "$dir/corpus"
	"$build/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 \
		-print_final_stats=1 -artifact_prefix="$dir/" "$dir/corpus" "$here/corpus/$name" \
		>"$dir/log" 2>&1 </dev/null
	rc=$?
	found=$(find "$dir" -maxdepth 1 \( -name 'crash-*' -o -name 'timeout-*' -o -name 'oom-*' \
		-o -name 'leak-*' \) | tr '\n' ' ')
	if [ "$rc" -ne 0 ] || [ -n "$found" ]; then
		echo "FAIL: fuzz_$name: exit code $rc, found: ${found:-nothing}(log: $dir/log)"
		sed 's/^/    /' "$dir/log" | tail -n 60
		return 1
	fi
	echo "PASS: fuzz_$name: $(sed -n 's/^stat::number_of_executed_units: *//p' \
		"$dir/log") inputs in" \
		"$seconds s, coverage $(grep -o 'cov: [0-9]*' "$dir/log" | tail -n 1 |
		sed 's/cov: //')"
}

for name in "${names[@]}"; do
	while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
		wait -n
	done
	# Old findings would be taken for new ones.
	rm -f "$build/fuzz/$name"/crash-* "$build/fuzz/$name"/timeout-* "$build/fuzz/$name"/oom-* \
		"$build/fuzz/$name"/leak-*
	mkdir -p "$build/fuzz/$name"
	(fuzz_one "$name" >"$build/fuzz/$name/result" 2>&1; echo $? >"$build/fuzz/$name/rc") &
done
wait

passed=0
failed=0
for name in "${names[@]}"; do
	cat "$build/fuzz/$name/result"
	if [ "$(cat "$build/fuzz/$name/rc")" = 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
done
echo "fuzz: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
