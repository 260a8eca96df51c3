#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck disable=SC2154
# Every node and every hook of ripc-gateway, its signals, and faulty configurations.
name=test_gateway
. "${srcdir:-$(dirname "$0")/../../..}/tests/tools/lib.sh"

gateway=./tools/ripc-gateway
if [ ! -x $gateway ]; then
	skip "ripc-gateway was not built: it needs libuv and libconfig"
	finish
fi
id=$(random_id)
port=$((20000 + $$ % 20000))

# lines WHAT FILE COUNT: the file has so many samples.
lines() {
	l_n=$(grep -c -v '^#' "$2")
	if [ "$l_n" -eq "$3" ]; then
		ok "$1"
	else
		bad "$1: $l_n samples, not $3" "$err" "$2"
	fi
}

# Ten samples, 1 ms apart.
i=0
while [ $i -lt 10 ]; do
	printf '1700000000.%09d+0(%d)\t%d.5\t-1e3\n' $((i * 1000000)) $i $i
	i=$((i + 1))
done >"$work/ten"

# stdio CONFIGURATION-OF-PATH: the ten samples from standard input to standard output.
stdio() {
	cat >"$work/stdio.conf" <<EOF
nodes = { io = { type = "stdio"; }; }
paths = ( { in = "io"; out = "io"; $1 } )
EOF
	expect "stdio: $1" 0 20 sh -c "$gateway $work/stdio.conf <$work/ten"
}

stdio ""
lines "all samples pass" "$out" 10
has "with their values and times" "$out" "^1700000000.009000000+.*(9)	9.5	-1000$"
stdio 'hooks = ( { type = "decimate"; ratio = 3; } );'
lines "decimate keeps one of three" "$out" 4
has "with its sequence" "$out" "(9)"
stdio 'hooks = ( { type = "decimate"; ratio = 3; renumber = true; } );'
has "renumber" "$out" "(3)	9.5"
stdio 'hooks = ( { type = "skip_first"; samples = 7; } );'
lines "skip_first drops seven" "$out" 3
stdio 'hooks = ( { type = "skip_first"; seconds = 100; } );'
lines "skip_first drops for a time" "$out" 0
stdio 'hooks = ( { type = "limit_rate"; rate = 500; mode = "origin"; } );'
lines "limit_rate by origin times keeps half" "$out" 5
stdio 'hooks = ( { type = "ts"; } );'
has "ts sets the origin time" "$out" "+0.000000e+00(9)"
if grep -q '^1700000000' "$out"; then
	bad "ts leaves an old time" "$out"
fi
stdio 'hooks = ( { type = "stats"; }, { type = "jitter"; } );'
has "stats" "$err" "path 1, hook 1: 10 samples, 0 lost, 0 reordered"
has "jitter" "$err" "path 1, hook 2: jitter [0-9.]* us"

sed -e 4d -e 6d "$work/ten" >"$work/gaps"
sed -n 5p "$work/ten" >>"$work/gaps"
sed -n 4p "$work/ten" >>"$work/gaps"
mv "$work/gaps" "$work/ten"
stdio ""
has "lost, reordered and duplicate samples are counted apart" "$err" \
	"node io: 10 samples, 1 lost, 1 reordered, 1 duplicates"

printf '1.5(0)\t1\nnonsense\n1.6(1)\t2\tx\n%070000d\n1.7(2)\t3\n' 0 >"$work/ten"
stdio ""
lines "malformed lines are dropped" "$out" 2
has "with file and line" "$err" "stdin:2: it does not begin with seconds"
has "and counted" "$err" "3 malformed"

cat >"$work/send.conf" <<EOF
nodes = {
  sine = { type = "signal"; signal = "sine"; values = 4; rate = 500.0; limit = 250; }
  log = { type = "file"; uri = "$work/sent.csv"; format = "csv"; }
  net = { type = "ripc"; out = { service = "$id"; }; }
}
paths = ( { in = "sine"; out = [ "log", "net" ]; } )
EOF
cat >"$work/receive.conf" <<EOF
nodes = {
  net = { type = "ripc"; in = { service = "$id"; }; }
  udp = { type = "socket"; in = { address = "127.0.0.1:$port"; };
          out = { address = "127.0.0.1:$port"; }; }
  direct = { type = "file"; uri = "$work/direct.csv"; format = "csv"; }
  around = { type = "file"; uri = "$work/around.csv"; format = "csv"; }
}
paths = ( { in = "net"; out = [ "direct", "udp" ]; }, { in = "udp"; out = "around"; } )
EOF
start receive $gateway -m "$work/metrics" "$work/receive.conf"
receive=$pid
ready receive.err "running: 4 nodes, 2 paths"
expect "a generator to a service and a file" 0 60 $gateway "$work/send.conf"
sent=$(grep -c -v '^#' "$work/sent.csv")
# The last ones may be on their way; a reload drops what was not received yet.
all_received() {
	kill -USR1 "$receive"
	grep -q "node net: $sent samples" "$work/receive.err"
}
wait_until 60 all_received
kill -HUP "$receive"
ready_again() {
	[ "$(grep -c running "$work/receive.err")" -eq 2 ]
}
wait_until 60 ready_again
has "OpenMetrics text" "$work/metrics" '^ripc_gateway_samples_total{node="net"} [1-9]'
has "ends with EOF" "$work/metrics" '^# EOF$'
kill -TERM "$receive"
gone "$receive" 20
wait "$receive"
rc=$?
if [ $rc -eq 0 ]; then
	ok "SIGTERM ends it cleanly"
else
	bad "SIGTERM: exit status $rc"
fi
lines "all samples arrive through libripc, and stay in the file after a reload" \
	"$work/direct.csv" "$sent"
lines "all samples come back over UDP" "$work/around.csv" "$sent"
cut -d, -f4- "$work/sent.csv" >"$work/a"
cut -d, -f4- "$work/direct.csv" >"$work/b"
if cmp -s "$work/a" "$work/b"; then
	ok "with the same sequences and values"
else
	bad "other values" "$work/a" "$work/b"
fi

cat >"$work/join.conf" <<EOF
nodes = {
  fast = { type = "signal"; signal = "counter"; rate = 200.0; limit = 40; }
  slow = { type = "signal"; signal = "constant"; rate = 50.0; limit = 10; amplitude = 7.0; }
  any = { type = "file"; uri = "$work/any"; }
  all = { type = "file"; uri = "$work/all"; }
  masked = { type = "file"; uri = "$work/masked"; }
  timed = { type = "file"; uri = "$work/timed"; }
}
paths = (
  { in = [ "fast", "slow" ]; out = "any"; },
  { in = [ "fast", "slow" ]; out = "all"; mode = "all"; },
  { in = [ "fast", "slow" ]; out = "masked"; mask = [ "slow" ]; },
  { in = "slow"; out = "timed"; rate = 500.0; }
)
EOF
expect "paths with two sources" 0 20 $gateway "$work/join.conf"
any=$(grep -c -v '^#' "$work/any") all=$(grep -c -v '^#' "$work/all")
masked=$(grep -c -v '^#' "$work/masked") timed=$(grep -c -v '^#' "$work/timed")
if [ "$all" -le "$masked" ] && [ "$masked" -lt "$any" ] && [ "$any" -le 50 ] &&
	[ "$masked" -le 10 ] && [ "$all" -ge 1 ]; then
	ok "any, all and mask"
else
	bad "any $any, all $all, masked $masked"
fi
if [ "$timed" -gt "$masked" ]; then
	ok "rate repeats the last sample"
else
	bad "rate: $timed samples of $masked"
fi
has "values of both sources are joined" "$work/all" "	[0-9]*	7\$"

cat >"$work/replay.conf" <<EOF
nodes = {
  old = { type = "file"; uri = "$work/sent.csv"; format = "csv"; rate = 1000.0; }
  same = { type = "file"; uri = "$work/sent.csv"; format = "csv"; }
  new = { type = "file"; uri = "$work/new.csv"; format = "csv"; }
  recorded = { type = "file"; uri = "$work/recorded.csv"; format = "csv"; }
}
paths = ( { in = "old"; out = "new"; }, { in = "same"; out = "recorded"; } )
EOF
expect "a file is replayed" 0 20 $gateway "$work/replay.conf"
lines "at the recorded rate" "$work/recorded.csv" "$sent"
lines "whole" "$work/new.csv" "$sent"

# faulty LINE TEXT CONFIGURATION
faulty() {
	printf '%s\n' "$3" >"$work/faulty.conf"
	if expect "faulty: $2" 3 20 $gateway -t "$work/faulty.conf"; then
		has "has its line" "$err" "faulty.conf:$1: .*$2"
	fi
}
faulty 1 "nodes must be a group" ""
faulty 2 "syntax error" "nodes = {
= }"
nodes='nodes = { s = { type = "signal"; }; f = { type = "file"; uri = "/dev/null"; }; };'
faulty 2 'there is no node "x"' "$nodes
paths = ( { in = \"x\"; out = \"f\"; } );"
faulty 2 "type signal and cannot be written" "$nodes
paths = ( { in = \"f\"; out = \"s\"; } );"
faulty 3 "ratio is 0, but must be from 1" "$nodes
paths = ( { in = \"s\"; out = \"f\"; hooks = (
{ type = \"decimate\"; ratio = 0; } ); } );"
faulty 2 "rate is 1e+07, but must be from" "nodes = { s = { type = \"signal\";
rate = 1e7; }; };"
faulty 1 "must be one of signal, file, stdio, socket, ripc, zeromq, nanomsg" \
	"nodes = { s = { type = \"opal\"; }; };"
faulty 1 "an id is from 1 to" \
	"nodes = { s = { type = \"ripc\"; in = { service = \"9223372036854775807\"; }; }; };"
expect "the last id" 0 20 $gateway -t ripc:9223372036854775806 stdio
for address in 127.0.0.1:0 127.0.0.1:65536 127.0.0.1:; do
	expect "no port: $address" 3 20 $gateway -t "socket:$address" stdio
done
for address in 127.0.0.1:1 127.0.0.1:65535 "[::1]:9"; do
	expect "a port: $address" 0 20 $gateway -t "socket:$address" stdio
done
faulty 1 "must be HOST:PORT" \
	"nodes = { s = { type = \"socket\"; in = { address = \"here\"; }; }; };"

# JSON, whose faults have lines, too.
cat >"$work/json.json" <<'EOF'
{ "nodes": {
    "count-1": { "type": "signal", "signal": "counter", "rate": 1e2, "limit": 20,
                 "offset": 2147483648, "values": 2 },
    "out": { "type": "stdio", "format": "csv" } },
  "paths": [ { "in": ["count-1"], "out": "out", "enabled": true,
               "hooks": [ { "type": "decimate", "ratio": 1, "renumber": false } ] } ],
  "priority": 0 }
EOF
json() {
	if timeout 20 $gateway -t "$work/json.json" 2>&1 | grep -q "built without"; then
		skip "$gateway was built without libjansson"
		return
	fi
	expect "a configuration in JSON" 0 20 $gateway "$work/json.json"
	has "with a number above 31 bits" "$out" ",21474836[4-9][0-9],21474836[4-9][0-9]\$"
	cat >"$work/escapes.json" <<EOF
{"nodes": {"s": {"type": "signal", "limit": 1},
  "f": {"type": "file", "uri": "$(printf %s "$work" | sed 's|/|\\/|g')\/\u00e4\ud83d\ude00\"."}},
 "paths": [{"in": "s", "out": "f"}]}
EOF
	expect "escapes in JSON" 0 20 $gateway "$work/escapes.json"
	if [ -s "$work/ä😀\"." ]; then
		ok "are the characters they stand for"
	else
		bad "another file: $(ls "$work")"
	fi
	faulty 2 "'}' expected near" '{ "nodes": 1
"paths": 2 }'
	faulty 2 "null is not a value" '{ "nodes":
null }'
	faulty 1 "a key must begin with a letter" '{ "1st": 1 }'
	faulty 2 "duplicate object key" '{ "affinity": 1,
"affinity": 2 }'
	faulty 3 "rate is 0, but must be from" '{ "nodes": { "s": {
"type": "signal",
"rate": 0 } } }'
	faulty 1 "nodes must be a group" "{}"
}
json
printf '%s\n' "$nodes" 'speed = 1; paths = ( { in = "s"; out = "f"; } );' >"$work/odd.conf"
expect "an unknown key is no fault" 0 20 $gateway -t "$work/odd.conf"
has "but a warning" "$err" "odd.conf:2: speed: unknown key"
expect "a missing file" 3 20 $gateway "$work/nothing"
has "is named" "$err" "nothing: No such file"
expect "no argument" 3 20 $gateway

expect "a directory as a source" 3 20 $gateway "file:$work" stdio
has "is named" "$err" "node node1: $work: Is a directory"

# A datagram that is no sample.
start udp $gateway "socket:127.0.0.1:$port" "file:$work/none"
udp=$pid
ready udp.err "running: 2 nodes"
bash -c "printf 'nonsense, more than a header' >/dev/udp/127.0.0.1/$port" || bad "no datagram"
ready udp.err "malformed input: 127.0.0.1 port [1-9][0-9]*: the version is not 2" &&
	ok "the log names the sender of a malformed datagram"
perl -MIO::Socket::INET -e \
	'IO::Socket::INET->new(Proto => "udp", PeerAddr => $ARGV[0])->send("")' "127.0.0.1:$port"
kill -USR1 "$udp"
ready udp.err "node node1: .* 2 malformed" && ok "an empty datagram is malformed, too"
kill -TERM "$udp"
gone "$udp" 20 || bad "it does not end after a malformed datagram"

# A receiver that stands still for 1500 samples of 528 bytes, which no ring takes.
start behind $gateway "ripc:$id,spin=true" "file:$work/behind.csv,format=csv"
behind=$pid
ready behind.err "running: 2 nodes"
start ahead $gateway signal:counter,rate=1000.0,values=64 "ripc:$id"
ahead=$pid
ready ahead.err "running: 2 nodes"
# sent_by_now COUNT: true if so many were sent at least; sets sent.
sent_by_now() {
	kill -USR1 "$ahead"
	sent=$(sed -n 's/^node node2: \([0-9]*\) sent.*/\1/p' "$work/ahead.err" | tail -n 1)
	[ "${sent:-0}" -ge "$1" ]
}
wait_until 20 sent_by_now 100
kill -STOP "$behind"
wait_until 20 sent_by_now $((sent + 1500))
kill -CONT "$behind"
kill -TERM "$ahead"
gone "$ahead" 20 || bad "the generator does not end"
tail -n 2 "$work/ahead.err" >"$work/ahead.end"
has "the samples of a receiver that is behind wait" "$work/ahead.end" \
	"node node2: [0-9]* sent, 0 not sent"
sent=$(sed -n 's/^node node2: \([0-9]*\) sent.*/\1/p' "$work/ahead.err" | tail -n 1)
caught_up() {
	kill -USR1 "$behind"
	grep -q "node node1: $sent samples, .* 0 reordered, 0 dup" "$work/behind.err"
}
wait_until 20 caught_up || bad "not all $sent samples come" "$work/behind.err"
kill -TERM "$behind"
gone "$behind" 20 || bad "the receiver does not end"
lines "and all arrive" "$work/behind.csv" "$sent"

# wire TYPE URL: a generator, two gateways and a file.
wire() {
	if timeout 20 $gateway stdio "$1:$2" </dev/null 2>&1 | grep -q "built without"; then
		skip "$1: $gateway was built without its library"
		return
	fi
	start "$1" $gateway "$1:$2" "file:$work/$1.csv,format=csv"
	w_pid=$pid
	ready "$1.err" "running: 2 nodes"
	expect "a generator to $1 over $2" 0 20 \
		$gateway signal:counter,rate=500.0,limit=250,values=3 "$1:$2"
	w_sent=$(sed -n 's/^node node2: \([0-9]*\) sent, 0 not sent.*/\1/p' "$err")
	all_there() {
		kill -USR1 "$w_pid"
		grep -q "node node1: ${w_sent:-none} samples, .* 0 reordered" "$work/$1.err"
	}
	wait_until 20 all_there "$1" || bad "$1: not all of $w_sent samples" "$work/$1.err"
	kill -TERM "$w_pid"
	gone "$w_pid" 20 || bad "$1: the receiver does not end"
	lines "$1: all samples that were sent arrive" "$work/$1.csv" "$w_sent"
	expect "$1: an impossible address" 3 20 $gateway stdio "$1:tcp://256.1.1.1:9"
	has "has a sentence" "$err" "node node2: tcp://256.1.1.1:9: "
}
wire zeromq "ipc://$work/zeromq.socket"
wire nanomsg "tcp://127.0.0.1:$port"
faulty 2 "must begin with tcp:// or ipc://" 'nodes = { s = { type = "zeromq";
in = { subscribe = "here"; }; }; };'
faulty 1 "needs the key endpoints here" 'nodes = { s = { type = "nanomsg"; in = { }; }; };'

# Arguments in place of a file.
printf '1700000000.%d+0(%d)\t1\n' 1 1 2 2 3 3 >"$work/three"
expect "stdio to stdio and a file" 0 20 \
	sh -c "$gateway stdio stdio file:$work/args.csv,format=csv <$work/three"
lines "the first sink has all samples" "$out" 3
lines "and the second one" "$work/args.csv" 3
expect "a generator with keys" 0 20 $gateway signal:counter,rate=100.0,limit=50,values=2 stdio
has "has its form and values" "$out" "([0-9]*)	[0-9]*	[0-9]*$"
expect "a generator to a service that is not there" 0 20 \
	$gateway signal:counter,rate=100.0,limit=20 "ripc:$(random_id)"
has "does not miss its steps while it looks for it" "$err" "node node1: [1-9][0-9]* samples"
# Sources that have no end, or wait for a writer.
mkfifo "$work/fifo"
for i in /dev/zero "$work/fifo"; do
	expect "$i as a file" 3 20 $gateway "file:$i" stdio
	has "is refused" "$err" "$i is no regular file: read it with the type stdio"
done
# The redirection stands inside: a command in the background has /dev/null otherwise.
start zero sh -c "exec $gateway stdio file:$work/none </dev/zero"
ready zero.err "running: 2 nodes"
if kill -TERM "$pid" && gone "$pid" 20; then
	ok "SIGTERM ends it while standard input has no end"
else
	bad "SIGTERM while standard input has no end" "$work/zero.err"
fi
# A sink that takes no more: the FIFO is full before the gateway begins to write.
exec 9<>"$work/fifo"
dd if=/dev/zero of="$work/fifo" bs=4096 oflag=nonblock 2>/dev/null
for i in "rate=1000" "rate=1000,limit=2"; do
	start blocked $gateway "signal:counter,$i,values=64" "file:$work/fifo"
	ready blocked.err "running: 2 nodes"
	kill -TERM "$pid"
	if gone "$pid" 20 && [ "$status" -eq 3 ]; then
		ok "SIGTERM ends it while a sink takes no more ($i)"
	else
		bad "SIGTERM while a sink takes no more ($i): exit status ${status-none}" \
			"$work/blocked.err"
	fi
	has "which is an error" "$work/blocked.err" \
		"node2: not all samples could be written: the reader takes no more, [0-9]* bytes"
done
exec 9<&-
if [ -w /dev/full ]; then
	expect "standard output is full" 3 20 \
		sh -c "$gateway signal:counter,rate=1000,limit=500 stdio >/dev/full"
	has "which is an error, too" "$err" "could be written: No space left on device"
	has "and counted" "$err" "node node2: 0 sent, [1-9]"
	start full $gateway signal:counter,rate=1000 file:/dev/full
	ready full.err "could be written: No space left on device" &&
		ok "the error is printed when it happens"
	kill -TERM "$pid"
	gone "$pid" 20
	has "and all samples counted as not sent" "$work/full.err" "node node2: 0 sent, [1-9]"
fi
# The end of the source is no signal: a slow reader gets all of it.
# shellcheck disable=SC2046
printf '1700000000.000000000+0(%d)\t1\n' $(seq 3000) >"$work/many"
expect "a slow reader" 0 60 sh -c "$gateway stdio stdio <$work/many | while read -r line; do
	echo \"\$line\"; done"
lines "gets all samples" "$out" 3000
# Longer than one call reads, and no sample in it.
head -c 1000000 /dev/zero | tr '\0' '\n' >"$work/lines"
expect "a file of empty lines, read once more" 0 20 $gateway -m "$work/metrics" \
	"file:$work/lines,rate=1000,eof=rewind" "file:$work/none"
has "ends" "$work/metrics" 'ripc_gateway_samples_total{node="node1"} 0'
expect "metrics that cannot be written" 3 20 $gateway -m "$work/none/m" \
	signal:counter,rate=100.0,limit=1 stdio
has "are named before the start" "$err" "metrics $work/none/m: "
if grep -q running "$err"; then
	bad "before the start" "$err"
fi
# Signals while it looks for a service that is not there, and no loop runs yet. Its sockets show
# that the library is open.
# early LOG: starts it; $pid is its process id.
early() {
	start "$1" $gateway signal:counter,rate=100.0 "ripc:$(random_id)" \
		-o resolve_timeout_ms=60000
	wait_until 20 sh -c "ls -l /proc/$pid/fd | grep -q socket:"
}
early term
kill -TERM "$pid"
if gone "$pid" 20 && [ "$status" -eq 0 ] && ! grep -q "running" "$work/term.err"; then
	ok "SIGTERM in its start ends it cleanly"
else
	bad "SIGTERM in its start: exit status ${status-none}" "$work/term.err"
fi
has "with statistics" "$work/term.err" "^path 1: 0 forwarded"
since=$(date +%s)
early hup
kill -HUP "$pid"
kill -USR1 "$pid"
ready hup.err "running: 2 nodes" && ok "SIGHUP and SIGUSR1 in its start wait"
if [ $(($(date +%s) - since)) -ge 1 ]; then
	ok "it looks for the service for two seconds"
else
	bad "it looks for the service for less than a second"
fi
ready hup.err "^path 1: "
# Both at once: pending signals of a stopped process are delivered together.
kill -STOP "$pid"
kill -HUP "$pid"
kill -TERM "$pid"
kill -CONT "$pid"
if gone "$pid" 20 && [ "$status" -eq 0 ]; then
	ok "SIGTERM with a SIGHUP ends it"
else
	bad "SIGTERM with a SIGHUP" "$work/hup.err"
fi
# The limit is for the program itself: a wrapper of libtool, a script, needs more descriptors.
expect "no descriptor for its loop" 3 20 \
	./libtool --mode=execute prlimit --nofile=7 $gateway stdio stdio </dev/null
has "is named" "$err" "cannot make an event loop"
expect "keys of the group in" 0 20 $gateway -t "ripc:$id,spin=true" stdio
if grep -q "unknown key" "$err"; then
	bad "spin has no effect as an argument" "$err"
fi
expect "a name and a group" 0 20 $gateway -t stdio "ripc:gateway/$id" group:77
expect "an unknown type" 3 20 $gateway stdio opal:1
has "is named with the argument" "$err" "arguments:2: 'opal:1' is not signal:FORM"
expect "a type without its main key" 3 20 $gateway signal stdio
expect "a key without a value" 3 20 $gateway signal:sine,rate stdio
has "is named, too" "$err" "arguments:1: 'rate' is not KEY=VALUE"
expect "a faulty value" 3 20 $gateway signal:sine,rate=1e9 stdio
has "is named by its line, the number of the argument" "$err" "arguments:1: rate is 1e+09"
expect "a quote" 3 20 $gateway 'file:a"b' stdio
has "is refused" "$err" "arguments:1: quotes"

# An error names the descriptor that is one too many, at each limit.
n=6
while n=$((n + 1)) && [ $n -lt 40 ]; do
	timeout -k 2 20 ./libtool --mode=execute prlimit --nofile=$n $gateway \
		signal:sine,rate=100,limit=2 stdio </dev/null >"$out" 2>"$err"
	status=$?
	if [ "$status" -ne 3 ] || [ ! -s "$err" ]; then
		break
	fi
done
if [ "$status" -eq 0 ]; then
	ok "every start that fails is explained"
else
	bad "$n descriptors: exit status $status" "$err"
fi
expect "metrics to a full device" 3 20 $gateway -m /dev/full signal:counter,rate=100,limit=2 stdio
has "are named" "$err" "metrics /dev/full: .*No space left"
printf '%s\n' "$nodes" 'paths = ( { in = "s"; out = "f"; } );' | tr s '\000' >"$work/nul.conf"
expect "a configuration with NUL" 3 20 $gateway -t "$work/nul.conf"
has "is named" "$err" "nul.conf: byte [0-9]* is NUL"
printf '1.5(0)\t1\0\t2\n\0\n1.6(18446744073709551616)\t1\n1.7(1)\t2\n' >"$work/odd"
expect "lines with NUL, and a number too large" 0 20 sh -c "$gateway stdio stdio <$work/odd"
lines "are dropped" "$out" 1
has "and counted" "$err" "3 malformed"
# The last line is too long, and its end the end of the file.
{
	printf '1.5(0)\t1\n'
	head -c 65536 /dev/zero | tr '\0' x
} >"$work/line"
start long $gateway -m "$work/metrics" "file:$work/line,rate=1000,eof=rewind" stdio
ready long.err "running: 2 nodes"
# Ten samples are ten times the file.
rewound() {
	kill -USR1 "$pid"
	ended "$pid" ||
		grep -q '^ripc_gateway_samples_total{node="node1"} [1-9][0-9]' "$work/metrics"
}
wait_until 20 rewound
if ended "$pid"; then
	bad "a line too long at the end hides the first one" "$work/long.err"
else
	kill -TERM "$pid"
	gone "$pid" 20 && ok "a line too long at the end hides no other"
fi

# A ping has the length of a sample, but its origin time is no time.
start ping $gateway "ripc:$id" "file:$work/none"
pinged=$pid
ready ping.err "running: 2 nodes"
expect "a ping is no sample" 1 60 ./tools/ripc-ping -c 1 -W 200 "$id"
ready ping.err "malformed input: service [0-9]*: 64 bytes: .* origin time" &&
	ok "the log says so"
kill -TERM "$pinged"
gone "$pinged" 20
has "it is counted" "$work/ping.err" "node node1: 0 sent, 0 not sent, 1 malformed"

# A reload goes back to all processors, replaces a file that is new, and continues the others.
reload() {
	printf '%s\n' "$1" 'nodes = { s = { type = "signal"; rate = 1000.0; };' \
		"f = { type = \"file\"; uri = \"$work/$2\"; };" \
		"g = { type = \"file\"; uri = \"$work/both\"; };" \
		"r = { type = \"ripc\"; in = { service = \"$id\"; }; }; };" \
		'paths = ( { in = "s"; out = [ "f", "g" ]; }, { in = "r"; out = "f"; } );' \
		>"$work/reload.conf"
}
# Of all its threads, one of which is the library's.
cpus() {
	sed -n 's/^Cpus_allowed_list:.//p' "/proc/$pid/task/"*/status | sort -u
}
echo old >"$work/second"
reload "" first
start reload $gateway "$work/reload.conf"
ready reload.err "running: 4 nodes"
before=$(cpus)
reload "affinity = 1;" first
kill -HUP "$pid"
pinned() {
	[ "$(cpus)" = 0 ]
}
if wait_until 20 pinned; then
	ok "affinity, of all threads"
else
	bad "affinity, of all threads: $(cpus)"
fi
reload "" second
kill -HUP "$pid"
unpinned() {
	[ "$(cpus)" = "$before" ]
}
if wait_until 20 unpinned; then
	ok "a reload without affinity ends it"
else
	bad "a reload without affinity leaves $(cpus), not $before"
fi
wait_until 20 grep -q '^[0-9]' "$work/second"
kill -TERM "$pid"
gone "$pid" 20
if [ "$(grep -c '^#' "$work/both")" -eq 1 ] && [ "$(sed -n '1s/^#.*/#/p' "$work/second")" = "#" ]
then
	ok "a file that is new is replaced, another one continued"
else
	bad "a file that is new is replaced, another one continued" "$work/second"
fi

finish
