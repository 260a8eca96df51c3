# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Pictures from $out/bench.json, by gnuplot, of the placement with the most figures: latency_*, percentiles_*, bandwidth, rate
# and many. TERMINAL=png for another format.
terminal=${TERMINAL:-svg}
names=(ripc:libripc ucx:UCX ofi:libfabric mpi:"Open MPI" zmq:ZeroMQ nng:NNG plain:"plain TCP")

# points PROGRAM FILTER: lines "x y" of the cells that the filter lets through and turns into a pair.
points()
{
	jq -r --arg program "$1" '
		(.cells | group_by(.placement) | max_by([.[0].placement != "mixed", length]) | .[0].placement) as $here |
		[.cells[] | select(.placement == $here and .program == $program)] | sort_by(.size)[] | '"$2"' | "\(.[0]) \(.[1])"' \
		"$out/bench.json"
}

# curves NAME TITLE SETTINGS FILTER: one picture with a curve for each program that has points.
curves()
{
	local name=$1 program i=0 plot=
	for program in "${names[@]}"; do
		i=$((i + 1))
		points "${program%%:*}" "$4" >"$work/points.$i"
		[ -s "$work/points.$i" ] || continue
		plot+="${plot:+, }'$work/points.$i' using 1:2 with linespoints lw $((i == 1 ? 3 : 1)) lc $i pt $i title '${program#*:}'"
	done
	[ -n "$plot" ] || return 0
	draw "$name" "set title '$2'
$3
plot $plot"
}

draw()
{
	gnuplot 2>"$work/gnuplot" <<-END || { echo "picture $1: $(tail -n 2 "$work/gnuplot")" >&2; return 1; }
		set terminal $([ "$terminal" = png ] && echo "pngcairo size 900,600" || echo "svg size 900,600 dynamic background 'white'")
		set output '$out/$1.$terminal'
		set grid
		set key outside right
		$2
	END
}

# bars NAME TITLE UNIT TEST SIZE FIELD SCALE: groups of bars, one group for host and wait, one bar for a program.
bars()
{
	local program i=0 plot=
	jq -r --arg test "$4" --argjson size "$5" --arg field "$6" --argjson scale "$7" '
		(.cells | group_by(.placement) | max_by([.[0].placement != "mixed", length]) | .[0].placement) as $here |
		[.cells[] | select(.placement == $here and .test == $test and .size == $size)] as $cells |
		(["shm", "poll"], ["shm", "block"], ["tcp", "poll"], ["tcp", "block"]) as [$host, $wait] |
		"\"\($host), \($wait)\" " + (["ripc", "ucx", "ofi", "mpi", "zmq", "nng", "plain"] | map(. as $p |
			[$cells[] | select(.host == $host and .wait == $wait and .program == $p)[$field] | numbers][0] |
			if . then . / $scale | tostring else "NaN" end) | join(" "))' "$out/bench.json" >"$work/bars"
	for program in "${names[@]}"; do
		i=$((i + 1))
		# One that has none of them has no bars, which gnuplot takes for an error.
		awk -v at=$((i + 2)) '$at != "NaN" { found = 1 } END { exit !found }' "$work/bars" || continue
		plot+="${plot:+, }'$work/bars' using $((i + 1)):xtic(1) lc $i title '${program#*:}'"
	done
	draw "$1" "set title '$2'
set ylabel '$3'
set style data histograms
set style fill solid 0.8
set yrange [0:*]
plot $plot"
}

pictures()
{
	local host text
	rm -f "$out"/*."$terminal"
	for host in shm tcp; do
		text=$([ $host = shm ] && echo "same host" || echo "TCP, loopback")
		curves latency_$host "Round trip, median, polling; $text" "set logscale xy
set xlabel 'bytes'
set ylabel 'us'" "select(.host == \"$host\" and .wait == \"poll\" and .test == \"latency\") | [.size, .rtt_us.p50 // empty]"
		curves percentiles_$host "Round trips of 64 B, polling; $text" "set logscale xy
set xlabel 'share of the round trips that take longer (1 / n)'
set xtics ('10' 0.1, '100' 0.01, '1000' 0.001, '10^4' 0.0001, '10^5' 0.00001)
set xrange [0.9:0.000009] reverse
set ylabel 'us'" "select(.host == \"$host\" and .wait == \"poll\" and .test == \"latency\" and .size == 64) | .rtt_us |
			select(.p99) | (\"p25:.75\", \"p50:.5\", \"p75:.25\", \"p90:.1\", \"p95:.05\", \"p99:.01\", \"p995:.005\", \"p999:.001\",
			\"p9999:.0001\", \"p99999:.00001\") as \$r | (\$r | split(\":\")) as \$p | [\$p[1], .[\$p[0]] // empty]"
		curves sweep_$host "Bandwidth one way, $((in_flight)) in flight, polling; $text" "set logscale x
set xlabel 'bytes'
set ylabel 'MB/s'
set yrange [0:*]" "select(.host == \"$host\" and .wait == \"poll\" and .test == \"bandwidth\") | [.size, .mb_per_s // empty]"
	done
	bars rate "64 B one way" "million messages/s" rate 64 rate_per_s 1000000
	bars bandwidth "1 MiB one way" "GB/s" bandwidth 1048576 mb_per_s 1000
	if [ -s "$work/many" ]; then
		for host in window/shm iwarp/soft; do
			jq -r --arg t $host '[.many[] | select(.transport == $t)] | sort_by(.clients)[] |
				"\(.clients) \(.calls_per_s) \(.connect_ms) \(.bytes_per_client / 1024)"' "$out/bench.json" \
				>"$work/many.${host#*/}"
		done
		draw many "set title 'One server, many clients; 64 B, blocking'
set logscale xy
set xlabel 'clients'
set ylabel 'calls/s; ms; KiB'
plot '$work/many.shm' using 1:2 with linespoints title 'shm: calls/s', '$work/many.soft' using 1:2 with linespoints title 'soft: calls/s', \
'$work/many.shm' using 1:3 with linespoints title 'shm: ms to connect all', '$work/many.soft' using 1:3 with linespoints title 'soft: ms to connect all', \
'$work/many.shm' using 1:4 with linespoints title 'shm: KiB per client', '$work/many.soft' using 1:4 with linespoints title 'soft: KiB per client'"
	fi
}
