#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The results of scripts/bench: medians by placement, CSV, tables, pictures, and its part of the
# README. The test invents the measurements.
name=tools/test_bench
# shellcheck source=lib.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
bench=$(cd "${srcdir:-.}" && pwd)/bench
if ! command -v jq >/dev/null 2>&1; then
	skip "jq is not installed"
	finish
fi

# cell PROGRAM PLACEMENT ROUND P50: one line as bench/cells.sh writes it.
cell() {
	printf '{"program":"%s","host":"shm","wait":"poll","test":"latency","size":64,' "$1"
	printf '"placement":"%s","round":%s,"rtt_us":{"p50":%s}}\n' "$2" "$3" "$4"
}
{
	cell ripc near 1 1.5
	cell ripc near 2 0.5
	cell ripc near 3 1
	cell ucx near 1 2
	cell ucx near 2 4
	cell ripc far 1 9
	cell mpi far 1 8
	cell zmq mixed 1 7
	for m_line in ripc:3 ucx:5; do
		cell "${m_line%:*}" mixed 1 "${m_line#*:}" | sed 's/"size":64/"size":1024/'
	done
	printf %s '{"program":"ripc","host":"shm","wait":"poll","test":"rate","size":64,'
	echo '"placement":"near","round":1,"rate_per_s":2500000,"mb_per_s":160}'
	cell ripc near 1 0.7 | sed 's/"poll"/"adaptive"/'
	cell zmq near 1 70 | sed 's/"poll"/"block"/'
	for m_rate in 100 300; do
		cell ucx near 1 0 |
			sed 's/"latency"/"rate"/; s/"rtt_us".*/"rate_per_s":'"$m_rate}/"
	done
} >"$work/results"
echo '{"program":"nng","host":"tcp","wait":"block","test":"rate","reason":"no such thing"}
{"program":"mpi","host":"shm","wait":"poll","test":"latency","size":"8","reason":"slow"}
{"program":"mpi","host":"shm","wait":"poll","test":"latency","size":"1024","reason":"slow"}
{"program":"ucx","host":"shm","wait":"poll","test":"latency","size":"64","reason":"once"}' \
	>"$work/failed"
echo '{"transport":"shm","wait":"block","clients":2,"connect_ms":5,"bytes_per_client":2048,
	"calls_per_s":100,"unevenness_percent":3,
	"alone_us":{"p50":1,"p99":2},"flooded_us":{"p50":0,"p99":0},"flood_per_s":7}' |
	tr -d '\n' >"$work/many"
for m_case in on:false:1 off:false:200.4 on:true:80.25 off:true:301; do
	IFS=: read -r m_mapped m_read m_us <<<"$m_case"
	echo "{\"handover\":\"$m_mapped\",\"read\":$m_read,\"placement\":\"near\",\"rtt_us\":{
		\"1048576\":{\"p50\":$m_us,\"count\":10,\"mapped\":9},
		\"4194304\":{\"p50\":$((${m_us%.*} * 4)),\"count\":10,\"mapped\":6}}}"
done >"$work/handover"
echo '{"command":"scripts/bench","date":"2026-11-21T00:00:00Z","cpu":"A CPU","cpus":2,
	"kernel":"6","rounds":3,"discarded":1,"line_us":0.1,"versions":{"libripc":"1","UCX":"2"},
	"left_out":["perftest: no device"],"commands":["UCX: so"],
	"zero_copy":"| in place |\n|---|\n| 98 of 100 |"}' >"$work/about"
mkdir "$work/out" "$work/top"
printf 'before\n<!-- figures: begin (text) -->\nstale\n<!-- figures: end -->\nafter\n' \
	>"$work/top/README.md"

report() {
	# shellcheck disable=SC2034
	out=$work/out
	cd "$work/top" || return 1
	# shellcheck source=../../bench/report.sh
	. "$bench/report.sh"
	# shellcheck source=../../bench/calls.sh
	. "$bench/calls.sh"
	report_json && report_csv && report_md && report_readme && report_readme
}
(report) >"$work/log" 2>&1
rc=$?
if [ $rc -eq 0 ] && [ ! -s "$work/log" ]; then
	ok "the report is made"
else
	bad "the report is made" "$work/log"
fi

# is WHAT FILTER VALUE: of the JSON.
is() {
	i_value=$(jq -r "$2" "$work/out/bench.json" 2>&1)
	if [ "$i_value" = "$3" ]; then
		ok "$1"
	else
		bad "$1: $i_value, not $3"
	fi
}
is "a median of three" '.cells[] | select(.program == "ripc" and .wait == "poll" and
	.test == "latency" and .placement == "near").rtt_us.p50' 1
is "a median of two is the better one: of times" \
	'.cells[] | select(.program == "ucx" and .test == "latency" and .size == 64).rtt_us.p50' 2
is "and of rates" '.cells[] | select(.program == "ucx" and .test == "rate").rate_per_s' 300
is "placements are kept apart" \
	'.cells[] | select(.placement == "far" and .program == "ripc").rtt_us.p50' 9
is "how many runs there were" \
	'.cells[] | select(.program == "ucx" and .test == "latency" and .size == 64).runs' 2
is "what failed has its reason" '.failed[] | select(.program == "nng").reason' "no such thing"
is "what another round measured has not failed" '.failed | map(.program) | join(" ")' "mpi nng"
has "CSV has a row for a figure" "$work/out/bench.csv" \
	'^"shm","poll","latency",64,"ucx","near",2,"rtt_us.p50",2$'
has "CSV names its columns" "$work/out/bench.csv" \
	'^"host","wait","test","bytes","program","placement","runs","figure","value"$'
has "the best of a row is bold" "$work/out/report.md" \
	'^| round trip of 64 B, us | \*\*1\*\* | 2 | - |'
has "millions are readable" "$work/out/report.md" '^| 64 B one way, messages/s | \*\*2.5 M\*\* |'
has "the other placement is there, too" "$work/out/report.md" \
	'^| round trip of 64 B, us | 9 | - | - | \*\*8\*\* | - |'
has "and what was moved" "$work/out/report.md" '^| Medians (cache line: mixed)'
has "among that nothing is the best" "$work/out/report.md" '^| 1 KiB, us | 3 | 5 | - |'
has "what lay in place" "$work/out/report.md" '^| 98 of 100 |$'
has "what was left out is named" "$work/out/report.md" '^- perftest: no device$'
has "what failed is named" "$work/out/report.md" '^- nng, tcp, block, rate: no such thing$'
has "with its sizes" "$work/out/report.md" '^- mpi, shm, poll, latency, 8, 1024 bytes: slow$'
has "many clients; none of the calls came through" "$work/out/report.md" \
	'^| 2 | shm | 5 | 2 | 100 | 3 | 1 / 2 | not one call |$'
# scripts/bench --draw has bench.json only.
cp "$work/out/report.md" "$work/report.whole"
(work=$work/empty && mkdir "$work" && out=${work%/*}/out && . "$bench/report.sh" &&
	. "$bench/calls.sh" && report_md)
if cmp "$work/report.whole" "$work/out/report.md" >"$work/log" 2>&1; then
	ok "drawn again from bench.json, the report is the same"
else
	bad "drawn again from bench.json, the report is the same" "$work/log"
fi
has "the README has the table, filled with what there is, and marked" "$work/top/README.md" \
	'^| round trip of 64 B, us | \*\*1\*\* | 2 | - | 8 (far) | 7 (mixed) | - | - |$'
has "by default each program waits in its own way" "$work/top/README.md" \
	'^| round trip of 64 B, us | \*\*0.7\*\* | 2 | - | 8 (far) | 70 | - | - |$'
has "mapped messages have a table of their own" "$work/top/README.md" \
	'^| 1 MiB | 1 | 200 | 80.25 | 301 |$'
has "with the share of those that were mapped" "$work/out/report.md" \
	'^| 4 MiB | 4 (60 % mapped) | 800 | 320 (60 % mapped) | 1204 |$'
if grep -q '4 MiB' "$work/out/report.md" && ! grep -q '4 MiB' "$work/top/README.md"; then
	ok "the README shows some sizes of it, the report all"
else
	bad "the README shows some sizes of it, the report all" "$work/top/README.md"
fi
if awk 'length > 100 { print; long = 1 } END { exit !long }' "$work/top/README.md"; then
	bad "lines of the README have at most 100 columns"
else
	ok "lines of the README have at most 100 columns"
fi
if [ "$(sed -n '1p;$p' "$work/top/README.md" | tr '\n' ' ')" = "before after " ] &&
	! grep -q stale "$work/top/README.md" &&
	[ "$(grep -c 'figures: ' "$work/top/README.md")" -eq 2 ] &&
	[ "$(grep -c '^| round trip of 64 B' "$work/top/README.md")" -eq 2 ]; then
	ok "and nothing else of it has changed, nor does it grow the second time"
else
	bad "and nothing else of it has changed, nor does it grow the second time" \
		"$work/top/README.md"
fi

# Pictures of the same figures, checked by the input of gnuplot.
if command -v gnuplot >/dev/null 2>&1; then
	drawn() {
		# shellcheck disable=SC2034
		out=$work/out in_flight=8
		# shellcheck source=../../bench/pictures.sh
		. "$bench/pictures.sh"
		# shellcheck source=../../bench/lib.sh
		. "$bench/lib.sh"
		# shellcheck source=../../bench/lab_report.sh
		. "$bench/lab_report.sh"
		for m_size in 64K 1M; do
			for m_curve in rxe_bw:80 siw_bw:90 pf_siw_read:95 pf_siw_write:94 \
				tcp_bw:450; do
				echo "${m_curve#*:}" >"$work/${m_curve%:*}_$m_size.runs"
			done
		done
		pictures && lab_pictures
	}
	(drawn) >"$work/log" 2>&1
	rc=$?
	if [ $rc -eq 0 ] && [ ! -s "$work/log" ]; then
		ok "the pictures are drawn"
	else
		bad "the pictures are drawn" "$work/log"
	fi
	for m_picture in latency_shm rate many lab_bandwidth_siw; do
		if [ -s "$work/out/$m_picture.svg" ]; then
			ok "there is $m_picture"
		else
			bad "there is $m_picture"
		fi
	done
	has "a name with _ stands in the legend as it is" "$work/out/lab_bandwidth_siw.svg" \
		'>ib_read_bw<'
	if grep -l '\\\\' "$work/out"/*.svg >"$err"; then
		bad "no picture has a backslash" "$err"
	else
		ok "no picture has a backslash"
	fi
	# The first figure is ours, and has the first colour everywhere.
	if [ -z "$(grep -L '#0072B2\|rgb( *0, *114, *178)' "$work/out"/*.svg)" ]; then
		ok "all pictures have the same colours"
	else
		grep -L '#0072B2\|rgb( *0, *114, *178)' "$work/out"/*.svg >"$err"
		bad "all pictures have the same colours" "$err"
	fi
fi
# An axis is as long as the data, with tics that people read.
# shellcheck source=../../bench/pictures.sh
. "$bench/pictures.sh"
printf '# near\n65536 90\n1048576 450\n' >"$work/axis"
if [ "$(log_axis y 2 "$work/axis" | paste -sd ' ')" = \
	"set logscale y set yrange [60:675] set ytics (100, 200, 500)" ] &&
	[ "$(byte_axis 1 "$work/axis" | sed -n 2,3p | paste -sd ' ')" = "set xrange $(
	)[54613.3:1.25829e+06] set xtics (\"64 Ki\" 65536, \"128 Ki\" 131072, $(
	)\"256 Ki\" 262144, \"512 Ki\" 524288, \"1 Mi\" 1048576)" ]; then
	ok "an axis is as long as the data"
else
	bad "an axis is as long as the data: $(log_axis y 2 "$work/axis") $(byte_axis 1 \
		"$work/axis")"
fi

# Single cells: with an invented program, and a file that lists the placement found by each check.
# shellcheck source=../../bench/cells.sh
. "$bench/cells.sh"
place() {
	sed -n 1p "$work/places"
	sed -i 1d "$work/places"
}
cell_made_up() {
	echo "{\"size\":$4,\"shorter\":$shorter}"
}
# shellcheck disable=SC2034
round=1
# cells WHAT GIVE_UP "PLACES" "PLACEMENT SHORTER" DISCARDED: what is kept of a cell if the looks see
# these places.
cells() {
	rm -f "$work/results"
	tr ' ' '\n' <<<"$3" >"$work/places"
	# shellcheck disable=SC2034
	next='' give_up=$2 discarded=0
	cell made_up shm poll latency 64
	c_kept=$(jq -r '"\(.placement) \(.shorter)"' "$work/results" | xargs)
	if [ "$c_kept" = "$4" ] && [ "$discarded" = "$5" ]; then
		ok "$1"
	else
		bad "$1: $c_kept, $discarded discarded"
	fi
}
later=$((SECONDS + 600))
cells "once where nothing moves" $later "far far" "far 1" 0
cells "again, shorter, after a move" $later "near far far" "far 2" 1
cells "again until it stays" $later "near far near near" "near 4" 2
cells "kept as mixed after the third" $later "near far near far" "mixed 4" 2
cells "no second try when time is up" 0 "near far" "mixed 1" 0

# Mapped messages: all ways of one placement, or the set is measured again.
mkdir -p "$work/build/bench"
cat >"$work/build/bench/handover" <<'SH'
#!/bin/sh
echo "{\"65536\":{\"p50\":1,\"of\":\"$RIPC_HANDOVER $4\"}}"
SH
chmod +x "$work/build/bench/handover"
rm -f "$work/handover"
printf '%s\n' near far near near >"$work/places"
# shellcheck disable=SC2034
build=$work/build client_cpu=0 server_cpu=1 discarded=0 give_up=$later left_out=()
# The last word of its command is empty or "read".
handover_cells 10
h_kept=$(jq -r '"\(.placement) \(.handover) \(.read) \(.rtt_us["65536"].of)"' "$work/handover" |
	sed 's/ *$//' | paste -sd ';')
if [ "$discarded" -eq 4 ] && [ "$h_kept" = "near on false on;near off false off;$(
	)near on true on read;near off true off read" ]; then
	ok "mapped messages are measured in one placement, again after a move"
else
	bad "mapped messages are measured in one placement, again after a move: $h_kept, $discarded"
fi

# Incomplete rows: ucx of 64 bytes was measured near only, and ucx of 1024 bytes while the scheduler
# moved the processes.
cell_ucx() { cell_made_up "$@"; }
{
	for m_size in 64 1024; do
		for m_program in ripc:far mpi:far ofi:far ucx:near; do
			[ $m_size$m_program != 1024ucx:near ] || m_program=ucx:mixed
			echo "{\"program\":\"${m_program%:*}\",\"host\":\"shm\",\"wait\":\"poll\",
				\"test\":\"latency\",\"size\":$m_size,
				\"placement\":\"${m_program#*:}\",\"round\":1}"
		done
	done
	printf %s '{"program":"ucx","host":"shm","wait":"poll","test":"latency","size":8,'
	echo '"placement":"near","round":1}'
} >"$work/results"
lacking=$(gaps | xargs -d '\n' -n 1 | paste -sd ';')
if [ "$lacking" = \
	"far ucx shm poll latency 64;far ucx shm poll latency 1024;$(
	)near mpi shm poll latency 64;near ofi shm poll latency 64;$(
	)near ripc shm poll latency 64;near mpi shm poll latency 1024;$(
	)near ofi shm poll latency 1024;near ripc shm poll latency 1024;$(
	)near ucx shm poll latency 1024" ]; then
	ok "what rows lack, in each placement, those first that lack least"
else
	bad "what rows lack, in each placement, those first that lack least: $lacking"
fi
cp "$work/results" "$work/whole"
for m_cell in poll:near adaptive:far; do
	echo "{\"program\":\"ripc\",\"host\":\"shm\",\"wait\":\"${m_cell%:*}\",\"test\":\"latency\",
		\"size\":64,\"placement\":\"${m_cell#*:}\",\"round\":1}"
done >"$work/results"
if [ "$(gaps | xargs -d '\n' -n 1 | paste -sd ';')" = \
	"near ripc shm adaptive latency 64;far ripc shm poll latency 64" ]; then
	ok "adaptive waiting is compared with polling: both are measured in one placement"
else
	bad "adaptive waiting is compared with polling: $(gaps)"
fi
mv "$work/whole" "$work/results"
# The processors are near at the first look, and far from then on: what is begun near ends far.
cell_mpi() { cell_made_up "$@"; }
{
	echo near
	yes far | head -n 20
} >"$work/places"
# shellcheck disable=SC2034
next='' give_up=0 discarded=0 filled=0
fill
if [ "$filled" -eq 0 ]; then
	ok "nothing is measured once more when time is up"
else
	bad "nothing is measured once more when time is up: $filled"
fi
# shellcheck disable=SC2034
give_up=$later
fill
if [ "$filled" -eq 3 ] && [ -z "$(gaps)" ]; then
	ok "is measured once more, until each row is whole in one placement"
else
	bad "is measured once more, until each row is whole in one placement: $filled, $(gaps)"
fi
# A cell that is moved each time is given up.
cell_ripc() { cell_made_up "$@"; }
cell_ofi() { cell_made_up "$@"; }
jq -c 'select(.program != "ucx")' "$work/results" >"$work/others" &&
	mv "$work/others" "$work/results"
printf %s '{"program":"ucx","host":"shm","wait":"poll","test":"latency","size":64,' \
	'"placement":"mixed","round":1}' >>"$work/results"
# shellcheck disable=SC2034
next='' filled=0 discarded=0
yes "far near" | tr ' ' '\n' | head -n 400 >"$work/places"
fill
if [ "$filled" -eq 0 ] && [ "$discarded" -gt 0 ] && [ -s "$work/places" ] &&
	[ $SECONDS -lt $later ]; then
	ok "what is moved each time is given up"
else
	bad "what is moved each time is given up: $filled"
fi
# The filling of gaps ends if only far cells are missing while the processors stay near, and if the
# placement is unknown.
for m_program in ripc:near ucx:far; do
	echo "{\"program\":\"${m_program%:*}\",\"host\":\"shm\",\"wait\":\"poll\",
		\"test\":\"latency\",\"size\":64,
		\"placement\":\"${m_program#*:}\",\"round\":1}"
done >"$work/results"
cell_ucx() { because "it does not run"; }
yes near | head -n 2000 >"$work/places"
# shellcheck disable=SC2034
next='' filled=0 idle_s=1
fill
if [ "$filled" -eq 0 ] && [ $SECONDS -lt $later ] && [ -n "$(gaps)" ] && [ -s "$work/places" ]; then
	ok "what cannot be measured is not waited for, nor counted"
else
	bad "what cannot be measured is not waited for, nor counted: $filled, $(gaps)"
fi
yes unknown | head -n 2 >"$work/places"
# shellcheck disable=SC2034
next='' idle_s=600
fill
if [ $SECONDS -lt $later ] && [ "$(wc -l <"$work/places")" -eq 1 ]; then
	ok "nothing is measured once more where the placement is not known"
else
	bad "nothing is measured once more where the placement is not known"
fi
# UCX counts half a round trip, and the median of the last round trips only.
mkdir "$work/bin"
cat >"$work/bin/ucx_perftest" <<'SH'
#!/bin/sh
# usage: as the real one; the middle of its line of figures is in $UCX_FINAL.
[ "$1" = 127.0.0.1 ] && echo "Final: 100000 $UCX_FINAL 100.00 100.00 1000000 1000000"
exit 0
SH
chmod +x "$work/bin/ucx_perftest"
# ucx WHAT FINAL LINE: what becomes of its line of figures.
ucx() {
	# shellcheck source=../../bench/cells.sh
	u_line=$(
		PATH=$work/bin:$PATH UCX_FINAL=$2
		export PATH UCX_FINAL
		. "$bench/cells.sh"
		. "$bench/lib.sh"
		listening() { :; }
		less=1 client_cpu=0 server_cpu=0
		cell_ucx shm poll latency 64
	)
	if [ "$u_line" = "$3" ]; then
		ok "$1"
	else
		bad "$1: $u_line"
	fi
}
ucx "UCX: a round trip is twice its latency" "0.190 0.200 0.200" \
	'{"size":64,"rtt_us":{"p50":0.380,"mean":0.400}}'
ucx "UCX: processors that were moved during the run" "0.600 0.200 0.200" \
	'{"size":64,"rtt_us":{"p50":1.200,"mean":0.400},"moved":true}'
cell_made_up() {
	echo "{\"size\":$4,\"shorter\":$shorter,\"moved\":true}"
}
cells "a cell that says so itself is mixed" $later "near near near near near near" "mixed 4" 2

# A program that exceeds the time limit is reported.
rm -f "$work/reason" "$work/failed"
# shellcheck disable=SC2034
less=1 next=near
ours() { return 124; }
# cell_ripc as it is.
# shellcheck source=../../bench/cells.sh
. "$bench/cells.sh"
cell ripc shm poll latency 64
if [ "$(jq -r '"\(.reason), \(.size)"' "$work/failed")" = "not finished in 30 s, 64" ]; then
	ok "a cell that was ended says so"
else
	bad "a cell that was ended says so" "$work/failed"
fi
finish
