# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Pictures from $out/bench.json, by gnuplot: latency_*, percentiles_*, sweep_*, bandwidth, rate and many. Of each program they show the
# placement of the processors in which it has most figures; where that is not the one of most programs, the legend says so.
# TERMINAL=png for another format.
terminal=${TERMINAL:-svg}
names=(ripc:libripc ucx:UCX ofi:libfabric mpi:"Open MPI" zmq:ZeroMQ nng:NNG plain:"plain TCP")

# Sizes as people write them.
byte_tics='set xtics ("8" 8, "64" 64, "256" 256, "1 Ki" 1024, "4 Ki" 4096, "16 Ki" 16384, "64 Ki" 65536, "256 Ki" 262144, "1 Mi" 1048576,
	"4 Mi" 4194304, "16 Mi" 16777216)'
byte_tics=$(tr -d '\n' <<<"$byte_tics")

# points PROGRAM FILTER: lines "x y" of the cells that the filter lets through and turns into a pair; before them "# PLACEMENT", with
# nothing behind it where it is that of most programs.
points()
{
	jq -r --arg program "$1" '
		[.cells[] | . as $c | ('"$2"') as $xy | {p: $c.program, place: $c.placement, size: $c.size, $xy}] as $all |
		def most: group_by(.place) | max_by([.[0].place != "mixed", length]);
		# Where most programs have figures.
		([$all | group_by(.place)[] | {place: .[0].place, n: [.[].p] | unique | length}] |
			max_by([.place != "mixed", .n, .place == "near"]) | .place) as $here |
		[$all[] | select(.p == $program)] | if length == 0 then empty else . as $mine |
			([$mine[] | select(.place == $here)] as $same | if ($same | length) * 2 >= ($mine | most | length) then $same
				else ($mine | most) end) |
			"# \(if .[0].place == $here then "" else .[0].place end)",
			(sort_by(.size)[] | "\(.xy[0]) \(.xy[1])") end' "$out/bench.json"
}

# curves NAME TITLE SETTINGS FILTER: one picture with a curve for each program that has points.
curves()
{
	local name=$1 program i=0 plot='' place
	for program in "${names[@]}"; do
		i=$((i + 1))
		points "${program%%:*}" "$4" >"$work/points.$i"
		[ -s "$work/points.$i" ] || continue
		place=$(sed -n '1s/^# *//p' "$work/points.$i")
		plot+="${plot:+, }'$work/points.$i' using 1:2 with linespoints lw $((i == 1 ? 4 : 2)) ps 0.8 lt $i"
		plot+=" title '${program#*:}${place:+ ($place)}$([[ $i$name != 1sweep_shm ]] || echo ', handed over, not copied')'"
	done
	[ -n "$plot" ] || return 0
	draw "$name" "set title '$2'
$3
plot $plot"
}

draw()
{
	gnuplot 2>"$work/gnuplot" <<-END || { echo "picture $1: $(tail -n 2 "$work/gnuplot")" >&2; return 1; }
		set terminal $([ "$terminal" = png ] && echo pngcairo || echo svg) size ${3:-900,600} noenhanced font 'sans,13' \
			$([ "$terminal" = png ] || echo "dynamic background 'white'")
		set output '$out/$1.$terminal'
		# Colours that all eyes can tell apart, and points for those that see none.
		$(i=0; for colour in 0072B2 D55E00 009E73 CC79A7 E69F00 56B4E9 000000 888888; do
			i=$((i + 1))
			echo "set linetype $i lc rgb '#$colour' pt $((i + 3))"
		done)
		set grid
		set key below horizontal
		set xlabel offset 0,0.5
		set bmargin 7
		$2
	END
}

# bars NAME TITLE UNIT TEST SIZE FIELD SCALE [SETTINGS]: groups of bars, one group for host and wait, one bar for a program; above it where the
# processors lay, if not as for the others of the group.
bars()
{
	local program i=0 plot='' bar_labels=() n at=0
	jq -r --arg test "$4" --argjson size "$5" --arg field "$6" --argjson scale "$7" '
		[.cells[] | select(.test == $test and .size == $size and (.[$field] | type) == "number")] as $cells |
		(["shm", "poll", "same host,\\npolling"], ["shm", "block", "same host,\\nasleep"], ["tcp", "poll", "TCP,\\npolling"],
			["tcp", "block", "TCP,\\nasleep"]) as [$host, $wait, $text] |
		[$cells[] | select(.host == $host and .wait == $wait)] as $group |
		([$group | group_by(.placement)[] | {place: .[0].placement, n: length}] |
			max_by([.place != "mixed", .n, .place == "near"]) | .place // "near") as $here |
		"\"\($text)\" " + (["ripc", "ucx", "ofi", "mpi", "zmq", "nng", "plain"] | map(. as $p |
			[([$here, "near", "far", "mixed"][] as $place | $group[] | select(.program == $p and .placement == $place))][0] |
			if . then "\(.[$field] / $scale) \"\(if .placement == $here then "" else .placement end)\"" else "NaN \"\"" end) | join(" "))' \
		"$out/bench.json" >"$work/bars"
	for program in "${names[@]}"; do
		i=$((i + 1))
		# One that has none of them has no bars, which gnuplot takes for an error.
		jq -e --arg p "${program%%:*}" --arg test "$4" --argjson size "$5" \
			'any(.cells[]; .program == $p and .test == $test and .size == $size)' "$out/bench.json" >/dev/null || continue
		plot+="${plot:+, }'$work/bars' using $((2 * i)):xtic(1) lt $i title '${program#*:}$([[ $i$1 != 1bandwidth ]] ||
			echo '; same host: handed over')'"
		bar_labels+=("$i")
	done
	# The labels of bars stand where the histogram draws them: groups are one apart, with a gap of two bars.
	n=${#bar_labels[@]}
	for i in "${bar_labels[@]}"; do
		plot+=", '$work/bars' using (\$0 + ($at - ($n - 1) / 2.) / ($n + 2.)):$((2 * i)):$((2 * i + 1)) with labels font ',9' offset 0,0.5 notitle"
		at=$((at + 1))
	done
	draw "$1" "set title '$2'
set ylabel '$3'
set style data histograms
set style fill solid 0.8
${8:-set yrange [0:*]}
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
$byte_tics
set ylabel 'microseconds'" "select(.host == \"$host\" and .wait == \"poll\" and .test == \"latency\") | [.size, .rtt_us.p50 // empty]"
		curves percentiles_$host "Round trips of 64 B, polling; $text" "set logscale xy
set xlabel 'one of so many round trips takes longer'
set xtics ('2' 0.5, '10' 0.1, '100' 0.01, '1000' 0.001, '10 000' 0.0001, '100 000' 0.00001)
set xrange [0.9:0.000009] reverse
set ylabel 'microseconds'" "select(.host == \"$host\" and .wait == \"poll\" and .test == \"latency\" and .size == 64) | .rtt_us |
			select(.p99) | (\"p25:.75\", \"p50:.5\", \"p75:.25\", \"p90:.1\", \"p95:.05\", \"p99:.01\", \"p995:.005\", \"p999:.001\",
			\"p9999:.0001\", \"p99999:.00001\") as \$r | (\$r | split(\":\")) as \$p | [\$p[1], .[\$p[0]] // empty]"
		curves sweep_$host "Bandwidth one way, $((in_flight)) in flight, polling; $text" "set logscale xy
set xlabel 'bytes'
$byte_tics
set ylabel 'MB/s'" "select(.host == \"$host\" and .wait == \"poll\" and .test == \"bandwidth\") | [.size, .mb_per_s // empty]"
	done
	bars rate "64 B one way" "million messages/s" rate 64 rate_per_s 1000000
	bars bandwidth "1 MiB one way" "GB/s" bandwidth 1048576 mb_per_s 1000 "set logscale y"
	if [ -s "$work/many" ]; then
		for host in window/shm iwarp/soft; do
			jq -r --arg t $host '[.many[] | select(.transport == $t)] | sort_by(.clients)[] |
				"\(.clients) \(.calls_per_s) \(.connect_ms) \(.bytes_per_client / 1024)"' "$out/bench.json" \
				>"$work/many.${host#*/}"
		done
		draw many "set logscale xy
set xlabel 'clients'
set xtics (1, 2, 4, 8, 16, 32, 64)
set multiplot layout 1,3 title 'One server, many clients; 64 B, blocking'
set ylabel 'calls per second, all clients'
plot '$work/many.shm' using 1:2 with linespoints lw 2 title 'window/shm', '$work/many.soft' using 1:2 with linespoints lw 2 title 'iwarp/soft'
set ylabel 'milliseconds to connect all'
plot '$work/many.shm' using 1:3 with linespoints lw 2 title 'window/shm', '$work/many.soft' using 1:3 with linespoints lw 2 title 'iwarp/soft'
set ylabel 'KiB of memory per client'
plot '$work/many.shm' using 1:4 with linespoints lw 2 title 'window/shm', '$work/many.soft' using 1:4 with linespoints lw 2 title 'iwarp/soft'
unset multiplot" 1350,500
	fi
}
