#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
name=test_ripc_info
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"

expect "runs" 0 20 ./tools/ripc-info
has "names the version" "$out" "^libripc: *[0-9]*\.[0-9]*\.[0-9]*"
has "names an instance id" "$out" "^instance: *[0-9a-f]\{8\}-[0-9a-f]\{4\}-[0-9a-f]\{4\}-[0-9a-f]\{4\}-[0-9a-f]\{12\}$"
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
	has "lists the RDMA devices" "$out" "^device: *$(ls /sys/class/infiniband | head -n 1) port 1"
else
	has "says that there is no RDMA device" "$out" "^devices: *no RDMA device"
fi
first=$(sed -n 's/^instance: *//p' "$out")
json=yes
grep -q "^feature: *JSON output.*left out" "$out" && json=no

expect "takes settings" 0 20 ./tools/ripc-info -o wait=block -o crc=on
has "shows the setting of the option" "$out" "wait=block (option)"
second=$(sed -n 's/^instance: *//p' "$out")
if [ "$first" != "$second" ]; then
	ok "the instance id is new at every start"
else
	bad "the instance id is new at every start: $first twice"
fi
expect "an option wins over the environment" 0 20 env RIPC_WAIT=poll ./tools/ripc-info -o wait=adaptive

expect "one transport only" 0 20 ./tools/ripc-info -o transports=iwarp/soft
if grep "^transport: *iwarp/soft:" "$out" | grep -q unavailable; then
	bad "is available" "$out"
else
	ok "is available"
fi

expect "nonsense in an option" 3 20 ./tools/ripc-info -o wait=nonsense
has "is named" "$err" "wait=nonsense"
has "and the rest is shown all the same" "$out" "^memlock:"
expect "an option without =" 3 20 ./tools/ripc-info -o wait
expect "an unknown flag" 3 20 ./tools/ripc-info --nonsense
expect "an argument too many" 3 20 ./tools/ripc-info something
expect "--version" 0 20 ./tools/ripc-info --version
expect "--help" 0 20 ./tools/ripc-info --help

if [ $json = yes ]; then
	expect "--json" 0 20 ./tools/ripc-info --json -o wait=block
	cp "$out" "$work/info.json"
	expect "its JSON is as promised" 0 20 ./tests/tools/perf_json_check "$work/info.json" info
	expect "--json without a context" 3 20 ./tools/ripc-info --json -o wait=nonsense
	has "has the error in it" "$out" "\"detail\": \".*wait=nonsense"
else
	expect "--json in a build without it" 3 20 ./tools/ripc-info --json
	has "says so" "$err" "jansson was left out"
	skip "JSON: jansson was left out"
fi
finish
