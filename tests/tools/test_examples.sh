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
has "the server got the message" "$work/server" "sent: good morning$"
if ./examples/client "$id" lost >/dev/full 2>"$err"; then
	bad "client: its output is lost" "$err"
else
	has "client: its output is lost, and it says so" "$err" "^client: standard output: "
fi
long=$(head -c 100000 /dev/zero | tr '\0' x)
expect "client: a text too long for a short message" 0 60 ./examples/client "$id" "$long"
if [ "$(wc -c <"$out")" -gt 100000 ]; then
	ok "comes back whole"
else
	bad "comes back whole: $(wc -c <"$out") bytes"
fi
expect "server: the id is held" 1 60 ./examples/server "$id"
has "the error says so" "$err" "^server: service id is held by another: ."
expect "server: a number that is too large" 1 60 ./examples/server 99999999999999999999
if [ -x ./examples/gateway ]; then
	port=$((20000 + $$ % 10000))
	for number in 0 65536 80x -1 ""; do
		expect "gateway: port '$number'" 2 60 ./examples/gateway "$id" "$number"
	done
	start gateway ./examples/gateway "$id" "$port"
	gateway=$pid
	ready gateway "^port $port leads to service $id$"
	# ask LINE...: as one client.
	cat >"$work/ask" <<EOF
#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/$port && printf '%s\\n' "\$@" >&3 &&
	for line; do read -r -t 20 answer <&3 && echo "\$answer"; done
EOF
	chmod +x "$work/ask"
	expect "gateway: three lines of one client" 0 60 "$work/ask" one two three
	has "the answers, in order" "$out" "^three$"
	expect "gateway: the id is in use" 1 60 ./examples/gateway "$id" "$port"
	has "the error names the port" "$err" "port $port: "
	for client in 1 2 3 4 5 6 7 8; do
		"$work/ask" "line of $client" >"$work/ask$client" 2>/dev/null &
		eval "ask$client=\$!"
	done
	for client in 1 2 3 4 5 6 7 8; do
		eval "wait \$ask$client"
		has "gateway: client $client of 8 gets its own answer" "$work/ask$client" \
			"^line of $client$"
	done
	kill -9 "$server"
	gone "$server" 60
	expect "gateway: the server was killed" 0 60 "$work/ask" anybody
	has "the client gets the reason" "$out" "^error: "
	kill "$gateway"
	if gone "$gateway" 60 && [ "$status" -eq 0 ]; then
		ok "gateway ends at SIGTERM"
	else
		bad "gateway ends at SIGTERM" "$work/gateway" "$work/gateway.err"
	fi
	start server ./examples/server "$id"
	server=$pid
	ready server "service $id waits"
else
	skip "gateway: libuv is not installed (libuv1-dev)"
fi
expect "ripc-ping knows a server that echoes" 0 60 ./tools/ripc-ping -c 2 -i 0 "$id"
kill -9 "$server"
gone "$server" 60
expect "client: the server was killed" 1 60 ./examples/client "$id"

# Coroutines.
if [ -x ./examples/asio ]; then
	expect "asio: usage" 2 60 ./examples/asio none
	expect "asio" 0 60 ./examples/asio 200
	has "all calls are answered" "$out" "^200 of 200 calls answered in "
	has "an error names its cause" "$out" "^error: service .*: "
else
	skip "asio: Asio (libasio-dev) and a compiler with its coroutines are not installed"
fi

# News.
group=$(random_id)
expect "news: nobody reads" 1 60 ./examples/news "$group" "hear, hear"
has "the error says so" "$err" "no member was found: ."
expect "news: not a group" 2 60 ./examples/news ""
for reader in one two; do
	start $reader ./examples/news "$group"
	ready $reader "a reader of group $group"
done
# A sender that has just come may know one of the two only for a moment.
news() {
	./examples/news "$group" "the sun is out" >"$out" 2>"$err" &&
		grep -q "2 processes are known, of which 0 could not be reached" "$out"
}
wait_until 10 news
has "news reach both readers" "$out" "^2 processes are known, of which 0 could not be reached$"
ready one "^the sun is out"
ready two "^the sun is out"

# Tasks: a worker that is killed while it has one, and others that are killed at any moment.
id=$(random_id)
expect "tasks: usage" 2 60 ./examples/tasks boss "$id"
for number in 0 -1 5x "" 99999999999999999999; do
	expect "tasks: '$number' tasks" 2 60 ./examples/tasks boss "$id" "$number"
done
expect "tasks: no number" 2 60 ./examples/tasks worker "$id" soon
if grep -qE '^(CC|CFLAGS|RIPC_CFLAGS) = .*-fsanitize' Makefile; then
	skip "tasks: out of memory: sanitizers need memory of their own"
else
	expect "tasks: out of memory" 1 60 bash -c \
		"ulimit -v 2000000; exec ./examples/tasks boss $id 4000000000"
	has "says so" "$err" "^boss: no memory for 4000000000 tasks$"
fi
start boss ./examples/tasks boss "$id" 1000
boss=$pid
ready boss "^service $id has 1000 tasks$"
start idle ./examples/tasks worker "$id" 3600000
idle=$pid
ready idle "^task 0$"
kill -9 "$idle"
gone "$idle" 60
for victim in one two three; do
	start $victim ./examples/tasks worker "$id" 1
	killed=$pid
	ready $victim "^task "
	kill -9 "$killed"
	gone "$killed" 60
done
start steady ./examples/tasks worker "$id" 0
steady=$pid
if gone "$boss" 60 && [ "$status" -eq 0 ]; then
	ok "tasks: the boss ends although workers were killed"
else
	bad "tasks: the boss ends although workers were killed" "$work/boss" "$work/boss.err"
fi
has "each result was counted once" "$work/boss" "^1000 tasks done, the sum is 332833500, [1-9]"
if gone "$steady" 60 && [ "$status" -eq 0 ]; then
	ok "tasks: the worker that is left ends with the boss"
else
	bad "tasks: the worker that is left ends with the boss" "$work/steady" "$work/steady.err"
fi
start boss ./examples/tasks boss "$id" 10000
boss=$pid
ready boss "^service $id has 10000 tasks$"
start idle ./examples/tasks worker "$id" 10
idle=$pid
ready idle "^task "
kill -9 "$boss"
gone "$boss" 60
if gone "$idle" 60 && [ "$status" -eq 1 ]; then
	ok "tasks: the boss was killed: the worker says so"
else
	bad "tasks: the boss was killed: the worker says so" "$work/idle" "$work/idle.err"
fi
has "and with whom" "$work/idle.err" "^worker: service $id"

# A key-value store.
store=test/store-$id
expect "kv: usage" 2 60 ./examples/kv put "$store" key
expect "kv: no server" 1 60 ./examples/kv put "$store" apple 3
has "nothing was done" "$err" "^kv: that was not done: .*service"
start kv ./examples/kv serve "$store"
kv=$pid
ready kv "^$store is ready$"
expect "kv: the name is held" 1 60 ./examples/kv serve "$store"
has "the error names it" "$err" "^kv: $store: .*$store"
expect "kv put" 0 60 ./examples/kv put "$store" apple 3
expect "kv put: another value" 0 60 ./examples/kv put "$store" apple 4
expect "kv put: an empty key and value" 0 60 ./examples/kv put "$store" "" ""
long=$(head -c 100000 /dev/zero | tr '\0' y)
expect "kv put: a value that is long" 0 60 ./examples/kv put "$store" pear "$long"
expect "kv get" 0 60 ./examples/kv get "$store" apple
has "the last value" "$out" "^4$"
expect "kv get: a value that is long" 0 60 ./examples/kv get "$store" pear
if [ "$(wc -c <"$out")" -eq 100001 ]; then
	ok "is whole"
else
	bad "is whole: $(wc -c <"$out") bytes"
fi
expect "kv get: an empty key" 0 60 ./examples/kv get "$store" ""
expect "kv get: an unknown key" 1 60 ./examples/kv get "$store" plum
has "says so" "$err" '^kv: there is no "plum"$'
expect "kv delete" 0 60 ./examples/kv delete "$store" apple
expect "kv delete: again" 1 60 ./examples/kv delete "$store" apple
expect "kv get: what was deleted" 1 60 ./examples/kv get "$store" apple
start watch ./examples/kv watch "$store"
watch=$pid
ready watch "^watching $store$"
expect "kv get: while it is watched" 0 60 ./examples/kv get "$store" ""
kill -9 "$kv"
gone "$kv" 60
if gone "$watch" 60 && [ "$status" -eq 0 ]; then
	ok "kv watch ends when the server is killed"
else
	bad "kv watch ends when the server is killed" "$work/watch" "$work/watch.err"
fi
has "and gives the reason" "$work/watch" "^$store: peer "
start kv ./examples/kv serve "$store"
kv=$pid
ready kv "^$store is ready$"
kill -STOP "$kv"
expect "kv put: the server stands still" 1 60 ./examples/kv put "$store" apple 5
kill -CONT "$kv"
expect "kv put: it goes on" 0 60 ./examples/kv put "$store" apple 6
kill "$kv"
gone "$kv" 60

# Ping-pong.
id=$(random_id)
start pong ./examples/pingpong "$id"
pong=$pid
ready pong "service $id waits"
expect "pingpong: no number" 2 60 ./examples/pingpong "$id" many
expect "pingpong: a negative number" 2 60 ./examples/pingpong "$id" -5
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
# left_behind FILE: whether a temporary file for it is there.
left_behind() {
	ls "$1".part* >/dev/null 2>&1
}

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
		if cmp -s "$root/$1" "$work/got/file" && ! left_behind "$work/got/file"; then
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
	has "fetch $1: the reply is clear" "$err" "the server reports: $2"
	if [ -e "$work/got/file" ] || left_behind "$work/got/file"; then
		bad "fetch $1: leaves nothing"
	else
		ok "fetch $1: leaves nothing"
	fi
	rm -f "$work/got/file" "$work/got/file".part*
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

# A target that is no regular file is written in place. The devices are nodes of our own, so that a
# fault costs none of the system's.
if mknod "$work/got/full" c 1 7 2>/dev/null && : 2>/dev/null >>"$work/got/full"; then
	expect "fetch into a full device" 1 60 ./examples/fetch "$id" big "$work/got/full"
	has "fetch into a full device: the error says so" "$err" "No space left on device"
	# Clients that give up hold up nobody: the next one is served at once.
	for client in 1 2 3 4; do
		./examples/fetch "$id" big "$work/got/full" >/dev/null 2>&1
	done
	mknod "$work/got/null" c 1 3
	expect "fetch into a null device" 0 60 ./examples/fetch "$id" big "$work/got/null"
	if [ -c "$work/got/full" ] && [ -c "$work/got/null" ]; then
		ok "fetch: a device stays a device"
	else
		bad "fetch: a device stays a device: $(ls -l "$work/got")"
	fi
else
	skip "fetch into a device: this user may not make one"
fi
mkfifo "$work/got/fifo"
cat "$work/got/fifo" >"$work/got/from_fifo" &
reader=$!
pids="$pids $reader"
expect "fetch into a named pipe" 0 60 ./examples/fetch "$id" big "$work/got/fifo"
gone "$reader" 60
if [ -p "$work/got/fifo" ] && cmp -s "$root/big" "$work/got/from_fifo"; then
	ok "fetch: a named pipe carries the bytes and stays a pipe"
else
	bad "fetch: a named pipe carries the bytes and stays a pipe: $(ls -l "$work/got")"
fi
echo old >"$work/got/real"
ln -s real "$work/got/link"
expect "fetch into a symbolic link" 0 60 ./examples/fetch "$id" one "$work/got/link"
if [ -L "$work/got/link" ] && cmp -s "$root/one" "$work/got/real"; then
	ok "fetch: a symbolic link stays, what it names is written"
else
	bad "fetch: a symbolic link stays, what it names is written: $(ls -l "$work/got")"
fi
ln -s nothing "$work/got/dangling"
expect "fetch into a link that leads nowhere" 1 60 ./examples/fetch "$id" one "$work/got/dangling"
if [ -L "$work/got/dangling" ] && [ ! -e "$work/got/nothing" ]; then
	ok "fetch: a link that leads nowhere stays"
else
	bad "fetch: a link that leads nowhere stays: $(ls -l "$work/got")"
fi
mkdir "$work/got/directory"
expect "fetch into a directory" 1 60 ./examples/fetch "$id" one "$work/got/directory"
has "fetch into a directory: the error says so" "$err" "Is a directory"
echo "old and longer" >"$work/got/mode"
chmod 0604 "$work/got/mode"
expect "fetch over a file" 0 60 ./examples/fetch "$id" one "$work/got/mode"
if [ "$(stat -c %a "$work/got/mode")" = 604 ] && cmp -s "$root/one" "$work/got/mode"; then
	ok "fetch over a file: its mode is kept"
else
	bad "fetch over a file: its mode is kept: $(ls -l "$work/got/mode")"
fi
(umask 027 && ./examples/fetch "$id" one "$work/got/new" >"$out" 2>"$err")
if [ "$(stat -c %a "$work/got/new")" = 640 ]; then
	ok "fetch: the umask counts for a new file"
else
	bad "fetch: the umask counts for a new file: $(ls -l "$work/got")" "$err"
fi
expect "fetch over a file fails" 1 60 ./examples/fetch "$id" missing "$work/got/mode"
if cmp -s "$root/one" "$work/got/mode"; then
	ok "fetch over a file fails: the file is as it was"
else
	bad "fetch over a file fails: the file is as it was"
fi
echo mine >"$work/got/big.part"
expect "fetch beside a file called FILE.part" 0 60 ./examples/fetch "$id" big "$work/got/big"
if [ "$(cat "$work/got/big.part")" = mine ] && cmp -s "$root/big" "$work/got/big"; then
	ok "fetch: a file called FILE.part is left alone"
else
	bad "fetch: a file called FILE.part is left alone"
fi
rm -f "$work/got/big.part"
if [ "$(id -u)" -eq 0 ]; then
	skip "fetch over a file that may not be written: root may write all"
else
	chmod 0444 "$work/got/mode"
	expect "fetch over a file that may not be written" 1 60 ./examples/fetch "$id" one \
		"$work/got/mode"
fi
if [ -z "$(find "$work/got" -name '*.part*')" ]; then
	ok "fetch: no temporary file is left"
else
	bad "fetch: no temporary file is left: $(ls -l "$work/got")"
fi
rm -rf "$work/got" && mkdir "$work/got"
# Two at once.
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

# current_attempt: starts to fetch 64 GiB and returns when the first bytes are there; $fetch is the
# process.
current_attempt() {
	start fetch ./examples/fetch "$id" huge "$work/got/huge"
	fetch=$pid
	wait_until 60 has_begun
}

has_begun() {
	[ -n "$(find "$work/got" -name 'huge.part*' -size +0)" ]
}

current_attempt
kill -9 "$fetch"
gone "$fetch" 60
if [ -e "$work/got/huge" ]; then
	bad "the client was killed: no file under the final name"
else
	ok "the client was killed: no file under the final name"
fi
rm -f "$work/got/huge".part*
fetched one

for signal in TERM HUP; do
	current_attempt
	kill -$signal "$fetch"
	if gone "$fetch" 60 && [ "$status" -gt 128 ] && ! left_behind "$work/got/huge"; then
		ok "SIG$signal ends the client and removes the incomplete file"
	else
		bad "SIG$signal ends the client and removes the incomplete file: $(ls "$work/got")"
	fi
	rm -f "$work/got/huge".part*
done

current_attempt
kill -9 "$files"
if gone "$fetch" 60 && [ "$status" -eq 1 ]; then
	ok "the server was killed: the client says so in time"
else
	bad "the server was killed: the client says so in time" "$work/fetch" "$work/fetch.err"
fi
has "the error is clear" "$work/fetch.err" "^fetch: the server has fallen silent: ."
if [ -e "$work/got/huge" ] || left_behind "$work/got/huge"; then
	bad "the server was killed: nothing is left behind"
else
	ok "the server was killed: nothing is left behind"
fi
finish
