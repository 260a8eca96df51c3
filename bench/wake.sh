#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The cost of waiting between processes of one host: asleep, compared with eventfds (bench/wake),
# and with libripc's default, compared with ZeroMQ and NNG over their ipc. Every figure is the
# median of ROUNDS runs, which take turns. Prints a Markdown table.
#
# Each run counts as "near" or "far" as in bench/messages.sh, and is dropped if that has changed.
#
# usage: bench/wake.sh [BUILD_DIR [ROUNDS]]     (default: the current directory, 5)
#   CPUS="0 1"           the two processors
#   FAR_US=0.25          round trip of a line in microseconds from which it counts as far
#   PAUSES_MS="1 3 10"   the pauses before each round trip of sleeping processes
#   LESS=1               divides all counts, to try the script itself
build=${1:-.}
rounds=${2:-5}
read -r client_cpu server_cpu <<<"${CPUS:-0 1}"
less=${LESS:-1}
pauses=${PAUSES_MS:-1 3 10}
export RIPC_INTERFACES=lo RIPC_TRANSPORTS=shm

# shellcheck disable=SC2034
perf=$build/tools/ripc-perf
work=$(mktemp -d) || exit 1
here=$(dirname "$0")
# shellcheck source=lib.sh
. "$here/lib.sh"
needs "$build" jq jq tools/ripc-perf bench/ring bench/wake || exit 1
trap '[ ${#pids[@]} -eq 0 ] || stop "${pids[@]}"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# peer_program NAME FLAGS: bench/peer.c over a library, in $work.
peer_program()
{
	# shellcheck disable=SC2086
	gcc -O2 -I"$here/.." -I"$here" -o "$work/peer_$1" "$here/peer.c" "$here/peer_$1.c" \
		"$here/../tools/histogram.c" \
		$2 -lm >"$work/compile" 2>&1 && return 0
	echo "wake: without $1: bench/peer_$1.c does not compile here" >&2
	rm -f "$work/peer_$1"
	return 1
}
others=()
peer_program zmq "$(pkg-config --cflags --libs libzmq 2>/dev/null)" && others+=(zmq)
peer_program nng -lnng && others+=(nng)

# cell NAME COMMAND...: runs it and stores the figures that it prints as lines "SUFFIX VALUE", if
# the placement is the same before and after.
cell()
{
	local name=$1 before suffix value
	shift
	before=$(place)
	"$@" >"$work/figures" || return
	[ "$before" = "$(place)" ] || return
	while read -r suffix value; do
		note "$name$suffix.$before" "$value"
	done <"$work/figures"
}

wake()
{
	RIPC_WAIT=block timeout 300 "$build/bench/wake" "$client_cpu" "$server_cpu" \
		$((500 / less + 1)) $(($1 * 1000)) |
		jq -r '"_ripc \(.ripc.p50)", "_eventfd \(.eventfd.p50)",
			"_epoll \(.eventfd_epoll.p50)", "_ratio \(.ratio)"'
}

adaptive()
{
	ours adaptive -- latency --size 64 --count $((100000 / less)) &&
		echo "_ripc $(result .rtt_us.p50)"
}

peer()
{
	local address server words=(shm "$work/peer.$RANDOM" 64 $((20000 / less)) 1)
	address=${words[1]}
	timeout 120 taskset -c "$server_cpu" "$work/peer_$1" server latency "${words[@]}" \
		>/dev/null 2>&1 &
	server=$!
	timeout 120 taskset -c "$client_cpu" "$work/peer_$1" client latency "${words[@]}" \
		2>/dev/null |
		jq -r "\"_$1 \\(.rtt_us.p50)\""
	stop "$server"
	rm -f "$address" "$address".*
}

for ((round = 0; round < rounds; round++)); do
	echo "wake: round $((round + 1)) of $rounds" >&2
	for pause in $pauses; do
		cell "cold_$pause" wake "$pause"
	done
	cell active adaptive
	for other in "${others[@]}"; do
		cell active peer "$other"
	done
done

both()
{
	echo "$(median "$1.near" "$2") / $(median "$1.far" "$2")"
}

# times A B: prints B / A for each placement.
times()
{
	local near far
	near=$(awk -v a="$(median "$1.near" %.4f)" -v b="$(median "$2.near" %.4f)" \
		'BEGIN { if (a > 0 && b > 0) printf "%.0f", b / a; else print "-" }')
	far=$(awk -v a="$(median "$1.far" %.4f)" -v b="$(median "$2.far" %.4f)" \
		'BEGIN { if (a > 0 && b > 0) printf "%.0f", b / a; else print "-" }')
	echo "$near / $far"
}

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
echo "$(date -u +%Y-%m-%d), $cpu, $(nproc) processors, Linux $(uname -r), libripc $("$perf" \
	--version | awk '{ print $2 }')."
echo "Command: \`bench/wake.sh BUILD $rounds\`; near / far, medians of the runs of each" \
	"placement, p50 of round trips of 64 B, shm."
echo
echo "| Both asleep, pause before each | libripc, wait=block, us | eventfds, read, us |" \
	"eventfds, epoll and read, us | libripc / read |"
echo "|---|---|---|---|---|"
for pause in $pauses; do
	echo "| $pause ms | $(both "cold_${pause}_ripc") | $(both \
		"cold_${pause}_eventfd") | $(both "cold_${pause}_epoll") | $(both \
		"cold_${pause}_ratio") |"
done
echo
echo "| While active | round trip, us | times as long as libripc's |"
echo "|---|---|---|"
echo "| libripc, wait=adaptive | $(both active_ripc) | |"
for other in "${others[@]}"; do
	echo "| $other over ipc | $(both "active_$other") | $(times active_ripc "active_$other") |"
done
