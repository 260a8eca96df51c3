# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=sh
# Shared by all shell tests.

# wait_until SECONDS COMMAND...: repeats the command until it succeeds. Return: false at the limit.
wait_until() {
	w_end=$(($(date +%s) + $1))
	shift
	until "$@"; do
		[ "$(date +%s)" -le $w_end ] || return 1
		sleep 0.05
	done
}
