# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Shared by the benchmarks: figures that are collected run by run and reported as medians, and
# ripc-perf with its server. A script sets perf (the program), work (a directory of its own),
# client_cpu and server_cpu, and sources this file; optionally cell_s, the time limit of one
# measurement.
pids=()

stop()
{
	kill "$@" 2>/dev/null
	wait "$@" 2>/dev/null
}

# needs BUILD "COMMAND ..." "PACKAGE ..." PROGRAM...: checks that these commands and programs of the
# build tree exist; prints the missing ones.
needs()
{
	local build=$1 commands=$2 packages=$3 program
	shift 3
	for program in $commands; do
		command -v "$program" >/dev/null ||
			{ echo "$program is not there: install $packages" >&2; return 1; }
	done
	for program in "$@"; do
		[ -x "$build/$program" ] ||
			{ echo "$build/$program is not there: run make in $build" >&2; return 1; }
	done
}

# place: near or far, by the round trip of a bare cache line between the two processors, or
# "unknown". A script that uses it sets build, too; FAR_US=0.25 is the limit from which a line is
# far.
place()
{
	# A few milliseconds, and no jq, which takes longer.
	local text far_ns
	LC_ALL=C printf -v far_ns %.0f "${FAR_US:-0.25}e3"
	text=$(timeout 60 "$build/bench/ring" "$client_cpu" "$server_cpu" 2064 line 2>/dev/null)
	if [[ $text =~ \"p50\":\ ([0-9]+)\.([0-9]{3}) ]]; then
		[ "$((10#${BASH_REMATCH[1]}${BASH_REMATCH[2]}))" -lt "$far_ns" ] && echo near ||
			echo far
	else
		echo unknown
	fi
}

# note NAME VALUE: one more run of a figure.
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
		END { printf format "\n", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# ours WAIT OPTIONS -- TEST ARGUMENTS...: a server and its test; the report is in $work/report.json.
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
	# In an emulator each start of a program takes a while.
	until [[ $(<"$work/server.log") == *serving* ]]; do
		# One that cannot do it, as there is no such device, has ended; one on a loaded
		# machine takes its time.
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
