#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# In the lab: the addresses of a device change while a server is connected over it, and the device
# is removed and comes back. New clients reach the server over the same device. Run by
# tests/lab/suite in a build directory.
#
# usage: "$RIPC_LAB_DIR"/test_addresses.sh ib|iwarp
name=test_addresses
. "$RIPC_LAB_DIR/../tools/lib.sh"
unset RIPC_INTERFACES
case $1 in
ib)
	transport=ib device=$RIPC_LAB_IB type=rxe netdev=roce0 net=198.18.0 new="port 1 is now"
	export RIPC_TRANSPORTS="ib,iwarp/soft"
	;;
iwarp)
	transport=iwarp/verbs device=$RIPC_LAB_IWARP type=siw netdev=iwarp0 net=198.18.1
	new="listens at"
	# A server with iwarp/soft would be reached through that, by iwarp/verbs of the client.
	export RIPC_TRANSPORTS=iwarp/verbs
	;;
esac
case $device in
rxe* | siw*) ;;
*)
	skip "addresses are changed for software devices only"
	finish
	;;
esac

# over WHAT: a new client reaches the server over the transport.
over() {
	expect "$1: messages" 0 120 ./tools/ripc-perf latency -s 64,3000 -c 200
	if grep -q "^$transport " "$out"; then
		ok "$1: they go over $transport"
	else
		bad "$1: they do not go over $transport" "$out" "$err" "$work/server.err"
	fi
}

# seen N: the server has taken other addresses N times.
seen() {
	[ "$(grep -c "$new" "$work/server.err")" -ge "$1" ]
}

address=$(ip -4 -o address show dev $netdev | awk '{ print $4 }')
address6=$(ip -6 -o address show dev $netdev scope global | awk '{ print $4 }')
# One address at a time, or clients take the one that has not changed.
ip address del "$address6" dev $netdev
start server env RIPC_LOG=info ./tools/ripc-perf server
server=$pid
ready server serving
over "before"
ip address add "$address6" dev $netdev nodad
ip address del "$address" dev $netdev
wait_until 30 seen 1
over "without an IPv4 address"
ip address add $net.77/24 dev $netdev
ip address del "$address6" dev $netdev
wait_until 30 seen 2
over "with another IPv4 address"

# The addresses of both ends change while messages are in flight.
timeout 200 ./tools/ripc-perf bandwidth -s 256K -c 3000 --verify --timeout 60000 >"$out" 2>"$err" &
client=$!
sleep 2
ip address del $net.77/24 dev $netdev
ip address add "$address" dev $netdev
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
for times in 1 2; do
	so_far=$(grep -c "$new" "$work/server.err")
	timeout 60 rdma link delete "$device" || bad "the device cannot be removed"
	rdma link add "$device" type $type netdev $netdev
	wait_until 30 seen $((so_far + 1))
	over "the device was removed, and is there again ($times)"
done
ip address add "$address6" dev $netdev nodad
./tools/ripc-perf stop >/dev/null 2>&1 || kill "$server"
wait "$server"
finish
