#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Instructions of one round trip of a short message by layer, both sides together. Callgrind counts
# two runs of bench/layers with different numbers of round trips; the difference is printed. Only
# the program's own thread counts, because progress threads wake up irregularly. The result depends
# neither on the load of the machine nor on the kernel. Prints a Markdown table.
#
# usage: bench/layers.sh [BUILD_DIR [BYTES [COUNT]]]     (default: the current directory, 64, 2000)
#   KIND=reliable        reliable short messages; KIND=call: calls; KIND=mapped: long messages of
#                        1 MiB in place, with TRANSPORTS=shm
#   FUNCTIONS=20         also lists the 20 functions with the most instructions
#   TRANSPORTS="ib ..."  other transports than shm and iwarp/soft, which use the loopback. In a
#                        guest of the lab contexts sometimes wait for their device: counts are a few
#                        percent too high there
build=${1:-.} bytes=${2:-64} count=${3:-2000}
[ -n "${TRANSPORTS:-}" ] || export RIPC_INTERFACES=lo
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
needs "$build" "valgrind callgrind_annotate" valgrind bench/layers || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# counted TRANSPORT N: lines "instructions file:function" of N round trips.
counted()
{
	timeout 300 "$build/libtool" --mode=execute valgrind --tool=callgrind \
		--separate-threads=yes \
		--callgrind-out-file="$work/out" "$build/bench/layers" "$2" \
		"$bytes" "transports=$1 wait=poll" "${KIND:-short}" >"$work/log" 2>&1 || {
		grep '^layers:' "$work/log" >&2 || tail -n 5 "$work/log" >&2
		return 1
	}
	callgrind_annotate --threshold=100 --auto=no "$work/out-01" |
		awk '/^ *[0-9,]+ +\(/ && !/PROGRAM/ {
			ir = $1
			gsub(",", "", ir)
			sub(/^ *[0-9,]+ +\([^)]*\) +/, "")
			sub(/ \[.*/, "")
			gsub(/ /, "_")
			print ir, $0
		}'
}

layer='
	function layer(f) {
		if (f ~ /src\/transport\/(ring|shm)\//) return "transport: shm"
		if (f ~ /src\/transport\/iwarp\//) return "transport: iwarp"
		if (f ~ /src\/transport\/ib\//) return "transport: ib"
		if (f ~ /src\/transport\//) return "transport: shared"
		if (f ~ /src\/wire\//) return "wire: encode, decode"
		if (f ~ /src\/resolver\//) return "resolver"
		if (f ~ /src\/core\/progress\//) return "core: progress, waiting"
		if (f ~ /src\/core\/(message|service|context)\//) return "core: calls"
		if (f ~ /src\/base\/clock/) return "clock"
		if (f ~ /src\/core\//) return "core: protocol, lanes, buffers"
		if (f ~ /pthread_mutex|lll_/) return "mutex"
		if (f ~ /clock_gettime|vdso/) return "clock"
		if (f ~ /bench\/layers/) return "the program itself"
		if (f ~ /verbs|siw|rxe|rdma/) return "driver, libibverbs"
		return "libc, else"
	}'

for transport in ${TRANSPORTS:-shm iwarp/soft}; do
	counted "$transport" "$count" >"$work/one" &&
		counted "$transport" $((2 * count)) >"$work/two" || exit 1
	# Callgrind may list parts of a function separately: add them up.
	awk -v n="$count" '
		FNR == NR { before[$2] += $1; next }
		{ after[$2] += $1 }
		END {
			for (f in after)
				if (after[f] != before[f])
					printf "%.1f %s\n", (after[f] - before[f]) / n, f
		}' "$work/one" "$work/two" >"$work/each"
	echo
	echo "| $transport, $bytes B: layer | instructions per round trip |"
	echo "|---|---|"
	awk "$layer"' { sum[layer($2)] += $1; all += $1 }
		END {
			for (l in sum)
				printf "%.0f\t| %s | %.0f |\n", sum[l], l, sum[l]
			printf "-1\t| **all** | **%.0f** |\n", all
		}' "$work/each" | sort -rn | cut -f2
	[ -z "${FUNCTIONS:-}" ] || { echo; sort -rn "$work/each" | head -n "$FUNCTIONS"; }
done
