#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Two guests: the kernel's devices reach each other, and the library's tools do.
name=test_guests
. "$RIPC_LAB_DIR/../tools/lib.sh"
unset RIPC_INTERFACES

"$RIPC_LAB_DIR"/resources >"$work/before"
# together WHAT SERVER CLIENT: each on its host.
together() {
	t_what=$1
	steps=$((${steps:-0} + 1))
	"$RIPC_LAB_DIR"/meet "guests-$steps" || bad "both hosts came to: $t_what"
	if [ "$RIPC_LAB_HOST" -eq 0 ]; then
		shift
	else
		sleep 3
		shift 2
	fi
	# shellcheck disable=SC2086
	expect "$t_what" 0 60 $1
}
together "rc over Soft-RoCE" "ibv_rc_pingpong -d rxe0 -g 1 -s 1024 -n 50" "ibv_rc_pingpong -d rxe0 -g 1 -s 1024 -n 50 198.18.0.1"
together "rping over SoftiWARP" "rping -s -a 198.18.1.1 -C 10 -V" "rping -c -a 198.18.1.1 -C 10 -V"
together "rping over SoftiWARP, IPv6" "rping -s -a fd00:18:1::1 -C 10 -V" "rping -c -a fd00:18:1::1 -C 10 -V"

# A service on host 0, found from host 1 by its id.
id=4711
if [ "$RIPC_LAB_HOST" -eq 0 ]; then
	start serve ./tools/ripc-ping --serve $id
	ready serve "answering for service $id"
	"$RIPC_LAB_DIR"/meet guests-serving
	"$RIPC_LAB_DIR"/meet guests-served
	kill "$pid"
	gone "$pid" 20
else
	"$RIPC_LAB_DIR"/meet guests-serving
	expect "a service on the other host is found" 0 100 ./tools/ripc-ping -c 5 -i 10 -W 20000 $id
	has "all are answered" "$out" "^5 sent, 5 answered"
	"$RIPC_LAB_DIR"/meet guests-served
fi
expect "nothing is left in the kernel" 0 30 "$RIPC_LAB_DIR"/resources same "$work/before"
finish
