#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Programs of the shape of those of 2012, which know nothing but "../src/ripc.h" and "config.h":
# they compile, and run over every transport of this machine, several on one host, started and
# restarted in any order.
name=compat/test_programs
# A network of its own: the ids of some of the programs are fixed.
if [ -z "${RIPC_TEST_OWN_NETWORK-}" ] && unshare -rn ip link set lo up 2>/dev/null; then
	RIPC_TEST_OWN_NETWORK=yes exec unshare -rn sh -c 'ip link set lo up && exec sh "$0"' "$0"
fi
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
srcdir=$(cd "${srcdir:-.}" && pwd)
# Without the file, programs that include others of the library would be served as well.
cp -r "$srcdir/tests/compat/programs" "$work/bench"
mkdir -p "$work/include"
cp -r "$srcdir/include/ripc-2012" "$srcdir/include/ripc_compat.h" "$work/include"

for file in "$work"/bench/*.c; do
	program=$(basename "$file" .c)
	# As then: the language of the compiler, no flags, and every program by itself.
	# shellcheck disable=SC2086
	if ./libtool --silent --mode=link --tag=CC ${CC:-cc} ${RIPC_TEST_LDFLAGS-} -Wall \
		-I"$work/include/ripc-2012/include" \
		-o "$work/$program" "$file" libripc-compat.la >"$out" 2>"$err" &&
		[ ! -s "$err" ]; then
		ok "$program compiles without a warning"
	else
		bad "$program compiles without a warning" "$out" "$err"
	fi
done

# Each run has service ids of its own, where the programs leave the choice.
first=$(($(od -An -N2 -tu2 /dev/urandom) % 20000 + 9000))

# client WHAT LOG SECONDS COMMAND...: a client in the background has ended well.
client() {
	c_what=$1 c_log=$2 c_pid=$3
	if gone "$c_pid" 60 && [ "$status" -eq 0 ]; then
		ok "$c_what"
	else
		bad "$c_what" "$work/$c_log" "$work/$c_log.err"
	fi
}

programs_over() {
	RIPC_TRANSPORTS=$1
	export RIPC_TRANSPORTS
	id=$first
	first=$((first + 100))

	start short "$work/short_server" $id
	server=$pid
	ready short "Starting loop"
	expect "$1: short ping-pong" 0 60 "$work/short_client" $id 2000
	has "$1: its report" "$out" "^Exchanged 2000 items in [0-9]* usec (rtt [0-9.]* usec)"
	expect "$1: several items" 0 60 "$work/short_client" $id 500 8
	start c1 "$work/short_client" $id 2000
	one=$pid
	start c2 "$work/short_client" $id 2000 3
	client "$1: one of two clients at once" c1 "$one"
	client "$1: the other" c2 "$pid"
	# A client that dies in the middle does not harm the server.
	start dies "$work/short_client" $id 100000000
	dies=$pid
	at_work "$dies"
	kill -9 "$dies"
	gone "$dies" 60
	expect "$1: after a client has died" 0 60 "$work/short_client" $id 500
	kill -9 "$server"
	gone "$server" 60
	# The client first, then the server, which is a new one.
	start early "$work/short_client" $id 500
	early=$pid
	sleep 0.5
	if kill -0 "$early" 2>/dev/null; then
		ok "$1: a client waits for its server"
	else
		bad "$1: a client waits for its server" "$work/early" "$work/early.err"
	fi
	start short "$work/short_server" $id
	client "$1: and plays when it comes" early "$early"
	expect "$1: and so do others" 0 60 "$work/short_client" $id 500
	kill -9 "$pid"
	gone "$pid" 60

	id=$((id + 1))
	start wide "$work/wide_server" $id
	ready wide "Starting loop"
	for items in 1 2 8; do
		expect "$1: lengths of size_t, $items items" 0 60 "$work/wide_client" $id 200 $items
		has "$1: its report" "$out" "^Exchanged 200 items"
		expect "$1: long ones" 0 60 "$work/wide_client" $id 50 $items 1
		has "$1: its report" "$out" "^Exchanged 50 items"
	done
	first_holder=$pid
	# A second server of the same id that ignores the failed registration: the library logs it,
	# and the server takes over when the first is gone.
	start second "$work/wide_server" $id
	ready second "Starting loop"
	ready second.err "^libripc-compat: ripc_register_service_id(): .*$id"
	expect "$1: one server of two" 0 60 "$work/wide_client" $id 100 2
	kill -9 "$first_holder"
	gone "$first_holder" 60
	expect "$1: the other one, when the first has gone" 0 60 "$work/wide_client" $id 100 2
	has "$1: its report" "$out" "^Exchanged 100 items"
	if [ "$(wc -l <"$work/second.err")" -le 2 ]; then
		ok "$1: the server prints little"
	else
		bad "$1: the server prints little" "$work/second.err"
	fi
	kill -9 "$pid"
	gone "$pid" 60

	id=$((id + 1))
	start long "$work/long_server" $id 1000000
	ready long "Starting loop"
	expect "$1: long ping-pong" 0 60 "$work/long_client" $id 1000000 50
	has "$1: its report" "$out" "^Exchanged 50 items"
	# Half the messages were in flight before the buffer was offered at the earliest.
	has "$1: the return buffer was used" "$out" "^[1-9][0-9]* of them in the return buffer"
	expect "$1: of another size" 0 60 "$work/long_client" $id 77 50
	kill -9 "$pid"
	gone "$pid" 60

	expect_pair "$1"
	bulk_over "$1"

	id=$((id + 1))
	servers=
	for i in 0 1 2 3; do
		start "resolver$i" "$work/resolver" -s $((id + i))
		servers="$servers $pid"
	done
	expect "$1: resolver benchmark" 0 60 "$work/resolver" $id 4
	has "$1: finds the last" "$out" "^Service $((id + 3)) resolved and reached in"
	for pid in $servers; do
		kill -9 "$pid"
		gone "$pid" 60
	done
	unset RIPC_TRANSPORTS
}

expect_pair() {
	start pair "$work/pair_server"
	ready pair "Waiting for message"
	expect "$1: client and server" 0 60 "$work/pair_client" "good morning"
	has "$1: the answer" "$out" "^Answer 42: good morning$"
	has "$1: the text ends where it ends" "$work/pair" "^Message 41: good morning$"
	expect "$1: a shorter text" 0 60 "$work/pair_client" "bye"
	has "$1: nothing of the longer one behind it" "$work/pair" "^Message 41: bye$"
	kill -9 "$pid"
	gone "$pid" 60
}

bulk_over() {
	mkdir -p "$work/root"
	head -c 3000001 /dev/urandom >"$work/root/page.html"
	start bulk "$work/bulk_server" "$work/root"
	ready bulk "Serving"
	rm -f "$work/copy"
	expect "$1: bulk client" 0 60 "$work/bulk_client" page.html "$work/copy" 20
	has "$1: every round in the windows" "$out" "^20 of them in the windows"
	if cmp -s "$work/root/page.html" "$work/copy"; then
		ok "$1: the same bytes"
	else
		bad "$1: the same bytes"
	fi
	expect "$1: windows that are too small" 0 60 "$work/bulk_client" page.html "$work/copy" 5 \
		1000
	expect "$1: no such file" 1 60 "$work/bulk_client" missing "$work/copy" 1
	has "$1: says so" "$err" "404 Not Found"
	kill -9 "$pid"
	gone "$pid" 60
}

expect "the baseline over TCP" 0 60 "$work/tcp_pingpong" 1000
has "its report" "$out" "^Exchanged 1000 items"
transports=$(./tools/ripc-info | sed -n 's/^transport: *\([a-z/-]*\): \(.*\)/\1 \2/p' |
	grep -v ' unavailable: ' |
	cut -d ' ' -f 1 | grep -v -x -e self -e sim)
[ -n "$transports" ] || bad "there is a transport between processes"
for transport in $transports; do
	programs_over "$transport"
done
finish
