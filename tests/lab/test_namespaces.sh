#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Two iWARP hosts in two network namespaces of one guest.
name=test_namespaces
. "$RIPC_LAB_DIR/../tools/lib.sh"
unset RIPC_INTERFACES

listens() {
	[ -n "$(ip netns exec h1 ss -Hltn "sport = :7174")" ]
}

"$RIPC_LAB_DIR"/resources >"$work/before"
for address in 198.18.2.1 fd00:18:2::1; do
	start server ip netns exec h1 rping -s -a $address -C 10
	wait_until 60 listens
	expect "rping from h2 to h1, $address" 0 60 ip netns exec h2 rping -c -a $address -C 10 -V
	if gone "$pid" 60; then
		ok "its server ends"
	else
		bad "its server ends" "$work/server" "$work/server.err"
		kill "$pid"
	fi
done
id=$(random_id)
start serve ip netns exec h1 ./tools/ripc-ping --serve "$id"
ready serve "answering for service $id"
expect "h2 finds a service on h1" 0 60 ip netns exec h2 ./tools/ripc-ping -c 5 -i 10 -W 10000 "$id"
has "all are answered" "$out" "^5 sent, 5 answered"
kill "$pid"
gone "$pid" 60
expect "nothing is left in the kernel" 0 60 "$RIPC_LAB_DIR"/resources same "$work/before"
finish
