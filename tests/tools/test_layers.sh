#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Instructions of a round trip of 64 B, both sides together, as callgrind counts them: no load of the machine changes them. The bounds
# are twice what was counted when they were set: they tell that something has been put into every message's way.
name=tools/test_layers
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
bench=${srcdir:-.}/bench
if ! command -v valgrind >/dev/null 2>&1 || ! command -v callgrind_annotate >/dev/null 2>&1; then
	skip "valgrind is not installed"
	finish
fi
# What the compiler adds to find faults, or leaves as it is written, would be counted as well.
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
if ! expect "counting" 0 250 bash "$bench/layers.sh" . 64 1000; then
	finish
fi
cp "$out" "$work/table"

# at_most TRANSPORT INSTRUCTIONS: per round trip.
at_most() {
	a_count=$(sed -n "\\|^. $1, 64 B|,\$s/^| \\*\\*all\\*\\* | \\*\\*\\([0-9]*\\)\\*\\* |\$/\\1/p" "$work/table" | head -n 1)
	if [ -n "$a_count" ] && [ "$a_count" -gt 500 ] && [ "$a_count" -le "$2" ]; then
		ok "$1: $a_count instructions, at most $2"
	else
		bad "$1: ${a_count:-no} instructions, not 500 to $2" "$work/table"
	fi
}
at_most window/shm 11000
at_most iwarp/soft 13000
finish
