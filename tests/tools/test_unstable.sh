#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# scripts/unstable.sh: which failed programs are run again, and what becomes of the counts.
name=test_unstable
top=${srcdir:-$(dirname "$0")/../..}
. "$top/tests/tools/lib.sh"
. "$top/scripts/unstable.sh"

# rerun STAGE NAME LOG: the number in the name is the run that fails; 0: none. A program named
# nothing has no test that runs.
rerun()
{
	echo "$2" >>"$results/runs"
	runs_of_it=$(grep -c "^$2\$" "$results/runs")
	[ "$2" = nothing_0 ] && tests_of_it=0 || tests_of_it=12
	echo "run $runs_of_it of $2: $tests_of_it passed, 0 failed, 1 skipped" >"$3"
	[ "$runs_of_it" -ne "${2##*_}" ]
}

# scene TEXT PROGRAM...: programs with 10 passed and 2 failed tests each; their log holds TEXT. Then
# the decision.
scene()
{
	local program
	results=$work/results
	rm -rf "$results"
	mkdir -p "$results"
	: >"$results/runs"
	echo "$1" >"$results/log"
	shift
	tests_passed=100 tests_failed=0
	for program in "$@"; do
		tests_passed=$((tests_passed + 10)) tests_failed=$((tests_failed + 2))
		note_failure "${stage:-gcc}" "$program" "$results/log" 2
	done
	# The counters of this test and those of the run have the same names.
	(
		passed=$tests_passed failed=$tests_failed
		rerun_failures >"$out" 2>"$err"
		echo "$passed $failed" >"$results/counts"
	)
}

# counts TEXT PASSED FAILED RUNS
counts()
{
	if [ "$(<"$results/counts")" = "$2 $3" ] && [ "$(wc -l <"$results/runs")" -eq "$4" ]; then
		ok "$1"
	else
		bad "$1: $(<"$results/counts") after $(wc -l \
			<"$results/runs") runs, not $2 $3 after $4" "$out" "$err"
	fi
}

scene "a failure by chance"
counts "nothing failed: nothing is run" 100 0 0
[ ! -s "$out" ] && ok "and nothing is said" || bad "something is said" "$out"
scene "a failure by chance" tests/a_0
counts "one that passes three times counts as passed" 112 0 3
has "it is listed" "$out" '^unstable: \[gcc\] tests/a_0: '
has "with its log" "$out" '^    a failure by chance'
scene "a failure by chance" tests/a_3
counts "one that fails the third time stays failed" 110 2 3
has "its last log is named" "$out" 'FAIL: \[gcc\] tests/a_3 failed again .*gcc-tests-a_3-3.log'
grep -q '^unstable:' "$out" && bad "it is listed as unstable" "$out" || ok "it is not listed"
scene "a failure by chance" nothing_0
counts "one that runs no test alone stays failed" 110 2 1
scene "a failure by chance" tests/a_0 tests/b_1 tests/c_0
counts "of three the one that fails again stays failed" 134 2 7
scene "a failure by chance" tests/a_0 tests/b_0 tests/c_0 tests/d_0
counts "four are not run again" 140 8 0
has "and that is said" "$out" '^4 programs failed: more than 3 are not run again'
stage=lint scene "a failure by chance" tests/a_0
counts "what has no programs is not run again" 110 2 0
while read -r text; do
	scene "$text" tests/a_0
	counts "not run again: $text" 110 2 0
	has "and why" "$out" 'is not run again: '
done <<'LOGS'
==1==ERROR: AddressSanitizer: heap-use-after-free on address
==1==ERROR: LeakSanitizer: detected memory leaks
WARNING: ThreadSanitizer: data race (pid=1)
../src/core/peer/lane.c:1:2: runtime error: load of misaligned address
x.c:1:E:case:test:0: (after this point) Received signal 11 (Segmentation fault)
x.c:1:E:case:test:0: (after this point) Early exit with return value 134
line 1:  7 Aborted                 (core dumped) ./program
LOGS
scene "x.c:1:E:case:test:0: (after this point) Test timeout expired" tests/a_0
counts "one that took too long is run again" 112 0 3
finish
