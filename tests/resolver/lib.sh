# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: LGPL-2.1-or-later
# Shared by the shell tests of the resolver. A test sets name= and program= (of tests/resolver) and
# sources this file. Then $tool is the program and $tmp a directory. At the end the processes in
# pids and the network namespaces in namespaces are removed, and the closing line is printed. A test
# may define a function at_end for more.
# shellcheck source=../wait.sh
. "$(dirname "$0")/../wait.sh"
passed=0 failed=0 skipped=0
tmp=$(mktemp -d)
pids=() namespaces=()

# clean: ends all processes, takes all namespaces down; they may be made again
clean()
{
	local one
	for one in "${pids[@]}"; do
		# One that was stopped is to end, too.
		kill -KILL "$one" 2>/dev/null
		wait "$one" 2>/dev/null
	done
	pids=()
	for one in "${namespaces[@]}"; do
		ip netns del "$one" 2>/dev/null
	done
}

finish()
{
	trap - EXIT
	! declare -F at_end >/dev/null || at_end
	clean
	rm -rf "$tmp"
	echo "resolver/$name: $passed passed, $failed failed, $skipped skipped"
	exit $((failed > 0))
}
trap finish EXIT
trap 'exit 1' INT TERM

# has_lines FILE PATTERN [COUNT]: whether the file has so many lines like this (1)
has_lines()
{
	local n
	n=$(grep -c -- "$2" "$1" 2>/dev/null)
	[ "${n:-0}" -ge "${3:-1}" ]
}

# await FILE PATTERN [COUNT]: waits for such lines, two minutes at most
await()
{
	wait_until 120 has_lines "$@"
}

# skip WHY: nothing of this test can be run here
skip()
{
	echo "SKIP: $*"
	skipped=1
	exit
}

tool=
for candidate in "${builddir:-.}/tests/resolver/$program" "tests/resolver/$program"; do
	[ -x "$candidate" ] && tool=$candidate && break
done
if [ -z "$tool" ]; then
	echo "FAIL: tests/resolver/$program was not built"
	failed=1
	exit
fi
