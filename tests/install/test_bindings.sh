#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The bindings for C++ and Python use each function of ripc.h and each member of a message, or their
# documentation names it among those left out.
. "${srcdir:-.}/tests/install/lib.sh"

code_of()
{
	"${CC:-cc}" -fpreprocessed -dD -E -P -x c "$1" 2>/dev/null
}

functions=$(code_of "$srcdir/include/ripc.h" | grep -v '^typedef' | grep -oE '\bripc_[a-z_]+\(' |
	tr -d '(' | sort -u)
members=$(code_of "$srcdir/include/ripc.h" |
	sed -n '/^struct ripc_message {/,/^}/s/.*[ *]\([a-z_]*\)\(\[.*\)\{0,1\};/\1/p')
check "ripc.h has functions, and a message members" test "$(wc -w <<<"$functions")" -gt 40 -a \
	"$(wc -w <<<"$members")" -gt 10

# covers NAME LEFT_OUT CODE: LEFT_OUT is the text that names what is left out
covers()
{
	local name=$1 left_out=$2 code=$3 f
	for f in $functions; do
		check "$name has $f(), or a reason" \
			grep -qwF "$f" <<<"$code"$'\n'"$left_out"
	done
	for f in $members; do
		check "$name has the member $f of a message" grep -qE -- "(->|[.])$f\b" <<<"$code"
	done
	for f in $(grep -oE '\bripc_[a-z_]+\(\)' <<<"$left_out" | tr -d '()'); do
		check "$f(), which $name leaves out, exists" grep -qxF "$f" <<<"$functions"
	done
}

covers ripc.hpp "$(sed -n '/^ \* Left out/,/^ \*\//p' "$srcdir/include/ripc.hpp")" \
	"$(for file in "$srcdir"/include/ripc/*.hpp; do code_of "$file"; done)"
python=$srcdir/src/python/ripc
# Without docstrings and comments.
covers "the module of Python" "$(sed -n '/leaves out/,/^"""/p' "$python/__init__.py")" \
	"$(cat "$python"/*.py | perl -0pe 's/""".*?"""//gs; s/#.*//g'
	code_of "$srcdir/src/python/glue.c")"
finish
