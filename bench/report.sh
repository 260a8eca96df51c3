# shellcheck shell=bash disable=SC2154,SC2016
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The results of scripts/bench, made with jq from the lines in $work/results, $work/failed,
# $work/many and `$work/handover`: bench.json, bench.csv, report.md with the figures of both
# placements, and the tables of the README. A script sets work, out, and $work/about, a JSON object
# that describes the machine and the run.

# One object: medians over the runs, by program, host, wait, test, size and placement. The median of
# an even number of runs is the better of the two in the middle. Their mean could lie between the
# placements if the processors were moved between the two runs.
report_json()
{
	touch "$work/results" "$work/failed" "$work/many" "$work/handover"
	jq -n --slurpfile runs "$work/results" --slurpfile failed "$work/failed" \
		--slurpfile many "$work/many" --slurpfile handover "$work/handover" \
		--slurpfile about "$work/about" '
		def median($more): sort | if length == 0 then null
			elif $more then .[length / 2 | floor] else .[(length - 1) / 2 | floor] end;
		# The median of each number in a list of similar objects. More is better for rates
		# and bandwidths.
		def medians: . as $all | reduce ([$all[] | paths(type == "number")] |
			unique)[] as $p ({};
			setpath($p; [$all[] | getpath($p) | numbers] |
				median($p[-1] | tostring | test("per_s$"))));
		$about[0] + {
			cells: [$runs | group_by([.host, .wait, .test, .size, .program,
				.placement])[] |
				(.[0] | {host, wait, test, size, program,
					placement}) + {runs: length} +
				(map({rtt_us, rate_per_s, mb_per_s, cpu_s, lost, ratio} |
					with_entries(select(.value != null))) | medians)],
			many: [$many | group_by([.transport, .wait, .clients])[] |
				(.[0] | {transport, wait, clients}) + {runs: length} +
				(map(del(.transport, .wait, .clients)) | medians)],
			handover: [$handover | group_by([.placement, .handover, .read])[] |
				(.[0] | {placement, handover, read}) + {runs: length} +
				(map({rtt_us}) | medians)],
			# A cell measured in another round has not failed.
			failed: ([$failed[] | . as $f |
				select(any($runs[]; .program == $f.program and .host == $f.host and
					.wait == $f.wait and
				.test == $f.test and (.size | tostring) == $f.size) | not)] |
					group_by([.program, .host, .wait, .test]) |
				map((.[0] | del(.size)) + {sizes: ([.[].size | select(. != null) |
					tonumber? // .] | unique)}))
		}' >"$out/bench.json"
}

report_csv()
{
	jq -r '["host", "wait", "test", "bytes", "program", "placement", "runs", "figure", "value"],
		(.cells[] | . as $c | ({rtt_us, rate_per_s, mb_per_s, cpu_s, lost,
			ratio} | paths(type == "number")) as $p |
			[$c.host, $c.wait, $c.test, $c.size, $c.program, $c.placement, $c.runs,
				($p | map(tostring) | join(".")),
			($c | getpath($p))]) | @csv' "$out/bench.json" >"$out/bench.csv"
}

# report_table PLACEMENT [brief]: prints a table in Markdown. PLACEMENT is near, far or mixed. If it
# is empty, the table shows near or far, the one with the most figures. A row with more figures of
# the other placement shows that one, marked; missing figures are taken from another placement,
# marked as well. brief: the rows of the README. libripc copies long messages here, as
# the others do.
report_table()
{
	jq -r --arg placement "$1" --arg brief "${2:-}" '
		.cells |= map(select(.test | startswith("call-") | not)) | . as $root |
		(if $placement != "" then $placement else (.cells | group_by(.placement) |
			max_by([.[0].placement != "mixed", length]) |
				.[0].placement // "near") end) as $here |
		([["ripc", "libripc", "adaptive"], ["ucx", "UCX", "poll"], ["ofi", "libfabric",
			"poll"],
			["mpi", "Open MPI", "poll"], ["zmq", "ZeroMQ", "block"],
				["nng", "NNG", "block"],
			["plain", "plain TCP", "block"], ["qperf", "qperf", "block"]] |
			if $brief != "" then .[:7] else . end) as $programs |
		# $wait "default" is the default of each program.
		def value($place; $host; $wait; $test; $size; $program; f):
			(if $wait == "default" then $program[2] else $wait end) as $wait |
			[$root.cells[] | select(.placement == $place and .host == $host and
				.wait == $wait and
				.test == $test and .size == $size and .program == $program[0]) | f |
					numbers][0];
		def show: if . == null then "-" elif . >= 100000 then "\(. / 10000 | round / 100) M"
			elif . >= 100 then "\(round)" else "\(. * 100 | round / 100)" end;
		def row($text; $host; $wait; $test; $size; f; $least):
			# One placement, or for each row the one with the most figures.
			[(if $placement != "" then $placement else $here,
				(["near", "far"] - [$here])[] end) as $place |
				{$place, v: [$programs[] as $p |
					value($place; $host; $wait; $test; $size; $p; f)]} |
				.n = if .v[0] == null then 0 else [.v[] | numbers] | length end] |
			(map(.n) | max) as $most | (map(select(.n == $most))[0]) as $row |
				$row.v as $v |
			# Figures measured elsewhere only, with their placement.
			[range($programs | length) as $i |
				if $placement != "" or $v[$i] != null then null else
				[(["near", "far", "mixed"] - [$row.place])[] as $place |
				{$place, v: value($place; $host; $wait; $test; $size; $programs[$i];
					f)} |
				select(.v != null)][0] end] as $other |
			# No best figure where the processors were moved.
			(if $row.place == "near" or $row.place == "far" then [$v[] | numbers] |
				if $least then min else max end else null end) as $best |
			if $v[0] == null and $other[0] == null then empty else
			"| \($text)\(if $row.place == $here then "" else
				" (\($row.place))" end) | " +
				([range($v | length) as $i | $v[$i] |
					if $other[$i] then
						"\($other[$i].v | show) (\($other[$i].place))"
					elif . != null and . == $best then "**\(show)**" else
						show end] | join(" | ")) + " |" end;
		def group($title; $host; $wait):
			[row("round trip of 64 B, us"; $host; $wait; "latency"; 64; .rtt_us.p50;
				true),
			(if $brief != "" then empty else
				row("1 KiB, us"; $host; $wait; "latency"; 1024; .rtt_us.p50;
					true) end),
			row("64 B one way, messages/s"; $host; $wait; "rate"; 64; .rate_per_s;
				false),
			row("1 MiB one way, MB/s"; $host; $wait; "bandwidth"; 1048576; .mb_per_s;
				false),
			(if $brief != "" then empty else
				row("16 MiB one way, MB/s"; $host; $wait; "bandwidth"; 16777216;
					.mb_per_s; false) end)] |
			if . == [] then empty else "| **\($title)** |" + ([$programs[] | " |"] |
				join("")), .[] end;
		"| Medians (cache line: \($here)) | " +
			([$programs[] | .[1]] | join(" | ")) + " |",
		"|---|" + ([$programs[] | "---|"] | join("")),
		group("same host, polling"; "shm"; "poll"),
		group("same host, default waiting"; "shm"; "default"),
		(if $brief != "" then empty else group("same host, blocking"; "shm"; "block") end),
		group("TCP, loopback, polling"; "tcp"; "poll"),
		group("TCP, loopback, default waiting"; "tcp"; "default"),
		(if $brief != "" then empty else group("TCP, loopback, blocking"; "tcp";
			"block") end)' \
		"$out/bench.json"
}

# report_handover [brief]: round trips of long messages within one host, mapped by the receiver and
# copied, in the placement with the most figures.
report_handover()
{
	jq -r --arg brief "${1:-}" '
		def show: if . == null then "-" elif . >= 100 then "\(round)" else
			"\(. * 100 | round / 100)" end;
		def bytes: if . >= 1048576 then "\(. / 1048576) MiB" else "\(. / 1024) KiB" end;
		(.handover // [] | group_by(.placement) |
			max_by([.[0].placement != "mixed", length])) as $all |
		def value($handover; $read; $size):
			[($all // [])[] | select(.handover == $handover and .read == $read) |
				.rtt_us[$size]][0] |
			# A message that could not be mapped was copied.
			"\(.p50 | show)\(if $handover == "on" and .count and
					.mapped < 0.9 * .count
				then " (\(100 * .mapped / .count | round) % mapped)" else
					"" end)";
		if $all == null then empty else
		"| Round trip, us (cache line: \($all[0].placement)) | mapped | copied | " +
			"mapped, read | copied, read |",
		"|---|---|---|---|---|",
		([$all[].rtt_us | keys[]] | unique | sort_by(tonumber)[] |
			select($brief == "" or IN("65536", "1048576", "16777216")) | . as $size |
			"| \($size | tonumber | bytes) | " + ([("on", "off") as $h | [$h, false]] +
				[("on", "off") as $h | [$h, true]] |
				map(. as [$h, $r] | value($h; $r; $size)) |
					join(" | ")) + " |") end' \
		"$out/bench.json"
}

# The conditions of the table of report_handover().
report_handover_note()
{
	cat <<-'END'
		A receiver *maps* a large buffer of `ripc_buf_alloc()` from a sender on its host; it
		does not copy it. Round trips (`bench/handover`, polling, buffers not filled again)
		beside a copy; the receiver reads both ends of a message or, in the last two
		columns, every byte:
	END
}

report_many()
{
	jq -r '["Clients", "over", "connected in, ms", "memory per client, KiB", "calls/s",
			"unevenness, %", "one alone, p50 / p99, us", "among a flood"] as $head |
		"| \($head | join(" | ")) |",
		"|---|---|---|---|---|---|---|---|",
		(.many[] | [.clients, .transport, .connect_ms,
			(.bytes_per_client / 102.4 | round / 10), (.calls_per_s | round),
			.unevenness_percent, "\(.alone_us.p50) / \(.alone_us.p99)",
			if .clients < 2 then ""
			elif .flooded_us.p50 > 0 then "\(.flooded_us.p50) / \(.flooded_us.p99)"
			else "not one call" end | tostring] |
			"| \(join(" | ")) |")' "$out/bench.json"
}

report_failed()
{
	jq -r '.left_out[]?, (.failed[] |
		"\(.program), \(.host), \(.wait), \(.test)\(if .sizes == [] then ""
		else ", \(.sizes | map(tostring) | join(", ")) bytes" end): \(.reason)") |
		"- \(.)"' "$out/bench.json"
}

report_head()
{
	jq -r '"\(.date[0:10]), \(.cpu), \(.cpus) processors, Linux \(.kernel); " +
		"libripc \(.versions.libripc)" +
		([.versions | to_entries[] | select(.key != "libripc") |
			", \(.key) \(.value)"] | join("")) + "." +
		" Command: `\(.command)`; \(.rounds) round\(if .rounds == 1 then "" else "s" end
		) in which all took turns; \(.discarded) runs were repeated because the " +
		"processors were moved" +
		(if .filled then ", \(.filled) more were made to complete a row" else "" end) +
		"; bare cache line: \(.line_us) us."' "$out/bench.json" | fold -s -w 98 |
			sed 's/ *$//'
}

report_md()
{
	local placement
	{
		echo "# Side by side"
		echo
		report_head
		jq -r 'if .remark then "\n\(.remark)" else empty end' "$out/bench.json"
		for placement in $(jq -r '[.cells[] |
			select(.test | startswith("call-") | not).placement] | unique[]' \
			"$out/bench.json"); do
			echo
			report_table "$placement"
		done
		echo
		report_note
		echo
		report_handover_note
		echo
		report_handover
		if jq -e '.zero_copy // "" | length > 0' "$out/bench.json" >/dev/null; then
			echo
			echo "A fresh buffer for each message, a pipeline and an echo in place" \
				"(\`bench/zero_copy\`, default waiting):"
			echo
			jq -r .zero_copy "$out/bench.json"
		fi
		if [ -n "$(report_calls)" ]; then
			echo
			report_calls_note
			echo
			report_calls
		fi
		echo
		echo "How each was run, the same words in both processes:"
		echo
		jq -r '.commands[] | "- \(.)"' "$out/bench.json"
		if jq -e '(.many // []) != []' "$out/bench.json" >/dev/null; then
			echo
			echo "One server and many clients (\`bench/clients\`), 64 B, blocking;" \
				"the clients share one processor:"
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

report_note()
{
	cat <<-'END'
		Bold: the best of a row. Each process has a processor to itself. All send out of
		memory of `malloc()` and copy long messages; the receiver of libripc reads the
		copy of the sender in place. By default libripc polls briefly and then sleeps, UCX,
		libfabric and Open MPI poll, the others sleep. Near, far: the distance of the
		processors by the round trip of a cache line; figures of another distance are
		marked and not compared (mixed: it changed during the run).
	END
}

# Replaces the text between the two marks of the README.
report_readme()
{
	{
		report_head
		jq -r 'if .remark then .remark else empty end' "$out/bench.json"
		echo
		report_table "" brief
		echo
		report_note
		echo "[All figures](doc/performance/report.md), both distances, commands, pictures."
		if [ -n "$(report_handover brief)" ]; then
			echo
			report_handover_note
			echo
			report_handover brief
		fi
		[ ! -e "$out/latency_shm.svg" ] || {
			echo
			echo "![Latency against size, same host](doc/performance/latency_shm.svg)"
		}
	} >"$work/figures"
	awk -v figures="$work/figures" '
		/<!-- figures: begin/ { print; while ((getline line < figures) > 0) print line;
			skip = 1; next }
		/<!-- figures: end/ { skip = 0 }
		!skip' README.md >"$work/readme" && cat "$work/readme" >README.md
}
