#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Containers of one host: processes with their own network, PID, IPC, UTS and mount namespaces. A
# virtual cable connects their resolvers, and a shared directory their shm.
name=test_containers
. "${srcdir:-$(dirname "$0")/../../..}/tests/tools/lib.sh"
unset RIPC_INTERFACES RIPC_SHM_DIR
unshare="unshare --pid --ipc --uts --mount --fork --kill-child --mount-proc"
ping=./tools/ripc-ping

# shellcheck disable=SC2086
container() {
	ip netns exec $a $unshare true
}
two_hosts cont container
two_addresses

# in_a COMMAND..., in_b COMMAND...: in a container.
in_a="ip netns exec $a $unshare" in_b="ip netns exec $b $unshare"

dir=$work/shared
mkdir "$dir"
id=$(random_id)
start serve $in_a env RIPC_SHM_DIR="$dir" ./tools/ripc-ping --serve "$id"
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
	start alone $in_a ./tools/ripc-ping --serve "$alone"
	ready alone "answering for service $alone"
	expect "a server without a directory" 2 60 \
		$in_b env RIPC_TRANSPORTS=shm $ping -c 1 -W 15000 "$alone"
	has "it says what to set" "$err" "another network namespace of this host.*RIPC_SHM_DIR"
}

perf=$(random_id)
start perf $in_a env RIPC_SHM_DIR="$dir" ./tools/ripc-perf server --service "$perf"
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
start pings $in_b env RIPC_SHM_DIR="$dir" ./tools/ripc-ping -c 20 -i 500 -W 2000 "$id"
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
