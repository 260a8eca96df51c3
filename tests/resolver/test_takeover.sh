#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# A service that moves between three hosts, ten times, while a client on the first of them streams
# messages to it: namespaces a, b and c on one bridge. Orderly moves lose nothing and double
# nothing. A host's process that is killed loses no more than what it had been given last.
#
# usage: test_takeover.sh (the test program is looked for in the build tree)
set -u
unset RIPC_INTERFACES RIPC_RESOLVER RIPC_TRANSPORTS
name=takeover program=move_tool
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
hosts=("ripc-t$$-a" "ripc-t$$-b" "ripc-t$$-c")
bridge=ripc-t$$-r
namespaces=("${hosts[@]}" "$bridge")

network()
{
	local i ns
	for ns in "${namespaces[@]}"; do
		ip netns add "$ns" &&
			ip netns exec "$ns" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
			net.ipv6.conf.default.disable_ipv6=1 || return 1
	done
	ip -n "$bridge" link add br0 type bridge forward_delay 0 &&
		ip -n "$bridge" link set br0 up || return 1
	for i in 0 1 2; do
		ns=${hosts[i]}
		ip link add "p$i" netns "$bridge" type veth peer name v0 netns "$ns" &&
			ip -n "$bridge" link set "p$i" master br0 up &&
			ip -n "$ns" link set lo up &&
			ip -n "$ns" addr add "10.7.3.$((i + 1))/24" dev v0 &&
			ip -n "$ns" link set v0 up || return 1
	done
}

if ! why=$(network 2>&1); then
	skip "three hosts cannot be made here: $why"
fi

ok()
{
	passed=$((passed + 1))
	echo "PASS: $1"
}

bad()
{
	failed=$((failed + 1))
	echo "FAIL: $1"
	shift
	for file in "$@"; do
		echo "--- $file"
		grep -v '^got' "$file" | tail -n 10
	done
}

# start HOST FILE ARGUMENTS...: the tool in the background; its process is $last
start()
{
	: >"$2"
	ip netns exec "${hosts[$1]}" "$tool" "${@:3}" </dev/null >"$2" 2>&1 &
	last=$!
	pids+=("$last")
}

# A peer without processor time for a while is not dead; the kernel reports a killed process.
options="interfaces=v0 resolver=local,udp peer_timeout_ms=20000"

# moves WHAT ID SIGNAL: ten hops; with a signal the holder is killed by that before each
moves()
{
	local dir=$tmp/$2 hop holder=() client
	mkdir "$dir"
	start 1 "$dir/0" serve "$2" "$options"
	holder[0]=$last
	await "$dir/0" '^holding' || { bad "$1: the first holder" "$dir/0" && return; }
	start 0 "$dir/client" stream "$2" "$options"
	client=$last
	for ((hop = 1; hop <= 10; hop++)); do
		await "$dir/$((hop - 1))" '^got' 20 ||
			{ bad "$1: nothing comes to holder $((hop - 1))" "$dir/client" \
			"$dir/$((hop - 1))" && return; }
		if [ -n "$3" ]; then
			kill "-$3" "${holder[hop - 1]}"
			wait "${holder[hop - 1]}" 2>/dev/null
		fi
		# b, c, a, b ...: every host is moved to and from, the client's, too.
		start $(((hop + 1) % 3)) "$dir/$hop" serve "$2" "$options"
		holder[hop]=$last
		await "$dir/$hop" '^holding' || { bad "$1: holder $hop" "$dir/$hop" && return; }
		[ -n "$3" ] || await "$dir/$((hop - 1))" '^moved' ||
			{ bad "$1: holder $((hop - 1)) is told" "$dir/$((hop - 1))" && return; }
	done
	await "$dir/10" '^got' 20 ||
		{ bad "$1: nothing comes to the last holder" "$dir/client" "$dir/10" && return; }
	kill -TERM "$client"
	wait "$client"
	kill -TERM "${holder[10]}"
	wait "${holder[10]}"
	sed -n 's/^sent \([0-9]*\),.*/\1/p' "$dir/client" >"$dir/count"
	cat "$dir"/{0,1,2,3,4,5,6,7,8,9,10} | sed -n 's/^got //p' | sort -n | uniq -c >"$dir/seen"
	awk -v total="$(cat "$dir/count")" '
		{ seen[$2] = $1 }
		END {
			for (i = 0; i < total; i++) {
				lost += !seen[i]
				twice += seen[i] > 1
			}
			print lost + 0, twice + 0, (total > 0)
		}' "$dir/seen" >"$dir/result"
	read -r lost twice some <"$dir/result"
	echo "$1: $(grep '^sent' "$dir/client"), $lost lost, $twice came twice, $(grep \
		-c '^unsure' "$dir/client") sent again"
}

moves "orderly moves" 4201 ""
if [ "${some:-0}" = 1 ]; then
	if [ "$lost" -eq 0 ] && [ "$twice" -eq 0 ] && ! grep -q '^unsure' "$tmp/4201/client"; then
		ok "ten orderly moves between three hosts: nothing lost, nothing twice"
	else
		bad "ten orderly moves between three hosts: nothing lost, nothing twice" \
			"$tmp/4201/client"
	fi
fi

# Messages that a process has received are lost with it, and the last one may be uncertain: one
# message each time.
some=0
moves "crashes" 4202 KILL
if [ "$some" = 1 ]; then
	if [ "$lost" -le 10 ] && [ "$twice" -le 10 ]; then
		ok "ten crashes: no more is lost or comes twice than what was under way"
	else
		bad "ten crashes: no more is lost or comes twice than what was under way" \
			"$tmp/4202/client"
	fi
fi
