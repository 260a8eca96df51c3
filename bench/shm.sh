#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Compares transports between processes of one host: ripc-perf over shm, the ring engine alone, a
# bare cache line, and UCX over shared memory. Every figure is the median of ROUNDS runs, which take
# turns. Prints a Markdown table.
#
# A host may move the virtual processors of a guest; a cache line between them then takes up to
# three times as long. So the round trip of a bare line is measured before and after each run: the
# run counts as "near" or "far", and is dropped if that has changed.
#
# usage: bench/shm.sh [BUILD_DIR [ROUNDS]]     (default: the current directory, 5)
#   CPUS="0 1"   the two processors
#   FAR_US=0.25  round trip of a line in microseconds from which it counts as far
#   LESS=1       divides all counts, to try the script itself
build=${1:-.}
rounds=${2:-5}
read -r client_cpu server_cpu <<<"${CPUS:-0 1}"
less=${LESS:-1}
export RIPC_INTERFACES=lo RIPC_TRANSPORTS=shm

# shellcheck disable=SC2034
perf=$build/tools/ripc-perf
work=$(mktemp -d) || exit 1
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
needs "$build" jq jq tools/ripc-perf bench/ring bench/handover || exit 1
trap '[ ${#pids[@]} -eq 0 ] || stop "${pids[@]}"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# cell NAME COMMAND...: runs it and stores the figure that it prints, if the placement is the same
# before and after.
cell()
{
	local name=$1 before value
	shift
	before=$(place)
	value=$("$@")
	[ "$before" = "$(place)" ] && note "$name.$before" "$value"
}

ripc_lat()
{
	ours poll -- latency --size "$1" --count $(($2 / less)) && result .rtt_us.p50
}

ripc_rate()
{
	ours poll -- rate --size "$1" --count $(($2 / less)) && result .rate_per_s
}

# ripc_bw SIZE COUNT MODE: long messages, mapped (MODE on) or copied (off).
ripc_bw()
{
	ours poll "handover=$3" -- bandwidth --size "$1" --count $(($2 / less)) && result .mb_per_s
}

# ucx TEST SIZE COUNT: the line of final figures.
ucx()
{
	local port=$((20000 + RANDOM % 10000)) server
	export UCX_TLS=sm,self UCX_NET_DEVICES=lo UCX_WARN_UNUSED_ENV_VARS=n
	timeout 300 taskset -c "$server_cpu" ucx_perftest -p $port >/dev/null 2>&1 &
	server=$!
	sleep 0.5
	timeout 300 taskset -c "$client_cpu" ucx_perftest 127.0.0.1 -p $port -t "$1" -s "$2" \
		-n $(($3 / less)) -w 100 2>/dev/null |
		grep '^Final:'
	stop "$server"
}

# The latency of UCX is half a round trip, and its megabyte has 2^20 bytes.
ucx_lat()
{
	ucx tag_lat "$1" "$2" | awk '{ print 2 * $3 }'
}

ucx_rate()
{
	ucx tag_bw "$1" "$2" | awk '{ print $NF }'
}

ucx_bw()
{
	ucx tag_bw "$1" "$2" | awk '{ print $7 * 1.048576 }'
}

engine()
{
	timeout 60 "$build/bench/ring" "$client_cpu" "$server_cpu" $((50000 / less + 16)) |
		jq ".$1.p50"
}

# One run gives all sizes.
handed()
{
	timeout 120 "$build/bench/handover" "$client_cpu" "$server_cpu" $((3000 / less + 16)) |
		jq ".\"$1\".p50"
}

# window SIZE MODE: copied into the receiver's window, from mapped memory (MODE on) or by a read
# across processes (off).
window()
{
	RIPC_HANDOVER=$2 timeout 120 "$build/bench/handover" "$client_cpu" "$server_cpu" \
		$((1000 / less + 16)) window |
		jq ".\"$1\".p50"
}

sizes="8 64 1024 4096 65536 1048576"
handed_sizes="65536 1048576 16777216 67108864"
window_sizes="65536 1048576"
for ((round = 0; round < rounds; round++)); do
	echo "shm: round $((round + 1)) of $rounds" >&2
	cell line engine line
	cell engine_64 engine engine_64
	cell engine_1000 engine engine_1000
	for size in $sizes; do
		count=$((size > 16384 ? 3000 : 100000))
		cell "lat_$size" ripc_lat "$size" $count
		command -v ucx_perftest >/dev/null && cell "lat_ucx_$size" ucx_lat "$size" $count
	done
	cell rate ripc_rate 64 3000000
	cell bw ripc_bw 1M 8000 off
	cell bw_handed ripc_bw 1M 8000 on
	for size in $handed_sizes; do
		cell "handed_$size" handed "$size"
	done
	for size in $window_sizes; do
		cell "window_on_$size" window "$size" on
		cell "window_off_$size" window "$size" off
	done
	command -v ucx_perftest >/dev/null || continue
	cell rate_ucx ucx_rate 64 3000000
	cell bw_ucx ucx_bw 1048576 8000
done

both()
{
	echo "$(median "$1.near" "$2") / $(median "$1.far" "$2")"
}

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
echo "$(date -u +%Y-%m-%d), $cpu, $(nproc) processors, Linux $(uname -r), libripc $("$perf" \
	--version | awk '{ print $2 }')$(
	command -v ucx_info >/dev/null && ucx_info -v | sed -n 's/^# Library version: /, UCX /p')."
echo "Command: \`bench/shm.sh BUILD $rounds\`; near / far, medians of the runs of each placement," \
	"one process per processor, polling."
command -v ucx_perftest >/dev/null ||
	echo "UCX was not measured: ucx_perftest (ucx-utils) is not installed."
echo
echo "| Figure | libripc | UCX |"
echo "|---|---|---|"
echo "| round trip of a bare cache line, us | $(both line) | |"
echo "| the engine alone, 64 B, us | $(both engine_64) | |"
echo "| the engine alone, 1000 B, us | $(both engine_1000) | |"
for size in $sizes; do
	echo "| round trip of $size B, p50, us | $(both "lat_$size") | $(both "lat_ucx_$size") |"
done
echo "| one way, 64 B, messages/s | $(both rate %.0f) | $(both rate_ucx %.0f) |"
for size in $handed_sizes; do
	echo "| round trip of $size B mapped, each side freeing before it answers, p50, us |" \
		"$(both "handed_$size") | - |"
done
for size in $window_sizes; do
	echo "| round trip of $size B into a window, out of mapped memory, p50, us |" \
		"$(both "window_on_$size") | $(both "lat_ucx_$size") |"
	echo "| round trip of $size B into a window, read across processes, p50, us |" \
		"$(both "window_off_$size") | $(both "lat_ucx_$size") |"
done
echo "| bandwidth, 1 MiB, copied, MB/s | $(both bw %.0f) | $(both bw_ucx %.0f) |"
echo "| bandwidth, 1 MiB, mapped, MB/s | $(both bw_handed %.0f) | - |"
