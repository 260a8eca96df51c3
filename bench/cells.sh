# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The cells of scripts/bench. A cell is one test of one program with two processes, each pinned to
# its own processor. Every cell_PROGRAM prints a line of JSON for each size:
# {"size":, "rtt_us":{"p50":, ...}} or {"size":, "rate_per_s":, "mb_per_s":}.
#
# A script sets the variables of bench/lib.sh, and less (divides all counts), peers (the directory
# of the programs of bench/peer.c) and build (the build tree), and sources both. Arguments of a
# cell: HOST (shm or tcp), WAIT (poll or block), TEST (latency, rate or bandwidth), SIZES
# (comma-separated bytes). A cell that fails writes the reason to $work/reason.
in_flight=8         # long messages
cell_s=30           # time limit of a cell
short_in_flight=256 # short messages, where a program needs a number

# count PROGRAM HOST WAIT TEST SIZE: the number of messages for some tenths of a second.
count()
{
	local n
	case $4-$2-$3 in
	latency-shm-poll) n=100000 ;;
	latency-tcp-poll) n=10000 ;;
	latency-*) n=2100 ;;
	rate-*) case $1-$2 in
		ripc-* | mpi-shm | ucx-shm | ofi-shm | zmq-*) n=1000000 ;;
		*) n=30000 ;;
		esac ;;
	*) n=1000000 ;;
	esac
	# Long messages: 256 MiB in all, or 1 GiB one way within one host.
	if [ "$5" -gt 2048 ]; then
		local bytes=$((1 << 28))
		[ "$2-$4" != shm-bandwidth ] || bytes=$((1 << 30))
		[ $((bytes / $5)) -ge "$n" ] || n=$((bytes / $5))
	fi
	n=$((n / less / ${shorter:-1}))
	# ucx_perftest takes the median of the last 2048 round trips and needs as many.
	[ "$1-$4" != ucx-latency ] || [ $n -ge 2100 ] || n=2100
	echo $((n < 16 ? 16 : n))
}

because()
{
	tr -s ' \t\n' ' ' <<<"$*" | sed 's/ $//' | cut -c1-200 >"$work/reason"
	return 1
}

# ended RC TEXT: the same for a program with the exit code RC.
ended()
{
	[ "$1" -ne 124 ] || set -- "$1" "not finished in $cell_s s"
	because "$2"
}

# listening PORT PID: waits until the port is bound or the process has ended.
listening()
{
	local tries=0
	until ss -Hltn "sport = :$1" | grep -q .; do
		kill -0 "$2" 2>/dev/null || return 1
		[ $((tries += 1)) -le 100 ] || return 1
		sleep 0.05
	done
}

cell_ripc()
{
	local host=$1 wait=$2 test=$3 size baseline=() transport=shm args handover
	if [ "$host" != shm ]; then
		transport=iwarp/soft
		# The baseline has no adaptive waiting.
		[ "$wait" = adaptive ] || baseline=(--baseline "tcp:$wait")
	fi
	export RIPC_TRANSPORTS=$transport
	for size in ${4//,/ }; do
		args=(--size "$size" --count "$(count ripc "$host" "$wait" "$test" "$size")")
		# The other programs copy long messages, so libripc copies here too. Mapped messages
		# are measured by `bench/handover`.
		handover=off
		[ "$test" != bandwidth ] || {
			args+=(--window "$in_flight" --own-memory)
			handover=on
		}
		ours "$wait" handover=$handover -- "$test" "${args[@]}" "${baseline[@]}" \
			2>"$work/ours.err" ||
			{ ended $? "$(tail -n 3 "$work/ours.err")"; return 1; }
		jq -c '.results[] | {size, rtt_us, rate_per_s, mb_per_s, cpu_s, lost, transport,
			plain: (.baseline // null |
				if . then {rtt_us, rate_per_s, mb_per_s, cpu_s} else null end)}' \
			"$work/report.json"
	done
}

# A program of bench/peer.c: cell_peer PROGRAM HOST WAIT TEST SIZES [LAUNCHER...].
cell_peer()
{
	local program=$1 host=$2 test=$4 size words=() address window=1 kind=stream server rc
	shift
	[ "$test" = rate ] && window=$short_in_flight
	[ "$test" = bandwidth ] && window=$in_flight
	[ "$test" = latency ] && kind=latency
	# ZeroMQ and NNG limit the messages in their queues; 1000 is their default.
	[[ $test = rate && $program =~ zmq|nng ]] && window=1000
	for size in ${4//,/ }; do
		words+=("$size" "$(count "$program" "$1" "$2" "$3" "$size")" "$window")
	done
	address=$work/peer.$RANDOM$RANDOM
	if [ "$host" = tcp ] && [ "$program" != ofi ]; then
		address=$((20000 + RANDOM % 10000))
	fi
	if [ "$program" = mpi ]; then
		mpi_run "$kind" "$host" "$address" "${words[@]}" >"$work/peer.out" \
			2>"$work/peer.err"
		rc=$?
	else
		timeout $cell_s taskset -c "$server_cpu" "$peers/peer_$program" server "$kind" \
			"$host" "$address" "${words[@]}" \
			>/dev/null 2>"$work/peer.server" &
		server=$!
		pids=("$server")
		timeout $cell_s taskset -c "$client_cpu" "$peers/peer_$program" client "$kind" \
			"$host" "$address" "${words[@]}" \
			>"$work/peer.out" 2>"$work/peer.err"
		rc=$?
		stop "$server"
		pids=()
	fi
	rm -f "$address".*
	[ $rc -eq 0 ] && [ -s "$work/peer.out" ] ||
		{ ended $rc "exit code $rc: $(tail -n 2 "$work/peer.err" "$work/peer.server" \
		2>/dev/null)"; return 1; }
	cat "$work/peer.out"
}

# Two polling ranks on this host, over shared memory or the loopback.
mpi_run()
{
	local btl=self,vader
	[ "$2" = tcp ] && btl=self,tcp
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	timeout $cell_s mpirun --host localhost:2 --bind-to none --mca plm isolated --mca pml ob1 \
		--mca btl $btl --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo \
		--mca mpi_yield_when_idle 0 \
		-np 1 taskset -c "$server_cpu" "$peers/peer_mpi" server "$@" : \
		-np 1 taskset -c "$client_cpu" "$peers/peer_mpi" client "$@"
}

cell_zmq() { cell_peer zmq "$@"; }
cell_nng() { cell_peer nng "$@"; }
cell_mpi() { cell_peer mpi "$@"; }
cell_ofi() { cell_peer ofi "$@"; }

# UCX, by ucx_perftest. Its latency is half a round trip, its megabyte has 2^20 bytes. Its median is
# that of the last 2048 round trips: if it differs from the mean of all by a third, the processors
# were moved during the run.
cell_ucx()
{
	local host=$1 wait=$2 test=$3 size port server line rc words mode=()
	export UCX_NET_DEVICES=lo UCX_WARN_UNUSED_ENV_VARS=n UCX_TLS=sm,self
	[ "$host" = tcp ] && export UCX_TLS=tcp
	[ "$wait" = block ] && mode=(-E sleep)
	for size in ${4//,/ }; do
		case $test in
		latency) words=(-t tag_lat) ;;
		rate) words=(-t tag_bw -O "$short_in_flight") ;;
		*) words=(-t tag_bw -O "$in_flight") ;;
		esac
		words+=(-s "$size" -n "$(count ucx "$host" "$wait" "$test" "$size")" \
			-w 100 "${mode[@]}")
		port=$((20000 + RANDOM % 10000))
		timeout $cell_s taskset -c "$server_cpu" ucx_perftest -p $port "${mode[@]}" \
			>"$work/ucx.server" 2>&1 &
		server=$!
		pids=("$server")
		listening $port "$server"
		timeout $cell_s taskset -c "$client_cpu" ucx_perftest 127.0.0.1 \
			-p $port "${words[@]}" >"$work/ucx.out" 2>&1
		rc=$?
		line=$(grep -a '^Final:' "$work/ucx.out")
		stop "$server"
		pids=()
		[ -n "$line" ] ||
			{ ended $rc "exit code $rc: $(grep -aE 'ERROR|error' "$work/ucx.out" |
			tail -n 1)"; return 1; }
		if [ "$test" = latency ]; then
			awk -v size="$size" '{
				moved = ($5 > 1.33 * $3 || $3 > 1.33 * $5) ? ",\"moved\":true" : ""
				printf "{\"size\":%d,\"rtt_us\":{\"p50\":%.3f,\"mean\":%.3f}%s}\n",
					size, 2 * $3, 2 * $5, moved }' <<<"$line"
		else
			awk -v size="$size" \
				'{ printf "{\"size\":%d,\"rate_per_s\":%.1f,\"mb_per_s\":%.3f}\n",
					size, $NF, $7 * 1.048576 }' <<<"$line"
		fi
	done
}

# qperf: blocking TCP sockets for one second. Its latency is half a round trip.
cell_qperf()
{
	local test=$3 size port server out word rc
	for size in ${4//,/ }; do
		port=$((20000 + RANDOM % 10000))
		timeout $cell_s taskset -c "$server_cpu" qperf -lp $port >/dev/null 2>&1 &
		server=$!
		pids=("$server")
		listening $port "$server"
		word=tcp_bw
		[ "$test" = latency ] && word=tcp_lat
		out=$(timeout $cell_s taskset -c "$client_cpu" qperf 127.0.0.1 -lp $port -t 1 \
			-m "$size" -uu $word 2>&1)
		rc=$?
		stop "$server"
		pids=()
		grep -q '=' <<<"$out" || { ended $rc "$out"; return 1; }
		# Seconds, or bytes per second.
		awk -v size="$size" '
			function times(unit) {
				if (unit ~ /^[num]s/)
					return unit ~ /^n/ ? 1e-9 : unit ~ /^u/ ? 1e-6 : 1e-3
				if (unit ~ /^GB/)
					return 1e9
				return unit ~ /^KB/ ? 1e3 : unit ~ /^MB/ ? 1e6 : 1
			}
			/latency *=/ {
				gsub(",", "", $3)
				printf "{\"size\":%d,\"rtt_us\":{\"p50\":%.3f}}\n",
					size, 2 * $3 * times($4) * 1e6
			}
			/bw *=/ {
				gsub(",", "", $3)
				v = $3 * times($4)
				printf "{\"size\":%d,\"rate_per_s\":%.1f,\"mb_per_s\":%.3f}\n",
					size, v / size, v / 1e6
			}' <<<"$out"
	done
}

# failed_cell PROGRAM HOST WAIT TEST SIZES: appends it to $work/failed, with its reason.
failed_cell()
{
	[ -s "$work/reason" ] || because "it failed without a message"
	jq -cn --arg program "$1" --arg host "$2" --arg wait "$3" --arg test "$4" --arg size "$5" \
		--arg reason "$(cat "$work/reason")" \
		'{$program, $host, $wait, $test, $size, $reason}' >>"$work/failed"
	return 1
}

# run_cell PROGRAM HOST WAIT TEST SIZES: runs it once, by cell_PROGRAM, or by calls_PROGRAM of
# bench/calls.sh if TEST is call-*. Sets $printed, its output, and $placement:
# near or far as place prints it, or mixed if that changed during the run or the output is marked as
# moved. $next is the placement after the run, which the next cell uses.
run_cell()
{
	local by
	[ -n "${next:-}" ] || next=$(place)
	rm -f "$work/reason"
	placement=$next
	[[ $4 == call-* ]] && by=calls || by=cell
	printed=$("${by}_$1" "$2" "$3" "$4" "$5") || { next=''; return 1; }
	next=$(place)
	[ "$placement" = "$next" ] && [[ $printed != *'"moved":true'* ]] || placement=mixed
}

# keep PROGRAM HOST WAIT TEST: appends the figures of the last run to $work/results.
keep()
{
	jq -c --arg program "$1" --arg host "$2" --arg wait "$3" --arg test "$4" \
		--arg placement "$placement" \
		--argjson round "$round" '
		{$program, $host, $wait, $test, $placement, $round} + (del(.plain, .moved)),
		(select(.plain) | {program: "plain", $host, $wait, $test, $placement, $round,
			size} + .plain) |
		with_entries(select(.value != null))' <<<"$printed" >>"$work/results"
}

# cell PROGRAM HOST WAIT TEST SIZE: runs it, and appends its result, with its placement, to
# $work/results. If the processors were moved during the run, it is run again with half the
# messages, because a short run is disturbed less often; at most three times in all. After that, or
# after $give_up (of $SECONDS), the result is kept as mixed.
cell()
{
	local try
	for try in 1 2 3; do
		shorter=$((1 << (try - 1)))
		run_cell "$@" || { shorter=1; failed_cell "$@"; return; }
		[ "$placement" = mixed ] && [ $try -lt 3 ] && [ $SECONDS -lt "$give_up" ] || break
		discarded=$((discarded + 1))
	done
	shorter=1
	keep "$@"
}

# runs_of HOST WAIT TEST SIZE: the number of runs of a cell in one round. Checks before and after a
# run do not detect every move of the processors. Round trips of short messages within one host,
# polling, change most by a move; they are run three times, and their median is of one placement.
runs_of()
{
	[ "$1-$2-$3-$4" = shm-poll-latency-64 ] && echo 3 || echo 1
}

# handover_cells COUNT: appends the round trips of long messages within one host to
# `$work/handover`, one line for each case: mapped or copied, read by the receiver or not. All cases
# are repeated if the processors were moved; after the third attempt they are kept as mixed.
handover_cells()
{
	local count=$1 try read handover figures before after
	for try in 1 2 3; do
		before=$(place)
		: >"$work/handover.cells"
		for read in false true; do
			for handover in on off; do
				figures=$(RIPC_HANDOVER=$handover timeout 120 \
					"$build/bench/handover" \
					"$client_cpu" "$server_cpu" "$count" \
					"$([ $read = false ] || echo read)" \
					2>"$work/handover.err") || {
					left_out+=("bench/handover, $handover: $(tail \
						-n 1 "$work/handover.err")")
					return 0
				}
				jq -c --arg handover $handover --argjson read $read \
					'{$handover, $read, rtt_us: .}' <<<"$figures" \
					>>"$work/handover.cells"
			done
		done
		after=$(place)
		[ "$before" != "$after" ] && [ $SECONDS -lt "$give_up" ] || break
		discarded=$((discarded + 4))
	done
	[ "$before" = "$after" ] || before=mixed
	jq -c --arg placement "$before" '. + {$placement}' "$work/handover.cells" >>"$work/handover"
}

# gaps: prints the cells that the table lacks, as lines "PLACEMENT PROGRAM HOST WAIT TEST SIZE". A
# row of the table needs all its cells in one placement, near or far. For each row that has them in
# neither, the missing cells of both placements are printed; rows that lack the fewest cells come
# first. Polling and adaptive waiting form one row, because the table compares libripc, adaptive,
# with others that poll.
gaps()
{
	touch "$work/results"
	jq -rn --slurpfile runs "$work/results" '
		[[$runs[] | select(
				(.test == "latency" and (.size == 64 or .size == 1024)) or
				.test == "rate" or
				(.test == "bandwidth" and
					(.size == 1048576 or .size == 16777216))) |
			.program |= (if . == "plain" then "ripc" else . end) |
			.cell = "\(.program) \(.host) \(.wait)"] |
		group_by([.host, if .wait == "adaptive" then "poll" else .wait end, .test,
			.size])[] | . as $row |
		([.[].cell] | unique) as $cells |
		[("near", "far") as $place | {$place,
			lacks: ($cells - [$row[] | select(.placement == $place) | .cell])}] |
		select(all(.[]; .lacks | length > 0))[] | . + {row: $row[0]}] |
			sort_by(.lacks | length)[] |
		.lacks[] as $cell | "\(.place) \($cell) \(.row.test) \(.row.size)"'
}

# fill: measures missing cells (gaps) of the present placement of the processors, one by one. Ends
# when none is missing, each was tried five times, $give_up has passed, the placement is unknown, or
# none was missing in the present placement for $idle_s.
idle_s=60
fill()
{
	local line key program host wait test size pass since=$SECONDS
	local -A tries=()
	while [ $SECONDS -lt "$give_up" ]; do
		next=$(place)
		[ "$next" != unknown ] || return 0
		gaps >"$work/gaps"
		[ -s "$work/gaps" ] || return 0
		key='' pass=''
		while read -r line; do
			[ "${tries[$line]:-0}" -lt 5 ] || continue
			pass=yes
			[ "${line%% *}" != "$next" ] || { key=$line; break; }
		done <"$work/gaps"
		[ -n "$pass" ] || return 0
		# No cell is missing in this placement: wait for the other one.
		if [ -z "$key" ]; then
			[ $((SECONDS - since)) -lt $idle_s ] || return 0
			sleep 0.2
			continue
		fi
		tries[$key]=$((${tries[$key]:-0} + 1))
		read -r _ program host wait test size <<<"$key"
		if ! cell "$program" "$host" "$wait" "$test" "$size" </dev/null; then
			tries[$key]=5
		elif [ "$placement" != mixed ]; then
			filled=$((filled + 1))
		fi
		since=$SECONDS
	done
}
