#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The tools on two hosts: two network namespaces joined by a veth pair, and what happens when the
# cable is pulled.
name=test_two_hosts
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
# With the time-outs that everybody has: what they do is seen here.
unset RIPC_INTERFACES RIPC_PEER_TIMEOUT_MS RIPC_RESOLVE_TIMEOUT_MS
two_hosts two true
two_addresses

id=$(random_id)
start serve ip netns exec $a ./tools/ripc-ping --serve "$id"
ready serve "answering for service $id"
expect "another host finds the service" 0 60 ip netns exec $b ./tools/ripc-ping -c 5 -i 10 \
	-W 10000 "$id"
has "over the cable" "$out" "by iwarp/soft at .*198.51.100.1:"
has "all are answered" "$out" "^5 sent, 5 answered"
expect "a long message" 0 60 ip netns exec $b ./tools/ripc-ping -c 2 -i 0 -s 8M "$id"
expect "the id is held, also for another host" 3 60 ip netns exec $b ./tools/ripc-ping --serve "$id"
has "the holder is named" "$err" "198.51.100.1:"

perf=$(random_id)
# These two keep both processors busy.
start perf ip netns exec $a ./tools/ripc-perf server --service "$perf" -o peer_timeout_ms=20000
ready perf "serving at service"
for args in "latency --size 64,4096 --count 2000" "rate --size 64 --count 100000" \
	"bandwidth --size 1048576 --count 50 --verify" \
	"latency -o crc=on --size 1048576 --kind long --count 20" \
	"latency -o short=udp --size 64 --count 500"; do
	# shellcheck disable=SC2086
	expect "ripc-perf $args" 0 60 ip netns exec $b ./tools/ripc-perf $args --service "$perf" \
		-o peer_timeout_ms=20000
done

# A megabyte takes longer over this link than a peer may be silent: slow is not silent.
if ip netns exec $a tc qdisc add dev v0 root tbf rate 2mbit burst 20kb latency 2s 2>"$err"; then
	expect "a long message over a slow link" 0 60 ip netns exec $b ./tools/ripc-ping -c 1 \
		-s 1M -W 50000 "$id"
	has "is answered" "$out" "^1 sent, 1 answered"
	ip netns exec $a tc qdisc del dev v0 root
else
	skip "a slow link: $(tail -1 "$err")"
fi

# A firewall that drops TCP: the service is found, over UDP, and cannot be reached. A rule of the
# routing policy does it, before the table of local addresses.
filter() {
	for family in -4 -6; do
		ip -n "$1" "$family" rule add pref 10 iif v0 ipproto tcp blackhole &&
			ip -n "$1" "$family" rule add pref 20 lookup local &&
			ip -n "$1" "$family" rule del pref 0 || return
	done
}
unfilter() {
	for family in -4 -6; do
		ip -n "$1" "$family" rule add pref 0 lookup local
		ip -n "$1" "$family" rule del pref 10
		ip -n "$1" "$family" rule del pref 20
	done
}
tried="cannot be reached: iwarp/soft: 198\.51\.100\.1:[0-9]*: no answer in 1000 ms, "
tried="${tried}a firewall may drop TCP; shm: "
if filter $a 2>"$err"; then
	expect "TCP dropped: no answer yet" 2 60 ip netns exec $b ./tools/ripc-ping -W 600 "$id"
	has "the attempt under way comes first" "$err" \
		"reached: iwarp/soft: no answer from 198.51.100.1:.* yet, .*; shm: "
	# In the first round, in the second, and when the peer was given up and looked up again.
	for ms in 1500 3000 5000; do
		expect "TCP dropped: tried for $ms ms" 2 60 \
			ip netns exec $b ./tools/ripc-ping -W $ms "$id"
		has "all that was tried is named, the likeliest cause first" "$err" "$tried"
	done
	expect "TCP dropped: the doctor" 1 60 ip netns exec $b ./tools/ripc-info -d -s "$id"
	has "names all that was tried, too" "$out" "^fault: service: service $id: .* $tried"
	unfilter $a
	expect "and TCP let through again" 0 60 \
		ip netns exec $b ./tools/ripc-ping -c 1 -W 10000 "$id"
	expect "the doctor reaches the service" 0 60 ip netns exec $b ./tools/ripc-info -d -s "$id"
	has "and says over what" "$out" \
		"^.*: service $id was reached over iwarp/soft at .*198.51.100.1:.* in [0-9]* us"
else
	skip "TCP dropped: this kernel has no routing rules for a protocol: $(tail -1 "$err")"
fi

# The cable is pulled in the middle: nothing hangs, and the sender learns that the peer is gone.
start pings ip netns exec $b ./tools/ripc-ping -c 20 -i 500 -W 2000 "$id"
ready pings "^answer 2:"
ip -n $a link set v0 down
if gone "$pid" 150; then
	ok "a client whose cable is pulled ends"
	if [ "$status" -ne 0 ]; then
		ok "and says that it failed"
	else
		bad "and says that it failed" "$work/pings"
	fi
else
	bad "a client whose cable is pulled ends" "$work/pings" "$work/pings.err"
fi
has "naming the service and the cause" "$work/pings.err" \
	"service $id: .* cannot be reached: ."
ip -n $a link set v0 up
expect "and finds it again when the cable is back" 0 60 ip netns exec $b ./tools/ripc-ping -c 3 \
	-i 10 -W 30000 "$id"
finish
