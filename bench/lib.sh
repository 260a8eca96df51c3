# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Functions of the benchmarks: medians of figures over several runs, and ripc-perf with its server.
# A script sets perf (the program), work (a directory of its own), client_cpu and server_cpu, and
# sources this file. Optional: cell_s, the time limit of one measurement.
pids=()

stop()
{
	kill "$@" 2>/dev/null
	wait "$@" 2>/dev/null
}

# needs BUILD "COMMAND ..." "PACKAGE ..." PROGRAM...: checks that these commands, and these programs
# of the build tree, exist; prints the first missing one.
needs()
{
	local build=$1 commands=$2 packages=$3 program
	shift 3
	for program in $commands; do
		command -v "$program" >/dev/null ||
			{ echo "$program is missing: install $packages" >&2; return 1; }
	done
	for program in "$@"; do
		[ -x "$build/$program" ] ||
			{ echo "$build/$program is missing: run make in $build" >&2; return 1; }
	done
}

# place: prints the placement of the two processors by the round trip of a cache line between them:
# "near", "far" (from FAR_US=0.25 microseconds on) or "unknown". A script that uses it also sets
# build, the build tree.
place()
{
	# Without jq, whose start takes longer than the measurement.
	local text far_ns
	LC_ALL=C printf -v far_ns %.0f "${FAR_US:-0.25}e3"
	text=$(timeout 60 "$build/bench/ring" "$client_cpu" "$server_cpu" 2064 line \
		2>/dev/null)
	if [[ $text =~ \"p50\":\ ([0-9]+)\.([0-9]{3}) ]]; then
		[ "$((10#${BASH_REMATCH[1]}${BASH_REMATCH[2]}))" -lt "$far_ns" ] && echo near ||
			echo far
	else
		echo unknown
	fi
}

# note NAME VALUE: stores the value of a figure in one run.
note()
{
	[ -z "$2" ] || [ "$2" = null ] || echo "$2" >>"$work/$1.runs"
}

# median NAME [FORMAT]: "-" if it was never measured.
median()
{
	[ -s "$work/$1.runs" ] || { echo -; return; }
	sort -g "$work/$1.runs" | awk -v format="${2:-%.2f}" '
		{ v[NR] = $1 }
		END {
			middle = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
			printf format "\n", middle
		}'
}

# ours WAIT OPTIONS -- TEST ARGUMENTS...: runs a ripc-perf server and its client. The report is in
# $work/report.json.
ours()
{
	local wait=$1 options=() id=$((1000000 + RANDOM * 32768 + RANDOM)) tries=0 rc
	shift
	while [ "$1" != -- ]; do
		options+=(-o "$1")
		shift
	done
	shift
	rm -f "$work/report.json"
	: >"$work/server.log"
	"$perf" server -S $id --wait "$wait" --pin "$server_cpu" "${options[@]}" \
		>"$work/server.log" 2>&1 &
	pids=($!)
	# Reads the log without starting a program, which is slow in an emulator.
	until [[ $(<"$work/server.log") == *serving* ]]; do
		# A server without the device ends; on a loaded machine it starts slowly.
		if ! kill -0 "${pids[0]}" 2>/dev/null || [ $((tries += 1)) -gt 600 ]; then
			cat "$work/server.log" >&2
			stop "${pids[@]}"
			pids=()
			return 1
		fi
		sleep 0.05
	done
	timeout "${cell_s:-300}" "$perf" "$@" -S $id --wait "$wait" \
		--pin "$client_cpu" "${options[@]}" --stop \
		--json "$work/report.json" >"$work/client.log" 2>&1
	rc=$?
	[ $rc -eq 0 ] || cat "$work/client.log" "$work/server.log" >&2
	stop "${pids[@]}"
	pids=()
	return $rc
}

# result FILTER [INDEX]: a figure of the report.
result()
{
	jq -r ".results[${2:-0}]$1" "$work/report.json"
}
