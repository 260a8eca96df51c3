#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# In the lab: the addresses of a RoCE port change while a server is connected over it. New clients
# reach the server over the same port. Run by tests/lab/suite in a build directory.
name=test_addresses
. "$RIPC_LAB_DIR/../tools/lib.sh"
unset RIPC_INTERFACES
case $RIPC_LAB_IB in
rxe*) ;;
*)
	skip "the addresses of a port are changed for Soft-RoCE only"
	finish
	;;
esac
export RIPC_TRANSPORTS="ib,iwarp/soft"

# over WHAT: a new client reaches the server over ib.
over() {
	expect "$1: messages" 0 120 ./tools/ripc-perf latency -s 64,3000 -c 200
	if grep -q "^ib " "$out"; then
		ok "$1: they go over ib"
	else
		bad "$1: they do not go over ib" "$out" "$err" "$work/server.err"
	fi
}

# seen N: the server has taken other addresses N times.
seen() {
	[ "$(grep -c "port 1 is now" "$work/server.err")" -ge "$1" ]
}

address=$(ip -4 -o address show dev roce0 | awk '{ print $4 }')
start server env RIPC_LOG=info ./tools/ripc-perf server
server=$pid
ready server serving
over "before"
ip address del "$address" dev roce0
wait_until 30 seen 1
over "without an IPv4 address"
ip address add 198.18.0.77/24 dev roce0
wait_until 30 seen 2
over "with another IPv4 address"

# The addresses of both ends change while messages are in flight.
timeout 200 ./tools/ripc-perf bandwidth -s 256K -c 3000 --verify --timeout 60000 >"$out" 2>"$err" &
client=$!
sleep 2
ip address del 198.18.0.77/24 dev roce0
ip address add "$address" dev roce0
wait_until 30 seen 3
if kill -0 "$client" 2>/dev/null; then
	ok "the client is at it when the addresses change"
else
	bad "the client has ended before the addresses change" "$out" "$err"
fi
wait "$client"
rc=$?
if [ $rc -eq 0 ]; then
	ok "its messages arrive, whole"
else
	bad "after the addresses changed: exit status $rc" "$out" "$err" "$work/server.err"
fi
over "with the first IPv4 address"
./tools/ripc-perf stop >/dev/null 2>&1 || kill "$server"
wait "$server"
finish
