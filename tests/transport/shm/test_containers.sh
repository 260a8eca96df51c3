#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Containers of one host: processes with their own network, PID, IPC, UTS and mount namespaces. A
# virtual cable connects their resolvers, and a shared directory their shm.
name=test_containers
. "${srcdir:-$(dirname "$0")/../../..}/tests/tools/lib.sh"
unset RIPC_INTERFACES RIPC_SHM_DIR
a=ripc-cont-$$-a b=ripc-cont-$$-b
unshare="unshare --pid --ipc --uts --mount --fork --kill-child --mount-proc"
ping=./tools/ripc-ping

trap 'cleanup; ip netns del $a 2>/dev/null; ip netns del $b 2>/dev/null' EXIT
# shellcheck disable=SC2086
if ! { ip netns add $a && ip netns add $b &&
	ip netns exec $a $unshare true &&
	ip link add v0 netns $a type veth peer name v0 netns $b; } 2>"$err"; then
	skip "namespaces cannot be made here: $(tail -1 "$err")"
	finish
fi
for host in "$a 1" "$b 2"; do
	set -- $host
	ip -n "$1" addr add 198.51.100."$2"/24 brd + dev v0
	ip -n "$1" link set lo up
	ip -n "$1" link set v0 up
done

# on HOST COMMAND...: in a container of that host, for start.
# shellcheck disable=SC2086
on() {
	o_ns=$1
	shift
	exec ip netns exec "$o_ns" $unshare "$@"
}

# in_b COMMAND...: in the second container, for expect.
in_b="ip netns exec $b $unshare"

dir=$work/shared
mkdir "$dir"
id=$(random_id)
start serve on $a env RIPC_SHM_DIR="$dir" ./tools/ripc-ping --serve "$id"
ready serve "answering for service $id"
# shellcheck disable=SC2086
{
	expect "a container finds the service" 0 60 \
		$in_b env RIPC_SHM_DIR="$dir" $ping -c 5 -i 10 -W 10000 "$id"
	has "by shared memory" "$out" "by shm at "
	has "all are answered" "$out" "^5 sent, 5 answered"
	expect "long messages" 0 60 \
		$in_b env RIPC_SHM_DIR="$dir" $ping -c 20 -i 0 -s 4M -W 20000 "$id"
	has "all are answered" "$out" "^20 sent, 20 answered"
	# A container with another directory.
	hidden="mount -t tmpfs none $dir && exec ./tools/ripc-ping -v -c 1 -W 15000 $id"
	expect "a container without the directory, and nothing but shared memory allowed" 2 60 \
		$in_b env RIPC_TRANSPORTS=shm sh -c "$hidden"
	has "it says what is missing" "$err" "cannot connect to $dir/ripc-.*: No such file"
	expect "a container without the directory" 0 60 $in_b sh -c "$hidden"
	has "the network carries it" "$out" "by iwarp/soft at "
	has "and why is told" "$out" "cannot connect to $dir/ripc-.*: No such file"
	alone=$(random_id)
	start alone on $a ./tools/ripc-ping --serve "$alone"
	ready alone "answering for service $alone"
	expect "a server without a directory" 2 60 \
		$in_b env RIPC_TRANSPORTS=shm $ping -c 1 -W 15000 "$alone"
	has "it says what to set" "$err" "another network namespace of this host.*RIPC_SHM_DIR"
}

perf=$(random_id)
start perf on $a env RIPC_SHM_DIR="$dir" ./tools/ripc-perf server --service "$perf"
ready perf serving
for args in "latency --size 64,4096 --count 500" \
	"latency --size 1M --kind long --count 100 --verify" \
	"bandwidth --size 1M --count 100 --verify"; do
	# shellcheck disable=SC2086
	expect "ripc-perf $args" 0 60 \
		$in_b env RIPC_SHM_DIR="$dir" ./tools/ripc-perf $args --service "$perf"
	has "by shared memory" "$out" "^shm "
done

# A container is killed: its peer notices, and the next container removes its socket.
start pings on $b env RIPC_SHM_DIR="$dir" ./tools/ripc-ping -c 20 -i 500 -W 2000 "$id"
ready pings "^answer 2:"
for p in $pids; do
	[ "$p" = "$pid" ] || kill -9 "$p"
done
if gone "$pid" 150; then
	ok "a client whose server's container is killed ends"
else
	bad "a client whose server's container is killed ends" "$work/pings" "$work/pings.err"
fi
has "naming the service" "$work/pings.err" "service $id"
# shellcheck disable=SC2086
expect "the next container" 0 60 $in_b env RIPC_SHM_DIR="$dir" ./tools/ripc-info
if [ -z "$(ls "$dir")" ]; then
	ok "no socket is left"
else
	bad "no socket is left: $(ls "$dir")"
fi
finish
