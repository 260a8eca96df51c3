# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The table of calls of scripts/bench: calls of libripc (bench/calls.c) beside those of NNG, ZeroMQ
# and gRPC (bench/rpc.c). Its cells have the tests call-rtt (one blocking call at a time), call-1,
# call-32 and call-1024 (so many outstanding), all of 64 bytes; "shm" of the others is a Unix
# socket. A script sets the variables of bench/cells.sh and sources that file, too.
call_bytes=64
call_tests="call-rtt call-1 call-32 call-1024"
call_programs=(ripc)

# rpc_program NAME: compiles bench/rpc.c with a library into $peers/rpc_NAME. Return: 1 if that
# fails, with the reason in $left_out.
rpc_program()
{
	local name=$1 program
	case $name in
	nng | zmq) rpc_c "$name" ;;
	grpc)
		for program in protoc grpc_cpp_plugin g++; do
			command -v $program >/dev/null && continue
			left_out+=("gRPC: $program is missing: install g++, $(
				)protobuf-compiler-grpc and libgrpc++-dev")
			return 1
		done
		pkg-config --exists grpc++ protobuf 2>/dev/null || {
			left_out+=("gRPC: grpc++ is missing: install libgrpc++-dev")
			return 1
		}
		rpc_grpc
		;;
	esac >"$work/compile" 2>&1 && return 0
	[ ! -s "$work/compile" ] ||
		left_out+=("calls of $name: bench/rpc_$name does not compile here: $(grep -m 1 \
			-E 'error|undefined|not found' "$work/compile")")
	rm -f "$peers/rpc_$name"
	return 1
}

# rpc_c NAME
rpc_c()
{
	local flags
	flags=$([ "$1" = nng ] && echo -lnng || pkg-config --cflags --libs libzmq 2>&1)
	# shellcheck disable=SC2086
	gcc -O2 -I. -Ibench -o "$peers/rpc_$1" bench/rpc.c "bench/rpc_$1.c" $flags -lpthread
}

# Takes ten seconds, so it is compiled only if a source is newer.
rpc_grpc()
{
	local dir=$peers/grpc flags
	[ ! -x "$peers/rpc_grpc" ] ||
		[ -n "$(find bench/rpc* -newer "$peers/rpc_grpc")" ] || return 0
	flags=$(pkg-config --cflags --libs grpc++ protobuf) || return 1
	# shellcheck disable=SC2086
	mkdir -p "$dir" && protoc -Ibench --cpp_out="$dir" --grpc_out="$dir" \
		--plugin=protoc-gen-grpc="$(command -v grpc_cpp_plugin)" rpc_echo.proto &&
		gcc -O2 -Ibench -c -o "$dir/rpc.o" bench/rpc.c &&
		g++ -O2 -I"$dir" -Ibench -o "$peers/rpc_grpc" bench/rpc_grpc.cc "$dir"/*.cc \
			"$dir/rpc.o" $flags
}

# rpc_peers: compiles all of them, and adds those that work to $call_programs and $versions.
rpc_peers()
{
	local name version
	for name in nng zmq grpc; do
		rpc_program $name && version=$("$peers/rpc_$name" version) || continue
		call_programs+=("$name")
		case $name in
		grpc) versions+=("gRPC $version") ;;
		esac
	done
}

# calls_ripc HOST WAIT TEST: the cell call-rtt has the round trips of short and reliable messages
# as well, and their ratios, in turns.
calls_ripc()
{
	local transport=shm rounds=5 divisor=$((less * ${shorter:-1})) figures line
	[ "$1" = shm ] || { transport=iwarp/soft; rounds=3; }
	[ "$2" = poll ] || { rounds=1; divisor=$((divisor * 8)); }
	case $3 in
	call-rtt)
		# Many short turns: one that another process disturbs does not count.
		figures=short_us,reliable_us,call_us
		rounds=$((rounds * 11)) divisor=$((divisor * 10))
		;;
	*) figures=calls${3#call-}_mps ;;
	esac
	line=$(CPUS="$client_cpu $server_cpu" LESS=$((divisor > 1000 ? 1000 : divisor)) \
		RIPC_WAIT=$2 timeout $cell_s "$build/bench/calls" $transport $rounds $call_bytes \
		$figures 2>"$work/calls.err") ||
		{ ended $? "$(tail -n 2 "$work/calls.err")"; return 1; }
	jq -c 'if .call_us then {size: .bytes,
			rtt_us: {mean: .call_us, short: .short_us, reliable: .reliable_us},
			ratio: {call: ."call/short", reliable: ."reliable/short"}}
		else {size: .bytes, rate_per_s: (to_entries[] |
			select(.key | test("_mps$")) | .value * 1e6)} end' <<<"$line"
}

# calls_rpc PROGRAM HOST WAIT TEST
calls_rpc()
{
	local count=3000 outstanding=${4#call-} address server words rc
	case $1-$outstanding in
	*-rtt) outstanding=0 ;;
	zmq-32 | zmq-1024) count=100000 ;;
	*-32 | *-1024) count=10000 ;;
	esac
	count=$((count / less / ${shorter:-1}))
	address=$work/rpc.$RANDOM$RANDOM
	[ "$2" = shm ] || address=$((20000 + RANDOM % 10000))
	words=("$2" "$address" "$call_bytes" $((count < 16 ? 16 : count)) "$outstanding")
	timeout $cell_s taskset -c "$server_cpu" "$peers/rpc_$1" server "${words[@]}" \
		>/dev/null 2>"$work/rpc.server" &
	server=$!
	pids=("$server")
	timeout $cell_s taskset -c "$client_cpu" "$peers/rpc_$1" client "${words[@]}" \
		>"$work/rpc.out" 2>"$work/rpc.err"
	rc=$?
	stop "$server"
	pids=()
	rm -f "$address"
	[ $rc -eq 0 ] && [ -s "$work/rpc.out" ] ||
		{ ended $rc "exit code $rc: $(tail -n 2 "$work/rpc.err" "$work/rpc.server" \
		2>/dev/null)"; return 1; }
	cat "$work/rpc.out"
}

calls_nng() { calls_rpc nng "$@"; }
calls_zmq() { calls_rpc zmq "$@"; }
calls_grpc() { calls_rpc grpc "$@"; }

# call_cells: all cells of one round, in turns. The others sleep; libripc polls and sleeps.
call_cells()
{
	local host test program wait
	for host in shm tcp; do
		for test in $call_tests; do
			for program in "${call_programs[@]}"; do
				for wait in poll block; do
					[ "$program-$wait" = ripc-poll ] || [ $wait = block ] ||
						continue
					cell "$program" $host $wait "$test" $call_bytes && continue
					say "$program, $host, $wait: $test: $(cat "$work/reason")"
				done
			done
		done
	done
}

# call_rounds N: so many rounds; none begins after $give_up. Sets $done_call_rounds.
call_rounds()
{
	for ((done_call_rounds = 0; done_call_rounds < $1; done_call_rounds++)); do
		round=$((done_call_rounds + 1))
		[ $SECONDS -lt "$give_up" ] || break
		call_cells
	done
}

# calls_into FILE: moves the cells of calls, the date and the versions of $out/bench.json into a
# bench.json of an earlier run.
calls_into()
{
	jq --slurpfile new "$out/bench.json" '
		def calls: select(.test | startswith("call-"));
		.cells = [.cells[] | select(.test | startswith("call-") | not)] +
			[$new[0].cells[] | calls] |
		.versions += $new[0].versions |
		.calls = $new[0].calls' "$1" >"$work/merged" && cat "$work/merged" >"$1"
}

# report_calls: the table, and the ratios with their targets; nothing if there are no figures.
report_calls()
{
	jq -r '
		def calls: [.cells[] | select(.test | startswith("call-"))];
		def show: if . == null then "-" elif . >= 100000 then "\(. / 10000 | round / 100) M"
			elif . >= 100 then "\(round)" else "\(. * 100 | round / 100)" end;
		(calls | group_by(.placement) | max_by([.[0].placement != "mixed", length]) |
			.[0].placement // "") as $here |
		calls as $cells |
		[["ripc", "poll", "libripc, polling"], ["ripc", "block", "libripc"],
			["nng", "block", "NNG req/rep"],
			["zmq", "block", "ZeroMQ DEALER/ROUTER"],
			["grpc", "block", "gRPC"]] as $programs |
		# The value in this placement, or another, with its name.
		def value($p; $host; $test; f):
			[($here, (["near", "far", "mixed"] - [$here])[]) as $place |
				$cells[] | select(.placement == $place and .host == $host and
					.test == $test and .program == $p[0] and .wait == $p[1]) |
				{$place, v: f} | select(.v != null)][0];
		def row($text; $host; $test; f; $least):
			[$programs[] as $p | value($p; $host; $test; f)] as $v |
			# Among those that sleep.
			([$v[1:][] | select(. != null and .place == $here) | .v] |
				if length < 2 then null elif $least then min else max end)
				as $best |
			if all($v[]; . == null) then empty else
			"| \($text) | " + ([$v[] | (.v | show) as $s |
				if . == null then "-" elif .place != $here then "\($s) (\(.place))"
				elif .v == $best then "**\($s)**" else $s end] | join(" | ")) +
				" |" end;
		def group($title; $host):
			"| **\($title)** | | | | | |",
			row("round trip of a short message, us"; $host; "call-rtt"; .rtt_us.short;
				true),
			row("of a reliable one, us"; $host; "call-rtt"; .rtt_us.reliable; true),
			row("of a call, us"; $host; "call-rtt"; .rtt_us.mean; true),
			row("calls/s, 1 outstanding"; $host; "call-1"; .rate_per_s; false),
			row("32 outstanding"; $host; "call-32"; .rate_per_s; false),
			row("1024 outstanding"; $host; "call-1024"; .rate_per_s; false);
		def target($text; $host; $test; f; $op; $limit; $shown):
			value($programs[0]; $host; $test; f) as $v |
			if $v == null then empty else
			"- \($text): \($v.v | show); target \($op) \($shown): " +
				(if (if $op == "<=" then $v.v <= $limit else $v.v >= $limit end)
				then "met" else "**missed**" end) end;
		if $cells == [] then empty else
		"| 64 B, medians of \([$cells[].runs] | max) (cache line: \($here)) | " +
			([$programs[][2]] | join(" | ")) + " |",
		"|---|---|---|---|---|---|",
		group("same host: shm, Unix sockets"; "shm"), group("TCP, loopback"; "tcp"), "",
		"Ratios to the round trip of a short message in the same run, polling:", "",
		target("call, shm"; "shm"; "call-rtt"; .ratio.call; "<="; 1.15; "1.15"),
		target("call, iwarp/soft"; "tcp"; "call-rtt"; .ratio.call; "<="; 1.15; "1.15"),
		target("reliable message, shm"; "shm"; "call-rtt"; .ratio.reliable; "<="; 1.05;
			"1.05"),
		target("reliable message, iwarp/soft"; "tcp"; "call-rtt"; .ratio.reliable; "<=";
			1.05; "1.05"),
		target("calls/s over shm with 32 outstanding"; "shm"; "call-32"; .rate_per_s; ">=";
			4e6; "4 M") end' "$out/bench.json"
}

# The heading of the table.
report_calls_note()
{
	jq -r '"Calls (`bench/calls`, `bench/rpc`)\(if .calls then ", \(.calls.date[0:10])" else ""
		end): a server answers a request with its own bytes. Bold: the best that sleeps."' \
		"$out/bench.json" | fold -s -w 98 | sed 's/ *$//'
}
