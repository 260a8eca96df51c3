#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The programs in the manual pages compile as C and as C++ without changes, and behave as described.
name=test_manpage_examples
# A network of its own: the services have fixed ids.
# shellcheck disable=SC2016
if [ -z "${RIPC_TEST_OWN_NETWORK-}" ] && unshare -rn ip link set lo up 2>/dev/null; then
	RIPC_TEST_OWN_NETWORK=yes exec unshare -rn sh -c 'ip link set lo up && exec sh "$0"' "$0"
fi
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
srcdir=$(cd "${srcdir:-.}" && pwd)

if ! command -v mandoc >/dev/null; then
	skip "mandoc is not installed: the programs cannot be taken from the pages"
	finish
fi

# printed PAGE: the programs of the section EXAMPLES as a reader sees them, each after a line "@".
printed() {
	mandoc -T ascii "$1" | sed 's/.\x08//g' | awk '
		/^[A-Z]/ { on = $0 == "EXAMPLES"; program = 0; next }
		!on { next }
		/^ *#include <ripc.h>$/ { program = 1; indent = index($0, "#") - 1; print "@" }
		program && $0 != "" && substr($0, 1, indent) ~ /[^ ]/ { program = 0 }
		program { print substr($0, indent + 1) }'
}

# compiles PROGRAM PACKAGE...: as C++, then as C with the library of this build.
warnings="-Wall -Wextra -Wpedantic -Werror"
compiles() {
	c_name=$1
	shift
	c_flags="" c_libs=""
	for package in "$@"; do
		c_flags="$c_flags $(pkg-config --cflags "$package")"
		c_libs="$c_libs $(pkg-config --libs "$package")"
	done
	# shellcheck disable=SC2086
	if ${CXX:-c++} $warnings -x c++ -std=c++11 -fsyntax-only -I"$srcdir/include" $c_flags \
		"$work/$c_name.c" >"$out" 2>"$err"; then
		ok "$c_name compiles as C++"
	else
		bad "$c_name compiles as C++" "$out" "$err"
	fi
	# shellcheck disable=SC2086
	if ./libtool --silent --mode=link --tag=CC ${CC:-cc} ${RIPC_TEST_LDFLAGS-} $warnings \
		-I"$srcdir/include" $c_flags -o "$work/$c_name" "$work/$c_name.c" libripc.la \
		$c_libs \
		>"$out" 2>"$err"; then
		ok "$c_name compiles as C"
	else
		bad "$c_name compiles as C" "$out" "$err"
	fi
}

libuv=yes
pkg-config --exists libuv 2>/dev/null || libuv=
for source in "$srcdir"/examples/man/*.c; do
	program=$(basename "$source" .c)
	page=doc/man/${program%-*}.3
	[ -e "$page" ] || page=$srcdir/$page
	# A page prints its own program first, then those whose names have a word behind the page's.
	nth=1
	[ "$program" = "${program%-*}" ] || nth=2
	printed "$page" | awk -v n=$nth '/^@$/ { k++; next } k == n' >"$work/$program.c"
	if sed -n '/^#include/,$p' "$source" | expand | diff -B - "$work/$program.c" >"$out" \
		2>"$err"; then
		ok "$(basename "$page") prints $program.c"
	else
		bad "$(basename "$page") prints $program.c" "$out" "$err"
	fi
	case $program in
	*-libuv)
		if [ -n "$libuv" ]; then
			compiles "$program" libuv
		else
			skip "$program: libuv is not installed (libuv1-dev)"
		fi
		;;
	*) compiles "$program" ;;
	esac
done
printed "$srcdir/doc/man/ripc.7" | sed 1d >"$work/ripc.7.c"
compiles ripc.7

# ---- short messages ----

expect "ripc_send_short: nobody is there" 1 60 "$work/ripc_send_short"
has "the error names the service" "$err" "^service 42"
start served "$work/ripc_receive"
server=$pid
ready served "^service 42 waits$"
expect "ripc_send_short" 0 60 "$work/ripc_send_short"
has "the first reply" "$out" "^GOOD MORNING$"
has "the second reply" "$out" "^GOOD NIGHT$"
expect "ripc_register_name" 0 60 "$work/ripc_register_name"
has "lists itself" "$out" "^[0-9]* \"example/clock\" on this host, by "
expect "ripc_service_register" 0 60 "$work/ripc_service_register"
has "says who held the service" "$out" "^service 42"
has "takes it over" "$out" "^service 42 is ours$"
if gone "$server" 60 && [ "$status" -eq 1 ]; then
	ok "ripc_receive ends when its service was taken over"
else
	bad "ripc_receive ends when its service was taken over" "$work/served" "$work/served.err"
fi

# ---- calls and reliable messages ----

expect "ripc_call: nobody is there" 1 60 "$work/ripc_call"
has "the error names the service" "$err" "service 44"
has "the request was not executed" "$err" "not executed"
start replies "$work/ripc_reply"
replies=$pid
ready replies "^service 44 waits$"
expect "ripc_call" 0 60 "$work/ripc_call"
has "the answer" "$out" "^12 \* 12 = 144$"
expect "ripc_call_start" 0 60 "$work/ripc_call_start"
has "ten answers" "$out" "^the sum of the squares is 285$"
expect "ripc_completion_next" 0 60 "$work/ripc_completion_next"
has "the last of ten answers" "$out" "^9 \* 9 = 81$"
kill "$replies"
gone "$replies" 60
start taken "$work/ripc_receive"
taken=$pid
ready taken "^service 42 waits$"
expect "ripc_flush" 0 60 "$work/ripc_flush"
has "all were delivered" "$out" "^100 messages were delivered$"
kill "$taken"
gone "$taken" 60

expect "ripc_watch: nobody is there" 0 60 "$work/ripc_watch"
has "says so" "$out" "^service 42 was not found: "
start watched "$work/ripc_receive"
watched=$pid
ready watched "^service 42 waits$"
start watching "$work/ripc_watch"
watching=$pid
ready watching "^watching service 42$"
expect "ripc_send_short to the service that is watched" 0 60 "$work/ripc_send_short"
kill -9 "$watched"
gone "$watched" 60
if gone "$watching" 60 && [ "$status" -eq 0 ]; then
	ok "ripc_watch ends with the event"
else
	bad "ripc_watch ends with the event" "$work/watching" "$work/watching.err"
fi
has "the service that was killed" "$work/watching" "^service 42 died: peer "

# asked SERVER: everything that asks an echo at service 42.
asked() {
	expect "ripc_send_short with $1" 0 60 "$work/ripc_send_short"
	has "the echo" "$out" "^good night$"
	expect "ripc(7) with $1" 0 60 "$work/ripc.7"
	has "the echo" "$out" "^hello"
	expect "ripc_route_lookup with $1" 0 60 "$work/ripc_route_lookup"
	has "says how it is reached" "$out" "^service 42: [a-z/]* at "
	has "and what fits" "$out" "^short messages: [0-9]* bytes at most; connected: yes$"
	expect "ripc_context_stats with $1" 0 60 "$work/ripc_context_stats"
	has "counts the message" "$out" "^peer: 1 short messages sent"
	expect "ripc_log_set with $1" 0 60 "$work/ripc_log_set"
	has "writes the log" "$out" "^ripc debug: lane to .* is up"
}

mkfifo "$work/input"
# Opened for both, so that neither this shell nor the program waits for the other.
exec 3<>"$work/input"
# shellcheck disable=SC2016
start polled sh -c 'exec "$0" <&4 3<&- 4<&-' "$work/ripc_service_fd" 4<"$work/input"
polled=$pid
ready polled "^service 42 waits"
asked "poll"
exec 3<&-
if gone "$polled" 60 && [ "$status" -eq 0 ]; then
	ok "ripc_service_fd ends with its input"
else
	bad "ripc_service_fd ends with its input" "$work/polled" "$work/polled.err"
fi
if [ -n "$libuv" ]; then
	start loop "$work/ripc_service_fd-libuv"
	loop=$pid
	ready loop "^service 42 waits"
	asked "libuv"
	kill "$loop"
	if gone "$loop" 60 && [ "$status" -eq 0 ]; then
		ok "the loop ends at SIGTERM"
	else
		bad "the loop ends at SIGTERM" "$work/loop" "$work/loop.err"
	fi
else
	skip "the service in a loop of libuv: it is not installed (libuv1-dev)"
fi

# ---- long messages ----

# piped BYTES: so many to ripc_send_long.
piped() {
	head -c "$1" /dev/zero >"$work/zeros"
	# shellcheck disable=SC2016
	expect "ripc_send_long: $1 bytes" 0 60 sh -c '"$0" <"$1"' "$work/ripc_send_long" \
		"$work/zeros"
	has "are there" "$out" "^$1 bytes stand in the memory of service 43$"
}

expect "ripc_send_long: nobody is there" 1 60 "$work/ripc_send_long" </dev/null
has "says that it was not delivered" "$err" "^not delivered: service 43"
start taken "$work/ripc_message_detach"
taker=$pid
ready taken "^service 43 waits$"
piped 300000
ready taken "^300000 bytes are kept$"
piped 65536
ready taken "^65536 bytes are kept$"
expect "ripc_send_async" 0 60 "$work/ripc_send_async"
has "both are delivered" "$out" "^both delivered, the sum is [0-9]*$"
ready taken "^1048576 bytes are kept$"
expect "ripc_buf_register" 0 60 "$work/ripc_buf_register"
has "the half is delivered" "$out" "^400000 bytes delivered$"
ready taken "^400000 bytes are kept$"
kill "$taker"
gone "$taker" 60

start windows "$work/ripc_window_add"
windows=$pid
ready windows "^service 43 waits$"
expect "ripc_send_async into windows" 0 60 "$work/ripc_send_async"
ready windows "^1048576 bytes in window 0$"
ready windows "^1048576 bytes in window 1$"
piped 3000000
ready windows "^3000000 bytes in a buffer of the library$"
piped 0
if gone "$windows" 60 && [ "$status" -eq 0 ]; then
	ok "ripc_window_add ends with an empty message"
else
	bad "ripc_window_add ends with an empty message" "$work/windows" "$work/windows.err"
fi

expect "ripc_send_options" 0 60 "$work/ripc_send_options"
has "the service sees the offer" "$out" "^the client offers 2 buffers$"
has "the head is in a return buffer" "$out" "^item 0: 10 bytes, in a return buffer$"
has "the table is in a return buffer" "$out" "^item 1: 100000 bytes, in a return buffer$"

# ---- groups ----

start one "$work/ripc_group_join"
one=$pid
start two "$work/ripc_group_join"
two=$pid
ready one "^a member of group 7$"
ready two "^a member of group 7$"
# A sender that has just started may know one of the two only for a moment.
tries=0
heard() {
	grep -q "^the sun is out$" "$work/$1"
}
until { heard one && heard two; } || [ $tries -ge 50 ]; do
	tries=$((tries + 1))
	echo "the sun is out" | "$work/ripc_group_send" >"$out" 2>"$err"
done
has "a sender says how many it sent" "$out" \
	"^1 messages sent, [0-9]* times a member was not reached$"
ready one "^the sun is out$"
ready two "^the sun is out$"
tries=0
while { kill -0 "$one" || kill -0 "$two"; } 2>/dev/null && [ $tries -lt 50 ]; do
	tries=$((tries + 1))
	echo end | "$work/ripc_group_send" >"$out" 2>"$err"
done
for member in "$one" "$two"; do
	if gone "$member" 60 && [ "$status" -eq 0 ]; then
		ok "a member leaves"
	else
		bad "a member leaves" "$work/one" "$work/one.err" "$work/two" "$work/two.err"
	fi
done

# ---- contexts ----

expect "ripc_open" 0 60 "$work/ripc_open"
has "prints its service" "$out" "^service [0-9]*$"
expect "ripc_transport_info" 0 60 "$work/ripc_transport_info"
has "lists transports" "$out" "^transport iwarp/soft: "
has "lists resolvers" "$out" "^resolver udp: "
finish
