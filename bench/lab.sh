#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# libripc on real RDMA drivers beside perftest and plain sockets: boots guests of the lab, runs
# bench/lab_guest.sh in each and prints Markdown tables of the medians. A guest runs in an emulator:
# only ratios within one boot are meaningful, not times.
#
# usage: bench/lab.sh [BUILD_DIR [BOOTS [PART...]]]     (default: the current directory, 3, all
#   parts)
#   MINUTES=30  for all boots. A figure for which a boot has no time is left to the other boots, and
#     listed at the end if they have none either
#   LESS=2      divides all counts; from 10 on also reduces the sizes, to try the script itself
#   OUT=DIR     also writes lab.json, lab.csv and pictures there, and the tables as lab.md
build=$(cd "${1:-.}" && pwd) || exit 1
boots=${2:-3}
shift $(($# < 2 ? $# : 2))
top=$(cd "$(dirname "$0")/.." && pwd)
[ -x "$build/tools/ripc-perf" ] ||
	{ echo "lab: $build/tools/ripc-perf is missing: run make in $build" >&2; exit 1; }
parts="short bandwidth long files pingpong others"
for part in "$@"; do
	[[ " $parts " == *" $part "* ]] || { echo "lab: $part: parts are $parts" >&2; exit 1; }
done
[[ ${LESS:-2} =~ ^[1-9][0-9]*$ ]] || { echo "lab: LESS=$LESS: a whole number from 1" >&2; exit 1; }
[[ $boots =~ ^[1-9][0-9]*$ ]] || { echo "lab: $boots boots: a whole number" >&2; exit 1; }
export LESS=${LESS:-2} BOOTS=$boots
[[ ${MINUTES:-30} =~ ^[1-9][0-9]*$ ]] || {
	echo "lab: MINUTES=$MINUTES: a whole number" >&2
	exit 1
}
# A guest stops measuring 60 s before its share ends, because the last measurement may take 30 s for
# its server and 30 s for its client.
share_s=$((${MINUTES:-30} * 60 / boots)) TIME=$((${MINUTES:-30} * 57 / boots - 60))
[ $TIME -gt 0 ] || { echo "lab: MINUTES=$MINUTES is not enough for $boots boots" >&2; exit 1; }
export TIME
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
# shellcheck source=lib.sh
. "$top/bench/lib.sh"

# The results of one boot, by name.
declare -A figures

# ratio NAME A B [C]: stores the ratio A / B, or C / (A x B), of this boot as a figure.
ratio()
{
	local a=${figures[$2]:-} b=${figures[$3]:-}
	[ -n "$a" ] && [ -n "$b" ] || return 0
	note "$1" "$(awk -v a="$a" -v b="$b" \
		-v c="${4:-}" 'BEGIN { if (a > 0 && b > 0) print c == "" ? a / b : c / (a * b) }')"
}

# least NAME A B: stores the smaller one.
least()
{
	local a=${figures[$2]:-} b=${figures[$3]:-}
	[ -z "$a" ] || [ -z "$b" ] ||
		figures[$1]=$(awk -v a="$a" -v b="$b" 'BEGIN { print a < b ? a : b }')
}

sizes="64K 256K 1M 4M 16M"
long="4K 16K 64K 256K 1M"
files="128K 1M 8M 80M"
begun=0
for ((boot = 1; boot <= boots; boot++)); do
	echo "lab: boot $boot of $boots" >&2
	rm -rf "$work/out" && mkdir "$work/out"
	"$top/tests/lab/run" --timeout $share_s --env LESS --env BOOTS --env TIME \
		--out "$work/out" "$top/bench/lab_guest.sh" "$build" "$@" 2>&1 |
		tee "$work/log" | grep --line-buffered -a '^lab_guest:' >&2
	rc=${PIPESTATUS[0]}
	# A guest that failed may have measured figures before.
	case $rc$([ ! -s "$work/out/figures" ] || echo -measured) in
	0*) ;;
	77 | 125)
		# Results of earlier boots are kept.
		tail -n 5 "$work/log" >&2
		[ "$begun" -gt 0 ] || exit "$rc"
		echo "boot $boot of $boots did not begin, and no other was tried: $(tail \
			-n 1 "$work/log" | cut -c1-160)" >>"$work/cut"
		break
		;;
	*)
		cut -c1-160 "$work/log" | tail -n 20 >&2
		# $work/out/parts names the part in progress and those not reached.
		echo "boot $boot of $boots ended with exit code $rc: $(tail -n 1 "$work/log" |
			cut -c1-160)$(
			sed 's/^/; not whole there: /;q' "$work/out/parts" \
				2>/dev/null)" | tee -a "$work/cut" >&2
		;;
	esac
	begun=$boot
	cat "$work/out/missed" >>"$work/missed" 2>/dev/null
	[ -s "$work/out/figures" ] || continue
	figures=()
	while read -r name value; do
		figures[$name]=$value
	done <"$work/out/figures"
	for wait in poll block; do
		for pair in ud:pf_ud rc:pf_rc siw:pf_siw siwudp:udp; do
			ratio "r_${pair%:*}_$wait" "${pair%:*}_$wait" "${pair#*:}_$wait"
		done
	done
	for name in ud rc siw; do
		ratio r_${name}w_poll ${name}_poll pf_${name}w_poll
	done
	for dev in siw rxe; do
		for size in $sizes; do
			ratio r_${dev}_read_"$size" ${dev}_bw_"$size" pf_${dev}_read_"$size"
			ratio r_${dev}_write_"$size" ${dev}_bw_"$size" pf_${dev}_write_"$size"
		done
		for size in $long; do
			least ref_${dev}_"$size" pf_${dev}_sendlat_"$size" \
				pf_${dev}_writelat_"$size"
			ratio r_${dev}_long_"$size" ${dev}_long_"$size" ref_${dev}_"$size"
			ratio r_${dev}_return_"$size" ${dev}_return_"$size" ref_${dev}_"$size"
		done
	done
	# A file: bytes / (microseconds x MB/s).
	for name in siw ib; do
		for size in $files; do
			ratio r_file_${name}_"$size" pf_file_${name}_"$size" file_${name}_"$size" \
				"$(numfmt --from=iec "$size")"
		done
	done
	for pair in ucx_rc_verbs:rc ucx_ud_verbs:ud uct_rc_verbs:rc uct_ud_verbs:ud fi_rxe:rc \
		fi_siw:siw rs_rxe:rc rs_siw:siw; do
		ratio "r_${pair%:*}" "${pair#*:}_poll" "${pair%:*}"
	done
	for kind in short long; do
		for name in soft siw siwudp ib; do
			for ((size = 50; size <= 1400; size += 50)); do
				ratio r_pp_${kind}_${name}_$size pp_${kind}_${name}_tcpblock_$size \
					pp_${kind}_${name}_$size
			done
		done
	done
	for name in "${!figures[@]}"; do
		note "$name" "${figures[$name]}"
	done
done

# measured PATTERN...: whether one of these figures was measured in any boot.
measured()
{
	local pattern
	for pattern in "$@"; do
		compgen -G "$work/$pattern.runs" >/dev/null && return 0
	done
	return 1
}

# runs NAME: in how many boots a figure was measured.
runs()
{
	[ -e "$work/$1.runs" ] && wc -l <"$work/$1.runs" || echo 0
}

# in_boots NAME: prints " (1 of 3 boots)" for a figure that some boots lack.
in_boots()
{
	local n
	n=$(runs "$1")
	[ "$n" -eq 0 ] || [ "$n" -ge "$boots" ] || echo " ($n of $boots boots)"
}

# against RATIO "<=|>= TARGET": prints the target, and whether the ratio meets it.
against()
{
	local v
	v=$(median "$1" %.4f)
	[ "$v" != - ] || { echo "$2"; return; }
	awk -v v="$v" -v op="${2%% *}" -v t="${2##* }" -v boots="$(in_boots "$1")" '
		BEGIN {
			met = op == "<=" ? v <= t + 0 : v >= t + 0
			print op " " t ": " (met ? "met" : "**missed**") boots
		}'
}

# row TEXT FIGURE REFERENCE RATIO [TARGET]
row()
{
	echo "| $1 | $(median "$2" %.1f) | $(median "$3" %.1f) | $(median "$4") | $(
		if [ -n "${5:-}" ]; then against "$4" "$5"; else in_boots "$4"; fi) |"
}

# of_sizes PREFIX TARGET [SIZES FEW]: prints how many sizes of the ping-pong reach the target, and
# the median of their ratios. The target is met if all SIZES (default: 28; with LESS from 10 on FEW,
# default: 3) were measured and reach it; one size below it is a miss.
of_sizes()
{
	local size
	for ((size = 50; size <= 1400; size += 50)); do
		median "$1_$size" %.4f
	done | grep -v '^-$' | sort -g | awk -v t="$2" \
		-v wanted="$([ "$LESS" -lt 10 ] && echo "${3:-28}" || echo "${4:-3}")" '
		{ v[NR] = $1; n += $1 >= t }
		END {
			if (!NR) { print "not measured"; exit }
			result = "met"
			if (NR < wanted)
				result = "not all measured"
			if (n < NR)
				result = "**missed**"
			printf "reached at %d of %d sizes%s, median %.2f x: %s\n", n, NR,
				NR < wanted ? " measured, " wanted " wanted" : "",
				v[int((NR + 1) / 2)], result
		}'
}

begun_text="$begun "
[ "$begun" -eq "$boots" ] || begun_text="$begun of $boots "
[ -z "${OUT:-}" ] || exec > >(tee "$OUT/lab.md")
echo "$(date -u \
	+%Y-%m-%d), lab guest with 2 emulated processors, libripc $("$build/tools/ripc-perf" \
	--version | awk '{ print $2 }')."
for part in $parts; do
	[ ! -s "$work/seconds_$part.runs" ] ||
		echo "lab: $part takes $(median "seconds_$part" %.0f) s of a boot" >&2
done
echo "Command: \`LESS=$LESS ${MINUTES:+MINUTES=$MINUTES }bench/lab.sh BUILD $boots${*:+ $*}\`;" \
	"medians of ${begun_text}boots, each ratio taken within its boot."
if measured ud_poll siw_poll rc_poll; then
	echo
	echo "| Round trip of 64 B, p50, us | libripc | reference | ratio | target |"
	echo "|---|---|---|---|---|"
	for wait in poll block; do
		row "UD on rxe, $wait; \`ib_send_lat -c UD\`" ud_$wait pf_ud_$wait r_ud_$wait \
			"<= 1.15"
		row "RC on rxe, $wait; \`ib_send_lat -c RC\`" rc_$wait pf_rc_$wait r_rc_$wait \
			"<= 1.15"
		row "siw, rdma, $wait; \`ib_send_lat -R\`" siw_$wait pf_siw_$wait r_siw_$wait \
			"<= 1.15"
		row "siw, udp, $wait; plain UDP" siwudp_$wait udp_$wait r_siwudp_$wait "<= 1.15"
		row "iwarp/soft, $wait" soft_$wait none none
	done
	row "UD on rxe, poll, reliable messages; short ones, in turns" udrel_poll udshort_poll \
		r_udrel_poll "<= 1.15"
	for pair in "ud:UD on rxe:\`ib_send_lat -c UD -s 116\`" \
		"rc:RC on rxe:\`ib_send_lat -c RC -s 68\`" \
		"siw:siw, rdma:\`ib_send_lat -R -s 68\`"; do
		name=${pair%%:*} pair=${pair#*:}
		row "${pair%:*}, poll; as many bytes as with our headers, ${pair#*:}" \
			"${name}_poll" "pf_${name}w_poll" "r_${name}w_poll"
	done
	row "UCX \`tag_lat\`, rc_verbs; RC on rxe" rc_poll ucx_rc_verbs r_ucx_rc_verbs "<= 1"
	row "UCX \`tag_lat\`, ud_verbs; UD on rxe" ud_poll ucx_ud_verbs r_ucx_ud_verbs "<= 1"
	row "UCX \`am_lat\`, rc_verbs, its lower layer alone; RC on rxe" rc_poll uct_rc_verbs \
		r_uct_rc_verbs
	row "UCX \`am_lat\`, ud_verbs, its lower layer alone; UD on rxe" ud_poll uct_ud_verbs \
		r_uct_ud_verbs
	row "libfabric \`verbs;ofi_rxm\`; RC on rxe" rc_poll fi_rxe r_fi_rxe "<= 1"
	row "libfabric \`verbs;ofi_rxm\`; siw, rdma" siw_poll fi_siw r_fi_siw "<= 1"
	row "rsocket, \`rstream\`; RC on rxe" rc_poll rs_rxe r_rs_rxe
	row "rsocket, \`rstream\`; siw, rdma" siw_poll rs_siw r_rs_siw
fi
if measured "siw_bw_*" "rxe_bw_*"; then
	echo
	echo "| Bandwidth, MB/s | libripc | \`read_bw\` | ratio | \`write_bw\` | ratio |" \
		"plain TCP, polling | target |"
	echo "|---|---|---|---|---|---|---|---|"
	for dev in siw rxe; do
		for size in $sizes; do
			measured "${dev}_bw_$size" "pf_${dev}_*_$size" || continue
			echo "| $dev, ${size}iB | $(median ${dev}_bw_"$size" %.1f) | $(median \
				pf_${dev}_read_"$size" %.1f) | $(
				median r_${dev}_read_"$size") | $(median pf_${dev}_write_"$size" \
					%.1f) | $(
				median r_${dev}_write_"$size") | $([ $dev = siw ] &&
					median tcp_bw_"$size" \
					%.1f) | $(against r_${dev}_read_"$size" ">= 0.9"); $(
				against r_${dev}_write_"$size" ">= 0.9") |"
		done
	done
fi
if measured "*_long_*K" "*_return_*"; then
	echo
	echo "| One at a time, round trip p50, us | \`ripc_send()\` | return buffers |" \
		"\`ib_send_lat\` | \`ib_write_lat\` | ratios to the faster one | target |"
	echo "|---|---|---|---|---|---|---|"
	for dev in siw rxe; do
		for size in $long; do
			measured "${dev}_long_$size" "ref_${dev}_$size" || continue
			echo "| $dev, ${size}iB | $(median ${dev}_long_$size %.0f) | $(median \
				${dev}_return_$size %.0f) | $(
				median pf_${dev}_sendlat_$size %.0f) | $(median \
				pf_${dev}_writelat_$size %.0f) | $(
				median r_${dev}_long_$size), $(median r_${dev}_return_$size) | $(
				against r_${dev}_long_$size "<= 1.25") |"
		done
	done
fi
if measured "file_*"; then
	echo
	echo "| File | soft ms (x TCP) | siw ms (x TCP) | \`read_bw\` | rxe ms (x TCP) |" \
		"\`read_bw\` | plain TCP ms |"
	echo "|---|---|---|---|---|---|---|"
	for size in $files; do
		measured "file_*_$size" || continue
		line="| ${size}iB"
		for name in soft siw ib; do
			line+=" | $(median "file_${name}_$size" %.0f |
				awk '{ print $1 == "-" ? $1 : $1 / 1000 }') ($(
				median "file_${name}_times_$size"))"
			[ $name = soft ] || line+=" | $(median "r_file_${name}_$size")"
		done
		echo "$line | $(median "file_siw_tcp_$size" %.0f |
			awk '{ print $1 == "-" ? $1 : $1 / 1000 }') |"
	done
	echo
	echo "Columns \`read_bw\`: the bandwidth of the transfer divided by that of" \
		"\`ib_read_bw\` at that size; target: 0.9."
	echo "The thesis was 1.95 and 2.97 times as fast as plain TCP."
fi
if measured "pp_*"; then
	for kind in short long; do
		measured "pp_${kind}_*" || continue
		echo
		echo "| Ping-pong, $kind, bytes | soft us (x TCP) | siw rdma | siw udp | rxe |" \
			"TCP blocking us |"
		echo "|---|---|---|---|---|---|"
		for ((size = 50; size <= 1400; size += 50)); do
			measured "pp_${kind}_*_$size" || continue
			line="| $size"
			for name in soft siw siwudp ib; do
				line+=" | $(median pp_${kind}_${name}_$size %.0f) ($(median \
					r_pp_${kind}_${name}_$size))"
			done
			echo "$line | $(median pp_${kind}_siw_tcpblock_$size %.0f) |"
		done
	done
	echo
	echo "Targets, over siw by rdma: short messages at least 2.6 x as fast as blocking TCP:" \
		"$(of_sizes r_pp_short_siw 2.6). Long ones 2.1 x:"
	echo "$(of_sizes r_pp_long_siw 2.1)." \
		"(The thesis: 2.58 to 2.85 x, 2.12 x; short ones by udp 1.88 x: here $(
			of_sizes r_pp_short_siwudp 1.88 22 2 | sed 's/: .*//').)"
	echo "In parentheses: how many times faster than blocking TCP sockets between the same" \
		"two processes. Polling TCP: $(median tcppoll_50 %.0f)," \
		"$(median tcppoll_700 %.0f), $(median tcppoll_1400 %.0f) us at 50, 700, 1400 B."
fi
# Figures that only some boots have, without those calculated from them (r_, ref_).
for name in "$work"/*.runs; do
	name=${name##*/} name=${name%.runs}
	[[ $name == r_* || $name == ref_* ]] || [ -z "$(in_boots "$name")" ] || echo "$name"
done | paste -sd, | sed 's/,/, /g' >"$work/some"
# The figures that no boot has, by reason, and the boots that ended early.
if [ -s "$work/missed" ] || [ -s "$work/cut" ] || grep -q . "$work/some"; then
	echo
	echo "Figures without a measurement, by their names in lab.csv:"
	echo
	sort -u "$work/missed" 2>/dev/null | while read -r name reason; do
		[ -s "$work/$name.runs" ] || echo "$reason|$name"
	done | sort -u | awk -F'|' '
		$1 != last { if (last != "") print "- " names ": " last; names = ""; last = $1 }
		{ names = names (names == "" ? "" : ", ") $2 }
		END { if (last != "") print "- " names ": " last }'
	sed 's/^/- /' "$work/cut" 2>/dev/null
	sed -n 's/^..*$/- In some of the boots only: &/p' "$work/some"
fi
[ -n "${OUT:-}" ] || exit 0
out=$OUT
# shellcheck source=pictures.sh
. "$top/bench/pictures.sh"
# shellcheck source=lab_report.sh
. "$top/bench/lab_report.sh"
lab_json "bench/lab.sh BUILD $boots${*:+ $*}" "$boots" && lab_csv && lab_pictures
rc=$?
# Ends tee.
exec >&-
wait
exit $rc
