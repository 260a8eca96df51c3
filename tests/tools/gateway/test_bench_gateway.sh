#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck disable=SC2154
# bench/gateway.sh in short: a cell that works has figures, one that does not has a reason.
name=test_bench_gateway
. "${srcdir:-$(dirname "$0")/../../..}/tests/tools/lib.sh"

if [ ! -x ./tools/ripc-gateway ]; then
	skip "ripc-gateway was not built: it needs libuv and libconfig"
	finish
fi
if ! command -v jq >/dev/null 2>&1; then
	skip "jq is not installed"
	finish
fi
RATES="200 400" VALUES=3 VALUES_RATE=200 KINDS="shm siw"
export RATES VALUES VALUES_RATE KINDS
expect "two cells and their report" 0 60 \
	"${srcdir:-.}/bench/gateway.sh" . "$work/results" 1 1
has "the reason for a cell without a device" "$err" "^siw, 200/s, 8 values: ripc-gateway: "
figures=$(jq -r '.cells[] | select(.steps == .rate and .lost == 0 and .us.p50 > 0 and
	.us.p50 <= .us.p99 and .us.p99 <= .us.p9999) | "\(.rate)-\(.values)"' \
	"$work/results/gateway.json" | sort | tr '\n' ' ')
if [ "$figures" = "200-3 200-8 400-8 " ]; then
	ok "each cell has its samples and times"
else
	bad "cells with figures: $figures" "$work/results/gateway.json"
fi
has "the table by rate" "$work/results/gateway.md" '^| 400 | [0-9.]* | - |$'
has "the table by values" "$work/results/gateway.md" '^| 3 | [0-9.]* | - |$'
finish
