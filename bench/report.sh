# shellcheck shell=bash disable=SC2154,SC2016
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# What scripts/bench writes, made with jq from the lines in $work/results, $work/failed and $work/many: bench.json, bench.csv,
# report.md with the figures of both placements, and the table of the README. A script sets work, out, and the words that
# describe the machine and the run in $work/about (an object of JSON).

# One object: medians over the runs, by program, host, wait, test, size and placement.
report_json()
{
	touch "$work/results" "$work/failed" "$work/many"
	jq -n --slurpfile runs "$work/results" --slurpfile failed "$work/failed" --slurpfile many "$work/many" \
		--slurpfile about "$work/about" '
		def median: sort | if length == 0 then null elif length % 2 == 1 then .[length / 2 | floor]
			else (.[length / 2 - 1] + .[length / 2]) / 2 end;
		# Of each number in a list of objects alike.
		def medians: . as $all | reduce ([$all[] | paths(type == "number")] | unique)[] as $p ({};
			setpath($p; [$all[] | getpath($p) | numbers] | median));
		$about[0] + {
			cells: [$runs | group_by([.host, .wait, .test, .size, .program, .placement])[] |
				(.[0] | {host, wait, test, size, program, placement}) + {runs: length} +
				(map({rtt_us, rate_per_s, mb_per_s, cpu_s, lost} | with_entries(select(.value != null))) | medians)],
			many: [$many | group_by([.transport, .wait, .clients])[] |
				(.[0] | {transport, wait, clients}) + {runs: length} +
				(map(del(.transport, .wait, .clients)) | medians)],
			# What another round measured has not failed.
			failed: ([$failed[] | . as $f | select(any($runs[]; .program == $f.program and .host == $f.host and .wait == $f.wait and
				.test == $f.test and (.size | tostring) == $f.size) | not)] | group_by([.program, .host, .wait, .test]) |
				map((.[0] | del(.size)) + {sizes: ([.[].size | select(. != null) | tonumber? // .] | unique)}))
		}' >"$out/bench.json"
}

report_csv()
{
	jq -r '["host", "wait", "test", "bytes", "program", "placement", "runs", "figure", "value"],
		(.cells[] | . as $c | ({rtt_us, rate_per_s, mb_per_s, cpu_s, lost} | paths(type == "number")) as $p |
			[$c.host, $c.wait, $c.test, $c.size, $c.program, $c.placement, $c.runs, ($p | map(tostring) | join(".")),
			($c | getpath($p))]) | @csv' "$out/bench.json" >"$out/bench.csv"
}

# A table in markdown. $1: "near", "far" or "mixed"; if empty, the first two's one with the most figures, and where a row has more of
# the other, that, marked; and what it lacks is taken from another, marked as well.
report_table()
{
	jq -r --arg placement "$1" '
		. as $root |
		(if $placement != "" then $placement
			else (.cells | group_by(.placement) | max_by([.[0].placement != "mixed", length]) | .[0].placement // "near") end) as $here |
		["ripc", "ucx", "ofi", "mpi", "zmq", "nng", "plain", "qperf"] as $programs |
		def value($place; $host; $wait; $test; $size; $program; f):
			[$root.cells[] | select(.placement == $place and .host == $host and .wait == $wait and .test == $test and .size == $size
				and .program == $program) | f | numbers][0];
		def show: if . == null then "-" elif . >= 100000 then "\(. / 10000 | round / 100) M" elif . >= 100 then "\(round)"
			else "\(. * 100 | round / 100)" end;
		def row($text; $host; $wait; $test; $size; f; $least):
			# One placement only, or for each row the one with the most to show.
			[(if $placement != "" then $placement else $here, (["near", "far"] - [$here])[] end) as $place |
				{$place, v: [$programs[] as $p | value($place; $host; $wait; $test; $size; $p; f)]} |
				.n = if .v[0] == null then 0 else [.v[] | numbers] | length end] |
			(map(.n) | max) as $most | (map(select(.n == $most))[0]) as $row | $row.v as $v |
			# What was measured elsewhere only, with where.
			[range($programs | length) as $i | if $placement != "" or $v[$i] != null then null else
				[(["near", "far", "mixed"] - [$row.place])[] as $place |
				{$place, v: value($place; $host; $wait; $test; $size; $programs[$i]; f)} | select(.v != null)][0] end] as $lent |
			# What is handed over is not moved: no figure to compare those with that copy.
			($host == "shm" and $test == "bandwidth") as $handed |
			# Nor what was moved, or lay where nobody knows.
			(if $row.place == "near" or $row.place == "far" then [(if $handed then $v[1:] else $v end)[] | numbers] |
				if $least then min else max end else null end) as $best |
			if $v[0] == null and $lent[0] == null then empty else
			"| \($text)\(if $row.place == $here then "" else " (\($row.place))" end) | " +
				([range($v | length) as $i | $v[$i] | if $lent[$i] then
					"\($lent[$i].v | show)\(if $handed and $i == 0 then " (*)" else "" end) (\($lent[$i].place))"
					elif $handed and $i == 0 then "\(show) (*)"
					elif . != null and . == $best then "**\(show)**" else show end] | join(" | ")) + " |" end;
		def group($title; $host; $wait):
			(if any(.cells[]; ($placement == "" or .placement == $placement) and .host == $host and .wait == $wait and .program == "ripc") then
				"| **\($title)** |" + ([$programs[] | " |"] | join("")) else empty end),
			row("round trip of 64 B, us"; $host; $wait; "latency"; 64; .rtt_us.p50; true),
			row("1 KiB, us"; $host; $wait; "latency"; 1024; .rtt_us.p50; true),
			row("64 B one way, messages/s"; $host; $wait; "rate"; 64; .rate_per_s; false),
			row("1 MiB one way, MB/s"; $host; $wait; "bandwidth"; 1048576; .mb_per_s; false),
			row("16 MiB one way, MB/s"; $host; $wait; "bandwidth"; 16777216; .mb_per_s; false);
		"| Medians (cache line: \($here)) | libripc | UCX | libfabric | Open MPI | ZeroMQ | NNG | plain TCP | qperf |",
		"|---|---|---|---|---|---|---|---|---|",
		group("same host, polling"; "shm"; "poll"),
		group("same host, blocking"; "shm"; "block"),
		group("TCP, loopback, polling"; "tcp"; "poll"),
		group("TCP, loopback, blocking"; "tcp"; "block")' "$out/bench.json"
}

report_many()
{
	jq -r '"| Clients | over | connected in, ms | memory per client, KiB | calls/s | unevenness, % | one alone, p50 / p99, us | among a flood |",
		"|---|---|---|---|---|---|---|---|",
		(.many[] | "| \(.clients) | \(.transport) | \(.connect_ms) | \(.bytes_per_client / 102.4 | round / 10) | \(.calls_per_s | round) | \(
			.unevenness_percent) | \(.alone_us.p50) / \(.alone_us.p99) | \(if .clients < 2 then "" else
			if .flooded_us.p50 > 0 then "\(.flooded_us.p50) / \(.flooded_us.p99)" else "not one call" end end) |")' "$out/bench.json"
}

report_failed()
{
	jq -r '.left_out[]?, (.failed[] | "\(.program), \(.host), \(.wait), \(.test)\(if .sizes == [] then ""
		else ", \(.sizes | map(tostring) | join(", ")) bytes" end): \(.reason)") | "- \(.)"' "$out/bench.json"
}

report_head()
{
	jq -r '"\(.date[0:10]), \(.cpu), \(.cpus) processors, Linux \(.kernel); libripc \(.versions.libripc)" +
		([.versions | to_entries[] | select(.key != "libripc") | ", \(.key) \(.value)"] | join("")) + ".",
		"Command: `\(.command)`; \(.rounds) \(if .rounds == 1 then "round in which all took turns" else "rounds in which all took turns" end), \(
		.discarded) cells discarded as the placement changed\(if .filled then ", \(.filled) measured once more for their row" else "" end); bare cache line: \(
		.line_us) us."' "$out/bench.json"
}

report_md()
{
	local placement
	{
		echo "# Side by side"
		echo
		report_head
		jq -r 'if .remark then "\n\(.remark)" else empty end' "$out/bench.json"
		for placement in $(jq -r '[.cells[].placement] | unique[]' "$out/bench.json"); do
			echo
			report_table "$placement"
		done
		echo
		report_note
		echo
		echo "How each was run, the same words in both processes:"
		echo
		jq -r '.commands[] | "- \(.)"' "$out/bench.json"
		if [ -s "$work/many" ]; then
			echo
			echo "One server and many clients (\`bench/many\`), 64 B, blocking; the clients share one processor:"
			echo
			report_many
		fi
		echo
		echo "What could not be measured:"
		echo
		report_failed
		for picture in "$out"/*.svg; do
			[ -e "$picture" ] || continue
			echo
			echo "![$(basename "$picture" .svg | tr _ ' ')]($(basename "$picture"))"
		done
	} >"$out/report.md"
}

# Between the two marks of the README; nothing else of it is touched.
report_note()
{
	echo "(*) Long messages of one host are handed over where they can be: the receiver maps the sender's memory. Nobody reads it in"
	echo "this test, so the figure says how many messages there are, not how fast memory is. The others copy."
	echo
	echo "In parentheses, where it is not that of the table: where the two processors lay, near or far by the round trip of a cache"
	echo "line, or mixed if they were moved in each of the tries. Only figures of one placement are compared."
}

report_readme()
{
	{
		report_head
		jq -r 'if .remark then .remark else empty end' "$out/bench.json"
		echo
		report_table ""
		echo
		echo "Bold: the best of a row. Same size, way of waiting and number of messages in flight; one process on each of two"
		echo "processors, no network but the loopback. All figures, both placements, commands and what could not be measured:"
		echo "[doc/performance/report.md](doc/performance/report.md)."
		echo
		report_note
		[ ! -e "$out/latency_shm.svg" ] || {
			echo
			echo "![Latency against size, same host](doc/performance/latency_shm.svg)"
		}
	} >"$work/figures"
	awk -v figures="$work/figures" '
		/<!-- figures: begin/ { print; while ((getline line < figures) > 0) print line; skip = 1; next }
		/<!-- figures: end/ { skip = 0 }
		!skip' README.md >"$work/readme" && cat "$work/readme" >README.md
}
