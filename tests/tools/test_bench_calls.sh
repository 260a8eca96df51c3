#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The table of calls of scripts/bench (bench/calls.sh): the cells of libripc and of a program that
# is not there, the ratios with their targets, and the replacement of an older table.
name=tools/test_bench_calls
# shellcheck source=lib.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
bench=$(cd "${srcdir:-.}" && pwd)/bench
if ! command -v jq >/dev/null 2>&1; then
	skip "jq is not installed"
	finish
fi
for m_file in lib cells calls report; do
	# shellcheck source=/dev/null
	. "$bench/$m_file.sh"
done
place() {
	echo near
}
say() {
	echo "$*" >>"$work/said"
}
# shellcheck disable=SC2034
build=$PWD peers=$work client_cpu=0 server_cpu=0 less=1000 discarded=0 give_up=$((SECONDS + 600)) \
	next='' out=$work/out round=1
mkdir "$out"

# Real cells, with few calls, and a program that cannot start.
for m_test in call-rtt call-32; do
	cell ripc shm block $m_test 64 2>"$err" ||
		bad "a cell of libripc: $m_test" "$work/reason" "$err"
	cell zmq shm block $m_test 64 2>/dev/null && bad "a program that is missing has no figure"
done
if [ "$(jq -s '[.[] | select(.test == "call-32" and .rate_per_s > 0 or .test == "call-rtt" and
	.rtt_us.mean > 0 and .rtt_us.short > 0 and .rtt_us.reliable > 0 and
	.ratio.call > 0).test] | length' "$work/results")" = 2 ]; then
	ok "cells of libripc have their figures"
else
	bad "cells of libripc have their figures" "$work/results"
fi
if grep -q '"program":"zmq".*"reason":"exit code 127' "$work/failed"; then
	ok "a program that is missing has a reason"
else
	bad "a program that is missing has a reason" "$work/failed"
fi

# figure PROGRAM WAIT TEST FIGURE: one line as keep() writes it.
figure() {
	printf '{"program":"%s","host":"shm","wait":"%s","test":"%s","size":64,' "$1" "$2" "$3"
	printf '"placement":"near","round":1,%s}\n' "$4"
}
{
	figure ripc poll call-rtt '"rtt_us":{"mean":0.5,"short":0.4,"reliable":0.41},"ratio":{
		"call":1.25,"reliable":1.03}'
	figure ripc block call-rtt '"rtt_us":{"mean":50,"short":45,"reliable":46}'
	figure nng block call-rtt '"rtt_us":{"mean":120}'
	figure ripc poll call-32 '"rate_per_s":4200000'
	figure ripc poll latency '"rtt_us":{"p50":0.3}'
} >"$work/results"
: >"$work/failed"
echo '{"calls":{"date":"2026-11-23T00:00:00Z"},"versions":{"gRPC":"1"}}' >"$work/about"
report_json && report_calls >"$work/table" 2>"$err" || bad "the table is made" "$err"
has "a row has the figures of all programs, the best that sleeps in bold" "$work/table" \
	'^| of a call, us | 0.5 | \*\*50\*\* | 120 | - | - |$'
has "a target that is missed" "$work/table" '^- call, shm: 1.25; target <= 1.15: \*\*missed\*\*$'
has "a target that is met" "$work/table" '^- reliable message, shm: 1.03; target <= 1.05: met$'
has "a rate that is met" "$work/table" '^- calls/s .* 4.2 M; target >= 4 M: met$'
if grep -q 'iwarp/soft' "$work/table"; then
	bad "what was not measured has no target line" "$work/table"
else
	ok "what was not measured has no target line"
fi
# The other tables do not show them.
if report_table "" | grep -q '50'; then
	bad "the table of messages has no calls"
else
	ok "the table of messages has no calls"
fi

# Into the results of an earlier run, in place of its calls.
echo '{"cells":[{"test":"call-1","rate_per_s":1},{"test":"latency","program":"old"}],
	"versions":{"UCX":"2"},"date":"earlier"}' >"$work/old.json"
if calls_into "$work/old.json" 2>"$err" && [ "$(jq -r '[.date, .versions.UCX, .versions.gRPC,
	.calls.date[0:10], ([.cells[].test] | sort | join(","))] | join(" ")' "$work/old.json")" = \
	"earlier 2 1 2026-11-23 call-32,call-rtt,call-rtt,call-rtt,latency" ]; then
	ok "calls replace those of an earlier run, and nothing else"
else
	bad "calls replace those of an earlier run, and nothing else" "$err" "$work/old.json"
fi
: >"$work/results"
report_json
if [ -z "$(report_calls)" ]; then
	ok "without figures there is no table"
else
	bad "without figures there is no table"
fi
finish
