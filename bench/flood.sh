#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# bench/flood without keys and with them: unauthenticated peers at full rate, on the loopback. One
# line of JSON for each kind of flood.
# usage: flood.sh [MESSAGES]   from the build directory
set -u
export RIPC_INTERFACES=lo LC_ALL=C
messages=${1:-1000000}
flood=${builddir:-.}/bench/flood
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[ -x "$flood" ] || { echo "flood.sh: there is no $flood; make bench/flood" >&2; exit 1; }
for key in ours theirs; do
	(umask 077 && od -An -v -N32 -tx1 /dev/urandom | tr -d ' \n' >"$work/$key" &&
		echo >>"$work/$key")
done
timeout 600 "$flood" "$messages" || exit 1
timeout 600 "$flood" "$messages" "$work/ours" "$work/theirs"
