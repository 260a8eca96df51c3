#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Short, medium and long messages between two processes of one host, each figure beside its
# reference and its target: shm beside UCX and eventfds, zero copy, iwarp/soft beside plain TCP.
# Every figure is the median of ROUNDS runs, in which all cells take turns. With the build tree of
# an older commit the cells of both trees take turns. Prints a Markdown table.
#
# A host may move the virtual processors of a guest. Each run counts as "near" or "far" by the round
# trip of a cache line before and after it, and is dropped if that has changed.
#
# usage: bench/messages.sh BUILD_DIR [ROUNDS [OLD_BUILD_DIR]]     (default: 5 rounds)
#   CPUS="0 1"   the two processors
#   FAR_US=0.25  round trip of a line in microseconds from which it counts as far
#   LESS=1       divides all counts, to try the script itself
build=${1:?the build directory}
rounds=${2:-5}
old=${3:-}
read -r client_cpu server_cpu <<<"${CPUS:-0 1}"
less=${LESS:-1}
export RIPC_INTERFACES=lo

work=$(mktemp -d) || exit 1
here=$(dirname "$0")
# shellcheck source=lib.sh
. "$here/lib.sh"
programs="tools/ripc-perf bench/ring bench/handover bench/zero_copy bench/files bench/wake"
# shellcheck disable=SC2086
needs "$build" jq jq $programs || exit 1
trap '[ ${#pids[@]} -eq 0 ] || stop "${pids[@]}"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# cell COMMAND...: runs it and stores the figures that it prints as lines "NAME VALUE", if the
# placement is the same before and after. Of the old tree: as old_NAME.
prefix=''
cell()
{
	local before name value
	before=$(place)
	"$@" >"$work/figures" 2>"$work/errors" ||
		{ echo "messages: $prefix$*: $(tail -n 1 "$work/errors")" >&2; return; }
	[ "$before" = "$(place)" ] || return
	while read -r name value; do
		note "$prefix$name.$before" "$value"
	done <"$work/figures"
}

# latency NAME KIND SIZE COUNT OPTION...
latency()
{
	local name=$1 kind=$2 size=$3 count=$4
	shift 4
	ours poll "$@" -- latency --kind "$kind" --size "$size" --count $((count / less + 10)) &&
		echo "$name $(result .rtt_us.p50)"
}

# beside_tcp SIZE COUNT: by ripc_send() and over plain TCP, in turns in the same processes.
beside_tcp()
{
	ours poll transports=iwarp/soft -- latency --kind auto --size "$1" \
		--count $(($2 / less + 10)) --baseline tcp:poll &&
		result '| "soft_'"$1"' \(.rtt_us.p50)", "tcp_'"$1"' \(.baseline.rtt_us.p50)",
			"r_soft_'"$1"' \(.ratio.rtt_us.p50)"'
}

rate()
{
	ours poll transports=shm -- rate --size 64 --count $((3000000 / less)) &&
		echo "rate $(result .rate_per_s | awk '{ print $1 / 1e6 }')"
}

ucx_rate()
{
	local port=$((20000 + RANDOM % 10000)) server
	export UCX_TLS=sm,self UCX_NET_DEVICES=lo UCX_WARN_UNUSED_ENV_VARS=n
	timeout 300 taskset -c "$server_cpu" ucx_perftest -p $port >/dev/null 2>&1 &
	server=$!
	sleep 0.5
	timeout 300 taskset -c "$client_cpu" ucx_perftest 127.0.0.1 -p $port -t tag_bw -s 64 \
		-n $((3000000 / less)) -w 100 2>/dev/null |
		awk '/^Final:/ { print "ucx_rate", $NF / 1e6 }'
	stop "$server"
}

wake()
{
	RIPC_TRANSPORTS=shm RIPC_WAIT=block timeout 300 "$tree/bench/wake" "$client_cpu" \
		"$server_cpu" $((3000 / less + 10)) 0 |
		jq -r '"wake \(.ripc.p50)", "eventfd \(.eventfd.p50)", "r_wake \(.ratio)"'
}

handover()
{
	RIPC_TRANSPORTS=shm timeout 120 "$tree/bench/handover" "$client_cpu" "$server_cpu" \
		$((2000 / less + 16)) |
		jq -r 'to_entries[] | "handover_\(.key) \(.value.p50)"'
}

zero_copy()
{
	RIPC_TRANSPORTS=shm timeout 120 "$tree/bench/zero_copy" "$client_cpu" "$server_cpu" |
		awk -F '|' '
			/^\| fresh buffer, ripc_buf_alloc_for\(\), 4 MiB/ { name = "fresh_for" }
			/^\| fresh buffer, ripc_buf_alloc\(\), 4 MiB/ { name = "fresh" }
			/^\| fresh buffer, .* 64 MiB/ { name = "fresh_64M" }
			/^\| pipeline/ { name = "pipeline" }
			/^\| echo, 65536 KiB/ { name = "echo_64M" }
			name != "" {
				split($3, in_place, " ")
				print name, in_place[1]
				if ($4 + 0 > 0)
					print name "_alloc", $4 + 0
				print name "_us", $5 + 0
				name = ""
			}'
}

# files SIZE:COUNT...
files()
{
	local id port line cell to rc=0
	coproc SERVER { exec taskset -c "$server_cpu" "$tree/bench/files" server \
		transports=iwarp/soft; }
	to=${SERVER[1]}
	read -r -t 60 id port <&"${SERVER[0]}" || rc=1
	for cell; do
		[ $rc -eq 0 ] && line=$(timeout 120 taskset -c "$client_cpu" "$tree/bench/files" \
			client "$id" "$port" "$(numfmt --from=iec "${cell%:*}")" \
			$((${cell#*:} / less + 1)) transports=iwarp/soft) || { rc=1; break; }
		jq -r '"files_'"${cell%:*}"' \(.times_tcp)"' <<<"$line"
	done
	eval "exec $to>&-"
	stop "$SERVER_PID"
	return $rc
}

# all_cells: one run of each cell of the tree.
all_cells()
{
	local size
	# Cells that are compared follow each other, so that they have the same placement.
	for size in 8 56; do
		cell latency "lat_$size" auto $size 100000 transports=shm
	done
	cell latency auto_64 auto 64 100000 transports=shm
	cell latency short_64 short 64 100000 transports=shm
	cell rate
	[ -n "$prefix" ] || ! command -v ucx_perftest >/dev/null || cell ucx_rate
	cell wake
	cell handover
	cell zero_copy
	for size in 4K:4000 16K:3000 64K:1000 256K:500 1M:200; do
		cell beside_tcp "${size%:*}" "${size#*:}"
	done
	cell files 128K:1000 1M:200 80M:5
}

for ((round = 0; round < rounds; round++)); do
	echo "messages: round $((round + 1)) of $rounds" >&2
	for tree in "$build" ${old:+"$old"}; do
		# shellcheck disable=SC2034
		perf=$tree/tools/ripc-perf
		prefix=$([ "$tree" = "$build" ] || echo old_)
		all_cells
	done
done

# both NAME: "NEAR / FAR" of a figure.
both()
{
	echo "$(median "$1.near" "$2") / $(median "$1.far" "$2")"
}

# quotient A B: of the medians, for each placement.
quotient()
{
	local placement
	for placement in near far; do
		echo "$(median "$1.$placement" %.6g) $(median "$2.$placement" %.6g)"
	done | awk '{
		quotient = "-"
		if ($1 > 0 && $2 > 0)
			quotient = sprintf("%.2f", $1 / $2)
		printf "%s%s", (NR == 1 ? "" : " / "), quotient
	}'
}

# verdict FIGURE OPERATOR TARGET: "met" or "missed", for each placement that was measured.
verdict()
{
	awk -v figure="$1" -v operator="$2" -v target="$3" 'BEGIN {
		n = split(figure, value, " / ")
		for (i = 1; i <= n; i++) {
			if (value[i] == "-")
				word = "-"
			else if (operator == "<=" && value[i] + 0 <= target + 0 ||
				 operator == ">=" && value[i] + 0 >= target + 0)
				word = "met"
			else
				word = "**missed**"
			printf "%s%s", (i == 1 ? "" : " / "), word
		}
	}'
}

# row WHAT FIGURE OLD REFERENCE JUDGED OPERATOR TARGET: JUDGED is the figure, or its ratio to the
# reference.
row()
{
	local ratio=$5
	[ "$ratio" != "$2" ] || ratio=''
	echo "| $1 | $2 |${old:+ $3 |} $4 | $ratio | $6 $7: $(verdict "$5" "$6" "$7") |"
}

# single WHAT NAME OPERATOR TARGET: a row without a reference.
single()
{
	local figure
	figure=$(both "$2")
	row "$1" "$figure" "$(both "old_$2")" '' "$figure" "$3" "$4"
}

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
echo "$(date -u +%Y-%m-%d), $cpu, $(nproc) processors, Linux $(uname -r), libripc $(
	"$build/tools/ripc-perf" --version | awk '{ print $2 }')$(
	command -v ucx_info >/dev/null && ucx_info -v | sed -n 's/^# Library version: /, UCX /p')."
echo "Command: \`bench/messages.sh BUILD $rounds${old:+ OLD}\`; near / far, medians of the runs" \
	"of each placement, one process per processor. Times are the p50 of round trips in us."
echo
echo "| What | libripc |${old:+ old |} reference | ratio | target |"
echo "|---|---|${old:+---|}---|---|---|"
for size in 8 56; do
	single "shm, $size B, \`ripc_send()\`" "lat_$size" "<=" 0.22
done
row "shm, 64 B, \`ripc_send()\` beside \`ripc_send_short()\`" "$(both auto_64)" \
	"$(both old_auto_64)" "$(both short_64)" "$(quotient auto_64 short_64)" "<=" 1.03
row "shm, 64 B one way, M/s, beside UCX" "$(both rate)" "$(both old_rate)" "$(both ucx_rate)" \
	"$(quotient rate ucx_rate)" ">=" 1.5
row "shm, 64 B, both asleep, beside eventfds" "$(both wake)" "$(both old_wake)" \
	"$(both eventfd)" "$(both r_wake)" "<=" 1.1
for size in 65536 1048576 67108864; do
	single "shm, hand-over, $((size >> 10)) KiB" handover_$size "<=" 0.8
done
single "shm, echo in place, 64 MiB" echo_64M_us "<=" 5
for kind in for:_for :''; do
	single "shm, fresh buffers of \`ripc_buf_alloc${kind#*:}()\`, 4 MiB: in place of 100" \
		"fresh${kind#*:}" ">=" 95
done
single "shm, fresh buffers, 64 MiB: in place of 100" fresh_64M ">=" 95
single "shm, fresh buffers, 64 MiB: allocation" fresh_64M_alloc "<=" 2
single "shm, pipeline of three processes, 4 MiB: in place of 100" pipeline ">=" 95
for size in 4K:1.25 16K:1.2 64K:1.2 256K:1.2 1M:0.95; do
	target=${size#*:} size=${size%:*}
	row "iwarp/soft, ${size}iB, beside plain TCP" "$(both "soft_$size")" \
		"$(both "old_soft_$size")" "$(both "tcp_$size")" "$(both "r_soft_$size")" \
		"<=" "$target"
done
for size in 128K 1M 80M; do
	single "iwarp/soft, file of ${size}iB, rate, of that of plain TCP" "files_$size" ">=" 0.95
done
