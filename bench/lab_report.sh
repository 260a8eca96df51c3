# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The results of bench/lab.sh, as lab.json, lab.csv and pictures in $out. It needs the variables of
# bench/lib.sh, $work/NAME.runs with the figures boot by boot, and draw of bench/pictures.sh.

# lab_json COMMAND BOOTS: each figure with its unit, its runs and their median. The unit follows
# from the name.
lab_json()
{
	# One program for all of them: they are hundreds.
	compgen -G "$work/*.runs" >/dev/null || : >"$work/none.runs"
	awk '{ name = FILENAME; sub(/.*\//, "", name); sub(/\.runs$/, "", name); print name, $1 }' \
		"$work"/*.runs |
		jq -Rn --arg command "$1" --argjson boots "$2" --arg less "${LESS:-1}" \
		--arg date "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
			--arg version "$("$build/tools/ripc-perf" --version | awk '{ print $2 }')" \
			--argjson seconds $SECONDS '
			def median: sort | if length % 2 == 1 then .[length / 2 |
				floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
			def unit: if test("^seconds_") then "s" elif test("^r_|_times_") then
				"ratio"
				elif test("_bw_|^pf_(siw|rxe)_(read|write)_|^pf_file_") then
					"MB/s" else "us" end;
			{$command, $date, libripc: $version, guest: "2 emulated processors", $boots,
				counts_divided_by: ($less | tonumber), $seconds,
			figures: ([inputs | split(" ") | {name: .[0], value: (.[1] | tonumber)}] |
				group_by(.name) |
				map({(.[0].name): {unit: (.[0].name | unit), median: (map(.value) |
					median), runs: map(.value)}}) |
						add // {})}' >"$out/lab.json"
}

lab_csv()
{
	jq -r '["figure", "unit", "median", "runs"], (.figures | to_entries[] |
		[.key, .value.unit, .value.median, (.value.runs | length)]) |
			@csv' "$out/lab.json" >"$out/lab.csv"
}

# lab_bars: lines "TITLE|OURS|THEIRS" with the names of figures become groups of two bars; those
# that were not measured are left out.
lab_bars()
{
	local title ours theirs
	while IFS='|' read -r title ours theirs; do
		[ -s "$work/$ours.runs" ] || [ -s "$work/$theirs.runs" ] || continue
		echo "\"$title\" $(median "$ours" %.3f |
			sed 's/^-$/NaN/') $(median "$theirs" %.3f | sed 's/^-$/NaN/')"
	done >"$work/bars"
	[ -s "$work/bars" ]
}

# lab_curve NAME SIZE...: lines "BYTES VALUE" of figures NAME_SIZE.
lab_curve()
{
	local name=$1 size
	shift
	for size in "$@"; do
		[ ! -s "$work/${name}_$size.runs" ] ||
			echo "$(numfmt --from=iec "$size") $(median "${name}_$size" %.3f)"
	done >"$work/curve.$name"
	[ -s "$work/curve.$name" ]
}

# lab_curves NAME TITLE AXIS SETTINGS "SIZE ..." FIGURE:TITLE...: one picture; the y axis is log or
# linear.
lab_curves()
{
	local name=$1 title=$2 axis=$3 settings=$4 sizes=$5 plot='' i=0 curve files=()
	local range='set yrange [0:*]'
	shift 5
	for curve in "$@"; do
		i=$((i + 1))
		# The sizes are words.
		# shellcheck disable=SC2086
		lab_curve "${curve%%:*}" $sizes || continue
		files+=("$work/curve.${curve%%:*}")
		plot+="${plot:+, }'${files[-1]}' with linespoints"
		plot+=" lw $((i == 1 ? 4 : 2)) ps 0.8 lt $i title '${curve#*:}'"
	done
	[ -n "$plot" ] || return 0
	[ "$axis" != log ] || range="$(byte_axis 1 "${files[@]}")
$(log_axis y 2 "${files[@]}")"
	draw "$name" "set title '$title'
$settings
$range
plot $plot"
}

lab_pictures()
{
	local dev text title ours theirs
	rm -f "$out"/lab_*."$terminal"
	for text in UD,rxe:ud:pf_ud RC,rxe:rc:pf_rc siw,rdma:siw:pf_siw siw,udp:siwudp:udp; do
		IFS=: read -r title ours theirs <<<"$text"
		echo "${title/,/, }\n polling|${ours}_poll|${theirs}_poll"
		echo "${title/,/, }\n asleep|${ours}_block|${theirs}_block"
	done | lab_bars &&
		draw lab_latency "set title 'Round trip of 64 B, median, in a guest of the lab'
set ylabel 'microseconds'
set yrange [0:*]
set style data histograms
set style fill solid 0.8
set grid noxtics
plot '$work/bars' using 2:xtic(1) lt 1 title 'libripc', \\
	'' using 3 lt 2 title 'perftest; siw, udp: plain UDP'"
	for dev in siw rxe; do
		lab_curves lab_bandwidth_$dev \
			"Bandwidth over $dev, polling, in a guest of the lab" log \
			"set ylabel 'MB/s (logarithmic)'" "64K 256K 1M 4M 16M" ${dev}_bw:libripc \
			pf_${dev}_read:ib_read_bw pf_${dev}_write:ib_write_bw tcp_bw:"plain TCP"
	done
	for dev in short long; do
		text=$([ $dev = short ] && echo "Short messages" || echo "Long messages")
		lab_curves lab_pingpong_$dev "$text, round trip, polling, in a guest of the lab" \
			linear \
			"set xlabel 'bytes'
set ylabel 'microseconds'
set xrange [0:1450]" "$(seq -s ' ' 50 50 1400)" pp_${dev}_soft:"iwarp/soft" \
			pp_${dev}_siw:"siw, rdma" pp_${dev}_siwudp:"siw, udp" pp_${dev}_ib:rxe \
			pp_${dev}_soft_tcpblock:"TCP, blocking"
	done
}

# lab_runs: $work/NAME.runs as they were when lab.json was written, to draw its pictures again.
lab_runs()
{
	jq -r '.figures | to_entries[] | .key as $name | .value.runs[] | "\($name) \(.)"' \
		"$out/lab.json" |
		awk -v work="$work" '{ print $2 >work "/" $1 ".runs" }'
}
