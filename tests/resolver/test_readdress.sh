#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The address of a host changes while a client on another host sends long messages to it: the client
# finds the other address within peer_timeout_ms, and no message is lost.
name=test_readdress
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
unset RIPC_INTERFACES
export RIPC_TRANSPORTS=iwarp/soft RIPC_LOG=info
two_hosts readdress true
two_addresses

id=$(random_id)
start server ip netns exec "$a" ./tools/ripc-perf server --service "$id"
ready server "serving at service"
start client ip netns exec "$b" ./tools/ripc-perf bandwidth -s 256K -c 10000 --verify \
	--timeout 60000 --service "$id"
client=$pid
at_work "$client"
ip -n "$a" addr del 198.51.100.1/24 dev v0
ip -n "$a" addr add 198.51.100.3/24 brd + dev v0
if ended "$client"; then
	bad "the client has ended before the address changes" "$work/client" "$work/client.err"
fi
if gone "$client" 60 && [ "$status" -eq 0 ]; then
	ok "all messages arrive, whole"
else
	bad "after the address changed: status $status" "$work/client" "$work/client.err" \
		"$work/server.err"
fi
expect "another client finds the other address" 0 60 ip netns exec "$b" ./tools/ripc-perf latency \
	-s 64 -c 10 --service "$id"
finish
