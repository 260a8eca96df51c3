#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The devices of the lab (or of this machine) work with the test programs of rdma-core and perftest,
# and leave no resources in the kernel.
name=test_devices
. "$RIPC_LAB_DIR/../tools/lib.sh"
unset RIPC_INTERFACES

# pair WHAT SERVER CLIENT: two command lines. The server gets time to start listening; the client is
# retried with growing delays.
pair() {
	p_tries=0
	while :; do
		p_tries=$((p_tries + 1))
		# shellcheck disable=SC2086
		start server timeout 60 $2
		sleep $((p_tries * 5 - 4))
		# shellcheck disable=SC2086
		timeout 60 $3 >"$out" 2>"$err"
		p_rc=$?
		[ $p_rc -eq 0 ] || kill "$pid" 2>/dev/null
		wait "$pid"
		p_server=$?
		if [ $p_rc -eq 0 ] && [ $p_server -eq 0 ]; then
			ok "$1"
			return
		fi
		[ $p_tries -lt 3 ] || break
	done
	bad "$1: exit status $p_rc and $p_server: $3" "$out" "$err" "$work/server" \
		"$work/server.err"
}

"$RIPC_LAB_DIR"/resources >"$work/before"
ibv_devices >"$work/devices"
if [ -n "$RIPC_LAB_IB" ]; then
	has "ibv_devices knows $RIPC_LAB_IB" "$work/devices" " $RIPC_LAB_IB "
	# On Ethernet GID 1 is RoCE v2 over IPv4, at least in the lab; InfiniBand needs no GID.
	gid=
	[ "$(cat "/sys/class/infiniband/$RIPC_LAB_IB/ports/1/link_layer")" = Ethernet ] &&
		gid="-g 1"
	for kind in rc uc ud; do
		pair "ibv_${kind}_pingpong on $RIPC_LAB_IB" \
			"ibv_${kind}_pingpong -d $RIPC_LAB_IB $gid -s 1024 -n 50" \
			"ibv_${kind}_pingpong -d $RIPC_LAB_IB $gid -s 1024 -n 50 localhost"
	done
	gid=${gid:+-x 1}
	for args in "send_lat -c UD" "send_lat -c RC" "write_lat" "read_lat"; do
		pair "ib_$args on $RIPC_LAB_IB" "ib_$args -d $RIPC_LAB_IB $gid -s 64 -n 100" \
			"ib_$args -d $RIPC_LAB_IB $gid -s 64 -n 100 localhost"
	done
else
	skip "no InfiniBand or RoCE device"
fi
if [ -n "$RIPC_LAB_IWARP" ]; then
	has "ibv_devices knows $RIPC_LAB_IWARP" "$work/devices" " $RIPC_LAB_IWARP "
	pair "rping on $RIPC_LAB_IWARP" "rping -s -a $RIPC_LAB_IWARP_ADDRESS -C 10" \
		"rping -c -a $RIPC_LAB_IWARP_ADDRESS -C 10 -V"
	for args in send_lat write_lat read_lat; do
		pair "ib_$args -R on $RIPC_LAB_IWARP" \
			"ib_$args -R -d $RIPC_LAB_IWARP -s 64 -n 100" \
			"ib_$args -R -d $RIPC_LAB_IWARP -s 64 -n 100 $RIPC_LAB_IWARP_ADDRESS"
	done
else
	skip "no iWARP device"
fi
expect "nothing is left in the kernel" 0 60 "$RIPC_LAB_DIR"/resources same "$work/before"
finish
