#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# In the lab, two guests: RoCE from one to the other over a link that may lose, delay and reorder.
name=test_qp
# shellcheck source=../../tools/lib.sh
. "$RIPC_LAB_DIR/../tools/lib.sh"
unset RIPC_INTERFACES
RIPC_TRANSPORTS=ib RIPC_PEER_TIMEOUT_MS=10000
export RIPC_TRANSPORTS RIPC_PEER_TIMEOUT_MS
"$RIPC_LAB_DIR"/resources >"$work/before"
if [ "$RIPC_LAB_HOST" -eq 0 ]; then
	start server ./tools/ripc-perf server
	server=$pid
	ready server serving
	"$RIPC_LAB_DIR"/meet qp-serving
	"$RIPC_LAB_DIR"/meet qp-served
	kill "$server"
	wait "$server"
	ok "served"
else
	"$RIPC_LAB_DIR"/meet qp-serving
	expect "short messages" 0 100 ./tools/ripc-perf latency -s 64,1024 -c 100 --timeout 30000
	has "they go over ib" "$out" "^ib "
	expect "short messages over the connection" 0 100 ./tools/ripc-perf latency -s 64 -c 100 \
		--timeout 30000 -o short=rdma
	expect "long messages" 0 200 ./tools/ripc-perf bandwidth -s 20000,300000 -c 40 --verify \
		--timeout 60000
	"$RIPC_LAB_DIR"/meet qp-served
fi
expect "nothing is left in the kernel" 0 30 "$RIPC_LAB_DIR"/resources same "$work/before"
finish
