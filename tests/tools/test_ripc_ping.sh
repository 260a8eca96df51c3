#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
name=test_ripc_ping
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"

id=$(random_id)
start serve ./tools/ripc-ping --serve "$id"
server=$pid
ready serve "answering for service $id"

expect "pings a service that answers" 0 60 ./tools/ripc-ping -c 3 -i 10 "$id"
has "says how it is reached" "$out" "^instance .*, by [a-z/-]* at ."
if [ "$(wc -c <"$out")" -lt 600 ] && ! grep -q -e because -e "no device" "$out"; then
	ok "says no more than was asked for"
else
	bad "says no more than was asked for" "$out"
fi
has "times the look-up" "$out" "found and connected in [0-9.]* ms"
has "all are answered" "$out" "^3 sent, 3 answered, round trip"
expect "-v" 0 60 ./tools/ripc-ping -v -c 1 "$id"
has "says why this way" "$out" "^because ."
full "a ping" ./tools/ripc-ping -c 1 "$id"
full "a look-up" ./tools/ripc-ping -n "$id"
full "pings without end" timeout 60 ./tools/ripc-ping -c 0 -i 1 "$id"
expect "a hexadecimal id" 0 60 ./tools/ripc-ping -c 1 "$(printf '0x%x' "$id")"
expect "an id with zeros in front" 0 60 ./tools/ripc-ping -c 1 "00$id"
expect "a size and a count with them" 0 60 ./tools/ripc-ping -c 010 -i 0 -s 0100 "$id"
has "are decimal" "$out" "^answer 9: 100 bytes"
expect "a service of digits" 2 60 ./tools/ripc-ping -o resolve_timeout_ms=300 08
has "is an id" "$err" "^ripc-ping: service 8: service not found"
expect "the smallest size" 0 60 ./tools/ripc-ping -c 2 -i 0 -s 24 "$id"
expect "a long message" 0 60 ./tools/ripc-ping -c 2 -i 0 -s 1M "$id"
has "of that size comes back" "$out" "^answer 1: 1048576 bytes"
expect "no message" 0 60 ./tools/ripc-ping -n "$id"
if grep -q "^answer" "$out"; then
	bad "-n sends none" "$out"
else
	ok "-n sends none"
fi

expect "the id is held" 3 60 ./tools/ripc-ping --serve "$id"
has "the error says so" "$err" "service $id: service id is held by another: ."

start named ./tools/ripc-ping --serve "test/größe $id"
named=$pid
ready named "answering for service [0-9]* (\"test/größe $id\")"
expect "a name" 0 60 ./tools/ripc-ping -c 2 -i 10 "test/größe $id"
has "is told" "$out" "^name test/größe $id\$"
name_id=$(sed -n 's/.*service \([0-9]*\).*/\1/p' "$work/named")
expect "the id of that name" 0 60 ./tools/ripc-ping -c 1 "$name_id"
expect "a name that is held" 3 60 ./tools/ripc-ping --serve "test/größe $id"
has "is in the error" "$err" "(\"test/größe $id\") is held by"
expect "a name that nobody has" 2 60 ./tools/ripc-ping -o resolve_timeout_ms=300 "test/nobody $id"
has "is in the error" "$err" \
	"service [1-9][0-9]* (\"test/nobody $id\"): service not found .*: asked"
expect "an id that is none of a service" 3 60 ./tools/ripc-ping 13835058055282163712
has "is refused with the range" "$err" "a number from 1 to 13835058055282163711, or a name"
expect "an empty name" 3 60 ./tools/ripc-ping ""
has "is called so" "$err" "it is empty; it must have 1 to 255 bytes of UTF-8"
expect "a number that is no id" 3 60 ./tools/ripc-ping 0
kill -TERM "$named"
gone "$named" 60

# Control characters of names are no business of the terminal; those of C1 have two bytes in UTF-8.
odd=$(printf 'odd\033[1m\302\233%s\303\233' "$id")
start odd ./tools/ripc-ping --serve "$odd"
odd_server=$pid
ready odd "answering for service [0-9]"
expect "a name with control characters" 0 60 ./tools/ripc-ping -n "$odd"
has "has marks for them" "$out" "^name odd?\\[1m??$id$(printf '\303\233')\$"
kill -TERM "$odd_server"
gone "$odd_server" 60

# A descriptor of the library must not become standard output.
start closed sh -c 'exec ./tools/ripc-ping --serve any >&-'
# Its sockets show that the library is open.
wait_until 20 sh -c "ls -l /proc/$pid/fd | grep -q socket:"
if [ "$(readlink "/proc/$pid/fd/1")" = /dev/null ]; then
	ok "closed standard output stays unused"
else
	bad "closed standard output is $(readlink "/proc/$pid/fd/1")"
fi
kill -TERM "$pid"
gone "$pid" 60
expect "standard output is closed" 3 60 sh -c 'exec ./tools/ripc-ping --help >&-'
expect "all standard streams are closed" 3 60 sh -c 'exec ./tools/ripc-ping 0 <&- >&- 2>&-'

start any ./tools/ripc-ping --serve any
ready any "answering for service [0-9]"
expect "an id that was drawn" 0 60 ./tools/ripc-ping -c 1 "$(sed -n 's/.*service //p' "$work/any")"

other=$(random_id)
start files ./examples/fileserver "$other" "$work"
ready files "service $other serves"
expect "a service that does not answer pings" 1 60 ./tools/ripc-ping -c 5 -W 4000 "$other"
has "its look-up is timed" "$out" "found and connected in [0-9.]* ms"
has "it says so" "$out" "service $other is there but does not answer pings"

# quiet LOG: it has not grown since the last look.
quiet() {
	q_len=$(wc -c <"$work/$1")
	[ "$q_len" = "$q_before" ] && return
	q_before=$q_len
	false
}
# A signal ends the wait for an answer, long before its time is up.
for by in message call; do
	option=
	[ $by = call ] && option=--call
	start waits ./tools/ripc-ping $option -c 0 -i 1 -W 60000 -o peer_timeout_ms=60000 "$id"
	waits=$pid q_before='' status=''
	ready waits "^answer 0"
	kill -STOP "$server"
	wait_until 60 quiet waits
	kill -INT "$waits"
	if gone "$waits" 10 && [ "$status" -eq 1 ]; then
		has "SIGINT ends a ping by $by without an answer" "$work/waits" "sent, .* answered"
	else
		bad "SIGINT ends a ping by $by without an answer: ${status-}" "$work/waits"
	fi
	kill -CONT "$server"
done

# The last pings of four processes that were killed wait in the queue of the server. It tries to
# answer each for 2 s, but does not keep the next client waiting.
for dead in 1 2 3 4; do
	start dead$dead ./tools/ripc-ping -c 0 -i 1 -W 60000 -o peer_timeout_ms=60000 "$id"
	eval "dead$dead=\$pid"
	ready dead$dead "^answer 0"
done
kill -STOP "$server"
for dead in 1 2 3 4; do
	q_before=''
	wait_until 60 quiet dead$dead
	eval "kill -9 \$dead$dead; gone \$dead$dead 60"
done
kill -CONT "$server"
expect "a ping behind those of processes that were killed" 0 60 ./tools/ripc-ping -c 1 -W 5000 "$id"

unread "one ping in an hour" 3 ./tools/ripc-ping -c 0 -i 3600000 "$id"

# A ping that is interrupted between two messages has lost none.
start between ./tools/ripc-ping -c 0 -i 60000 "$id"
ready between "^answer 0:"
kill -INT "$pid"
if gone "$pid" 20 && [ "$status" -eq 0 ]; then
	has "SIGINT between two pings" "$work/between" "^1 sent, 1 answered"
else
	bad "SIGINT between two pings: ${status-}" "$work/between"
fi

kill -TERM "$server"
if gone "$server" 60 && [ "$status" -eq 0 ]; then
	ok "--serve ends on SIGTERM"
else
	bad "--serve ends on SIGTERM" "$work/serve.err"
fi
expect "nobody holds the id" 2 60 ./tools/ripc-ping -W 5000 -o resolve_timeout_ms=300 "$id"
has "the error says so, of the service once, and what helps" "$err" \
	"^ripc-ping: service $id: [^:0-9]*: asked .* in 300 ms; is its server running? .*$id"
interrupted "a service that is not there" 2 ./tools/ripc-ping -W 60000 "$id"
if grep -q key "$err"; then
	bad "no word of keys where there are none" "$err"
else
	ok "no word of keys where there are none"
fi

expect "no id" 3 60 ./tools/ripc-ping
expect "id 0" 3 60 ./tools/ripc-ping 0
expect "id 0" 3 60 ./tools/ripc-ping 0x0
expect "a size too small" 3 60 ./tools/ripc-ping -s 23 "$id"
has "is named" "$err" "23"
expect "a negative count" 3 60 ./tools/ripc-ping -c -1 "$id"
expect "nonsense in a setting" 3 60 ./tools/ripc-ping -o wait=nonsense "$id"
has "is named" "$err" "wait=nonsense"
full "--help" ./tools/ripc-ping --help
full "--version" ./tools/ripc-ping --version
ranges "${srcdir:-.}/doc/man/ripc-ping.1" ./tools/ripc-ping "$id"
expect "a size too small" 3 60 ./tools/ripc-ping -s 23 "$id"
has "and its range" "$err" "from 24 to 64M"
expect "no time at all" 3 60 ./tools/ripc-ping -W 0 "$id"
has "and its range" "$err" "from 1 to 3600000"
expect "--version" 0 60 ./tools/ripc-ping --version
expect "--help" 0 60 ./tools/ripc-ping --help
finish
