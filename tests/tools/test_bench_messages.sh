#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck disable=SC2154
# bench/messages.sh in short: each row has figures of this tree and of an "older" one, and what
# cannot run has a reason.
name=tools/test_bench_messages
# shellcheck source=lib.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
if ! command -v jq >/dev/null 2>&1; then
	skip "jq is not installed"
	finish
fi
if ! taskset -c 1 true 2>/dev/null; then
	skip "one processor only"
	finish
fi
# One placement, at any distance of the processors.
FAR_US=1000000 LESS=1000
export FAR_US LESS
bench=${srcdir:-.}/bench/messages.sh

expect "one round beside another tree" 0 200 "$bench" . 1 "$PWD"
rows=$(grep -c '^| [si]' "$out")
if [ "$rows" = 22 ]; then
	ok "all rows"
else
	bad "rows: $rows" "$out"
fi
# Columns: what, this tree, the old one.
if without=$(grep '^| [si]' "$out" |
	grep -vE '^\| [^|]* \| [0-9.]+ / - \| [0-9.]+ / - \|'); then
	bad "a row without a figure: $without" "$out" "$err"
else
	ok "figures of both trees"
fi
has "a ratio and a verdict" "$out" \
	'^| iwarp/soft, 16KiB.* [0-9.]* / - | [0-9.]* / - | <= 1.2: \(met\|\*\*missed\*\*\) / - |$'

mkdir -p "$work/broken/tools" "$work/broken/bench"
for program in ring handover zero_copy files wake; do
	ln -s "$PWD/bench/$program" "$work/broken/bench/$program"
done
ln -s /bin/false "$work/broken/tools/ripc-perf"
expect "a tree whose ripc-perf fails" 0 200 "$bench" "$work/broken" 1
has "its reason" "$err" '^messages: rate: '
has "no figure" "$out" '^| shm, 8 B, .* | - / - |'
expect "a directory without programs" 1 20 "$bench" "$work" 1
has "what is missing" "$err" "tools/ripc-perf is missing"
finish
