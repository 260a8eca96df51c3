#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
name=test_examples
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"

# Client and server.
id=$(random_id)
expect "client: no server" 1 60 ./examples/client "$id"
has "the error says so" "$err" "^client: service not found or not reachable: ."
start server ./examples/server "$id"
server=$pid
ready server "service $id waits"
expect "client" 0 60 ./examples/client "$id" "good morning"
has "gets its answer" "$out" "^service $id answers: good morning$"
has "the server got the message" "$work/server" "says: good morning$"
long=$(head -c 100000 /dev/zero | tr '\0' x)
expect "client: a text too long for a short message" 0 60 ./examples/client "$id" "$long"
if [ "$(wc -c <"$out")" -gt 100000 ]; then
	ok "comes back whole"
else
	bad "comes back whole: $(wc -c <"$out") bytes"
fi
expect "server: the id is held" 1 60 ./examples/server "$id"
has "the error says so" "$err" "^server: service id is held by another: ."
expect "ripc-ping knows a server that echoes" 0 60 ./tools/ripc-ping -c 2 -i 0 "$id"
kill -9 "$server"
gone "$server" 60
expect "client: the server was killed" 1 60 ./examples/client "$id"

# News.
group=$(random_id)
expect "news: nobody reads" 1 60 ./examples/news "$group" "hear, hear"
has "the error says so" "$err" "no member was found: ."
expect "news: not a group" 2 60 ./examples/news x
for reader in one two; do
	start $reader ./examples/news "$group"
	ready $reader "a reader of group $group"
done
# A sender that has just come may know one of the two only for a moment.
tries=0
until ./examples/news "$group" "the sun is out" >"$out" 2>"$err" &&
	grep -q "sent to 2 processes, 0 could not be reached" "$out" || [ $tries -ge 50 ]; do
	tries=$((tries + 1))
	sleep 0.2
done
has "news reach both readers" "$out" "^sent to 2 processes, 0 could not be reached$"
ready one "^the sun is out"
ready two "^the sun is out"

# Ping-pong.
id=$(random_id)
start pong ./examples/pingpong "$id"
pong=$pid
ready pong "service $id waits"
expect "pingpong" 0 60 ./examples/pingpong "$id" 2000
has "plays all rounds" "$out" "^2000 rounds, [0-9.]* us each"
if gone "$pong" 60 && [ "$status" -eq 0 ]; then
	ok "the waiting side ends with the match"
else
	bad "the waiting side ends with the match" "$work/pong" "$work/pong.err"
fi
has "and has counted the same" "$work/pong" "^2000 rounds played"
start pong ./examples/pingpong "$id"
pong=$pid
ready pong "service $id waits"
start ping ./examples/pingpong "$id" 1000000000
ping=$pid
ready ping "found, by"
kill -9 "$pong"
if gone "$ping" 60 && [ "$status" -eq 1 ]; then
	ok "pingpong: the partner was killed"
else
	bad "pingpong: the partner was killed" "$work/ping" "$work/ping.err"
fi

# File server.
id=$(random_id)
root=$work/root
mkdir -p "$root/sub" "$work/got"
: >"$root/empty"
printf x >"$root/one"
head -c 10000000 /dev/urandom >"$root/big"
head -c 4194304 /dev/urandom >"$root/chunk"
head -c 4194305 /dev/urandom >"$root/sub/chunk+1"
echo secret >"$work/secret"
ln -s ../secret "$root/out"
ln -s big "$root/in"
mkfifo "$root/fifo"
truncate -s 64G "$root/huge"
echo no >"$root/closed"
chmod 0 "$root/closed"
start files ./examples/fileserver "$id" "$root"
files=$pid
ready files "service $id serves"

fetched() {
	if expect "fetch $1" 0 60 ./examples/fetch "$id" "$1" "$work/got/file"; then
		if cmp -s "$root/$1" "$work/got/file" && [ ! -e "$work/got/file.part" ]; then
			ok "fetch $1: the same bytes"
		else
			bad "fetch $1: the same bytes"
		fi
		has "fetch $1: says the size" "$out" ": $(wc -c <"$root/$1") bytes in"
	fi
	rm -f "$work/got/file"
}

refused() {
	expect "fetch $1" 1 60 ./examples/fetch "$id" "$1" "$work/got/file"
	has "fetch $1: the reply is clear" "$err" "the server says: $2"
	if [ -e "$work/got/file" ] || [ -e "$work/got/file.part" ]; then
		bad "fetch $1: leaves nothing"
	else
		ok "fetch $1: leaves nothing"
	fi
	rm -f "$work/got/file" "$work/got/file.part"
}

for file in empty one chunk sub/chunk+1 big in sub/../one; do
	fetched $file
done
refused missing "No such file"
refused sub "it is a directory"
refused . "it is a directory"
refused ../secret "the path leads out"
refused sub/../../secret "the path leads out"
refused "$work/secret" "the path leads out"
refused /etc/passwd "the path leads out"
refused out "the path leads out"
refused fifo "it is not a regular file"
refused one/two "Not a directory"
refused "" "No such file"
if [ "$(id -u)" -eq 0 ]; then
	skip "a file that may not be read: root may read all"
else
	refused closed "Permission denied"
fi
refused "$(head -c 5000 /dev/zero | tr '\0' n)" "the name is too long\|File name too long"
expect "fetch: no place for the file" 1 60 ./examples/fetch "$id" one "$work/nowhere/file"
# Two at once are served one after the other.
start first ./examples/fetch "$id" big "$work/got/first"
first=$pid
start second ./examples/fetch "$id" big "$work/got/second"
second=$pid
gone "$first" 60 && gone "$second" 60
if cmp -s "$root/big" "$work/got/first" && cmp -s "$root/big" "$work/got/second"; then
	ok "two clients at once"
else
	bad "two clients at once" "$work/first.err" "$work/second.err"
fi

# under_way: starts to fetch 64 GiB and returns when the first bytes are there; $fetch is the process.
under_way() {
	start fetch ./examples/fetch "$id" huge "$work/got/huge"
	fetch=$pid
	tries=0
	until [ -s "$work/got/huge.part" ] || [ $tries -gt 6000 ]; do
		tries=$((tries + 1))
		sleep 0.01
	done
}

under_way
kill -9 "$fetch"
gone "$fetch" 60
if [ -e "$work/got/huge" ]; then
	bad "the client was killed: no file under the final name"
else
	ok "the client was killed: no file under the final name"
fi
rm -f "$work/got/huge.part"
fetched one

under_way
kill -9 "$files"
if gone "$fetch" 60 && [ "$status" -eq 1 ]; then
	ok "the server was killed: the client says so in time"
else
	bad "the server was killed: the client says so in time" "$work/fetch" "$work/fetch.err"
fi
has "the error is clear" "$work/fetch.err" "^fetch: the server has fallen silent: ."
if [ -e "$work/got/huge" ] || [ -e "$work/got/huge.part" ]; then
	bad "the server was killed: nothing is left behind"
else
	ok "the server was killed: nothing is left behind"
fi
finish
