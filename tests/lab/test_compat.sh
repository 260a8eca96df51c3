#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# In the lab: programs like those of 2012 run over the devices, started in any order.
#
# usage: "$RIPC_LAB_DIR"/test_compat.sh
name=test_compat
. "$RIPC_LAB_DIR/../tools/lib.sh"
unset RIPC_INTERFACES
programs=tests/compat
if [ ! -x $programs/long_client ]; then
	bad "the programs of 2012 are missing: make $programs/{short,long}_{server,client}"
	finish
fi

over() {
	RIPC_TRANSPORTS=$1
	export RIPC_TRANSPORTS
	start short $programs/short_server 7001
	server=$pid
	ready short "Starting loop"
	expect "$1: short ping-pong" 0 120 $programs/short_client 7001 200
	has "$1: its report" "$out" "^Exchanged 200 items"
	kill -9 "$server"
	gone "$server" 60
	# The client starts first, and then a new server.
	start early $programs/short_client 7001 200
	early=$pid
	sleep 1
	start short $programs/short_server 7001
	server=$pid
	if gone "$early" 120 && [ "$status" -eq 0 ]; then
		ok "$1: a client waits for its server"
	else
		bad "$1: a client waits for its server" "$work/early" "$work/early.err"
	fi
	kill -9 "$server"
	gone "$server" 60
	start long $programs/long_server 7002 1000000
	server=$pid
	ready long "Starting loop"
	expect "$1: long ping-pong" 0 120 $programs/long_client 7002 100000 20
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
