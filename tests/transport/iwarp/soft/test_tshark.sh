#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Captures a session of iwarp/soft on the loopback and decodes it with the MPA, DDP and RDMAP
# dissectors of Wireshark: every kind of frame occurs, none is malformed, all CRCs are right.
# Run in the build directory.
name=soft/test_tshark
# A network namespace: no other process takes the port when the session has ended.
# shellcheck disable=SC2016
if [ -z "${RIPC_TEST_OWN_NETWORK-}" ] && unshare -rn ip link set lo up 2>/dev/null; then
	RIPC_TEST_OWN_NETWORK=yes exec unshare -rn sh -c 'ip link set lo up && exec sh "$0"' "$0"
fi
# shellcheck source=../../../wait.sh
. "${srcdir:-$(dirname "$0")/../../../..}/tests/wait.sh"
passed=0
failed=0

finish()
{
	echo "$name: $passed passed, $failed failed, ${1:-0} skipped"
	[ "$failed" -eq 0 ]
	exit
}

skip()
{
	echo "SKIP: $1"
	finish 1
}

# check TEXT CONDITION...
check()
{
	text=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL: $text"
	fi
}

command -v tshark >/dev/null 2>&1 || skip "tshark is not installed"
dir=$(mktemp -d) || exit 1
capture=
session=
end()
{
	[ -z "$capture" ] || kill "$capture" 2>/dev/null
	[ -z "$session" ] || kill "$session" 2>/dev/null
	rm -rf "$dir"
}
trap end EXIT

# wait_for FILE PATTERN PID: until a line of the file matches, at most a minute, while the process
# lives.
wait_for()
{
	wait_until 60 has_or_ended "$@" && grep -q "$2" "$1"
}

has_or_ended()
{
	grep -q "$2" "$1" 2>/dev/null || ! kill -0 "$3" 2>/dev/null
}

mkfifo "$dir/go"
./tests/transport/iwarp/soft/session <"$dir/go" >"$dir/session" &
session=$!
exec 9>"$dir/go"
if ! wait_for "$dir/session" '^[0-9]' "$session"; then
	check "the session starts" false
	finish
fi
port=$(head -n 1 "$dir/session")
# -P and -l: one line per packet, unbuffered, to see when all is written.
tshark -n -l -P -i lo -f "tcp port $port" -w "$dir/capture" >"$dir/packets" 2>"$dir/errors" &
capture=$!
wait_for "$dir/errors" 'Capturing on' "$capture" ||
	skip "tshark cannot capture on the loopback: $(tail -n 1 "$dir/errors")"
# It reports readiness too early: plain connections show when it captures.
captures()
{
	bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" 2>/dev/null
	[ -s "$dir/packets" ]
}
wait_until 60 captures || skip "tshark sees no packets on the loopback"
echo go >&9
exec 9>&-
check "the session succeeds" wait_for "$dir/session" '^done' "$session"
# The port is closed now: a refused connection in the capture is behind all other packets.
refused()
{
	bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" 2>/dev/null
	grep -q 'RST, ACK\] Seq=1 Ack=1 ' "$dir/packets"
}
wait_until 60 refused
kill "$capture" && wait "$capture" 2>/dev/null
capture=

# Heuristic dissectors of Send payload would claim ours.
decode()
{
	tshark -n -r "$dir/capture" --disable-protocol rpcordma --disable-protocol smb_direct "$@" \
		2>/dev/null
}

# seen FILTER: how many frames match.
seen()
{
	decode -Y "$1" -T fields -e frame.number | wc -l
}

check "an MPA request is seen" [ "$(seen iwarp_mpa.req)" -eq 1 ]
check "an MPA reply is seen" [ "$(seen iwarp_mpa.rep)" -eq 1 ]
check "a write is seen" [ "$(seen 'iwarp_rdma.opcode == 0')" -ge 1 ]
check "a read request is seen" [ "$(seen 'iwarp_rdma.opcode == 1')" -ge 1 ]
check "a read response is seen" [ "$(seen 'iwarp_rdma.opcode == 2')" -ge 1 ]
check "sends are seen" [ "$(seen 'iwarp_rdma.opcode == 3')" -ge 4 ]
check "no terminate is seen" [ "$(seen 'iwarp_rdma.opcode == 7')" -eq 0 ]
check "no frame is malformed" [ "$(seen '_ws.malformed || iwarp_mpa.bad_length')" -eq 0 ]
decode -V -Y iwarp_mpa.fpdu >"$dir/text"
check "all CRCs are right" [ "$(grep -c 'Good CRC32' "$dir/text")" -ge 8 ]
check "no CRC is wrong" [ "$(grep -c 'Bad CRC32' "$dir/text")" -eq 0 ]
check "there is no CRC of another verdict" [ "$(grep -c '^ *CRC check: ' "$dir/text")" \
	-eq "$(grep -c 'Good CRC32' "$dir/text")" ]
if [ "$failed" -ne 0 ]; then
	decode | tail -n 40
	grep -i 'crc' "$dir/text"
fi
finish
