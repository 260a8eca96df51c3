#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck disable=SC2154
# Two hosts on a link without any addresses but those that IPv6 gives itself: a service is found and
# reached without configuration. One host has a second link, on which nobody answers.
name=test_link_local
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
unset RIPC_INTERFACES

other_link() {
	ip -n $b link add other type veth peer name end
}
two_hosts local other_link
ip -n $b link set other up
ip -n $b link set end up

# ready_address HOST LINK: the address is checked for duplicates, and may be used.
ready_address() {
	ip -n "$1" -6 addr show dev "$2" scope link | grep inet6 | grep -qv tentative
}
for link in "$a v0" "$b other" "$b end" "$b v0"; do
	# shellcheck disable=SC2086
	set -- $link
	if ! wait_until 60 ready_address "$1" "$2"; then
		skip "IPv6 gives $2 no address"
		finish
	fi
done

id=$(random_id)
start serve ip netns exec $a ./tools/ripc-ping --serve "$id"
serve=$pid
ready serve "answering for service $id"
expect "the host with one link reaches itself" 0 60 ip netns exec $a ./tools/ripc-ping -c 2 -i 0 \
	-W 20000 "$id"
expect "the host with two links" 0 60 ip netns exec $b ./tools/ripc-ping -c 5 -i 10 -W 20000 "$id"
has "over the link-local address" "$out" "by iwarp/soft at .*\[fe80::"
has "all are answered" "$out" "^5 sent, 5 answered"
expect "a long message" 0 60 ip netns exec $b ./tools/ripc-ping -c 2 -i 0 -s 8M -W 20000 "$id"
expect "short messages as datagrams go over the connection" 0 60 ip netns exec $b \
	./tools/ripc-ping -o short=udp -c 2 -i 0 -W 20000 "$id"
id2=$(random_id)
start serve2 ip netns exec $b ./tools/ripc-ping --serve "$id2"
ready serve2 "answering for service $id2"
expect "and in the other direction" 0 60 ip netns exec $a ./tools/ripc-ping -c 2 -i 0 -W 20000 \
	"$id2"

# By a file: an address and the interface.
address=$(ip -n $a -6 -o addr show dev v0 scope link | sed 's/.* inet6 \([^/]*\).*/\1/')
echo "$id $address%v0" >"$work/hosts"
expect "a host of a file" 0 60 ip netns exec $b env RIPC_RESOLVER="file:$work/hosts" \
	./tools/ripc-ping -c 2 -i 0 -W 20000 "$id"

# Nobody holds the port any more: the attempts are named with their interfaces.
kill -KILL "$serve"
expect "the process is gone" 2 60 ip netns exec $b ./tools/ripc-ping -c 1 -W 3000 "$id"

# A network with addresses of its own: link-local ones are not listed any more.
ip -n $a addr add 198.51.100.1/24 brd + dev v0
expect "with an IPv4 address" 0 60 ip netns exec $a ./tools/ripc-info
has "that one is listed" "$out" "iwarp/soft: 198.51.100.1:"
if grep -q "iwarp/soft: .*fe80" "$out"; then
	bad "and no link-local one" "$out"
else
	ok "and no link-local one"
fi
finish
