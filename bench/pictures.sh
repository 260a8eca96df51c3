# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Pictures by gnuplot: functions shared by all scripts (draw, its colours, ranges and tics), and the
# pictures of scripts/bench from $out/bench.json: latency_*, percentiles_*, sweep_*, bandwidth, rate
# and many. Each program is shown in the placement of the processors with most of its figures; the
# legend names the placement if most programs have another one. TERMINAL=png for another format. A
# script sets work (a directory of its own) and out.
terminal=${TERMINAL:-svg}
names=(ripc:libripc ucx:UCX ofi:libfabric mpi:"Open MPI" zmq:ZeroMQ nng:NNG plain:"plain TCP")

# draw NAME COMMANDS [SIZE]: runs gnuplot. Texts are literal (noenhanced): "_" is no subscript.
draw()
{
	local colour i=0 kind=svg options="dynamic background 'white'"
	[ "$terminal" != png ] || { kind=pngcairo options=''; }
	{
		echo "set terminal $kind size ${3:-900,540} noenhanced font 'sans,13' $options"
		echo "set output '$out/$1.$terminal'"
		# Colours distinguishable with colour blindness, and points for readers without
		# colours.
		for colour in 0072B2 D55E00 009E73 CC79A7 E69F00 56B4E9 000000 888888; do
			i=$((i + 1))
			echo "set linetype $i lc rgb '#$colour' pt $((i + 3))"
		done
		echo "set grid
			set key below horizontal
			set xlabel offset 0,0.5
			set bmargin 7"
		echo "$2"
	} | gnuplot 2>"$work/gnuplot" ||
		{ echo "picture $1: $(tail -n 2 "$work/gnuplot")" >&2; return 1; }
}

# log_axis AXIS COLUMN FILE...: settings for a logarithmic axis over the range of the data; the
# default of gnuplot ends at full decades. Tics at 1, 2 and 5 if it has less than three decades.
log_axis()
{
	local axis=$1 column=$2
	shift 2
	awk -v axis="$axis" -v c="$column" '
		/^#/ || $c + 0 <= 0 { next }
		!n++ || $c < min { min = $c + 0 }
		$c > max { max = $c + 0 }
		END {
			if (!n)
				exit
			min /= axis == "x" ? 1.2 : 1.5
			max *= axis == "x" ? 1.2 : 1.5
			printf "set logscale %s\nset %srange [%g:%g]\n", axis, axis, min, max
			if (axis == "x" || max / min >= 1000)
				exit
			for (k = -9; k < 12; k++)
				for (d = 1; d <= 5; d += d == 1 ? 1 : 3) {
					tic = d * 10 ^ k
					if (tic >= min && tic <= max)
						tics = tics (tics ? ", " : "") sprintf("%g", tic)
				}
			printf "set %stics (%s)\n", axis, tics
		}' "$@"
}

# byte_axis COLUMN FILE...: settings for an x axis of sizes with tics such as "64 Ki", within the
# range of the data: tics outside it would make the axis longer.
byte_axis()
{
	local column=$1
	shift
	log_axis x "$column" "$@"
	awk -v c="$column" '
		/^#/ || $c + 0 <= 0 { next }
		!n++ || $c < min { min = $c + 0 }
		$c > max { max = $c + 0 }
		END {
			step = max / min > 1000 ? 8 : 2
			for (b = 8; b <= 2 ^ 30; b *= step) {
				if (b < min || b > max)
					continue
				text = b
				if (b >= 2 ^ 20)
					text = b / 2 ^ 20 " Mi"
				else if (b >= 1024)
					text = b / 1024 " Ki"
				tics = tics (tics ? ", " : "") sprintf("\"%s\" %d", text, b)
			}
			printf "set xtics (%s)\nset xlabel \"bytes\"\n", tics
		}' "$@"
}

# points PROGRAM FILTER: prints "# PLACEMENT" (empty if it is that of most programs), then a line
# "x y" for each cell that FILTER, an expression of jq, turns into a pair.
points()
{
	jq -r --arg program "$1" '
		[.cells[] | . as $c | ('"$2"') as $xy |
			{p: $c.program, place: $c.placement, size: $c.size, $xy}] as $all |
		def most: group_by(.place) | max_by([.[0].place != "mixed", length]);
		# The placement with figures of most programs, then with most figures.
		([$all | group_by(.place)[] | {place: .[0].place, n: ([.[].p] | unique | length),
			all: length}] |
			max_by([.place != "mixed", .n, .all, .place == "near"]) | .place) as $here |
		[$all[] | select(.p == $program)] | if length == 0 then empty else . as $mine |
			([$mine[] | select(.place == $here)] as $same |
				if ($same | length) * 2 >= ($mine | most | length) then $same
				else ($mine | most) end) |
			"# \(if .[0].place == $here then "" else .[0].place end)",
			(sort_by(.size)[] | "\(.xy[0]) \(.xy[1])") end' "$out/bench.json"
}

# curves NAME TITLE X Y SETTINGS FILTER: one picture with a curve for each program that has
# points. X and Y are bytes, log or linear.
curves()
{
	local name=$1 program i=0 plot='' place files=() axes=''
	for program in "${names[@]}"; do
		i=$((i + 1))
		points "${program%%:*}" "$6" >"$work/points.$i"
		[ -s "$work/points.$i" ] || continue
		files+=("$work/points.$i")
		place=$(sed -n '1s/^# *//p' "$work/points.$i")
		plot+="${plot:+, }'$work/points.$i' using 1:2 with linespoints"
		plot+=" lw $((i == 1 ? 4 : 2)) ps 0.8 lt $i"
		plot+=" title '${program#*:}${place:+ ($place)}'"
	done
	[ -n "$plot" ] || return 0
	case $3 in
	bytes) axes=$(byte_axis 1 "${files[@]}") ;;
	log) axes=$(log_axis x 1 "${files[@]}") ;;
	esac
	if [ "$4" = log ]; then
		axes+=$'\n'$(log_axis y 2 "${files[@]}")
	else
		axes+=$'\nset yrange [0:*]'
	fi
	draw "$name" "set title '$2'
$axes
$5
plot $plot"
}

# bars NAME TITLE UNIT TEST SIZE FIELD SCALE [log]: groups of bars. Each host and wait has a group,
# each program with a figure there a bar, labelled with its value and with its placement if that is
# not the one of the group.
bars()
{
	local program i=0 plot='' axis='set yrange [0:*]' tics
	jq -r --arg test "$4" --argjson size "$5" --arg field "$6" --argjson scale "$7" '
		[.cells[] | select(.test == $test and .size == $size and (.[$field] |
			type) == "number")] as $cells |
		["ripc", "ucx", "ofi", "mpi", "zmq", "nng", "plain"] as $programs |
		def show: if . >= 10 then round elif . >= 1 then (. * 10 | round / 10)
			else (. * 100 | round / 100) end;
		[["shm", "poll", "same host, polling"], ["shm", "block", "same host, asleep"],
			["tcp", "poll", "TCP, polling"], ["tcp", "block", "TCP, asleep"]] |
		reduce .[] as [$host, $wait, $text] ({x: 0, lines: []};
			[$cells[] | select(.host == $host and .wait == $wait)] as $group |
			([$group | group_by(.placement)[] | {place: .[0].placement, n: length}] |
				max_by([.place != "mixed", .n, .place == "near"]) |
					.place // "near") as $here |
			[$programs[] as $p | [([$here, "near", "far", "mixed"][] as $place |
				$group[] |
				select(.program == $p and .placement == $place))][0] |
					select(.)] as $bars |
			if $bars == [] then . else .x as $x |
				.lines += [range($bars | length) as $k | $bars[$k] |
					(.[$field] / $scale) as $value |
					"\(.program) \($x + $k) \($value) \"\($value | show)\(
						if .placement == $here then "" else
							" (\(.placement))" end)\""] |
				(($x + (($bars | length) - 1) / 2) | tostring) as $at |
				.lines += ["tic \($at) 0 \"\($text)\""] |
				.x += ($bars | length) + 1 end) |
					.lines[]' "$out/bench.json" >"$work/bars"
	[ -s "$work/bars" ] || return 0
	for program in "${names[@]}"; do
		i=$((i + 1))
		grep "^${program%%:*} " "$work/bars" >"$work/bars.$i" || continue
		plot+="${plot:+, }'$work/bars.$i' using 2:3 with boxes lt $i title '${program#*:}'"
		plot+=", '' using 2:3:4 with labels font ',10' offset 0,0.6 notitle"
	done
	tics=$(sed -n 's/^tic \([^ ]*\) 0 \(".*"\)$/\2 \1/p' "$work/bars" | paste -sd ,)
	[ "${8:-}" != log ] || axis=$(grep -v '^tic' "$work/bars" | log_axis y 3)
	draw "$1" "set title '$2'
set ylabel '$3'
set boxwidth 0.9
set style fill solid 0.8
set xtics ($tics) scale 0
set xrange [-1:$(awk '$1 != "tic" { x = $2 } END { print x + 1 }' "$work/bars")]
set grid noxtics
$axis
plot $plot"
}

pictures()
{
	local host text
	for text in {latency,percentiles,sweep}_{shm,tcp} rate bandwidth many; do
		rm -f "$out/$text.$terminal"
	done
	for host in shm tcp; do
		text=$([ $host = shm ] && echo "same host" || echo "TCP, loopback")
		curves latency_$host "Round trip, median, polling; $text" bytes log \
			"set ylabel 'microseconds'" \
			"select(.host == \"$host\" and .wait == \"poll\" and
				.test == \"latency\") | [.size, .rtt_us.p50 // empty]"
		curves percentiles_$host "Round trips of 64 B, polling; $text" linear log \
			"set logscale x
set xlabel 'one of so many round trips takes longer'
set xtics ('2' 0.5, '10' 0.1, '100' 0.01, '1000' 0.001, '10 000' 0.0001, '100 000' 0.00001)
set xrange [0.9:0.000009] reverse
set ylabel 'microseconds'" "select(.host == \"$host\" and .wait == \"poll\" and
			.test == \"latency\" and .size == 64) | .rtt_us | select(.p99) |
			(\"p25:.75\", \"p50:.5\", \"p75:.25\", \"p90:.1\", \"p95:.05\", \"p99:.01\",
			\"p995:.005\", \"p999:.001\", \"p9999:.0001\", \"p99999:.00001\") as \$r |
			(\$r | split(\":\")) as \$p | [\$p[1], .[\$p[0]] // empty]"
		curves sweep_$host "Bandwidth one way, $((in_flight)) in flight, polling; $text" \
			bytes linear \
			"set ylabel 'MB/s'" \
			"select(.host == \"$host\" and .wait == \"poll\" and
				.test == \"bandwidth\") | [.size, .mb_per_s // empty]"
	done
	bars rate "64 B one way" "million messages/s (logarithmic)" rate 64 rate_per_s 1000000 \
		log
	bars bandwidth "1 MiB one way; all copy" "GB/s" bandwidth 1048576 mb_per_s 1000
	jq -e '.many != []' "$out/bench.json" >/dev/null || return 0
	# Stored figures may have the former name window/shm.
	for host in shm soft; do
		jq -r --arg t $host '[.many[] |
				select((.transport | sub(".*/"; "")) == $t)] | sort_by(.clients)[] |
			"\(.clients) \(.calls_per_s / 1000) \(.connect_ms) " +
			"\(.bytes_per_client / 1024)"' \
			"$out/bench.json" >"$work/many.$host"
	done
	# both COLUMN: the curves of the two transports.
	both()
	{
		echo "plot '$work/many.shm' using 1:$1 with linespoints lw 2 lt 1 title 'shm', \\
			'$work/many.soft' using 1:$1 with linespoints lw 2 lt 2 title 'iwarp/soft'"
	}
	draw many "set xtics (1, 2, 4, 8, 16, 32, 64)
set xlabel 'clients'
set bmargin 5
set multiplot layout 1,3 title 'One server, many clients; 64 B, blocking'
$(log_axis x 1 "$work"/many.{shm,soft})
set title 'thousand calls per second'
$(log_axis y 2 "$work"/many.{shm,soft})
$(both 2)
set title 'milliseconds to connect all'
$(log_axis y 3 "$work"/many.{shm,soft})
$(both 3)
set title 'KiB of memory per client'
$(log_axis y 4 "$work"/many.{shm,soft})
$(both 4)
unset multiplot" 1200,420
}
