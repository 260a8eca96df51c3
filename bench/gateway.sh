#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The benchmark of the VILLASnode thesis (E18 to E22): a generator in one gateway, samples over
# libripc, ZeroMQ or NNG to a second gateway, and from there into a file. Writes gateway.json,
# gateway.md and pictures. One-way times are from the origin time of a sample to its receipt. All
# receivers spin (spin = true), as the node infiniband of the thesis does. Not pinned: ZeroMQ and
# NNG have threads of their own.
#
# usage: [LAB=yes] bench/gateway.sh BUILD OUT [ROUNDS [SECONDS]]
#   ROUNDS    of all cells, in turns; a figure is the median (default: 3)
#   SECONDS   of each cell (default: 2)
#   LAB       in a guest of the lab: names the results gateway_lab.*, with other kinds and rates
#   KINDS     names from the table below
#   RATES     samples per second with 8 values
#   VALUES    per sample at VALUES_RATE samples per second
set -u
build=$(realpath "${1:?the build directory}") out=${2:?the directory of the results} rounds=${3:-3}
seconds=${4:-2}
mkdir -p "$out" && out=$(realpath "$out") || exit 1
cd "$(dirname "$0")/.." || exit 1
gateway=$build/tools/ripc-gateway
work=$(mktemp -d) || exit 1
# shellcheck source=lib.sh
. bench/lib.sh
# shellcheck source=pictures.sh
. bench/pictures.sh
trap '[ ${#pids[@]} -eq 0 ] || stop "${pids[@]}"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
needs "$build" jq jq bench/gaps tools/ripc-gateway || exit 1

# Options of the library, or the URL of the others.
declare -A setting=(
	[shm]="transports=shm interfaces=lo" [soft]="transports=iwarp/soft,self interfaces=lo"
	[ud]=transports=ib [rc]="transports=ib short=rdma"
	[uc]="transports=ib ib_qp=uc short=rdma" [siw]=transports=iwarp/verbs
	[zeromq_ipc]=ipc://$work/zeromq [zeromq_tcp]=tcp://127.0.0.1:5941
	[nanomsg_ipc]=ipc://$work/nanomsg [nanomsg_tcp]=tcp://127.0.0.1:5942
)
declare -A title=(
	[shm]="libripc, shm" [soft]="libripc, iwarp/soft" [ud]="libripc, UD" [rc]="libripc, RC"
	[uc]="libripc, UC" [siw]="libripc, siw" [zeromq_ipc]="ZeroMQ, ipc"
	[zeromq_tcp]="ZeroMQ, TCP" [nanomsg_ipc]="NNG, ipc" [nanomsg_tcp]="NNG, TCP"
)
if [ -n "${LAB-}" ]; then
	name=gateway_lab shown_rate=1000
	KINDS=${KINDS:-ud rc uc siw zeromq_tcp nanomsg_tcp} RATES=${RATES:-100 1000 5000} VALUES=''
	where="In a guest of the lab, whose two processors are emulated: compare columns only."
else
	name=gateway shown_rate=10000
	where="On two processors the threads that ZeroMQ and NNG have beside share them with the"
	where+=" gateways, which is their long tail."
fi
read -ra kinds <<<"${KINDS:-shm soft zeromq_ipc zeromq_tcp nanomsg_ipc nanomsg_tcp}"
read -ra rates <<<"${RATES:-100 1000 2500 5000 10000 25000 50000 100000}"
read -ra values <<<"${VALUES-1 4 16 32 64}"
values_rate=${VALUES_RATE:-25000}
id=$((1000000 + RANDOM * 32768 + RANDOM))

# node KIND DIRECTION: the node of the configuration.
node()
{
	local spin=''
	[ "$2" = out ] || spin='spin = true;'
	case $1 in
	zeromq_*) echo "{ type = \"zeromq\"; $2 = { $([ "$2" = in ] && echo subscribe ||
		echo publish) = \"${setting[$1]}\"; $spin }; }" ;;
	nanomsg_*) echo "{ type = \"nanomsg\"; $2 = { endpoints = \"${setting[$1]}\"; $spin }; }" ;;
	*) echo "{ type = \"ripc\"; $2 = { service = $id; $spin }; }" ;;
	esac
}

# metric FILE NODE NAME: a value from OpenMetrics text.
metric()
{
	sed -n "s/^ripc_gateway_$3{node=\"$2\"[^ ]* //p" "$1"
}

# quantile Q: of the one-way times, in microseconds.
quantile()
{
	sed -n "s/^ripc_gateway_latency_seconds{node=\"net\",quantile=\"$1\"} //p" \
		"$work/receive.metrics" | awk '{ printf "%.2f", $1 * 1e6 }'
}

# cell KIND RATE VALUES: appends its figures to $work/cells. Return: 1 and the reason in
# $work/reason.
cell()
{
	local kind=$1 rate=$2 n=$3 options=() option limit rc tries=0
	limit=$((rate * seconds))
	for option in ${setting[$kind]}; do
		[[ $option == *://* ]] || options+=(-o "$option")
	done
	cat >"$work/receive.conf" <<EOF
nodes = { net = $(node "$kind" in) log = { type = "file"; uri = "$work/log"; format = "csv"; } }
paths = ( { in = "net"; out = "log"; } )
EOF
	cat >"$work/send.conf" <<EOF
nodes = {
  gen = { type = "signal"; signal = "mixed"; values = $n; rate = $rate.0; limit = $limit; }
  net = $(node "$kind" out)
}
paths = ( { in = "gen"; out = "net"; } )
EOF
	rm -f "$work"/{receive,send}.metrics
	: >"$work/receive.err"
	"$gateway" "${options[@]}" -m "$work/receive.metrics" "$work/receive.conf" \
		2>"$work/receive.err" &
	pids=($!)
	until [[ $(<"$work/receive.err") == *running* ]]; do
		if ! kill -0 "${pids[0]}" 2>/dev/null || [ $((tries += 1)) -gt 200 ]; then
			tail -n 1 "$work/receive.err" >"$work/reason"
			return 1
		fi
		sleep 0.05
	done
	timeout $((seconds + 60)) "$gateway" "${options[@]}" -m "$work/send.metrics" \
		"$work/send.conf" 2>"$work/send.err"
	rc=$?
	sleep 0.3
	stop "${pids[@]}"
	pids=()
	if [ $rc -ne 0 ] || [ ! -s "$work/receive.metrics" ]; then
		tail -n 1 "$work/send.err" >"$work/reason"
		return 1
	fi
	jq -cn --arg kind "$kind" --argjson rate "$rate" --argjson values "$n" \
		--argjson steps $limit \
		--argjson missed "$(metric "$work/send.metrics" gen missed_total)" \
		--argjson late "$(metric "$work/send.metrics" gen late_total)" \
		--argjson not_sent "$(metric "$work/send.metrics" net not_sent_total)" \
		--argjson sent "$(metric "$work/send.metrics" net sent_total)" \
		--argjson received "$(metric "$work/receive.metrics" net samples_total)" \
		--argjson p50 "$(quantile 0.5)" --argjson p99 "$(quantile 0.99)" \
		--argjson p999 "$(quantile 0.999)" --argjson p9999 "$(quantile 0.9999)" \
		'{$kind, $rate, $values, $steps, $missed, $late, $not_sent,
			lost: ($sent - $received), us: {$p50, $p99, $p999, $p9999}}' \
		>>"$work/cells"
	[ "$rate-$n" != $shown_rate-8 ] || [ -e "$work/log.$kind" ] ||
		mv "$work/log" "$work/log.$kind"
}

for ((round = 1; round <= rounds; round++)); do
	"$build/bench/gaps" >>"$work/gaps"
	for pair in "${rates[@]/%/ 8}" "${values[@]/#/$values_rate }"; do
		read -r rate n <<<"$pair"
		for kind in "${kinds[@]}"; do
			cell "$kind" "$rate" "$n" && continue
			stop "${pids[@]}"
			pids=()
			echo "$kind, $rate/s, $n values: $(<"$work/reason")" >&2
		done
	done
	echo "round $round of $rounds: $SECONDS s" >&2
done
[ -s "$work/cells" ] || { echo "no cell could be measured" >&2; exit 1; }

jq -s --slurpfile gaps "$work/gaps" --arg date "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
	--argjson rounds "$rounds" --argjson seconds "$seconds" \
	--arg cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
	--argjson cpus "$(nproc)" --arg kernel "$(uname -r)" '
	def median: sort | if length % 2 == 1 then .[(length - 1) / 2]
		else (.[length / 2 - 1] + .[length / 2]) / 2 end;
	{$date, $rounds, $seconds, $cpu, $cpus, $kernel,
		gaps: {share_percent: [$gaps[].share_percent] | median,
			longest_us: [$gaps[].longest_us] | max},
		cells: [group_by(.kind, .rate, .values)[] | {kind: .[0].kind, rate: .[0].rate,
			values: .[0].values, steps: ([.[].steps] | add),
			missed: ([.[].missed] | add), late: ([.[].late] | add),
			not_sent: ([.[].not_sent] | add), lost: ([.[].lost] | add),
			us: (. as $runs | .[0].us | with_entries(.key as $k |
				.value = ([$runs[].us[$k]] | median)))}]}' \
	"$work/cells" >"$out/$name.json" || exit 1

# table TITLE FILTER CELLS ROW: a row for each rate, or number of values, a column for each kind.
table()
{
	local kind header="| $1 |" rule='|---|'
	for kind in "${kinds[@]}"; do
		header+=" ${title[$kind]} |" rule+='---|'
	done
	echo "$header"
	echo "$rule"
	jq -r --arg kinds "${kinds[*]}" '
		def show: if type == "string" then . elif . >= 100 then round
			elif . >= 10 then (. * 10 | round / 10) else (. * 100 | round / 100) end;
		.cells as $cells | [$cells[] | select('"$3"') | '"$4"'] | unique[] | . as $row |
		"| \($row) |" + ([($kinds / " ")[] as $k |
			([$cells[] | select('"$3"') | select(.kind == $k and '"$4"' == $row) |
				'"$2"' | show][0] // "-") | " \(.) |"] | add)' "$out/$name.json"
}

# Lines of at most 100 columns.
folded()
{
	fold -s -w 100 | sed 's/ *$//'
}

report()
{
	cat <<EOF
# A gateway between simulators

$(jq -r '"Made by `scripts/bench --gateway'"${LAB:+ --lab}"'` on \(.date): \(.cpu), " +
	"\(.cpus) processors, Linux \(.kernel); \(.rounds) rounds of \(.seconds) s for each cell" +
	", in turns; medians of the rounds, sums for counts."' "$out/$name.json" | folded)

A generator in one gateway sends samples to a second one, which writes a file (experiments E18 to
E22 of the thesis on VILLASnode). One-way times are from the origin time of a sample to its receipt.
All receivers spin.

$(folded <<<"$where")

$(jq -r '"The processors themselves: a program that only reads the clock was stopped for " +
	"\(.gaps.share_percent) % of the time, for \(.gaps.longest_us) us at most. Percentiles " +
	"beyond this share are those of the machine."' "$out/$name.json" | folded)

## Time by rate, 8 values

$(table "p50, us" .us.p50 '.values == 8' .rate)

$(table "p99, us" .us.p99 '.values == 8' .rate)

$(table "p99.9, us" .us.p999 '.values == 8' .rate)

$(table "p99.99, us" .us.p9999 '.values == 8' .rate)

## Samples by rate, 8 values

Missed: steps that the generator could not run in time, because its processor or its gateway did
something else. Lost: samples that were refused, or sent and did not arrive.

$(table "missed, %" '(.missed * 100 / .steps)' '.values == 8' .rate)

$(table "lost, %" '((.not_sent + .lost) * 100 / .steps)' '.values == 8' .rate)
EOF
	[ ${#values[@]} -eq 0 ] || cat <<EOF

## Time by number of values, $values_rate per second

$(table "p50, us" .us.p50 ".rate == $values_rate" .values)

$(table "lost, %" '((.not_sent + .lost) * 100 / .steps)' ".rate == $values_rate" .values)
EOF
}
report >"$out/$name.md"

# plot NAME TITLE AXES STYLE FILE-PREFIX: a curve for each kind with a file.
plot()
{
	local kind i=0 plot=''
	for kind in "${kinds[@]}"; do
		i=$((i + 1))
		[ -s "$work/$5.$kind" ] || continue
		plot+="${plot:+, }'$work/$5.$kind' using 1:2 with $4 lt $i title '${title[$kind]}'"
	done
	[ -z "$plot" ] || draw "$1" "set title '$2'
set logscale y
$3
plot $plot"
}

if ! command -v gnuplot >/dev/null; then
	echo "no pictures: install gnuplot-nox" >&2
	exit
fi
for kind in "${kinds[@]}"; do
	jq -r --arg kind "$kind" '[.cells[] | select(.kind == $kind and .values == 8)] |
		sort_by(.rate)[] | "\(.rate) \(.us.p50)"' "$out/$name.json" >"$work/rate.$kind"
	[ -s "$work/log.$kind" ] || continue
	awk -F, '!/^#/ { print $3 * 1e6 }' "$work/log.$kind" >"$work/times"
	# The longest of each 10 ms.
	awk -v per=$((shown_rate / 100)) '$1 > max { max = $1 }
		NR % per == 0 { print NR / per / 100, max; max = 0 }' "$work/times" \
		>"$work/series.$kind"
	# Ten bins for each decade.
	awk '$1 > 0 { n[int(log($1) / log(10) * 10 + 100)]++ }
		END { for (b in n) print 10 ^ ((b - 100 + 0.5) / 10), n[b] }' "$work/times" |
		sort -g >"$work/histogram.$kind"
	sort -g "$work/times" | awk '{ t[NR] = $1 }
		END {
			for (share = 1; share * NR >= 1; share *= 0.8) {
				k = NR - int(share * NR) + 1
				print t[k], share * 100
			}
		}' >"$work/share.$kind"
done
plot ${name}_rate "One-way time, median, 8 values" "$(log_axis x 1 "$work"/rate.*)
set xlabel 'samples per second'
set ylabel 'microseconds'" "linespoints lw 2 ps 0.8" rate
plot ${name}_series "Longest one-way time in each 10 ms, $shown_rate samples per second" \
	"set xlabel 'seconds'
set ylabel 'microseconds'" "points ps 0.5" series
plot ${name}_histogram "Samples by one-way time, $shown_rate per second" "set logscale x
set xlabel 'microseconds'
set ylabel 'samples'" "linespoints lw 2 ps 0.6" histogram
plot ${name}_share "Share of samples above a limit, $shown_rate per second" "set logscale x
set xlabel 'limit, microseconds'
set ylabel 'percent above it'" "lines lw 2" share
