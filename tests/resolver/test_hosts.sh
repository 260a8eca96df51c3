#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The resolver on three hosts in two networks: namespaces a and b behind a bridge, c behind a
# router, which is the namespace r.
#
#	a 10.7.1.1 ──┐
#	             ├─ bridge 10.7.1.254 ─ r ─ 10.7.2.254 ── c 10.7.2.3
#	b 10.7.1.2 ──┘
#
# usage: test_hosts.sh (the test program is looked for in the build tree)
set -u
unset RIPC_INTERFACES RIPC_RESOLVER
name=hosts program=resolver_tool
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
h=ripc-h$$
a=$h-a b=$h-b c=$h-c r=$h-r
namespaces=("$a" "$b" "$c" "$r")

# join HOST ADDRESS PORT: a host at the other end of PORT of the router
join()
{
	ip link add "$3" netns "$r" type veth peer name v0 netns "$1" &&
		ip -n "$1" addr add "$2/24" dev v0 && ip -n "$1" link set lo up &&
		ip -n "$1" link set v0 up &&
		ip -n "$r" link set "$3" up && ip -n "$1" route add default via "${2%.*}.254"
}

network()
{
	local ns
	for ns in "${namespaces[@]}"; do
		ip netns add "$ns" &&
			ip netns exec "$ns" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
			net.ipv6.conf.default.disable_ipv6=1 || return 1
	done
	ip -n "$r" link add br0 type bridge forward_delay 0 &&
		ip -n "$r" addr add 10.7.1.254/24 dev br0 &&
		ip -n "$r" link set br0 up && ip netns exec "$r" sysctl -qw net.ipv4.ip_forward=1 &&
		join "$a" 10.7.1.1 pa && join "$b" 10.7.1.2 pb && join "$c" 10.7.2.3 pc &&
		ip -n "$r" link set pa master br0 && ip -n "$r" link set pb master br0 &&
		ip -n "$r" addr add 10.7.2.254/24 dev pc
}

if ! why=$(network 2>&1); then
	skip "three hosts with a router cannot be made here: $why"
fi

# refuses HOST ADDRESS: whether the address refuses a connection from the host
refuses()
{
	LC_ALL=C ip netns exec "$1" timeout 1 bash -c "exec 3<>/dev/tcp/$2/9" 2>&1 |
		grep -q refused
}

# reaches HOST ADDRESS: waits up to 20 s until the host answers; the kernel detects a carrier late.
# A refused connection is an answer too.
reaches()
{
	wait_until 20 refuses "$@"
}

# start HOST FILE ARGUMENTS...: the tool in the background
start()
{
	local ns=$1 file=$tmp/$2
	shift 2
	: >"$file"
	ip netns exec "$ns" "${wrap[@]}" "$tool" "$@" </dev/null >"$file" 2>&1 &
	pids+=($!)
}
wrap=(env)

# shows WHAT FILE PATTERN: waits for a line
shows()
{
	if await "$tmp/$2" "$3"; then
		echo "PASS: $1"
		passed=$((passed + 1))
		return
	fi
	echo "FAIL: $1: no line like \"$3\" in"
	tail -n 5 "$tmp/$2"
	failed=$((failed + 1))
}

# ask WHAT PATTERN HOST ARGUMENTS...
ask()
{
	local what=$1 pattern=$2 ns=$3 out
	shift 3
	out=$(ip netns exec "$ns" timeout 60 "$tool" "$@" </dev/null 2>/dev/null)
	if grep -q -- "$pattern" <<<"$out"; then
		echo "PASS: $what"
		passed=$((passed + 1))
	else
		echo "FAIL: $what: \"$out\" is not \"$pattern\""
		failed=$((failed + 1))
	fi
}

if ! reaches "$a" 10.7.1.2 || ! reaches "$c" 10.7.1.1 || ! reaches "$b" 10.7.2.3; then
	echo "FAIL: the hosts do not reach each other"
	failed=1
	exit
fi
printf '%s\n' '* 10.7.1.1 10.7.1.2' >"$tmp/list.c"
printf '%s\n' '* 10.7.2.3' >"$tmp/list.a"
far="resolver=local,udp,file:$tmp/list.c resolve_timeout_ms=20000"
back="resolver=local,udp,file:$tmp/list.a resolve_timeout_ms=20000"

# --- broadcast ends at the router; a list of hosts does not ---
start "$a" a42 register 42 "$back"
shows "the first host holds a service" a42 '^registered 42'
ask "its neighbour finds it" '^resolved 42' "$b" lookup 42 resolve_timeout_ms=20000
ask "broadcast does not cross the router" '^unresolved 42' "$c" lookup 42 resolve_timeout_ms=300
ask "a list of hosts does" '^resolved 42' "$c" lookup 42 "$far"
ask "and a second holder there is refused" '^conflict: service 42 is held by instance' "$c" \
	register 42 "$far"
start "$c" c43 register 43 "$far"
shows "the far host holds another one" c43 '^registered 43'
ask "which is found the other way" '^resolved 43' "$a" lookup 43 "$back"

# --- an address that changes ---
ip -n "$a" addr add 10.7.1.11/24 dev v0
ip -n "$a" addr del 10.7.1.1/24 dev v0
ip -n "$a" addr show dev v0 | grep -q 10.7.1.11 || ip -n "$a" addr add 10.7.1.11/24 dev v0
ip -n "$a" route replace default via 10.7.1.254
reaches "$a" 10.7.1.2
ask "a host with a new address is found by its neighbour" '^resolved 42' "$b" lookup 42 \
	resolve_timeout_ms=20000
printf '%s\n' '* 10.7.1.11 10.7.1.2' >"$tmp/list.c"
ask "and by the far one, once its list says so" '^resolved 42' "$c" lookup 42 "$far"

# split ID: both a and b hold ID while the second one's cable is out; then it is in again
split()
{
	ip -n "$r" link set pb down
	start "$a" "a$1" register "$1"
	shows "$2: the first one" "a$1" "^registered $1"
	sleep 0.3
	wrap=("${@:3}")
	start "$b" "b$1" register "$1"
	wrap=(env)
	shows "$2: both hold it while they are apart" "b$1" "^registered $1"
	ip -n "$r" link set pb up
	reaches "$b" 10.7.1.11
	# Somebody behind the router asks both, and sees two answers.
	start "$c" "c$1" watch "$1" "$far"
	shows "$2: it is found by the far host" "c$1" "^resolved $1"
	shows "$2: the younger one gives up" "b$1" "^conflict: service $1 is held by instance"
	if grep -q '^conflict' "$tmp/a$1"; then
		echo "FAIL: $2: the older one gave up as well"
		failed=$((failed + 1))
	else
		echo "PASS: $2: the older one keeps it"
		passed=$((passed + 1))
	fi
}

# --- partitions ---
split 50 "partition" env
# The clock of the younger one is days ahead: what counts is how long each has held it.
if unshare --time --monotonic 500000 --fork true 2>/dev/null; then
	split 51 "partition, clocks apart" unshare --time --monotonic 500000 --fork --kill-child
else
	echo "SKIP: no time namespaces here"
	skipped=$((skipped + 1))
fi
