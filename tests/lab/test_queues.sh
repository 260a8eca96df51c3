#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# In the lab: ripc-perf measures the queue pairs of a device alone.
name=test_queues
. "$RIPC_LAB_DIR/../tools/lib.sh"
unset RIPC_INTERFACES

if [ -n "$RIPC_LAB_IB" ]; then
	for words in "--qp rc" "--qp uc --op write-imm --signal 32" \
		"--qp rc --op write --inline 64 --depth 1" "--qp ud -w block"; do
		# The words are split on purpose.
		# shellcheck disable=SC2086
		expect "queue pairs alone: $words" 0 60 ./tools/ripc-perf verbs \
			--device "$RIPC_LAB_IB" --rate 0 --count 300 $words
		has "none lost" "$out" " 64  *300  *0  *0  *0  *0 "
	done
else
	skip "no InfiniBand or RoCE device"
fi
if [ -n "$RIPC_LAB_IWARP" ]; then
	expect "queue pairs of iWARP" 3 60 ./tools/ripc-perf verbs --device "$RIPC_LAB_IWARP"
	has "are not made by hand" "$err" "whose queue pairs only librdmacm makes"
else
	skip "no iWARP device"
fi
finish
