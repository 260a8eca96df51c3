#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Counts the instructions of a round trip of 64 B, of both sides together, by callgrind: the load of
# the machine hardly changes them. The bounds are well above the values of the day they were set; a
# failure means that the path of every message has grown.
name=tools/test_layers
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
bench=${srcdir:-.}/bench
if ! command -v valgrind >/dev/null 2>&1 || ! command -v callgrind_annotate >/dev/null 2>&1; then
	skip "valgrind is not installed"
	finish
fi
# Sanitizers and missing optimization would be counted too.
flags=$(sed -n 's/^\(CC\|CFLAGS\|RIPC_CFLAGS\|CPPFLAGS\) = //p' Makefile | tr '\n' ' ')
case "$flags" in
*clang* | *-fsanitize* | *--coverage*) flags= ;;
*-O2* | *-O3*) ;;
*) flags= ;;
esac
if [ -z "$flags" ]; then
	skip "not a build by gcc with -O2"
	finish
fi
if ! valgrind --tool=callgrind --callgrind-out-file="$work/true" true >"$out" 2>&1; then
	skip "valgrind does not run here: $(tail -n 1 "$out")"
	finish
fi

# count TRANSPORT: per round trip, in the last table.
count() {
	sed -n "\\|^. $1, 64 B|,\$s/^| \\*\\*all\\*\\* | \\*\\*\\([0-9]*\\)\\*\\* |\$/\\1/p" \
		"$out" | head -n 1
}

# A thread that is not let run while it has the lock makes the other one look in vain: the least of
# five is nearest.
shm=999999 soft=999999
for try in 1 2 3 4 5; do
	expect "counting, $try" 0 250 bash "$bench/layers.sh" . 64 4000 || finish
	n=$(count shm)
	[ "${n:-999999}" -ge "$shm" ] || shm=$n
	n=$(count iwarp/soft)
	[ "${n:-999999}" -ge "$soft" ] || soft=$n
	[ "$shm" -gt 1600 ] || [ "$soft" -gt 6000 ] || break
done

# at_most TRANSPORT INSTRUCTIONS BOUND. Of less than 300 nothing can be true, either.
at_most() {
	if [ "$2" -gt 300 ] && [ "$2" -le "$3" ]; then
		ok "$1: $2 instructions, at most $3"
	else
		bad "$1: $2 instructions, not 300 to $3" "$out"
	fi
}
at_most shm "$shm" 1600
at_most iwarp/soft "$soft" 6000
finish
