#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The resolver on two hosts: two network namespaces joined by a veth pair, with IPv4 only, IPv6
# only, and both.
# usage: test_netns.sh (the test program is looked for beside it in the build tree)
set -u
unset RIPC_INTERFACES
# Existing services are found even if the holder gets little processor time. A lookup of a missing
# service sets its own timeout.
export RIPC_RESOLVE_TIMEOUT_MS=20000
name=netns program=resolver_tool
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
a=ripc-$$-a b=ripc-$$-b
namespaces=("$a" "$b")
if ! why=$( (ip netns add "$a" && ip netns add "$b" && ip netns exec "$a" true &&
	ip link add v0 netns "$a" type veth peer name v0 netns "$b") 2>&1); then
	skip "network namespaces cannot be made here: $why"
fi
clean

# joined: waits until the cable is in: the kernel takes up to a second to see it
joined()
{
	wait_until 10 is_up "$a"
	wait_until 10 is_up "$b"
}

is_up()
{
	ip -n "$1" link show v0 | grep -q 'state UP' &&
		[ -z "$(ip -n "$1" -6 addr show dev v0 tentative)" ]
}

# hosts FAMILY...: both hosts with addresses of these families on v0
hosts()
{
	local ns i=0 family
	clean
	for ns in "$a" "$b"; do
		ip netns add "$ns"
		ip netns exec "$ns" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
			net.ipv6.conf.default.disable_ipv6=1 \
			net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0
	done
	ip link add v0 netns "$a" type veth peer name v0 netns "$b"
	for ns in "$a" "$b"; do
		i=$((i + 1))
		for family in "$@"; do
			case $family in
			4) ip -n "$ns" addr add 10.7.7.$i/24 dev v0 ;;
			6)
				ip netns exec "$ns" sysctl -qw net.ipv6.conf.all.disable_ipv6=0 \
					net.ipv6.conf.v0.disable_ipv6=0 \
					net.ipv6.conf.lo.disable_ipv6=0
				ip -n "$ns" addr add fd07::$i/64 dev v0 nodad
				;;
			esac
		done
		ip -n "$ns" link set lo up
		ip -n "$ns" link set v0 up
	done
	joined
}

# hold HOST ID FILE [OPTIONS]: a process that holds ID until it is killed; its output goes to FILE
hold()
{
	local ns=$1 id=$2 file=$3
	shift 3
	: >"$file"
	ip netns exec "$ns" "$tool" register "$id" "$@" </dev/null >"$file" 2>&1 &
	pids+=($!)
	last=$!
}

# ask HOST lookup|register ID [OPTIONS]
ask()
{
	local ns=$1
	shift
	ip netns exec "$ns" timeout 60 "$tool" "$@" </dev/null 2>/dev/null
}

# found HOST ID: whether a look-up from there succeeds
found()
{
	ask "$1" lookup "$2" | grep -q "^resolved $2"
}

# check WHAT TEXT PATTERN
check()
{
	if grep -q -- "$3" <<<"$2"; then
		echo "PASS: $1"
		passed=$((passed + 1))
	else
		echo "FAIL: $1: \"$2\" is not \"$3\""
		failed=$((failed + 1))
	fi
}

await_check()
{
	await "$2" "$3"
	check "$1" "$(cat "$2")" "$3"
}

two_hosts()
{
	local families=$1 out
	hold "$a" 42 "$tmp/a"
	await_check "$families: registers" "$tmp/a" "^registered 42"
	check "$families: found from the other host" "$(ask "$b" lookup 42)" "^resolved 42 at pid-"
	check "$families: found with only v0 allowed" "$(ask "$b" lookup 42 interfaces=v0)" \
		"^resolved 42"
	check "$families: held elsewhere" "$(ask "$b" register 42)" \
		"^conflict: service 42 is held by instance .* on test pid-"
	out=$(ask "$b" lookup 43 resolve_timeout_ms=200)
	check "$families: nobody there" "$out" \
		"^unresolved 43: asked local (no holder on this host) and udp \
([0-9]* requests on .*v0.*, port 7475): no answer in 200 ms"
	check "$families: not asked where it is not allowed" \
		"$(ask "$b" lookup 42 'interfaces=lo resolve_timeout_ms=200')" "^unresolved 42"
	hold "$a" 45 "$tmp/a45" interfaces=lo
	await "$tmp/a45" "^registered"
	check "$families: not answered where it is not allowed" \
		"$(ask "$b" lookup 45 'resolve_timeout_ms=200')" "^unresolved 45"
	# A second process of the same host, beside the first.
	hold "$a" 44 "$tmp/a44"
	await "$tmp/a44" "^registered"
	check "$families: second process of that host" "$(ask "$b" lookup 44 resolver=udp)" \
		"^resolved 44"
	# It dies without a word and comes back on the other host.
	kill -9 "${pids[0]}"
	wait "${pids[0]}" 2>/dev/null
	hold "$b" 42 "$tmp/b"
	await_check "$families: taken over after SIGKILL" "$tmp/b" "^registered 42"
	check "$families: found there" "$(ask "$a" lookup 42)" \
		"^resolved 42 at pid-$(pgrep -P "$last" || echo "$last")"
}

# Both hosts register one id while the cable is out; when it is in again one of them gives up.
partition()
{
	ip -n "$a" link set v0 down
	hold "$a" 50 "$tmp/p1"
	await "$tmp/p1" "^registered"
	sleep 0.3
	hold "$b" 50 "$tmp/p2"
	await_check "$1: both hold it while they are apart" "$tmp/p2" "^registered 50"
	ip -n "$a" link set v0 up
	joined
	# A third one asks: its request makes both answer.
	ip netns exec "$b" "$tool" watch 50 resolver=udp </dev/null >/dev/null 2>&1 &
	pids+=($!)
	await_check "$1: the younger one gives up when they are joined" "$tmp/p2" \
		"^conflict: service 50 is held by instance"
	check "$1: the older one keeps it" "$(cat "$tmp/p1")" "^registered 50$"
}

# The holder is there before its address is, and never looks anything up.
late_address()
{
	hold "$a" 70 "$tmp/a70"
	await "$tmp/a70" "^registered"
	case $1 in
	IPv4) ip -n "$a" addr add 10.7.7.1/24 dev v0 ;;
	IPv6) ip netns exec "$a" sysctl -qw net.ipv6.conf.v0.disable_ipv6=0 ;;
	esac
	wait_until 60 found "$b" 70
	check "$1: holder that was there before its address" "$(ask "$b" lookup 70)" "^resolved 70"
}

# An interface that appears during a look-up.
late_interface()
{
	local out
	ip -n "$b" link set v0 down
	ask "$b" lookup 60 "resolve_timeout_ms=50000" >"$tmp/late" &
	pids+=($!)
	hold "$a" 60 "$tmp/a60"
	await "$tmp/a60" "^registered"
	sleep 0.3
	ip -n "$b" link set v0 up
	await "$tmp/late" "resolved"
	out=$(cat "$tmp/late")
	check "$1: interface that appears later" "$out" "^resolved 60"
}

hosts 4
two_hosts IPv4
hosts 6
two_hosts IPv6
hosts 4 6
two_hosts "IPv4 and IPv6"
hosts 4
partition IPv4
hosts 4
late_interface IPv4
hosts
ip -n "$b" addr add 10.7.7.2/24 dev v0
late_address IPv4
hosts 6
ip netns exec "$a" sysctl -qw net.ipv6.conf.v0.disable_ipv6=1
late_address IPv6
# No network but the loopback: at once, since the kernel decides.
hosts
ip -n "$a" link set v0 down
hold "$a" 42 "$tmp/lo"
await "$tmp/lo" "^registered"
check "loopback only" "$(ask "$a" lookup 42 resolver=udp)" "^resolved 42"
