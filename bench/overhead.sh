#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Instructions of one round trip of a short message over shm by ripc.h and by ripc.hpp, both sides
# together. Callgrind counts two runs of bench/overhead with different numbers of round trips. The
# result does not depend on the load of the machine. Prints one line.
#
# usage: bench/overhead.sh [BUILD_DIR [BYTES [COUNT]]]    (default: the current directory, 64,
#   20000)
build=${1:-.} bytes=${2:-64} count=${3:-20000}
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
needs "$build" valgrind valgrind bench/overhead || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# counted HEADER N: instructions of the main thread.
counted()
{
	timeout 300 "$build/libtool" --mode=execute valgrind --tool=callgrind \
		--separate-threads=yes --callgrind-out-file="$work/out" \
		"$build/bench/overhead" "$1" "$2" \
		"transports=shm wait=poll interfaces=lo" "$bytes" >"$work/log" 2>&1 ||
		{ tail -n 5 "$work/log" >&2; exit 1; }
	awk '/^(summary|totals):/ { print $2; exit }' "$work/out-01"
}

for header in c cxx; do
	few=$(counted $header "$count") && many=$(counted $header $((3 * count))) || exit 1
	each[${#each[@]}]=$(((many - few) / (2 * count)))
done
awk -v c="${each[0]}" -v cxx="${each[1]}" -v bytes="$bytes" 'BEGIN {
	printf "Instructions of a round trip of %d B over shm: ripc.h %d, ripc.hpp %d (%+.1f %%)\n",
		bytes, c, cxx, (cxx / c - 1) * 100
}'
