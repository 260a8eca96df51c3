# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Test programs that failed beside others are run again alone. scripts/test sources this file; it
# has to define
#   rerun STAGE NAME LOG   runs one program alone, writes its output to LOG, returns its result
# and to set $results, a directory, and the counters $passed and $failed.
#
# A program that passes three times in a row counts as passed, and is listed with its log under
# "unstable:". It stays failed if its log shows a crash or a report of a sanitizer: such a fault is
# real even if it is rare. If more than three programs failed, none is run again.
# tests/unstable.md lists the unstable programs found, with cause and remedy.
rerun_max=3
rerun_times=3

# note_failure STAGE NAME LOG FAILED: remembers a program that counted FAILED failures. Stages that
# are not named here have no programs that can be run alone: their failures stay.
note_failure()
{
	local copy
	case $1 in
	gcc | asan | tsan | lab) ;;
	*) return 0 ;;
	esac
	mkdir -p "$results/failures"
	copy=$results/failures/$1-$(tr / - <<<"$2").log
	cp "$3" "$copy" 2>/dev/null || : >"$copy"
	printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$copy" "$4" >>"$results/failures/list"
}

# crashed LOG: prints the first line that shows a crash or a report of a sanitizer.
crashed()
{
	grep -aE -m 1 \
		-e '(ERROR: (Address|Leak)|WARNING: Thread)Sanitizer|: runtime error: ' \
		-e 'Received signal (4|6|7|8|11) ' \
		-e 'Early exit with return value (132|134|135|136|139)' \
		-e 'Segmentation fault|Aborted|Bus error|Illegal instruction' \
		-e 'core dumped|stack smashing' "$1"
}

# rerun_failures: runs the remembered programs again, and corrects $passed and $failed.
rerun_failures()
{
	local list=$results/failures/list stage name log f n i again line unstable=()
	[ -s "$list" ] || return 0
	n=$(wc -l <"$list")
	if [ "$n" -gt "$rerun_max" ]; then
		echo "$n programs failed: more than $rerun_max are not run again"
		return 0
	fi
	while IFS=$'\t' read -r stage name log f; do
		if line=$(crashed "$log"); then
			echo "FAIL: [$stage] $name is not run again: $line"
			continue
		fi
		for ((i = 1; i <= rerun_times; i++)); do
			again=${log%.log}-$i.log
			# A run without a test that passes shows nothing.
			if ! rerun "$stage" "$name" "$again" ||
				! grep -qaE '(^|[^0-9])[1-9][0-9]* passed, 0 failed' "$again"; then
				echo "FAIL: [$stage] $name failed again alone (run $i): $again"
				continue 2
			fi
		done
		# A program without a closing line was counted as one failure.
		failed=$((failed - f))
		passed=$((passed + f))
		unstable+=("[$stage] $name" "$log")
	done <"$list"
	[ ${#unstable[@]} -gt 0 ] || return 0
	echo "unstable: failed beside others and passed $rerun_times times alone;" \
		"mend these first (tests/unstable.md)"
	for ((i = 0; i < ${#unstable[@]}; i += 2)); do
		echo "unstable: ${unstable[i]}: ${unstable[i + 1]}"
		sed 's/^/    /' "${unstable[i + 1]}"
	done
}
