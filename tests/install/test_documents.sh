#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The documents agree with the tree: links lead somewhere, public names exist, and the programs in
# them compile as C and as C++ without a warning. scripts/package runs their commands.
. "${srcdir:-.}/tests/install/lib.sh"
. "${srcdir:-.}/tests/install/documents.sh"

header=$srcdir/include/ripc.h
dir=$(mktemp -d "$PWD/documents.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT

check "every relative link of a document leads somewhere" broken_links "$srcdir"
# The checker itself: a missing file, a missing heading, a file outside of the directory.
mkdir "$dir/links"
cat >"$dir/links/a.md" <<'MD'
# Of `a()`, b
[good](#of-a-b) [good](a.md#of-a-b) [elsewhere](https://example.org/x)
[bad](missing.md) [bad](#no-heading) [bad](../use.c)
MD
check "the check of links finds what is broken" diff <(broken_links "$dir/links") - <<'TEXT'
a.md: missing.md
a.md: #no-heading
a.md: ../use.c
TEXT

# The check of words: a private word, a clause as a subject, a long line. Names in code are not
# prose.
cat >"$dir/words.md" <<'MD'
The agent wakes, `agent` does not.

What is sent is
lost.  What is sent?
MD
{
	printf '| a row of a table cannot be broken' && printf ' word%.0s' {1..30} && echo
	printf 'A line of prose can' && printf ' word%.0s' {1..20} && echo
} >>"$dir/words.md"
"$(make_variable PERL)" "$srcdir/scripts/words" "$dir/words.md" >"$dir/faults"
check "the check of words finds what is wrong" diff \
	<(sed 's/.*words.md:\([0-9]*: [^:]*\).*/\1/' "$dir/faults" | sort) - <<'TEXT'
1: "agent"
3: clause as a subject
6: 119 columns
TEXT

# unknown FILE...: public names in these files that the header does not declare.
unknown()
{
	grep -ohE '\b(ripc_[a-z_]+\(|(struct|enum) ripc_[a-z_]+)' "$@" | sed 's/($//; s/.* //' |
		sort -u |
		grep -vE '^ripc__|_$' | comm -23 - "$dir/declared"
}
# The headers without their comments.
cat "$header" "$srcdir/include/ripc_compat.h" | "$(make_variable PERL)" -0pe 's{/\*.*?\*/}{ }gs' |
	grep -oE '\bripc_[a-z_]+' | sort -u >"$dir/declared"
mapfile -t documents < <(find "$srcdir" -maxdepth 1 -name '*.md'
	find "$srcdir/doc" -maxdepth 1 -name '*.md'
	find "$srcdir/doc/man" -maxdepth 1 -name '*.[17]')
check "names in comments of ripc.h are declared" test -z "$(unknown "$header")"
check "names in documents and manual pages are declared" test -z "$(unknown "${documents[@]}")"
echo 'calls ripc_nothing() with struct ripc_options' >"$dir/wrong"
check "the check of names finds what is unknown" \
	test "$(unknown "$dir/wrong" | xargs)" = "ripc_nothing ripc_options"

# ripc(7) lists the transports of this build, in their order; without verbs it lists some more.
listed=$(./tools/ripc-info 2>/dev/null | sed -n 's/^transport: *\([^:]*\):.*/\1/p')
documented=$(sed -n '/^\.Sh TRANSPORTS/,/^\.Sh SETTINGS/s/^\.It //p' "$srcdir/doc/man/ripc.7")
check "ripc-info lists transports" test -n "$listed"
check "ripc(7) lists the transports of ripc-info in their order" \
	diff <(echo "$listed") <(grep -xF "$listed" <<<"$documented")
if grep -q '^#define HAVE_VERBS' config.h; then
	check "ripc(7) lists no other transports" diff <(echo "$listed") <(echo "$documented")
fi

warnings=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$srcdir/include")
found=0
for document in README.md doc/tutorial.md; do
	mkdir "$dir/programs"
	for program in $(programs_of "$srcdir/$document" "$dir/programs"); do
		found=$((found + 1))
		for standard in c99 c11; do
			check "$document: $program is $standard" "${CC:-cc}" \
				-std=$standard "${warnings[@]}" \
				"$dir/programs/$program"
		done
		for standard in c++11 c++14 c++17 c++20; do
			check "$document: $program is $standard" "${CXX:-c++}" -x c++ \
				-std=$standard \
				"${warnings[@]}" "$dir/programs/$program"
		done
	done
	rm -rf "$dir/programs"
done
check "the documents have four programs" test $found -eq 4
finish
