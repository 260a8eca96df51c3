#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# ripc.h compiles by itself, twice in one file, in every language standard that has its types,
# without a warning.
. "${srcdir:-.}/tests/install/lib.sh"

dir=$(mktemp -d "$PWD/header.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
cat >"$dir/use.c" <<'C'
#include <ripc.h>
#include <ripc.h>
static int is_found(int rc)
{
	return rc == 0;
}
int main(void)
{
	struct ripc_send_options options;
	struct ripc_limits limits;
	struct ripc *ctx = 0;
	uint64_t id = RIPC_ANY_ID;
	uint64_t limit = RIPC_ID_LIMIT;

	options.size = sizeof(options);
	options.flags = RIPC_MORE;
	(void)options;
	limits.size = sizeof(limits);
	return is_found(ripc_route_limits(ctx, id - limit, &limits)) &&
	       limits.short_max < RIPC_SHORT_GUARANTEED;
}
C
cp "$dir/use.c" "$dir/use.cc"
warnings=(-Wall -Wextra -pedantic -Wundef -Werror)

# try COMPILER STANDARD FILE [FLAG...]
try()
{
	check "$1 -std=$2" "$1" -std="$2" "${warnings[@]}" "${@:4}" -I"$srcdir/include" -c \
		-o "$dir/use.o" "$dir/$3"
}
for cc in gcc clang; do
	if have $cc; then
		# C89 with the extensions that stdint.h itself needs: no // comments, declarations
		# first.
		try $cc gnu89 use.c -Wno-long-long -Wdeclaration-after-statement
		try $cc c99 use.c -Wstrict-prototypes -Wshadow
		try $cc c11 use.c -Wstrict-prototypes -Wshadow
		try $cc gnu11 use.c -Wstrict-prototypes -Wshadow
	else
		skip "$cc is not installed"
	fi
done
for cxx in g++ clang++; do
	if have $cxx; then
		try $cxx c++11 use.cc -Wold-style-cast -Wshadow
		try $cxx c++17 use.cc -Wold-style-cast -Wshadow
		try $cxx c++20 use.cc -Wold-style-cast -Wshadow
		for std in c++17 c++20; do
			check "ripc.hpp, $cxx -std=$std" "$cxx" -std=$std "${warnings[@]}" \
				-Wold-style-cast -Wconversion -Wnon-virtual-dtor -Wshadow \
				-I"$srcdir/include" -fsyntax-only "$srcdir/tests/cxx/test_hpp.cc"
		done
		"$cxx" -std=c++14 -I"$srcdir/include" -fsyntax-only -x c++ \
			"$srcdir/include/ripc.hpp" >"$dir/errors" 2>&1
		check "ripc.hpp, $cxx -std=c++14: one error, which names the remedy" \
			test "$(grep -c 'error:' "$dir/errors") $(grep 'error:' "$dir/errors" |
				grep -c -- '-std=c++17')" = "1 1"
	else
		skip "$cxx is not installed"
	fi
done
finish
