#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# One round of bench/lab.sh, inside a guest of the lab: libripc over rxe0 and siw0, beside perftest
# on the same devices and plain sockets. Writes to $RIPC_LAB_OUT: lines "NAME VALUE" of measured
# figures to figures, lines "NAME REASON" of missing ones to missed, and the part in progress with
# the parts after it to parts.
#
# usage: bench/lab_guest.sh BUILD_DIR [PART...]     (default: all parts, see the end)
#   LESS=1      divides all counts, to try the script itself; from 10 on also reduces the sizes
#   BOOTS=1     number of boots, over which the round trips of the ping-pong are distributed
#   TIME=1200   seconds for all parts; each has a share, and the rest of it is for later parts
shopt -s extglob
build=$1
shift
[[ ${LESS:-1} =~ ^[1-9][0-9]*$ ]] || {
	echo "lab_guest: LESS=$LESS: a whole number from 1" >&2
	exit 2
}
less=${LESS:-1} boots=${BOOTS:-1} time=${TIME:-1200}
# few A B: A, or with few counts B.
few()
{
	[ "$less" -lt 10 ] && echo "$1" || echo "$2"
}
# shellcheck disable=SC2034
perf=$build/tools/ripc-perf
work=$(mktemp -d) || exit 1
client_cpu=0 server_cpu=1
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
: >"$RIPC_LAB_OUT/figures"
: >"$RIPC_LAB_OUT/missed"
roce=198.18.0.1 iwarp=198.18.1.1
# RoCE v2 over IPv4: perftest needs the GID index, libripc finds it.
gid=$(rdma_gid=$(grep -l "RoCE v2" /sys/class/infiniband/rxe0/ports/1/gid_attrs/types/* \
	2>/dev/null | while read -r f; do
	g=${f##*/}
	grep -q '^0000:0000:0000:0000:0000:ffff:' "/sys/class/infiniband/rxe0/ports/1/gids/$g" &&
		echo "$g"
done | head -n 1) && echo "${rdma_gid:-1}")

# missed "NAME ..." REASON: records why these figures are missing.
missed()
{
	local name reason
	reason=$(tr -s ' \t\n' ' ' <<<"${2:-it ended without a word}")
	for name in $1; do
		echo "$name ${reason:0:160}" >>"$RIPC_LAB_OUT/missed"
	done
	echo "$1: $reason" >&2
}

# figure NAME VALUE
figure()
{
	if [ -n "$2" ] && [ "$2" != null ]; then
		echo "$1 $2" >>"$RIPC_LAB_OUT/figures"
	else
		missed "$1" "its program printed no figure"
	fi
}

# in_time "NAME ...": whether there is time for these; and $cell_s, how many seconds at most.
in_time()
{
	cell_s=$((deadline - SECONDS))
	[ $cell_s -gt 2 ] || { missed "$1" "time was up"; return 1; }
	# A measurement that has begun may end, in part of the time of the following ones.
	cell_s=$((cell_s < 30 ? 30 : cell_s > 200 ? 200 : cell_s))
}

# why RC FILE...: the line of the output with the reason.
why()
{
	local rc=$1
	shift
	if [ "$rc" -eq 124 ]; then
		echo "not finished in $cell_s s"
	else
		grep -ahm 1 -iE 'error|fail|unable|ripc-perf:|cannot' "$@" || tail -qn 1 "$@"
	fi
}

# mine "NAME ..." WAIT OPTIONS -- TEST ARGUMENTS...: as ours, if there is time.
mine()
{
	local names=$1 rc
	shift
	in_time "$names" || return 1
	: >"$work/client.log"
	ours "$@" 2>/dev/null && return 0
	rc=$?
	missed "$names" "$(why $rc "$work/client.log" "$work/server.log")"
	return 1
}

# listens PORT: whether a process does, by TCP or by the connection manager.
listens()
{
	[[ $(</proc/net/tcp)$(</proc/net/tcp6) == *:$(printf %04X "$1")\ +(0):0000\ 0A* ]] ||
		[[ $(rdma resource show cm_id 2>/dev/null) == *":$1 "*LISTEN* ]]
}

# perftest NAME TOOL ADDRESS ARGUMENTS...: $line is the last line of its table; if there is none,
# the figure is missed.
perftest()
{
	local name=$1 tool=$2 address=$3 port=$((18000 + RANDOM % 2000)) server rc
	shift 3
	line=''
	in_time "$name" || return 1
	timeout $cell_s taskset -c $server_cpu "$tool" -p $port "$@" >"$work/pf.server" 2>&1 &
	server=$!
	pids=("$server")
	# One that fails at once has ended; one on a loaded machine takes its time.
	for _ in {1..300}; do
		kill -0 "$server" 2>/dev/null || break
		listens $port && break
		sleep 0.1
	done
	timeout $cell_s taskset -c $client_cpu "$tool" -p $port "$@" "$address" >"$work/pf.client" \
		2>&1
	rc=$?
	stop "$server"
	pids=()
	line=$(grep -E '^ *[0-9]+ +[0-9]+ +[0-9.]+' "$work/pf.client" | tail -n 1)
	if [ $rc -ne 0 ] || [ -z "$line" ]; then
		missed "$name" "$tool: $(why $rc "$work/pf.client" "$work/pf.server")"
		return 1
	fi
}

# Half a round trip is what perftest calls latency: its median, doubled; and megabytes of 2^20
# bytes.
pf_lat()
{
	perftest "$@" && figure "$1" "$(awk '{ print 2 * $5 }' <<<"$line")"
}

pf_read_lat()
{
	perftest "$@" && figure "$1" "$(awk '{ print $5 }' <<<"$line")"
}

pf_bw()
{
	perftest "$@" && figure "$1" "$(awk '{ print $4 * 1.048576 }' <<<"$line")"
}

# reliable_beside_short: round trips of reliable messages and of short ones in turns, over UD.
reliable_beside_short()
{
	local names="udrel_poll udshort_poll r_udrel_poll" line rc
	in_time "$names" || return
	# Many short turns: one that another process disturbs does not count.
	line=$(RIPC_WAIT=poll CPUS="$client_cpu $server_cpu" \
		LESS=$((less * 200 < 1000 ? less * 200 : 1000)) timeout $cell_s \
		"$build/bench/calls" ib 101 64 short_us,reliable_us 2>"$work/calls.err")
	rc=$?
	[ $rc -eq 0 ] || { missed "$names" "$(why $rc "$work/calls.err")"; return; }
	figure udrel_poll "$(jq .reliable_us <<<"$line")"
	figure udshort_poll "$(jq .short_us <<<"$line")"
	figure r_udrel_poll "$(jq '."reliable/short"' <<<"$line")"
}

rxe=(-d rxe0 -x "$gid" -F)
siw=(-d siw0 -R -F)

n()
{
	echo $(($1 / less > 5 ? $1 / less : 5))
}

part_short()
{
	local wait events=()
	for wait in poll block; do
		events=()
		[ $wait = poll ] || events=(-e)
		pf_lat pf_ud_$wait ib_send_lat $roce "${rxe[@]}" -c UD -s 64 \
			-n "$(n 5000)" "${events[@]}"
		mine ud_$wait $wait transports=ib -- latency --size 64 --count "$(n 10000)" \
			--kind short &&
			figure ud_$wait "$(result .rtt_us.p50)"
		pf_lat pf_rc_$wait ib_send_lat $roce "${rxe[@]}" -c RC -s 64 \
			-n "$(n 5000)" "${events[@]}"
		mine rc_$wait $wait transports=ib short=rdma -- latency --size 64 \
			--count "$(n 10000)" --kind short &&
			figure rc_$wait "$(result .rtt_us.p50)"
		pf_lat pf_siw_$wait ib_send_lat $iwarp "${siw[@]}" -s 64 \
			-n "$(n 5000)" "${events[@]}"
		mine siw_$wait $wait transports=iwarp/verbs short=rdma -- latency --size 64 \
			--count "$(n 10000)" --kind short &&
			figure siw_$wait "$(result .rtt_us.p50)"
		mine "siwudp_$wait udp_$wait" $wait transports=iwarp/verbs short=udp -- latency \
			--size 64 --count "$(n 10000)" --kind short \
			--baseline udp && {
			figure siwudp_$wait "$(result .rtt_us.p50)"
			figure udp_$wait "$(result .baseline.rtt_us.p50)"
		}
		mine soft_$wait $wait transports=iwarp/soft short=rdma -- latency --size 64 \
			--count "$(n 10000)" --kind short &&
			figure soft_$wait "$(result .rtt_us.p50)"
	done
	reliable_beside_short
	# As many bytes as those of libripc with their headers (4, by datagram 52): from 79 on the
	# guest's kernel uses another path for rxe's checksums, which is expensive in an emulator.
	pf_lat pf_udw_poll ib_send_lat $roce "${rxe[@]}" -c UD -s 116 -n "$(n 5000)"
	pf_lat pf_rcw_poll ib_send_lat $roce "${rxe[@]}" -c RC -s 68 -n "$(n 5000)"
	pf_lat pf_siww_poll ib_send_lat $iwarp "${siw[@]}" -s 68 -n "$(n 5000)"
}

# The ping-pong of the theses: 50 to 1400 bytes, beside blocking TCP. Every other size first: what
# there is no time for is then spread over them.
part_pingpong()
{
	local too_long="no short message by UDP: these have at most 1148 bytes"
	local kind name options i all sizes size names count
	count=$(n $((10000 / boots)))
	for all in $(few "$(seq -s , 50 100 1350) $(seq -s , 100 100 1400)" 50,700,1400); do
		for kind in short long; do
			for name in soft siw siwudp ib; do
				sizes=$all
				if [ $kind$name = shortsiwudp ]; then
					# Over UDP a short message fits into the smallest MTU that
					# every path has.
					sizes=''
					for size in ${all//,/ }; do
						if [ "$size" -le 1148 ]; then
							sizes+=${sizes:+,}$size
						else
							missed pp_short_siwudp_"$size" "$too_long"
						fi
					done
				fi
				case $name in
				soft) options=(transports=iwarp/soft short=rdma) ;;
				siw) options=(transports=iwarp/verbs short=rdma) ;;
				siwudp) options=(transports=iwarp/verbs short=udp) ;;
				ib) options=(transports=ib) ;;
				esac
				# shellcheck disable=SC2086 # they are words
				names=$(printf "pp_${kind}_${name}_%s " ${sizes//,/ })
				mine "$names" poll "${options[@]}" -- latency --size "$sizes" \
					--count "$count" --kind $kind \
					--baseline tcp:block || continue
				# One start of jq for all sizes: it is slow in an emulator.
				jq -r --arg n "pp_${kind}_$name" --argjson sizes "[$sizes]" \
					'.results as $r | $sizes | to_entries[] |
					"\($n)_\(.value) \($r[.key].rtt_us.p50)",
					"\($n)_tcpblock_\(.value) " +
						"\($r[.key].baseline.rtt_us.p50)"' \
					"$work/report.json" |
					awk -v missed="$RIPC_LAB_OUT/missed" '
						$2 == "null" {
							print $1, "its program printed no figure" \
								>>missed
							next
						}
						{ print }' >>"$RIPC_LAB_OUT/figures"
			done
		done
	done
	mine "tcppoll_50 tcppoll_700 tcppoll_1400" poll transports=iwarp/soft -- latency \
		--size 50,700,1400 --count "$count" --kind short \
		--baseline tcp:poll && for i in 0 1 2; do
		figure tcppoll_$((i == 0 ? 50 : 700 * i)) "$(result .baseline.rtt_us.p50 $i)"
	done
}

part_bandwidth()
{
	local size bytes count
	for size in $(few "64K 256K 1M 4M 16M" "64K 1M"); do
		bytes=$(numfmt --from=iec $size)
		count=$(n $((512 * 1024 * 1024 / bytes < 4000 ? 512 * 1024 * 1024 / bytes : 4000)))
		pf_bw pf_siw_read_$size ib_read_bw $iwarp "${siw[@]}" -s "$bytes" -n "$count"
		pf_bw pf_siw_write_$size ib_write_bw $iwarp "${siw[@]}" -s "$bytes" -n "$count"
		mine "siw_bw_$size tcp_bw_$size" poll transports=iwarp/verbs -- bandwidth \
			--size $size --count "$count" --baseline tcp:poll && {
			figure siw_bw_$size "$(result .mb_per_s)"
			figure tcp_bw_$size "$(result .baseline.mb_per_s)"
		}
		count=$((count / 4 > 20 ? count / 4 : 20))
		pf_bw pf_rxe_read_$size ib_read_bw $roce "${rxe[@]}" -s "$bytes" -n "$count"
		pf_bw pf_rxe_write_$size ib_write_bw $roce "${rxe[@]}" -s "$bytes" -n "$count"
		mine rxe_bw_$size poll transports=ib -- bandwidth --size $size --count "$count" &&
			figure rxe_bw_$size "$(result .mb_per_s)"
	done
}

# Messages of 4 KiB and more one at a time by ripc_send(), and as long messages into return buffers,
# beside a send and a write of that size.
part_long()
{
	local size bytes dev transport address args
	for dev in siw rxe; do
		if [ $dev = siw ]; then
			transport=iwarp/verbs address=$iwarp args=("${siw[@]}")
		else
			transport=ib address=$roce args=("${rxe[@]}")
		fi
		for size in $(few "4K 16K 64K 256K 1M" "16K 256K"); do
			bytes=$(numfmt --from=iec $size)
			pf_lat pf_${dev}_sendlat_$size ib_send_lat $address "${args[@]}" \
				-s "$bytes" -n "$(n 500)"
			pf_lat pf_${dev}_writelat_$size ib_write_lat $address "${args[@]}" \
				-s "$bytes" -n "$(n 500)"
			mine ${dev}_long_$size poll transports=$transport short=rdma -- latency \
				--size $size --count "$(n 500)" --kind auto &&
				figure ${dev}_long_$size "$(result .rtt_us.p50)"
			mine ${dev}_return_$size poll transports=$transport short=rdma -- latency \
				--size $size --count "$(n 500)" --kind long \
				--returns && figure ${dev}_return_$size "$(result .rtt_us.p50)"
		done
	done
}

# Files as in the theses, against plain blocking TCP in the same two processes, and what a read of
# that size allows.
part_files()
{
	local name names options size count id port line to rc sizes
	sizes=$(few "128K:1000 1M:200 8M:30 80M:6" "128K:1000 1M:200")
	for name in soft siw ib; do
		case $name in
		soft) options=transports=iwarp/soft ;;
		siw) options=transports=iwarp/verbs ;;
		ib) options=transports=ib ;;
		esac
		names=" $sizes" names=${names// / file_${name}_} names=${names//:+([0-9])}
		in_time "$names" || continue
		coproc SERVER { exec taskset -c $server_cpu "$build/bench/files" server "$options" \
			2>"$work/files.server"; }
		to=${SERVER[1]}
		if ! read -r -t 60 id port <&"${SERVER[0]}"; then
			missed "$names" "no server: $(tail -n 1 "$work/files.server")"
			stop "$SERVER_PID"
			continue
		fi
		for size in $sizes; do
			count=${size#*:} size=${size%:*}
			in_time "file_${name}_$size" || continue
			line=$(timeout $cell_s taskset -c $client_cpu "$build/bench/files" client \
				"$id" "$port" \
				"$(numfmt --from=iec "$size")" "$(n "$count")" "$options" \
				2>"$work/files.client")
			rc=$?
			[ $rc -eq 0 ] || { missed "file_${name}_$size" \
				"$(why $rc "$work/files.client" "$work/files.server")"; continue; }
			figure "file_${name}_$size" "$(jq .us <<<"$line")"
			figure "file_${name}_tcp_$size" "$(jq .tcp_us <<<"$line")"
			figure "file_${name}_times_$size" "$(jq .times_tcp <<<"$line")"
		done
		eval "exec $to>&-"
		# It ends with its input; one that serves somebody who has gone may wait for him.
		for _ in {1..50}; do
			kill -0 "$SERVER_PID" 2>/dev/null || break
			sleep 0.1
		done
		stop "$SERVER_PID"
	done
	for size in $sizes; do
		count=$(n "${size#*:}") size=${size%:*}
		pf_bw "pf_file_siw_$size" ib_read_bw $iwarp "${siw[@]}" \
			-s "$(numfmt --from=iec "$size")" -n "$count"
		pf_bw "pf_file_ib_$size" ib_read_bw $roce "${rxe[@]}" \
			-s "$(numfmt --from=iec "$size")" -n "$count"
	done
}

# other NAME PORT FILTER SERVER... -- CLIENT...: the figure is what awk's FILTER prints of the
# client's output.
other()
{
	local name=$1 port=$2 filter=$3 words=() server value
	shift 3
	while [ "$1" != -- ]; do
		words+=("$1")
		shift
	done
	shift
	command -v "${words[0]}" >/dev/null ||
		{ missed "$name" "${words[0]} is not installed"; return; }
	in_time "$name" || return
	timeout -k 2 60 taskset -c $server_cpu "${words[@]}" >"$work/other.server" 2>&1 &
	server=$!
	# In an emulator some take seconds to begin.
	for _ in {1..200}; do
		listens "$port" && break
		sleep 0.1
	done
	timeout -k 2 30 taskset -c $client_cpu "$@" >"$work/other.client" 2>&1
	value=$(awk "$filter" "$work/other.client")
	stop $server
	if [ -n "$value" ]; then
		figure "$name" "$value"
	else
		missed "$name" "$1: $(why 0 "$work/other.client" "$work/other.server")"
	fi
}

# Other programs on the same devices. UCX 1.13 looks for the address of each datagram's target in
# the header before it, does not find it where rxe puts it, and drops the datagram silently, also
# those that set up its RC. An option disables the check. The median of ucx_perftest is that of its
# last 2048 rounds; libfabric prints a mean.
part_others()
{
	local tls dev address count
	count=$(n 5000)
	[ "$count" -ge 2100 ] || count=2100
	export UCX_NET_DEVICES=rxe0:1 UCX_IB_GID_INDEX=$gid UCX_UD_VERBS_ETH_DGID_CHECK=n \
		UCX_WARN_UNUSED_ENV_VARS=n
	uct()
	{
		other uct_$1 19990 '/^Final:/ { print 2 * $3 }' ucx_perftest -p 19990 -- \
			ucx_perftest $roce -p 19990 -x $1 -d rxe0:1 -t am_lat -s 64 -n "$count" \
			-w 100
	}
	uct rc_verbs
	# Its completion queues are for FI_UNIVERSE_SIZE peers, by default 256: more entries than
	# these devices have. By default it uses the first device, whatever the address.
	export FI_UNIVERSE_SIZE=4
	for dev in rxe siw; do
		address=$([ $dev = rxe ] && echo $roce || echo $iwarp)
		other fi_$dev 47592 '$1 == "64" { print 2 * $(NF - 1) }' \
			fi_pingpong -p "verbs;ofi_rxm" -e rdm -d ${dev}0 -S 64 -I "$(n 5000)" -- \
			fi_pingpong -p "verbs;ofi_rxm" -e rdm -d ${dev}0 -S 64 \
			-I "$(n 5000)" "$address"
	done
	# Sockets over RDMA: it prints half a round trip.
	for address in $roce $iwarp; do
		other "rs_$([ "$address" = $roce ] && echo rxe || echo siw)" 17471 \
			'$2 == "64" { print 2 * $NF }' \
			rstream -p 17471 -S 64 -C 1 -I "$(n 5000)" -- rstream -s "$address" \
			-p 17471 -S 64 -C 1 -I "$(n 5000)"
	done
	# Last, as these take all of their time where they hang. rc_v and ud_v are rc_verbs and
	# ud_verbs with what sets up their connections.
	for tls in rc_v ud_v; do
		UCX_TLS=$tls other ucx_${tls}erbs 19991 '/^Final:/ { print 2 * $3 }' ucx_perftest \
			-p 19991 -- \
			ucx_perftest $roce -p 19991 -t tag_lat -s 64 -n "$count" -w 100
	done
	uct ud_verbs
}

# share PART: how much of the time it needs, beside the others.
share()
{
	case $1 in
	short | others) echo 3 ;;
	files) echo 4 ;;
	bandwidth) echo 6 ;;
	long) echo 7 ;;
	pingpong) echo 8 ;;
	*) return 1 ;;
	esac
}

[ $# -gt 0 ] || set -- short bandwidth long files pingpong others
left=0
for part in "$@"; do
	one=$(share "$part") || exit 2
	left=$((left + one))
done
while [ $# -gt 0 ]; do
	part=$1
	# For whom this guest is ended: what was under way, and what follows.
	echo "$*" >"$RIPC_LAB_OUT/parts"
	start=$SECONDS one=$(share "$part")
	deadline=$((start + (time - start) * one / left))
	left=$((left - one))
	"part_$part"
	figure "seconds_$part" $((SECONDS - start))
	echo "lab_guest: $part: $((SECONDS - start)) s" >&2
	shift
done
rm -f "$RIPC_LAB_OUT/parts"
