#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The programs of doc/tutorial.md compile without changes, and behave as described.
name=tools/test_tutorial
# A network of its own: the service has a fixed id.
# shellcheck disable=SC2016
if [ -z "${RIPC_TEST_OWN_NETWORK-}" ] && unshare -rn ip link set lo up 2>/dev/null; then
	RIPC_TEST_OWN_NETWORK=yes exec unshare -rn sh -c 'ip link set lo up && exec sh "$0"' "$0"
fi
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
srcdir=$(cd "${srcdir:-.}" && pwd)

# The n-th block of C.
n=0
for program in upper ask; do
	n=$((n + 1))
	awk -v n=$n '/^```c$/ { k++; on = k == n; next } /^```/ { on = 0 } on' \
		"$srcdir/doc/tutorial.md" >"$work/$program.c"
	# shellcheck disable=SC2086
	if ./libtool --silent --mode=link --tag=CC ${CC:-cc} ${RIPC_TEST_LDFLAGS-} -Wall -Wextra \
		-Werror -I"$srcdir/include" \
		-o "$work/$program" "$work/$program.c" libripc.la >"$out" 2>"$err"; then
		ok "$program.c compiles"
	else
		bad "$program.c compiles" "$out" "$err"
	fi
done
expect "nobody is there" 1 60 "$work/ask" "good morning"
has "the error says so" "$err" "^ask: service 42"
start served "$work/upper"
upper=$pid
ready served "service 42 waits"
expect "the client" 0 60 "$work/ask" "good morning"
has "its answer" "$out" "^GOOD MORNING$"
expect "the id is taken" 1 60 "$work/upper"
has "and by whom" "$err" "^upper: service 42"
expect "how it is reached" 0 60 ./tools/ripc-ping -n 42
kill "$upper"
gone "$upper" 60
printf '* 127.0.0.1\n' >"$work/hosts"
RIPC_RESOLVER="local,udp,file:$work/hosts"
export RIPC_RESOLVER
start served "$work/upper"
ready served "service 42 waits"
expect "with a list of hosts" 0 60 "$work/ask"
has "its answer, too" "$out" "^HELLO$"
finish
