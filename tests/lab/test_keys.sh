#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# In the lab: with keys, messages reach only peers that have the same key.
#
# usage: "$RIPC_LAB_DIR"/test_keys.sh ib|iwarp
name=test_keys
. "$RIPC_LAB_DIR/../tools/lib.sh"
unset RIPC_INTERFACES
case $1 in
ib) transport=ib device=$RIPC_LAB_IB ;;
iwarp) transport=iwarp/verbs device=$RIPC_LAB_IWARP ;;
esac
if [ -z "$device" ]; then
	skip "no device for $transport"
	finish
fi
for key in ours theirs; do
	head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/$key"
	chmod 600 "$work/$key"
done
"$RIPC_LAB_DIR"/resources >"$work/before"
export RIPC_TRANSPORTS="$transport" RIPC_KEY_FILE="$work/ours"
start server ./tools/ripc-perf server
server=$pid
ready server serving
expect "short messages" 0 120 ./tools/ripc-perf latency -s 64,1000 -c 100 --timeout 20000
has "they go over $transport" "$out" "^$transport "
expect "short messages, short=rdma" 0 120 ./tools/ripc-perf latency -s 64 -c 100 --timeout 20000 \
	-o short=rdma
expect "long messages" 0 120 ./tools/ripc-perf bandwidth -s 20000,300000 -c 30 --verify \
	--timeout 20000
if [ "$transport" = ib ]; then
	expect "long messages in the smallest packets" 0 120 ./tools/ripc-perf bandwidth \
		-s 20000,300000 -c 30 --verify \
		--timeout 20000 -o path_mtu=256
fi
# Exit code 2: no such service. A peer without the key is invisible.
expect "another key: no answer" 2 60 env RIPC_KEY_FILE="$work/theirs" ./tools/ripc-perf latency \
	-s 64 -c 1 --timeout 3000
expect "no key: no answer" 2 60 env -u RIPC_KEY_FILE ./tools/ripc-perf latency -s 64 -c 1 \
	--timeout 3000
expect "the right key: still" 0 120 ./tools/ripc-perf latency -s 64 -c 100 --timeout 20000 --stop
wait "$server"
expect "nothing is left in the kernel" 0 60 "$RIPC_LAB_DIR"/resources same "$work/before"
finish
