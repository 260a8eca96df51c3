#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The dissector in Lua sees every kind of datagram and message of a session that tshark captured,
# and finds no fault with it.
name=tools/test_wireshark
# A network of its own, so that nobody else's datagrams are in the capture.
# shellcheck disable=SC2016
if [ -z "${RIPC_TEST_OWN_NETWORK-}" ] && unshare -rn ip link set lo up 2>/dev/null; then
	RIPC_TEST_OWN_NETWORK=yes exec unshare -rn sh -c 'ip link set lo up && exec sh "$0"' "$0"
fi
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
lua=${srcdir:-.}/tools/wireshark/ripc.lua
if ! command -v tshark >/dev/null 2>&1; then
	skip "tshark is not installed"
	finish
fi
if ! tshark --version 2>/dev/null | grep -q "with Lua"; then
	skip "this tshark has no Lua"
	finish
fi

# No local sockets: everything goes over the wire. CRCs, as tshark takes segments without them for
# broken.
RIPC_RESOLVER=udp RIPC_TRANSPORTS=iwarp/soft RIPC_CRC=on
export RIPC_RESOLVER RIPC_TRANSPORTS RIPC_CRC
start shown tshark -n -l -P -i lo -w "$work/capture"
capture=$pid
shown=$work/shown
# tshark reports that it captures before it sees packets: wait until a probe datagram appears.
probed() {
	bash -c 'echo >/dev/udp/127.0.0.1/9' 2>/dev/null
	grep -q UDP "$shown" || ended "$capture"
}
wait_until 60 probed
if ! grep -q UDP "$shown"; then
	skip "tshark cannot capture on the loopback: $(tail -n 1 "$shown.err")"
	finish
fi
id=4242
start server ./examples/server $id
server=$pid
ready server "service $id waits"
expect "a short message" 0 60 ./examples/client $id "good morning"
expect "a long message" 0 60 ./examples/client $id "$(head -c 100000 /dev/zero | tr '\0' x)"
expect "short messages one after the other" 0 60 ./tools/ripc-ping -c 3 -i 0 $id
kill "$server"
gone "$server" 60
start server ./tools/ripc-perf server --service $id
server=$pid
ready server "serving at service $id"
expect "long messages to and fro, each with the end of the last" 0 60 ./tools/ripc-perf latency \
	--service $id --kind long --size 64 --count 200
kill "$server"
gone "$server" 60
RIPC_SHORT=udp
export RIPC_SHORT
start server ./examples/server $id
server=$pid
ready server "service $id waits"
expect "short messages by datagram" 0 60 ./tools/ripc-ping -c 60 -i 0 $id
kill "$server"
gone "$server" 60
unset RIPC_SHORT
# The same with keys: sealed. A build without libsodium has none.
keys=no
head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$work/keys" && echo >>"$work/keys" &&
	chmod 600 "$work/keys"
RIPC_KEY_FILE=$work/keys
export RIPC_KEY_FILE
if ./tools/ripc-info >"$out" 2>"$err"; then
	keys=yes
	start server ./examples/server $id
	server=$pid
	ready server "service $id waits"
	expect "a short message with keys" 0 60 ./examples/client $id "good night"
	kill "$server"
	gone "$server" 60
else
	skip "keys: $(tail -n 1 "$err")"
fi
unset RIPC_KEY_FILE
start server ./tools/ripc-ping --serve camera/left
server=$pid
ready server "answering for service"
expect "calls" 0 60 ./tools/ripc-ping --call -c 3 -i 0 camera/left
has "all calls are answered" "$out" "^3 sent, 3 answered"
expect "a list of all services" 0 60 ./tools/ripc-info --services -o resolver=udp -W 1000
kill "$server"
gone "$server" 60

# The last message is a marker: when it is in the file, all earlier ones are. It is no plain number,
# because times have many digits.
marked() {
	bash -c 'echo >/dev/udp/127.0.0.1/40404' 2>/dev/null
	grep -q ' 40404 Len=' "$shown"
}
wait_until 60 marked
kill "$capture"
gone "$capture" 60

# seen WHAT FILTER: frames match, as judge finds.
: >"$work/filters"
seen() {
	printf '%s\t%s\t%s\n' "$1" seen "$(echo "$2" | tr -s '\n\t' '  ')" >>"$work/filters"
}

# unseen WHAT FILTER: none does.
unseen() {
	printf '%s\t%s\t%s\n' "$1" unseen "$(echo "$2" | tr -s '\n\t' '  ')" >>"$work/filters"
}

# judge: counts the frames of all filters so far in one pass of tshark, which takes longer to start
# than to read. Commas separate the filters: a filter has \x2c in its place.
judge() {
	tshark -q -n -X "lua_script:$lua" -r "$work/capture" \
		-z "io,stat,0,$(cut -f 3 "$work/filters" | paste -s -d ,)" >"$out" 2>"$err"
	if grep -i -e lua -e "not a valid" "$err"; then
		bad "tshark takes the dissector and the filters" "$err"
	fi
	# The row of the only interval: frames and bytes of each filter.
	grep ' <> ' "$out" | tail -n 1 | tr -d ' ' | tr '|' '\n' | sed -n '3,${p;n}' >"$work/counts"
	while IFS='	' read -r what expected filter && read -r n <&3; do
		case $expected$n in
		seen[1-9]* | unseen0) ok "$what" ;;
		seen*) bad "$what: no frame matches $filter" ;;
		*)
			tshark -n -X "lua_script:$lua" -r "$work/capture" -Y "$filter" \
				-O ripc,ripc_hello,ripc_resolver,ripc_seal >"$out" 2>"$err"
			bad "$what" "$out" "$err"
			;;
		esac
	done <"$work/filters" 3<"$work/counts"
	# The border at the end of the row makes one line more.
	[ "$(wc -l <"$work/counts")" -eq $(($(wc -l <"$work/filters") + 1)) ] ||
		bad "tshark counts the frames of every filter" "$out" "$err"
	: >"$work/filters"
}

seen "probes of the resolver" "ripc_resolver.kind == 3 && ripc_resolver.service == $id"
seen "requests of the resolver, with a record" \
	"ripc_resolver.kind == 1 && ripc_resolver.record.count > 0"
seen "replies that name the transport" \
	"ripc_resolver.kind == 2 && ripc_resolver.record.transport == 3"
seen "records with a name" 'ripc_resolver.kind == 3 && ripc_resolver.name == "camera/left"'
seen "questions for all services" "ripc_resolver.kind == 5"
seen "answers with a service" "ripc_resolver.listed.service == 5686882471791066349"
seen "and its name" 'ripc_resolver.kind == 6 && ripc_resolver.name == "camera/left"'
seen "places with their ports" 'ripc_resolver.record.place contains "127.0.0.1\x2c TCP port"'
seen "the set-up of a lane" "iwarp_mpa.req && ripc_hello.send_max >= 1984"
seen "its answer" "iwarp_mpa.rep && ripc_hello.refusal == 0"
seen "short messages on a lane" "iwarp_ddp && ripc.kind == 1 && ripc.dest == $id"
seen "short messages again, without a header of their own" \
	"iwarp_ddp && ripc.elided && ripc.kind == 1 && ripc.dest == $id"
seen "their items" 'ripc.item == "good morning"'
seen "long messages and how they travel" "ripc.kind == 2 && ripc.desc.len == 100000"
seen "requests of calls, with their time" "ripc.flags.call == 1 && ripc.call.time <= 2000"
seen "answers of calls" "ripc.flags.reply == 1 && ripc.call && ripc.call.status == 0"
seen "requests with a short header" "ripc.elided && ripc.flags.call == 1 && ripc.call.time <= 2000"
seen "answers with a short header" "ripc.elided && ripc.flags.reply == 1 && ripc.call.status == 0"
seen "the numbers of reliable messages" "ripc.kind == 14 && ripc.reliable > 1000000000"
seen "their acknowledgements" "ripc.kind == 15 && ripc.reliable > 1000000000"
seen "the end of a request" "ripc.kind == 3 && ripc.status == 0"
seen "the end of a request with the next message" \
	"iwarp_ddp && ripc.kind == 2 && ripc.flags.ack && ripc.request && ripc.desc.len == 64"
seen "short messages by datagram, with the instance" \
	"udp && ripc.kind == 1 && ripc.instance && ripc.dest == $id"
seen "their numbers, which begin at the time" "udp && ripc.kind == 1 && ripc.datagram > 1000000000"
unseen "no sequence number in a datagram" "udp && ripc.seq"
seen "header contexts of datagrams" "ripc.kind == 31 && ripc.dest == $id && ripc.context.first"
seen "their confirmation" "ripc.kind == 32 && ripc.context"
seen "datagrams with a short header" \
	"udp && ripc.elided && ripc.context.bytes && ripc.dest == $id && ripc.item"
seen "whether the other side is remembered" "iwarp_mpa.req && ripc_hello.epoch > 0"
if [ $keys = yes ]; then
	seen "sealed requests of the resolver" \
		"ripc_seal.key && ripc_seal.number && ripc_resolver.service == $id"
	seen "the clock of who sealed them" \
		'ripc_seal.time > "2020-01-01 00:00:00" && ripc_seal.time < "2200-01-01 00:00:00"'
	seen "the proof in the set-up of a lane" \
		"iwarp_mpa.req && ripc_hello.auth == 1 && ripc_hello.key && ripc_hello.code"
	seen "the proof in its answer" "iwarp_mpa.rep && ripc_hello.auth == 1 && ripc_hello.nonce"
	seen "the confirmation" "iwarp_ddp && ripc_confirm.code"
	seen "short messages on a lane with keys" 'ripc.item == "good night"'
fi
unseen "nothing is malformed" \
	"ripc.broken || ripc_seal.broken || ripc_resolver.broken ||
	((ripc || ripc_resolver) && _ws.malformed)"
unseen "no record with something behind it" "ripc_resolver.rest"
unseen "no Lua error" "_ws.lua.error"
unseen "no message of a kind that is not known" "ripc && !(ripc.kind >= 1 && ripc.kind <= 15) &&
	!(ripc.kind >= 31 && ripc.kind <= 32)"
judge
tshark -n -X "lua_script:$lua" -r "$work/capture" -Y "ripc || ripc_resolver" >"$out" 2>"$err"
has "one line says what a message is" "$out" "RIPC .*SHORT [0-9]* -> $id, 1 items"
has "and what a request of the resolver is" "$out" "RIPC-RES .*REQUEST of service $id"

# RoCE packets, as no device is here to capture them: a LONG in a Send, two writes with immediate
# data in its place, a write of two packets, a write in the other direction, and a Send whose first
# four bytes are immediate data.
cat >"$work/roce.pl" <<'PERL'
# Packet numbers differ per direction; nothing here depends on them.
my $psn = 7;

sub packet
{
	my ($from, $to, $qp, $opcode, $headers, $payload) = @_;
	my $pad = -length($payload) % 4;
	my $bth = pack("CCnNN", $opcode, 0x40 | $pad << 4, 0xffff, $qp, $psn++);
	my $udp = $bth . $headers . $payload . "\0" x ($pad + 4);
	my $ip = pack("CCnnnCCnC4C4", 0x45, 0, 28 + length($udp), 0, 0, 64, 17, 0, 10, 0, 0, $from,
		10, 0, 0, $to);
	my $sum = 0;
	$sum += $_ for unpack("n*", $ip);
	$sum = ($sum & 0xffff) + ($sum >> 16) while $sum >> 16;
	substr($ip, 10, 2) = pack("n", ~$sum & 0xffff);
	my $frame = $ip . pack("nnnn", 49152, 4791, 8 + length($udp), 0) . $udp;
	print pack("VVVV", $psn, 0, length($frame), length($frame)), $frame;
}

sub header
{
	my ($kind, $nitems, $seq) = @_;
	return pack("vCCvvQ<Q<Vvv", 0x7072, 5, $kind, 0, $nitems, 4242, 4243, $seq, 0, 0);
}

sub reth
{
	return pack("Q>NN", 0x7f0000001000, 0x1234, $_[0]);
}

print pack("VvvVVVV", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 228);
packet(1, 2, 0x11, 0x0a, reth(3000), "w" x 3000);
packet(1, 2, 0x11, 0x04, "", header(2, 1, 5) .
	pack("Q<Q<Q<Q<VV", 100, 98, 0x0501, 3000, 0, 2));
# Sequence number 6, 3 credits, request 101 less 2, buffer ..02; the end of request ..2a.
my $word = 0x02 << 24 | 2 << 9 | 3 << 4 | 6;
packet(1, 2, 0x11, 0x0b, reth(3001) . pack("N", $word), "x" x 3001);
$word = 0x03 << 24 | 0x2a << 14 | 1 << 13 | 7;
packet(1, 2, 0x11, 0x0b, reth(5) . pack("N", $word), "hello");
packet(1, 2, 0x11, 0x06, reth(2048), "y" x 1024);
packet(1, 2, 0x11, 0x09, pack("N", 0x04 << 24 | 8), "y" x 1024);
# No LONG went this way before: it may be another program's.
packet(2, 1, 0x22, 0x0b, reth(4) . pack("N", 0x01 << 24), "none");
packet(1, 2, 0x11, 0x04, "", header(1, 1, 9) . pack("V", 5) . "first");
packet(1, 2, 0x11, 0x05, pack("CCv", 0x61, 0, 10), "next one");
PERL
perl "$work/roce.pl" >"$work/roce"
mv "$work/capture" "$work/session" && mv "$work/roce" "$work/capture"
seen "a long message in a Send of RoCE" \
	"infiniband && ripc.kind == 2 && ripc.request == 100 && ripc.desc.len == 3000"
seen "a write in place of one" "ripc.imm.seq == 6 && ripc.imm.credits == 3 &&
	ripc.imm.buffer == 2 && ripc.imm.ack == 0 && ripc.kind == 2 && ripc.dest == 4242 &&
	ripc.source == 4243 && ripc.request == 101 && ripc.dedup_base == 99 && ripc.written"
seen "the end of a request in one" \
	"ripc.imm.ack == 1 && ripc.imm.acked == 42 && ripc.request == 102 &&
	ripc.written == \"hello\""
seen "one of two packets" "ripc.imm.buffer == 4 && ripc.request == 103"
unseen "none where no long message was before" "ip.src == 10.0.0.2 && ripc"
unseen "none in other writes" "infiniband.bth.opcode == 6 && ripc"
seen "a Send that begins with immediate data" \
	"ripc.elided && ripc.dest == 4242 && ripc.item == \"next one\""
unseen "nothing of RoCE is malformed" "ripc.broken || (ripc && _ws.malformed)"
unseen "no Lua error in them" "_ws.lua.error"
judge
tshark -n -X "lua_script:$lua" -r "$work/capture" -Y "ripc.imm" >"$out" 2>"$err"
has "one line says what a write is" "$out" "RIPC .*LONG 4243 -> 4242, written, request 101"

# Messages of every kind, as the encoder of the library makes them: more than a session has.
tests/tools/message_frames >"$work/capture"
for kind in $(seq 1 34); do
	seen "messages of kind $kind" "ripc.kind == $kind && !ripc.broken"
done
seen "the flags of an ACK" "ripc.kind == 3 && ripc.ack.kept == 1"
seen "answers to GOAWAY" "ripc.kind == 23 && ripc.answer"
seen "numbers of exported buffers" "ripc.kind == 24 && ripc.buffer"
seen "items that are released" "ripc.kind == 25 && ripc.request && ripc.release.ack == 1"
seen "datagrams of groups" "ripc.kind == 16 && ripc.instance && ripc.number"
unseen "none is malformed" "ripc.broken || _ws.malformed || _ws.lua.error || !ripc"
judge

# Truncated frames are reported: the last byte of every frame is removed.
if command -v editcap >/dev/null 2>&1; then
	editcap -C -1 -L "$work/session" "$work/cut" 2>"$err"
	tshark -n -X "lua_script:$lua" -r "$work/cut" \
		-Y "udp && (ripc.broken || ripc_resolver.broken || _ws.malformed)" >"$out" 2>>"$err"
	has "a datagram that is cut short is malformed" "$out" "RIPC"
else
	skip "editcap is not installed"
fi
finish
