#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# bench/profile.sh: where the time of a round trip goes. Only that it comes to an end, and adds up.
name=tools/test_profile
# shellcheck source=lib.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
bench=${srcdir:-.}/bench
for program in perf addr2line jq taskset; do
	command -v $program >/dev/null 2>&1 || { skip "$program is not installed"; finish; }
done
if ! perf record -q -e cpu-clock:u -e cpu-clock:k -o "$work/perf.data" true >"$out" 2>&1; then
	skip "perf may not look at programs here: $(head -n 1 "$out")"
	finish
fi
if ! ./tools/ripc-perf --help >/dev/null || ! grep -q "define HAVE_JANSSON" config.h ||
	[ "$(nproc)" -lt 2 ]; then
	skip "two processors and jansson are needed"
	finish
fi
if ! grep -qE '^(CFLAGS|RIPC_CFLAGS) = (.* )?-g' Makefile; then
	skip "a build without debugging information"
	finish
fi
expect "the profile" 0 240 env TRANSPORTS=shm SECONDS_EACH=0.1 bash "$bench/profile.sh" . 64
has "counts the calls" "$out" '^| call | [1-9][0-9]* | '
has "and the ring" "$out" '^| ring, verbs or socket | [1-9][0-9]* | '
has "and all of it" "$out" '^| \*\*all\*\*, of [1-9][0-9]* samples | \*\*[1-9]'
has "and that of two processes, asleep" "$out" '^| sleeping | [1-9]'
finish
