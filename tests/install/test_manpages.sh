#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Every public function and type has an installed manual page that mandoc accepts, with the
# prototype of the header. ripc(7) lists every setting and its default. mkman reads the comment of a
# member above or behind it.
. "${srcdir:-.}/tests/install/lib.sh"

header=$srcdir/include/ripc.h
perl=$(make_variable PERL)

dir=$(mktemp -d "$PWD/manpages.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
# member NAME TEXT: a header NAME.h whose struct has the members TEXT, and its page NAME/ripc_pair.3
member()
{
	printf '/** A pair. */\nstruct ripc_pair {\n%s\n};\n' "$2" >"$dir/$1.h"
	mkdir -p "$dir/$1"
	"$perl" "$srcdir/doc/man/mkman" "$dir/$1.h" 1.0 today "$dir/$1/ripc_pair.3" 2>"$dir/$1.err"
}
member behind '	size_t a; /* bytes of
		   * the first; at least 1 */
	const char *b, *c; /* two; names */'
check "mkman takes comments behind members" test $? -eq 0
member above '	/** bytes of
	 *  the first; at least 1 */
	size_t a;
	/* two; names */
	const char *b, *c;'
check "mkman takes comments above members" test $? -eq 0
check "both give the same page" cmp "$dir/behind/ripc_pair.3" "$dir/above/ripc_pair.3"
check "the page describes the first member" \
	grep -qx 'bytes of the first; at least 1.' "$dir/above/ripc_pair.3"
member none '	size_t a; /* bytes */
	int b;'
check "mkman rejects a member without a comment" grep -qx 'mkman: ripc_pair: int b has no comment' \
	"$dir/none.err"
member twice '	/** bytes */
	size_t a; /* bytes */'
check "mkman rejects two comments of a member" grep -q 'size_t a: a comment above and one behind' \
	"$dir/twice.err"

rm -rf "$dir"

make_tree || finish
shopt -s nullglob
man=$tree$mandir

names=$("$perl" "$srcdir/doc/man/mkman" -list "$header") ||
	{ echo "mkman -list failed"; failed=1; finish; }
[ "$(wc -w <<<"$names")" -ge 30 ]
check "mkman finds the public functions" test $? -eq 0
for page in $names; do
	check "$page(3) is installed" test -s "$man/man3/$page.3"
	check "$page(3) has or names an example" grep -qx '\.Sh EXAMPLES' "$man/man3/$page.3"
done
# The list in doc/local.mk may not name pages that the header has no more.
for file in "$man"/man3/*.3; do
	check "$(basename "$file") is of the header" grep -qx "$(basename "$file" .3)" <<<"$names"
done
check "ripc(7) is installed" test -s "$man/man7/ripc.7"
for program in "$tree$prefix"/bin/*; do
	check "$(basename "$program")(1) is installed" test -s "$man/man1/$(basename "$program").1"
done

# The text of a prototype without blanks: line breaks do not count.
squeeze()
{
	tr -d ' \t\n' | tr -d '\010'
}
code=$("${CC:-cc}" -fpreprocessed -dD -E -P "$header" | tr '\n' ' ' | squeeze)
if have mandoc; then
	check "section 3 is clean" mandoc -T lint -W warning "$man"/man3/*.3
	for page in "$man"/man1/*.1 "$man"/man7/*.7; do
		check "$(basename "$page") is clean" mandoc -T lint -W warning "$page"
	done
	for page in $(grep -oE 'ripc_[a-z_]+\(' "$header" | tr -d '(' | sort -u); do
		[ -e "$man/man3/$page.3" ] || continue
		shown=$(mandoc -T ascii "$man/man3/$page.3" | sed 's/.\x08//g' |
			sed -n '/^SYNOPSIS/,/^DESCRIPTION/p' | sed '1,3d;$d' | squeeze)
		case $page in
		ripc_log_fn) continue ;; # a type
		esac
		check "the prototype in $page(3)" grep -qF -- "$shown" <<<"$code"
	done
else
	skip "mandoc is not installed: pages not checked for faults"
fi

options=$srcdir/src/base/options.c
settings=$(sed -n 's/^\t{"\([a-z_]*\)", KIND_.*/\1/p' "$options")
check "settings are found in options.c" test -n "$settings"
for setting in $settings; do
	check "ripc(7) has $setting" grep -q "^\.It Cm $setting Ns = .*Ev RIPC_${setting^^}\$" \
		"$man/man7/ripc.7"
done
# Default values as numbers: what ripc(7) gives after "Default:" has to stand in options.c.
default()
{
	sed -n "/^\.It Cm $1 Ns/,/^\.It\|^\.El/s/^Default: \([0-9]*\)\.\$/\1/p" "$man/man7/ripc.7"
}
for setting in port peer_timeout_ms resolve_timeout_ms service_window pool_bytes; do
	expression=$(sed -n "s/^\topt->$setting = \(.*\);/\1/p" "$options" | sed 's/ull//g')
	check "ripc(7) gives the default of $setting" test "$(default $setting)" = "$((expression))"
done
finish
