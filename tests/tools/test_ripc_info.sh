#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
name=test_ripc_info
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"

expect "runs" 0 60 ./tools/ripc-info
has "names the version" "$out" "^libripc: *[0-9]*\.[0-9]*\.[0-9]*"
has "names an instance id" "$out" \
	"^instance: *[0-9a-f]\{8\}-[0-9a-f]\{4\}-[0-9a-f]\{4\}-[0-9a-f]\{4\}-[0-9a-f]\{12\}$"
has "lists a transport that is open" "$out" "^transport: *[a-z/-]*: [^u]"
has "shows the setting of the environment" "$out" "RIPC_INTERFACES=lo (environment)"
has "shows the limits" "$out" "^limits: *short messages to [1-9][0-9]* bytes"
hard=$(awk '/^Max locked memory/ { print $5 }' /proc/self/limits)
has "shows the memlock limit found" "$out" "^memlock: .*hard $hard"
hard=$(awk '/^Max open files/ { print $5 }' /proc/self/limits)
has "shows the limit of descriptors found" "$out" "^descriptors: .*hard $hard"
has "shows huge pages" "$out" "^huge pages:"
has "says what is built in" "$out" "^feature: *JSON output"
if [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
	has "lists the RDMA devices" "$out" "^device: *$(ls /sys/class/infiniband |
		head -n 1) port 1"
else
	has "says that there is no RDMA device" "$out" "^devices: *no RDMA device"
fi
first=$(sed -n 's/^instance: *//p' "$out")
json=yes
grep -q "^feature: *JSON output.*left out" "$out" && json=no

expect "takes settings" 0 60 ./tools/ripc-info -o wait=block -o crc=on
has "shows the setting of the option" "$out" "wait=block (option)"
second=$(sed -n 's/^instance: *//p' "$out")
if [ "$first" != "$second" ]; then
	ok "the instance id is new at every start"
else
	bad "the instance id is new at every start: $first twice"
fi
expect "an option wins over the environment" 0 60 env RIPC_WAIT=poll ./tools/ripc-info \
	-o wait=adaptive

expect "one transport only" 0 60 ./tools/ripc-info -o transports=iwarp/soft
if grep "^transport: *iwarp/soft:" "$out" | grep -q unavailable; then
	bad "is available" "$out"
else
	ok "is available"
fi

has "shows a back end with where it speaks" "$out" \
	"^resolver: *udp: broadcast and multicast on lo.* port [0-9]*: to .*127\.255\.255\.255"
has "shows one that works within the host" "$out" "^resolver: *local: .*sockets"
has "shows what the resolver knows" "$out" "^resolver: *cache: [0-9]* records .* 0 local services"
if grep -q "finds nothing" "$out"; then
	bad "none of them finds nothing" "$out"
else
	ok "none of them finds nothing"
fi
printf '%s\n' '42 192.0.2.7 192.0.2.8' 'nonsense' >"$work/hosts"
expect "a chain" 0 60 ./tools/ripc-info -o "resolver=local,file:$work/hosts"
has "has the hosts of its file, and what is wrong in it" "$out" \
	"^resolver: *file: $work/hosts: 2 hosts of services, 1 bad line"
expect "an ensemble that is down" 0 60 ./tools/ripc-info \
	-o resolver=local,zookeeper:127.0.0.1:1/none -o resolve_timeout_ms=300
has "is shown with its state" "$out" \
	"^resolver: *zookeeper: finds nothing: \(127.0.0.1:1/none: not connected\|\
this build has no ZooKeeper client\)"
has "beside one that works" "$out" "^resolver: *local: [^f]"
(umask 077 && for _ in 1 2; do od -An -v -N32 -tx1 /dev/urandom | tr -d ' \n' &&
	echo; done >"$work/key")
timeout -k 2 20 ./tools/ripc-info -o "key_file=$work/key" >"$out" 2>"$err"
if grep -q "no libsodium" "$err"; then
	skip "keys: libsodium was left out"
else
	has "shows the keys by their ids" "$out" \
		"^resolver: *keys: authenticated with key [0-9a-f]\{8\} and [0-9a-f]\{8\}; [0-9]* \
unauthenticated"
fi

id=$(random_id)
start plain ./tools/ripc-ping --serve "$id"
plain=$pid
ready plain "answering for service $id"
start named ./tools/ripc-ping --serve "test/größe $id"
named=$pid
ready named "answering for service"
named_id=$(sed -n 's/.*service \([0-9]*\).*/\1/p' "$work/named")
printf '* 127.0.0.1\n' >"$work/all"
for chain in local udp local,udp "file:$work/all"; do
	# Those of the back end file receive on the resolver's port, as all of this host do.
	expect "--services, $chain" 0 60 ./tools/ripc-info --services -W 3000 -o "resolver=$chain"
	has "lists the one with an id" "$out" "^$id  *this  *[0-9.]* [a-z]*  *-  *[a-z]"
	has "lists the one with a name" "$out" "^$named_id  *this .* test/größe $id  *[a-z]"
done
if [ $json = yes ]; then
	expect "--services --json" 0 60 ./tools/ripc-info -l -j -W 1000
	has "has the id" "$out" "\"id\": \"$named_id\""
	has "has the name" "$out" "\"name\": \"test/gr.*e $id\""
fi
kill -TERM "$plain" "$named"
gone "$plain" 60
gone "$named" 60
printf 'nonsense\n' >"$work/all"
expect "--services, and the library has a warning" 0 60 ./tools/ripc-info -l -W 100 \
	-o "resolver=file:$work/all"
has "which goes to standard error" "$err" "all:1: no service id: nonsense"
expect "--timeout without --services" 3 60 ./tools/ripc-info -W 100
expect "--services with --doctor" 3 60 ./tools/ripc-info -l -d

expect "nonsense in an option" 3 60 ./tools/ripc-info -o wait=nonsense
has "is named" "$err" "wait=nonsense"
has "and the rest is shown all the same" "$out" "^memlock:"
expect "an option without =" 3 60 ./tools/ripc-info -o wait
expect "an unknown flag" 3 60 ./tools/ripc-info --nonsense
expect "an argument too many" 3 60 ./tools/ripc-info something
full "the report" ./tools/ripc-info
full "--doctor" ./tools/ripc-info --doctor
full "--help" ./tools/ripc-info --help
full "--version" ./tools/ripc-info --version
expect "--version" 0 60 ./tools/ripc-info --version
expect "--help" 0 60 ./tools/ripc-info --help

if [ $json = yes ]; then
	expect "--json" 0 60 ./tools/ripc-info --json -o wait=block
	cp "$out" "$work/info.json"
	full "JSON" ./tools/ripc-info --json
	expect "its JSON is as promised" 0 60 ./tests/tools/perf_json_check "$work/info.json" info
	expect "--json without a context" 3 60 ./tools/ripc-info --json -o wait=nonsense
	has "has the error in it" "$out" "\"detail\": \".*wait=nonsense"
	expect "--json with a name that is not UTF-8" 3 60 \
		./tools/ripc-info --json -o "key_file=/nonexist$(printf '\377')x"
	has "shows the rest of it" "$out" '"key_file=/nonexist?x"'
	has "and the error" "$out" '"detail": "key_file .*/nonexist?x: No such file'
	# A text that is too long is cut in the middle of a character.
	expect "--json with a long name" 3 60 ./tools/ripc-info --json \
		-o "key_file=/y$(printf 'x\303\244\303\244%.0s' $(seq 100))"
	has "shows its beginning" "$out" '"setting": "key_file=/yxää.*?"$'
else
	expect "--json in a build without it" 3 60 ./tools/ripc-info --json
	has "says so" "$err" "jansson was left out"
	skip "JSON: jansson was left out"
fi
unread "the list of services" 0 ./tools/ripc-info -l -W 60000
finish
