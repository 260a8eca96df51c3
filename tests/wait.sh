# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=sh
# Shared by all shell tests.

# wait_until SECONDS COMMAND...: repeats the command until it succeeds. Return: false after so many
# seconds of pauses, 50 ms each.
wait_until() {
	w_pauses=$(($1 * 20))
	shift
	until "$@"; do
		[ $w_pauses -gt 0 ] || return 1
		w_pauses=$((w_pauses - 1))
		sleep 0.05
	done
}
