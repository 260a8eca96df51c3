#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The programs of doc/languages.md compile, run and print the same.
name=tools/test_languages
# A network of its own: the service has a fixed name.
# shellcheck disable=SC2016
if [ -z "${RIPC_TEST_OWN_NETWORK-}" ] && unshare -rn ip link set lo up 2>/dev/null; then
	RIPC_TEST_OWN_NETWORK=yes exec unshare -rn sh -c 'ip link set lo up && exec sh "$0"' "$0"
fi
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
srcdir=$(cd "${srcdir:-.}" && pwd)

# blocks LANGUAGE: all blocks of a language, one after the other.
blocks() {
	awk -v start="^\`\`\`$1\$" '$0 ~ start { on = 1; next } /^```/ { on = 0 } on' \
		"$srcdir/doc/languages.md"
}

# compiled FILE TAG COMPILER...
compiled() {
	file=$1 tag=$2
	shift 2
	# shellcheck disable=SC2086
	if ./libtool --silent --mode=link --tag="$tag" "$@" ${RIPC_TEST_LDFLAGS-} -Wall -Wextra \
		-Werror -I"$srcdir/include" -o "$work/${file%.*}" "$work/$file" libripc.la \
		>"$out" 2>"$err"; then
		ok "$file compiles"
	else
		bad "$file compiles" "$out" "$err"
	fi
}

# prints WHAT: what all of them print.
prints() {
	printf '%s\n' hello 42 "1048576 bytes of 7" >"$work/expected"
	if head -n 3 "$out" | cmp -s - "$work/expected"; then
		ok "$1 prints what the others print"
	else
		bad "$1 prints what the others print" "$out"
	fi
	has "$1 prints the error" "$out" "^error: service .*: "
}

blocks c >"$work/in_c.c"
# shellcheck disable=SC2086
compiled in_c.c CC ${CC:-cc}
expect "the program in C" 0 60 "$work/in_c"
prints C
blocks cpp >"$work/in_cxx.cc"
for standard in 17 20; do
	# shellcheck disable=SC2086
	compiled in_cxx.cc CXX ${CXX:-c++} -std=c++$standard
done
expect "the program in C++" 0 60 "$work/in_cxx"
prints C++
if [ -e src/python/.libs/_ripc.so ]; then
	blocks python >"$work/in_python.py"
	mkdir "$work/ripc"
	ln -s "$srcdir"/src/python/ripc/*.py "$PWD/src/python/.libs/_ripc.so" "$work/ripc"
	expect "the program in Python" 0 60 env PYTHONPATH="$work" PYTHONDONTWRITEBYTECODE=1 \
		LD_LIBRARY_PATH="$PWD/.libs" "$(sed -n 's/^PYTHON = //p' Makefile)" \
		"$work/in_python.py"
	prints Python
else
	skip "the binding for Python is not built: $(sed -n 's/^python_state = //p' Makefile)"
fi
finish
