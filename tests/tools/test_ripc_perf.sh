#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
name=test_ripc_perf
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"

id=$(random_id)
json=yes
./tools/ripc-info | grep -q "^feature: *JSON output.*left out" && json=no

serve() {
	start server ./tools/ripc-perf server --service "$id" "$@"
	server=$pid
	ready server "serving at service $id"
}

# measure WHAT RESULTS BASELINE TEST OPTION...: makes the test and checks its report. BASELINE is
# empty for none.
measure() {
	m_what=$1 m_results=$2 m_baseline=$3 m_test=$4
	shift 4
	if [ $json = no ]; then
		expect "$m_what" 0 60 ./tools/ripc-perf "$m_test" --service "$id" "$@"
		return
	fi
	rm -f "$work/report.json"
	if expect "$m_what" 0 60 ./tools/ripc-perf "$m_test" --service "$id" \
		--json "$work/report.json" "$@"; then
		if ./tests/tools/perf_json_check "$work/report.json" "$m_test" "$m_results" \
			${m_baseline:+baseline} >"$out.check" 2>&1; then
			ok "$m_what: the JSON is as promised"
		else
			bad "$m_what: the JSON is as promised" "$out.check" "$work/report.json"
		fi
	fi
}

# reports WHAT PATTERN: in the last JSON report.
reports() {
	[ $json = no ] || has "$1" "$work/report.json" "$2"
}

serve
measure "latency of all sizes" 7 "" latency --size 0,1,7,8,512,64K,1M --count 50 --verify
reports "small ones were sent short" '"kind": "short"'
reports "large ones were sent long" '"kind": "long"'
reports "nothing was lost" '"lost": 0'
measure "latency next to TCP" 3 yes latency --size 0,64,100K --count 100 --baseline tcp
reports "waits as it was told" '"wait": "poll"'
measure "latency next to blocking TCP" 1 yes latency --count 50 --wait block --baseline tcp
reports "the baseline waits in the same way" '"wait": "block"'
measure "latency next to UDP" 1 yes latency --count 100 --baseline udp:block
measure "latency of long messages" 3 "" latency --kind long --size 0,64,1M --count 20 --verify
measure "latency with return buffers" 2 "" latency --kind long --size 64,1M --count 20 --verify \
	--returns
measure "latency, one message" 1 yes latency --count 1 --baseline tcp
measure "rate" 2 "" rate --size 1,64 --count 20000 --verify
reports "nothing was lost" '"lost": 0'
measure "rate next to TCP" 1 yes rate --count 20000 --baseline tcp
measure "rate next to UDP" 1 yes rate --count 2000 --baseline udp
measure "rate, every message by itself" 1 "" rate --count 5000 --no-more
measure "rate of long messages" 1 "" rate --kind long --size 64K --count 100
measure "bandwidth" 3 "" bandwidth --size 0,1,1M --count 20 --verify
measure "bandwidth out of memory of malloc()" 3 "" bandwidth --size 0,1,1M --count 20 --verify \
	--own-memory
measure "bandwidth next to TCP" 1 yes bandwidth --size 4M --count 10 --baseline tcp --wait poll
measure "bandwidth, one in flight" 1 "" bandwidth --size 64K --count 20 --window 1
measure "bandwidth, more in flight than there are" 1 "" bandwidth --size 64K --count 5 --window 256
measure "bandwidth of short messages" 1 "" bandwidth --kind short --size 512 --count 1000

measure "at a rate" 2 "" paced --size 8,64 --rate 2000 --count 200
measure "as fast as it goes" 1 "" paced --rate 0 --count 2000
reports "all of them were sent" '"missed": 0'
reports "and none was refused" '"refused": 0'
measure "in bursts, with a pause" 1 "" paced --rate 0 --burst 16 --pause 1000 --count 500
measure "long messages at a rate" 1 "" paced --kind long --size 64K --rate 200 --count 20
# Faster than anybody can: what is not sent is accounted for.
measure "at a rate that cannot be" 1 "" paced --rate 10000000 --count 20000
expect "one row per message" 0 60 ./tools/ripc-perf paced --service "$id" --rate 1000 --count 100 \
	--csv "$work/rows.csv"
if [ "$(wc -l <"$work/rows.csv")" -eq 101 ] && awk -F, '
	NR == 1 { bad = $0 != "number,due_ns,sent_ns,received_ns,latency_ns,state"; next }
	$1 != NR - 2 || NF != 6 || $2 !~ /^[0-9]+$/ { bad = 1 }
	$6 == "received" && ($4 < $3 || $3 < $2 || $5 != $4 - $3) { bad = 1 }
	$6 == "missed" && $3 != "" { bad = 1 }
	$6 !~ /^(received|missed|refused|lost)$/ { bad = 1 }
	END { exit bad }' "$work/rows.csv"; then
	ok "and the stamps are in order"
else
	bad "and the stamps are in order" "$work/rows.csv"
fi
expect "rows on standard output" 0 60 ./tools/ripc-perf paced --service "$id" --rate 1000 \
	--count 10 --csv -
if [ "$(wc -l <"$out")" -eq 11 ] && [ "$(tail -n +2 "$out" | grep -c '^[0-9]*,')" -eq 10 ]; then
	ok "and nothing else"
else
	bad "and nothing else" "$out"
fi
expect "rows to a full device" 3 60 ./tools/ripc-perf paced --service "$id" --count 10 \
	--csv /dev/full
has "the test is made all the same" "$out" "short  *64  *10 "
expect "rows that cannot be written" 3 60 ./tools/ripc-perf paced --service "$id" --count 10 \
	--csv "$work/nowhere/rows.csv"
has "are named" "$err" "nowhere/rows.csv"

expect "the experiments" 0 60 ./tools/ripc-perf --experiment list
has "have names" "$out" "^E22 "
expect "one of them" 0 60 ./tools/ripc-perf --experiment E16 -c 50 -t iwarp/soft
has "is made in all its runs" "$out" "E16: 2 of 2 runs made"
expect "one of which no device can a part" 0 60 ./tools/ripc-perf --experiment E5 -c 50 \
	-t iwarp/soft
has "is made but for that" "$out" "E5: [12] of 3 runs made"
has "says why" "$out" "cannot be made: verbs do not show"
expect "one without its device" 1 60 ./tools/ripc-perf --experiment E15 -t pcie \
	-o pcie_device=/nonexistent/device
has "names it" "$out" "cannot be made: no server over "
# The moments of arrival come over a connection, and overtake the reply that announces them.
expect "one by datagrams" 0 100 ./tools/ripc-perf --experiment E2 -c 1 -t iwarp/soft
has "is made in all its runs, too" "$out" "E2: [23] of 3 runs made"
# With devices: tests/lab/test_queues.sh.
expect "queue pairs alone" 3 60 ./tools/ripc-perf verbs --device none0
has "need a device" "$err" "none0: no such RDMA device\|libibverbs was left out"
expect "one that needs them" 0 60 ./tools/ripc-perf --experiment E7 -c 5 -t iwarp/soft
has "names what cannot be made" "$out" "cannot be made: no queue pairs\|E7: 7 of 7"
mkdir "$work/reports"
expect "reports of one" 0 60 ./tools/ripc-perf --experiment e2 -c 1 -t shm,iwarp/soft \
	--out "$work/reports"
if [ -s "$work/reports/E2-1.csv" ] && { [ $json = no ] || [ -s "$work/reports/E2-2.json" ]; }; then
	ok "are in the directory"
else
	bad "are in the directory" "$out"
fi

expect "the table" 0 60 ./tools/ripc-perf latency --service "$id" --count 100 --baseline tcp
has "has our line" "$out" "short  *64  *100  *0 "
has "has the baseline's" "$out" "^tcp:poll "
has "has the ratio" "$out" "^ratio "
if [ $json = yes ]; then
	expect "--json -" 0 60 ./tools/ripc-perf rate --service "$id" --count 100 --json -
	cp "$out" "$work/stdout.json"
	expect "prints JSON and nothing else" 0 60 ./tests/tools/perf_json_check \
		"$work/stdout.json" rate 1
	transport=$(sed -n 's/.*"transport": "\(.*\)".*/\1/p' "$work/stdout.json")
	measure "the transport it would take anyway" 1 "" latency --count 10 \
		--transport "$transport"
	reports "is the one that was asked for" "\"transport\": \"$transport\""
	expect "a report that cannot be written" 3 60 ./tools/ripc-perf rate --service "$id" \
		--count 10 \
		--json "$work/nowhere/report.json"
	has "is named" "$err" "nowhere/report.json"
else
	expect "--json in a build without it" 3 60 ./tools/ripc-perf rate --json -
	has "says so" "$err" "jansson was left out"
	skip "JSON: jansson was left out"
fi
expect "a short message too long" 1 60 ./tools/ripc-perf latency --service "$id" --kind short \
	--size 64M --count 1
has "the error gives the limit" "$err" "[Mm]essage too long: .*[0-9]"
expect "and the server goes on" 0 60 ./tools/ripc-perf latency --service "$id" --count 10
expect "ripc-ping is answered, too" 0 60 ./tools/ripc-ping -c 2 -i 0 "$id"

# Clients that die in a test.
for test in latency rate bandwidth; do
	start client ./tools/ripc-perf $test --service "$id" --count 1000000000
	client=$pid
	ready client "messages/s\|p50"
	at_work "$client"
	kill -9 "$client"
	gone "$client" 60
	expect "$test: after a client was killed" 0 60 ./tools/ripc-perf latency --service "$id" \
		--count 10 \
		--timeout 20000
done
start client ./tools/ripc-perf latency --service "$id" --count 1000000000
client=$pid
# Before it has a handler it would ignore the signal, as what a shell starts in the background does.
ready client "p50"
expect "a server that is busy" 1 60 ./tools/ripc-perf latency --service "$id" --timeout 500
has "the error says so" "$err" "the server is busy"
kill -INT "$client"
if gone "$client" 60 && [ "$status" -eq 1 ]; then
	ok "a client ends on SIGINT"
else
	bad "a client ends on SIGINT" "$work/client.err"
fi

# Two clients at once: the second waits for its turn. The first sleeps while it waits: where others
# want the processors, too, who polls gets his answer when all of them have had their time.
start first ./tools/ripc-perf latency --service "$id" --count 20000 --wait block
first=$pid
start second ./tools/ripc-perf latency --service "$id" --count 100 --timeout 60000
second=$pid
if gone "$first" 60 && [ "$status" -eq 0 ] && gone "$second" 60 && [ "$status" -eq 0 ]; then
	ok "two clients take turns"
else
	bad "two clients take turns" "$work/first.err" "$work/second.err"
fi

expect "stop" 0 60 ./tools/ripc-perf stop --service "$id"
if gone "$server" 60 && [ "$status" -eq 0 ]; then
	ok "the server stops when told"
else
	bad "the server stops when told" "$work/server.err"
fi
expect "without a server" 2 60 ./tools/ripc-perf latency --service "$id" --timeout 1500
has "the error says so" "$err" "server $id: service not found or not reachable: ."
expect "without a server of that name" 2 60 ./tools/ripc-perf latency --service "none/$id" \
	--timeout 1500
has "which is in the error" "$err" "server [1-9][0-9]* (\"none/$id\"): service not found"

serve --wait poll
measure "polling on both sides" 1 yes latency --count 500 --wait poll --baseline tcp --stop
if gone "$server" 60 && [ "$status" -eq 0 ]; then
	ok "--stop stops the server"
else
	bad "--stop stops the server" "$work/server.err"
fi
serve --wait block
measure "blocking on both sides" 1 "" latency --count 100 --wait block
expect "the id is held" 3 60 ./tools/ripc-perf server --service "$id"
has "the error says so" "$err" "service id is held by another"
kill -TERM "$server"
if gone "$server" 60 && [ "$status" -eq 0 ]; then
	ok "the server ends on SIGTERM"
else
	bad "the server ends on SIGTERM" "$work/server.err"
fi
serve -o short=udp
measure "short messages as datagrams" 1 "" rate --count 2000 -o short=udp
kill -9 "$server"
gone "$server" 60

# killed WHAT TEST OPTION...: the server is killed in the middle of the test.
killed() {
	k_what=$1 k_test=$2
	shift 2
	start client ./tools/ripc-perf "$k_test" --service "$id" --count 1000000000 "$@"
	client=$pid
	ready client "messages/s\|p50"
	at_work "$client"
	kill -9 "$server"
	if gone "$client" 60 && [ "$status" -eq 1 ] && [ -s "$work/client.err" ]; then
		ok "the server is killed in a test: $k_what"
	else
		bad "the server is killed in a test: $k_what" "$work/client" "$work/client.err"
	fi
}
serve
killed latency latency
serve
killed "latency of long messages" latency --kind long --size 1M
serve
killed rate rate
serve
killed bandwidth bandwidth
serve
killed paced paced --count 100000 --rate 20
serve -o short=udp
killed datagrams latency -o short=udp

for wrong in "" "nonsense" "latency --size nonsense" "latency --size 1,,2" "latency --size 2000G" \
	"latency --count 0" "latency --kind medium" "latency --wait never" \
	"latency --baseline sctp" \
	"latency --baseline tcp:adaptive" "latency --transport nonsense" "latency --service 0" \
	"latency extra" \
	"bandwidth --window 257" "latency --pin 100000" "server --service 9223372036854775808" \
	"latency --rounds 0" "--json -" \
	"paced --size 7" "paced --rate 10000001" "paced --burst 0" "paced --baseline tcp" \
	"paced --verify" \
	"verbs --qp rd" "verbs --qp ud --op write" "verbs --op write -w block" "verbs --depth 0" \
	"verbs --signal 257" "verbs --size 1M" "verbs --size 4" "paced --csv x --size 8,9" \
	"latency --csv $work/csv" "paced --csv - --json -" \
	"paced --count 16777217" "--experiment E23"; do
	# The words are meant to be split.
	expect "wrong usage: $wrong" 3 60 ./tools/ripc-perf $wrong
	if [ -s "$err" ]; then
		ok "is explained"
	else
		bad "is explained"
	fi
done
ranges "${srcdir:-.}/doc/man/ripc-perf.1" ./tools/ripc-perf paced
serve
full "a table" ./tools/ripc-perf latency -S "$id" -c 10
full "--help" ./tools/ripc-perf --help
full "--version" ./tools/ripc-perf --version
full "the experiments" ./tools/ripc-perf --experiment list
full "rows of messages" ./tools/ripc-perf paced -S "$id" -c 10 --rate 0 --csv -
# SIGPIPE ends a test that would take hours, and the server is free for the next one.
for test in latency rate bandwidth paced; do
	count=1000000000
	[ $test = paced ] && count=16777216
	unread "$test" 1 ./tools/ripc-perf $test -S "$id" -c $count
	expect "the next $test" 0 60 ./tools/ripc-perf $test -S "$id" -c 10 --rounds 1
done
# A report that cannot be written is noticed before anything is measured: there is no server.
nobody=$(random_id)
interrupted "a server that is not there" 2 ./tools/ripc-perf latency -S "$nobody" --timeout 60000
expect "--csv: no such directory" 3 60 ./tools/ripc-perf paced -S "$nobody" --timeout 60000 \
	--csv /nonexist/x
has "says so" "$err" "csv /nonexist/x: No such file or directory"
if [ $json = no ]; then
	skip "reports in JSON: jansson was left out"
else
	expect "--json: no such directory" 3 60 ./tools/ripc-perf latency -S "$nobody" \
		--timeout 60000 -j /nonexist/x
	has "says so" "$err" "json /nonexist/x: No such file or directory"
	full "JSON" ./tools/ripc-perf latency -S "$id" -c 10 -j -
	expect "--json to a full device" 3 60 ./tools/ripc-perf latency -S "$id" -c 10 -j /dev/full
	# A new report replaces that of an earlier run as a whole.
	head -c 100000 /dev/zero | tr '\0' x >"$work/report"
	expect "a test that fails" 2 60 ./tools/ripc-perf latency -S "$nobody" --timeout 100 \
		-j "$work/report"
	if [ "$(wc -c <"$work/report")" -eq 100000 ]; then
		ok "leaves the report of an earlier one"
	else
		bad "leaves the report of an earlier one"
	fi
	expect "a test that succeeds" 0 60 ./tools/ripc-perf latency -S "$id" -c 10 \
		-j "$work/report"
	if grep -q '"version": 1' "$work/report" && ! grep -q xxx "$work/report"; then
		ok "replaces it"
	else
		bad "replaces it" "$work/report"
	fi
	expect "a test that fails at its second size" 1 60 ./tools/ripc-perf latency -S "$id" \
		-c 10 -k short -s 8,64M -j -
	has "reports the first one" "$out" '"size": 8,'
fi
start pinged ./tools/ripc-ping --serve "$nobody"
ready pinged "answering"
expect "a service that is no server" 2 60 ./tools/ripc-perf latency -S "$nobody" --timeout 500
has "says so" "$err" "server $nobody is there but has not answered in 500 ms"
# An option that a command would ignore is refused. Nothing is measured: there is no server.
refused() {
	expect "$*" 3 60 ./tools/ripc-perf "$@"
	has "is refused" "$err" "^ripc-perf: $2: not an option of $1\$"
}
refused rate --rate 1000
refused latency --qp uc
refused latency --no-more
refused latency --own-memory
refused bandwidth --returns
refused latency --csv "$work/rows"
refused server --verify
refused stop --count 10
refused verbs --stop
refused latency --out "$work"
expect "--version" 0 60 ./tools/ripc-perf --version
expect "--help" 0 60 ./tools/ripc-perf --help
finish
