#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Two guests reach each other by the kernel's devices and by the library's tools.
name=test_guests
. "$RIPC_LAB_DIR/../tools/lib.sh"
unset RIPC_INTERFACES

"$RIPC_LAB_DIR"/resources >"$work/before"
listens() {
	[ -n "$(ss -Hltn "sport = :$1")" ]
}

# together WHAT PORT SERVER CLIENT: runs each on its host; the client starts when a process listens
# on the server's port.
together() {
	t_what=$1 t_port=$2
	steps=$((${steps:-0} + 1))
	if [ "$RIPC_LAB_HOST" -eq 1 ]; then
		"$RIPC_LAB_DIR"/meet "guests-$steps" || bad "the server of: $t_what"
		# shellcheck disable=SC2086
		expect "$t_what" 0 90 $4
		return
	fi
	# shellcheck disable=SC2086
	start server timeout 120 $3
	wait_until 60 listens "$t_port"
	"$RIPC_LAB_DIR"/meet "guests-$steps" || bad "the client of: $t_what"
	if wait "$pid"; then
		ok "$t_what, server"
	else
		bad "$t_what, server" "$work/server" "$work/server.err"
	fi
}
together "rc over Soft-RoCE" 18515 "ibv_rc_pingpong -d rxe0 -g 1 -s 1024 -n 50" \
	"ibv_rc_pingpong -d rxe0 -g 1 -s 1024 -n 50 198.18.0.1"
together "rping over SoftiWARP" 7174 "rping -s -a 198.18.1.1 -C 10 -V" \
	"rping -c -a 198.18.1.1 -C 10 -V"
together "rping over SoftiWARP, IPv6" 7174 "rping -s -a fd00:18:1::1 -C 10 -V" \
	"rping -c -a fd00:18:1::1 -C 10 -V"

# Services on host 0, found from host 1 by their ids: one over connections, without losses, and one
# over datagrams, which the link may lose.
id=4711
if [ "$RIPC_LAB_HOST" -eq 0 ]; then
	start serve env RIPC_SHORT=rdma ./tools/ripc-ping --serve $id
	ready serve "answering for service $id"
	start serve2 ./tools/ripc-ping --serve $((id + 1))
	ready serve2 "answering for service $((id + 1))"
	"$RIPC_LAB_DIR"/meet guests-serving
	"$RIPC_LAB_DIR"/meet guests-served
	for server in $pids; do
		kill "$server" 2>/dev/null && gone "$server" 60
	done
else
	"$RIPC_LAB_DIR"/meet guests-serving
	expect "a service on the other host is found" 0 100 env RIPC_SHORT=rdma ./tools/ripc-ping \
		-c 5 -i 10 -W 20000 $id
	has "all are answered" "$out" "^5 sent, 5 answered"
	timeout 100 ./tools/ripc-ping -c 20 -i 10 -W 3000 $((id + 1)) >"$work/pings" 2>&1
	answered=$(sed -n 's/^20 sent, \([0-9]*\) answered.*/\1/p' "$work/pings")
	if [ "${answered:-0}" -ge 12 ]; then
		ok "most datagrams are answered"
	else
		bad "most datagrams are answered" "$work/pings"
	fi
	"$RIPC_LAB_DIR"/meet guests-served
fi
expect "nothing is left in the kernel" 0 60 "$RIPC_LAB_DIR"/resources same "$work/before"
finish
