#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Processor time of one round trip of a short message by layer, in nanoseconds, both sides together.
# bench/layers has both sides in one thread, so neither waits. perf samples the functions of the
# library and of the kernel by the processor's clock, which every machine and guest has. The cost of
# waking up is the difference of ripc-perf sleeping and polling, between two processes. The wire
# alone is listed where it can be measured. Time of kernel threads (Soft-RoCE, SoftiWARP) appears as
# polls without result, in the transport. Prints Markdown tables. bench/layers.sh counts
# instructions, which do not depend on the load of the machine.
#
# usage: bench/profile.sh [BUILD_DIR [BYTES]]     (default: . and 64), built with -g
#   TRANSPORTS="ib ..."  other transports than shm and iwarp/soft, which use the loopback;
#                        "ib iwarp/verbs" in a guest of the lab:
#                        tests/lab/run --env TRANSPORTS="ib iwarp/verbs" bench/profile.sh BUILD_DIR
#   SECONDS_EACH=2       duration of each sampling; below 1 to try the script itself
#   LOOKS=4000           samples per second; 200 in an emulator, where each takes long
#   CPUS="0 1"           the processors of client and server
#   FUNCTIONS=20         also lists the 20 functions with the most time
build=$(cd "${1:-.}" && pwd) && bytes=${2:-64} || exit 1
[ -n "${TRANSPORTS:-}" ] || export RIPC_INTERFACES=lo
each=${SECONDS_EACH:-2}
grep -q "QEMU TCG" /proc/cpuinfo && looks=${LOOKS:-200} || looks=${LOOKS:-4000}
read -r client_cpu server_cpu <<<"${CPUS:-0 1}"
work=$(mktemp -d) || exit 1
trap '[ ${#pids[@]} -eq 0 ] || stop "${pids[@]}"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
# shellcheck disable=SC2034
perf=$build/tools/ripc-perf
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
needs "$build" "perf addr2line jq" "linux-perf, binutils, jq" bench/layers tools/ripc-perf || exit 1

# trips TRANSPORT COUNT [COMMAND...]: runs COUNT round trips, under COMMAND; prints the nanoseconds
# of one.
trips()
{
	local transport=$1 n=$2
	shift 2
	timeout 300 "$build/libtool" --mode=execute taskset \
		-c "$client_cpu" "$@" "$build/bench/layers" "$n" "$bytes" \
		"transports=$transport wait=poll" 2>"$work/log" ||
		{ tail -n 3 "$work/log" >&2; return 1; }
}

# lines: prints the samples of perf as lines "SHARE FILE:FUNCTION" or "SHARE [kernel]:FUNCTION".
# Names of static functions are not unique, so the file of a function of the library is found by its
# address: by the mapping of the library and its debugging information.
lines()
{
	perf script -F ip,sym,dso --show-mmap-events -i "$work/perf.data" 2>/dev/null \
		>"$work/script" || return 1
	# shellcheck disable=SC2016
	awk '
		function number(text,   v, i) {
			for (i = 1; i <= length(text); i++)
				v = v * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
			return v
		}
		/PERF_RECORD_MMAP2/ && / r-xp / {
			split($0, part, /[][(@]+/)
			n++
			start[n] = number(substr(part[2], 3))
			bytes[n] = number(substr(part[3], 3))
			at = part[4]; sub(/^ */, "", at); sub(/ .*/, "", at)
			offset[n] = at ~ /^0x/ ? number(substr(at, 3)) : 0
			file[n] = $NF
			next
		}
		/PERF_RECORD/ { next }
		NF >= 3 {
			dso = $NF
			gsub(/[()]/, "", dso)
			if (dso !~ /^\//) { print "- [kernel]" dso ":" $2; next }
			ip = number($1)
			for (i = n; i >= 1; i--)
				if (file[i] == dso && ip >= start[i] && ip < start[i] + bytes[i])
					break
			printf "0x%x %s:%s\n", i ? ip - start[i] + offset[i] : 0, dso, $2
		}' "$work/script" >"$work/places"
	# Only functions of the library need their file.
	grep -E '^0x[0-9a-f]+ [^:]*/(libripc[^/]*|layers):' "$work/places" |
		sed -E 's/^(0x[0-9a-f]+) ([^:]*):.*/\2 \1/' | sort -u >"$work/ours"
	cut -d' ' -f1 "$work/ours" | sort -u | while read -r dso; do
		awk -v dso="$dso" '$1 == dso { print $2 }' "$work/ours" >"$work/addresses"
		addr2line -f -e "$dso" <"$work/addresses" | paste - - | paste "$work/addresses" - |
			awk -v dso="$dso" \
			'{ sub(/:[0-9?]*( .*)?$/, "", $3); print dso, $1, $3 ":" $2 }'
	done >"$work/known"
	awk '
		FNR == NR { known[$1 " " $2] = $3; next }
		{ split($2, p, ":"); name = known[p[1] " " $1]; n[name == "" ? $2 : name]++ }
		END { for (f in n) print n[f], f }' "$work/known" "$work/places"
}

layer='
	function layer(f) {
		if (f ~ /src\/base\/clock/ ||
		    f ~ /clock_gettime|vdso|read_hpet|pvclock|ktime_get/)
			return "clock"
		if (f ~ /src\/core\/(message\/(receive|dispatch)|memory\/message|service)/)
			return "deliver"
		if (f ~ /src\/core\/(message|context|peer\/lane_post)/) return "call"
		if (f ~ /src\/core\/progress\//) return "progress, waiting, locks"
		if (f ~ /src\/(core|wire|resolver)\//) return "protocol"
		if (f ~ /src\/transport\//) return "ring, verbs or socket"
		if (f ~ /bench\/layers/) return "the program itself"
		if (f ~ /^\[kernel\]\[(rdma_rxe|siw|ib_|rdma_)/ ||
		    f ~ /:(rxe|siw|ib|uverbs|rdma)_/)
			return "driver (kernel)"
		if (f ~ /^\[kernel\].*:.*(sched|futex|wake|ttwu|ep_|poll|timer|switch)/ ||
		    f ~ /^\[kernel\].*:.*(idle|cpuacct|psi_|update_curr|dequeue)/ ||
		    f ~ /^\[kernel\].*:.*enqueue_(task|ent)/)
			return "waking up, timers (kernel)"
		if (f ~ /^\[kernel\].*:.*(tcp|ip_|ip6|ipv|inet|sock|skb|sk_|dev_|net|loopback)/ ||
		    f ~ /^\[kernel\].*:.*(eth_|nf_|fib_|udp|xmit|csum|napi|backlog)/)
			return "wire: network stack (kernel)"
		if (f ~ /^\[kernel\].*:.*(copy|memcpy|iov_iter)/) return "wire: copies (kernel)"
		if (f ~ /^\[kernel\]/) return "system calls, else (kernel)"
		if (f ~ /verbs|siw|rxe|rdma|mlx/) return "driver, libibverbs"
		return "libc, else"
	}'

# sampled TRANSPORT COUNT: samples COUNT round trips into the file "each"; prints the nanoseconds of
# one, measured without perf, and the number of samples.
sampled()
{
	local ns
	ns=$(trips "$1" "$2") && trips "$1" "$2" perf record -q -N -B \
		-e cpu-clock:u -e cpu-clock:k -F "$looks" -o "$work/perf.data" >/dev/null &&
		lines >"$work/each" || return 1
	awk -v ns="$ns" '{ n += $1 } END { print ns, n + 0 }' "$work/each"
}

# Each run takes $each seconds, for some thousand samples.
for transport in ${TRANSPORTS:-shm iwarp/soft}; do
	one=$(trips "$transport" 200) || exit 1
	n=$(awk -v ns="$one" \
		-v s="$each" 'BEGIN { n = s * 1e9 / ns; printf "%d", (n > 100 ? n : 100) }')
	# Another program may have had the processor during the 200: with fewer than half of the
	# samples, the run is repeated with more round trips.
	for _ in 1 2 3 4 5; do
		read -r ns samples < <(sampled "$transport" "$n") || exit 1
		n=$(awk -v want="$each" -v n="$n" -v samples="$samples" -v looks="$looks" 'BEGIN {
			want *= looks
			if (samples < want / 2) printf "%d", n * want / (samples + 1) }')
		[ -n "$n" ] || break
	done
	[ "$samples" -gt 0 ] ||
		{ echo "profile: perf took no samples of $transport" >&2; exit 1; }
	grep -q ' [^ ]*src/core/' "$work/each" || {
		echo "profile: $build has no debugging information: build it with -g" >&2
		exit 1
	}
	echo
	echo "| $transport, $bytes B: layer | ns of a processor per round trip | share |"
	echo "|---|---|---|"
	awk -v ns="$ns" "$layer"' { sum[layer($2)] += $1; all += $1 }
		END {
			for (l in sum)
				printf "%d\t| %s | %.0f | %.0f %% |\n", sum[l], l,
					ns * sum[l] / all, 100 * sum[l] / all
			printf "-1\t| **all**, of %d samples | **%.0f** | |\n", all, ns
		}' "$work/each" | sort -rn | cut -f2
	[ -z "${FUNCTIONS:-}" ] || { echo; sort -rn "$work/each" | head -n "$FUNCTIONS"; }
	# Between two processes.
	for wait in poll block; do
		baseline=()
		[ "$transport" = iwarp/soft ] && baseline=(--baseline "tcp:$wait")
		count=$(awk -v ns="$ns" -v s="$each" -v w=$wait 'BEGIN {
			n = s * 1e9 / (ns + (w == "poll" ? 0 : 100000)) / 2
			printf "%d", (n > 20 ? n : 20) }')
		ours $wait "transports=$transport" "short=rdma" -- latency --size "$bytes" \
			--count "$count" --kind short "${baseline[@]}" || exit 1
		jq -r --arg wait $wait '.results[0] | [$wait, (.rtt_us.p50 * 1000 | round),
			(.baseline.rtt_us.p50 // 0 | . * 1000 | round) | tostring] | join(" ")' \
			"$work/report.json"
	done >"$work/two"
	wire=-
	case $transport in
	shm | pcie) wire="a bare cache line: $(timeout 60 "$build/bench/ring" "$client_cpu" \
		"$server_cpu" 20000 2>/dev/null | jq '.line.p50 * 1000 | round')" ;;
	iwarp/soft) wire="plain TCP, polling: $(awk '$1 == "poll" { print $3 }' "$work/two")" ;;
	ib) "$perf" verbs -s "$bytes" --rate 0 --depth 1 -c 2000 --inline "$bytes" \
		--pin "$client_cpu" -j "$work/verbs.json" >/dev/null 2>&1 &&
		wire="queue pairs alone: $(jq '.results[0].oneway_us.p50 * 2000 | round' \
		"$work/verbs.json")" ;;
	esac
	awk -v wire="$wire" '
		{ p50[$1] = $2 }
		END {
			print "\n| between two processes, p50 | ns per round trip, by the clock |"
			print "|---|---|"
			print "| polling | " p50["poll"] " |\n| sleeping | " p50["block"] " |"
			print "| waking up, both sides: the difference | " \
				p50["block"] - p50["poll"] " |"
			sub(/: /, " | ", wire)
			if (wire != "-") print "| the wire by itself: " wire " |"
		}' "$work/two"
done
