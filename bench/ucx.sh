#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Compares ripc-perf, plain TCP between the same two processes, and UCX over TCP, on two processors
# of this host and its loopback. Every figure is the median of ROUNDS runs, which take turns. Prints
# a Markdown table.
#
# usage: bench/ucx.sh [BUILD_DIR [ROUNDS]]     (default: the current directory, 5)
#   CPUS="0 1"       the two processors
#   IDLE_SECONDS=10  idle time of the connections
#   LESS=1           divides all counts, to try the script itself
# UCX is left out if ucx_perftest (package ucx-utils) is not installed. Needs jq.
build=${1:-.}
rounds=${2:-5}
read -r client_cpu server_cpu <<<"${CPUS:-0 1}"
idle=${IDLE_SECONDS:-10}
less=${LESS:-1}
export RIPC_INTERFACES=lo RIPC_TRANSPORTS=iwarp/soft

# shellcheck disable=SC2034
perf=$build/tools/ripc-perf
work=$(mktemp -d) || exit 1
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
needs "$build" jq jq tools/ripc-perf bench/peers bench/connect || exit 1
trap '[ ${#pids[@]} -eq 0 ] || stop "${pids[@]}"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# ucx TEST SIZE COUNT: prints the line of final figures.
ucx()
{
	local port=$((20000 + RANDOM % 10000)) server
	export UCX_TLS=tcp UCX_NET_DEVICES=lo UCX_WARN_UNUSED_ENV_VARS=n
	timeout 300 taskset -c "$server_cpu" ucx_perftest -p $port >/dev/null 2>&1 &
	server=$!
	pids=("$server")
	sleep 0.5
	timeout 300 taskset -c "$client_cpu" ucx_perftest 127.0.0.1 -p $port -t "$1" -s "$2" \
		-n "$3" -w 100 2>/dev/null |
		grep '^Final:'
	stop "$server"
	pids=()
}

for ((round = 0; round < rounds; round++)); do
	echo "vs_ucx: round $((round + 1)) of $rounds" >&2
	ours poll -- latency --size 64 --count $((100000 / less)) --baseline tcp && {
		note lat "$(result .rtt_us.p50)"
		note lat_p99 "$(result .rtt_us.p99)"
		note lat_tcp "$(result .baseline.rtt_us.p50)"
		note lat_ratio "$(result .ratio.rtt_us.p50)"
	}
	ours adaptive -- latency --size 64 --count $((100000 / less)) &&
		note lat_adaptive "$(result .rtt_us.p50)"
	ours block -- latency --size 64 --count $((50000 / less)) &&
		note lat_block "$(result .rtt_us.p50)"
	ours poll -- rate --size 64 --count $((5000000 / less)) && note rate "$(result .rate_per_s)"
	ours poll -- rate --size 64 --count $((1000000 / less)) --no-more --baseline tcp && {
		note rate_alone "$(result .rate_per_s)"
		note rate_tcp "$(result .baseline.rate_per_s)"
	}
	for size in 1M 16M; do
		count=$([ $size = 1M ] && echo $((8000 / less)) || echo $((500 / less)))
		ours poll crc=auto -- bandwidth --size $size --count "$count" --baseline tcp && {
			note bw_$size "$(result .mb_per_s)"
			note bw_tcp_$size "$(result .baseline.mb_per_s)"
			note bw_ratio_$size "$(result .ratio.mb_per_s)"
		}
		ours poll crc=on -- bandwidth --size $size --count "$((count / 2 + 1))" &&
			note bw_crc_$size "$(result .mb_per_s)"
		ours poll -- latency --size $size --kind long --count "$((count / 8 + 1))" \
			--baseline tcp && {
			note lat_$size "$(result .rtt_us.p50)"
			note lat_tcp_$size "$(result .baseline.rtt_us.p50)"
		}
	done
	if command -v ucx_perftest >/dev/null; then
		# It counts half a round trip as the latency, and 2^20 bytes as a megabyte.
		note lat_ucx "$(ucx tag_lat 64 $((100000 / less)) | awk '{ print 2 * $3 }')"
		note lat_ucx_1M "$(ucx tag_lat 1048576 $((2000 / less)) | awk '{ print 2 * $3 }')"
		note lat_ucx_16M "$(ucx tag_lat 16777216 $((100 / less)) | awk '{ print 2 * $3 }')"
		note rate_ucx "$(ucx tag_bw 64 $((2000000 / less)) | awk '{ print $NF }')"
		note bw_ucx_1M "$(ucx tag_bw 1048576 $((8000 / less)) |
			awk '{ print $7 * 1.048576 }')"
		note bw_ucx_16M "$(ucx tag_bw 16777216 $((500 / less)) |
			awk '{ print $7 * 1.048576 }')"
	fi
	"$build/bench/first" 21 >"$work/first.json" &&
		note first "$(jq .first_message_ms.p50 "$work/first.json")"
done
"$build/bench/peers" 100 "$idle" 1000 >"$work/peers.json" || cp /dev/null "$work/peers.json"

peers()
{
	[ -s "$work/peers.json" ] && jq -r ".$1" "$work/peers.json" || echo -
}

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
echo "$(date -u +%Y-%m-%d), $cpu, $(nproc) processors, Linux $(uname -r), libripc $("$perf" \
	--version | awk '{ print $2 }')$(
	command -v ucx_info >/dev/null && ucx_info -v | sed -n 's/^# Library version: /, UCX /p')."
echo "Command: \`bench/ucx.sh BUILD $rounds\`; medians of $rounds runs that took turns, loopback," \
	"one process per processor."
command -v ucx_perftest >/dev/null ||
	echo "UCX was not measured: ucx_perftest (ucx-utils) is not installed."
echo
echo "| Figure | libripc | TCP | ratio | UCX/TCP |"
echo "|---|---|---|---|---|"
echo "| round trip of 64 B, polling, p50, us | $(median lat) | $(median lat_tcp) | $(median \
	lat_ratio) | $(median lat_ucx) |"
echo "| the same, p99 | $(median lat_p99) | | | |"
echo "| the same, adaptive, p50 | $(median lat_adaptive) | | | |"
echo "| the same, blocking, p50 | $(median lat_block) | | | |"
echo "| one way, 64 B, messages/s | $(median rate %.0f) | $(median rate_tcp %.0f) | | $(median \
	rate_ucx %.0f) |"
echo "| the same, each message by itself | $(median rate_alone %.0f) | | | |"
for size in 1M 16M; do
	echo "| bandwidth, ${size}iB, CRC off, MB/s | $(median bw_$size %.0f) | $(median \
		bw_tcp_$size %.0f) | $(
		median bw_ratio_$size) | $(median bw_ucx_$size %.0f) |"
	echo "| the same, CRC on | $(median bw_crc_$size %.0f) | | | |"
	echo "| round trip, ${size}iB, p50, us | $(median lat_$size %.0f) | $(median lat_tcp_$size \
		%.0f) | | $(
		median lat_ucx_$size %.0f) |"
done
echo "| first message to a new service and its answer, ms | $(median first) | | | |"
echo "| memory per connected peer, bytes | $(peers bytes_per_connected_peer) | | | |"
echo "| memory per resolved service, bytes | $(peers bytes_per_resolved_service) | | | |"
echo "| processor, 100 idle connections, $idle s, % of a core | $(peers idle_cpu_percent) | | | |"
echo "| processor of the 100 other ends together | $(peers idle_cpu_percent_of_all_peers) | | | |"
