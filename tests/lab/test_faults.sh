#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# In the lab: a transport over RDMA devices when a process is killed, and when its device is removed
# under load. Run by tests/lab/suite in a build directory.
#
# usage: "$RIPC_LAB_DIR"/test_faults.sh ib|iwarp
name=test_faults
. "$RIPC_LAB_DIR/../tools/lib.sh"
unset RIPC_INTERFACES
case $1 in
ib) transport=ib device=$RIPC_LAB_IB type=rxe netdev=roce0 ;;
iwarp) transport=iwarp/verbs device=$RIPC_LAB_IWARP type=siw netdev=iwarp0 ;;
esac
if [ -z "$device" ]; then
	skip "no device for $transport"
	finish
fi
"$RIPC_LAB_DIR"/resources >"$work/before"
export RIPC_TRANSPORTS="$transport,iwarp/soft"

# serve WHAT: starts a server for the tests of ripc-perf; its process id is in $server.
serve() {
	start "$1" ./tools/ripc-perf server
	server=$pid
	ready "$1" serving
}

# over WHAT TRANSPORT: checks that ripc-perf's table names this transport first.
over() {
	if grep -q "^$2 " "$out"; then
		ok "$1"
	else
		bad "$1" "$out" "$err"
	fi
}

serve plain
expect "short and long messages" 0 120 ./tools/ripc-perf latency -s 64,3000 -c 200
over "they go over $transport" "$transport"
expect "bandwidth" 0 120 ./tools/ripc-perf bandwidth -s 65536 -c 200 --stop
# Messages of 256 KiB for about 20 s at the measured speed: emulators differ by a factor of ten.
count=$(awk '$2 == "long" && $3 == 65536 { n = int($7 * 1e6 / 262144 * 20) }
	END { print (n < 1000 ? 1000 : n > 200000 ? 200000 : n) }' "$out")
wait "$server"

# The setting short is about what a side sends.
start receiving env RIPC_SHORT=rdma ./tools/ripc-perf server
server=$pid
ready receiving serving
expect "short messages to a side that sends no datagrams" 0 120 ./tools/ripc-perf latency \
	-s 64 -c 200 --kind short --stop
wait "$server"

# A killed server: the client reports the failure and ends.
serve killed
timeout 120 ./tools/ripc-perf bandwidth -s 1M -c 100000 >"$out" 2>"$err" &
client=$!
sleep 3
kill -9 "$server"
wait "$server" 2>/dev/null
wait "$client"
rc=$?
if [ $rc -ne 0 ] && [ $rc -ne 124 ]; then
	ok "a client whose server was killed ends with an error"
else
	bad "a client whose server was killed: exit status $rc" "$out" "$err"
fi

# A killed client: the server serves the next client.
serve survivor
start client ./tools/ripc-perf bandwidth -s 1M -c 100000
client=$pid
sleep 3
kill -9 "$client"
wait "$client" 2>/dev/null
# The server takes some time to detect that the old client is dead: forty attempts.
wait_until 2 timeout 60 ./tools/ripc-perf latency -s 64 -c 10 >/dev/null 2>&1
expect "a server whose client was killed serves the next" 0 120 ./tools/ripc-perf latency -s 64 \
	-c 100 --timeout 20000 --stop
wait "$server"

expect "nothing is left in the kernel" 0 60 "$RIPC_LAB_DIR"/resources same "$work/before"

# The device is removed while messages are in flight: the lane fails over, and the library releases
# the device quickly. Skipped on a machine that needs its devices.
case $device in
rxe* | siw*)
	serve removed
	# holds: true if the client, a child of timeout, has a queue pair on the device.
	holds() {
		sender=$(pgrep -P "$client") && "$RIPC_LAB_DIR"/resources of "$sender" |
			grep -q "^$device .*qp "
	}
	# send COUNT: starts a client that sends COUNT messages; returns when it has a queue pair
	# and sends, or has ended.
	send() {
		timeout 400 ./tools/ripc-perf bandwidth -s 256K -c "$1" --verify --timeout 60000 \
			>"$out" 2>"$err" &
		client=$!
		wait_until 30 holds
		# The queue pair exists before the first message is sent.
		sleep 1
	}
	# A client that has already ended was too fast: retry with more messages.
	held=no
	for times in 1 4 16; do
		send $((count * times))
		holds && held=yes && break
		wait "$client" || break
	done
	if [ $held = yes ]; then
		ok "the client is at it when the device goes"
	else
		bad "the client has no queue pair on $device when that goes" "$out" "$err"
	fi
	timeout 60 rdma link delete "$device"
	rc=$?
	if [ $rc -eq 0 ]; then
		ok "the device can be removed while it is in use"
	else
		bad "rdma link delete: exit status $rc"
	fi
	wait "$client"
	rc=$?
	if [ $rc -eq 0 ]; then
		ok "its messages arrive over another transport, whole"
	else
		bad "after its device was removed: exit status $rc" "$out" "$err" \
			"$work/removed.err"
	fi
	./tools/ripc-perf stop >/dev/null 2>&1 || kill "$server"
	wait "$server"
	rdma link add "$device" type "$type" netdev "$netdev"
	;;
*)
	skip "removal of $device, which is not software"
	;;
esac
finish
