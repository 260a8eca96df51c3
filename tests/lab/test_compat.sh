#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# In the lab: programs of the shape of those of 2012 run over the devices, started in any order.
#
# usage: "$RIPC_LAB_DIR"/test_compat.sh
name=test_compat
. "$RIPC_LAB_DIR/../tools/lib.sh"
unset RIPC_INTERFACES
tests=$(cd "$RIPC_LAB_DIR/.." && pwd)
# Without the file, programs that include others of the library would be served as well.
cp -r "$tests/compat/programs" "$work/bench"
mkdir -p "$work/include"
cp -r "$tests/../include/ripc-2012" "$tests/../include/ripc_compat.h" "$work/include"
for program in short_server short_client long_server long_client; do
	expect "$program compiles" 0 200 ./libtool --silent --mode=link --tag=CC "${CC:-cc}" -Wall \
		-I"$work/include/ripc-2012/include" -o "$work/$program" "$work/bench/$program.c" libripc-compat.la
done

over() {
	RIPC_TRANSPORTS=$1
	export RIPC_TRANSPORTS
	start short "$work/short_server" 7001
	server=$pid
	ready short "Starting loop"
	expect "$1: short ping-pong" 0 120 "$work/short_client" 7001 200
	has "$1: its report" "$out" "^Exchanged 200 items"
	kill -9 "$server"
	gone "$server" 60
	# The client first, then the server, which is a new one.
	start early "$work/short_client" 7001 200
	early=$pid
	sleep 1
	start short "$work/short_server" 7001
	server=$pid
	if gone "$early" 120 && [ "$status" -eq 0 ]; then
		ok "$1: a client waits for its server"
	else
		bad "$1: a client waits for its server" "$work/early" "$work/early.err"
	fi
	kill -9 "$server"
	gone "$server" 60
	start long "$work/long_server" 7002 1000000
	server=$pid
	ready long "Starting loop"
	expect "$1: long ping-pong" 0 120 "$work/long_client" 7002 100000 20
	has "$1: its report" "$out" "^Exchanged 20 items"
	has "$1: the return buffer was used" "$out" "^[1-9][0-9]* of them in the return buffer"
	kill -9 "$server"
	gone "$server" 60
}

if [ -n "$RIPC_LAB_IB" ]; then
	over ib
else
	skip "no device for ib"
fi
if [ -n "$RIPC_LAB_IWARP" ]; then
	over iwarp/verbs
else
	skip "no device for iwarp/verbs"
fi
finish
