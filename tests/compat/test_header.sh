#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# ripc_compat.h in the hands of a compiler: which calls it takes without a warning, which it
# refuses, and how a tree of 2012 is compiled that still has its own ripc.h.
name=compat/test_header
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
srcdir=$(cd "${srcdir:-.}" && pwd)
mkdir -p "$work/include"
cp -r "$srcdir/include/ripc-2012" "$srcdir/include/ripc_compat.h" "$work/include"
# pkg-config's flags.
flags="-I$work/include -I$work/include/ripc-2012/include"
compilers=
for compiler in gcc clang; do
	command -v $compiler >/dev/null && compilers="$compilers $compiler"
done
[ -n "$compilers" ] || skip "neither gcc nor clang"

# unit STATEMENT: a file with variables of all types that lengths may have.
unit() {
	cat >"$work/unit.c" <<-END
		#include "../src/ripc.h"
		uint32_t narrow[2], *narrow_pointer, *sizes;
		size_t wide[2], *wide_pointer, *wide_sizes;
		int as_signed[2];
		long as_signed_wide[2];
		char bytes[2];
		uint16_t halves[2];
		long long longest[2];
		void *anything, **buf, **items;
		uint16_t from, num;
		uint8_t (*narrow_call)(uint16_t, uint16_t, void **, uint32_t *, uint16_t,
				       void **, uint32_t *, uint16_t);
		uint8_t (*wide_call)(uint16_t, uint16_t, void **, size_t *, uint32_t,
				     void **, size_t *, uint32_t);
		int statement(void);
		int statement(void)
		{
			return $1;
		}
	END
}

# takes FUNCTION STATEMENT [FLAG...]: without a warning in every C, and the function is the one that
# is called.
takes() {
	t_function=$1 t_statement=$2
	shift 2
	unit "$t_statement"
	for compiler in $compilers; do
		for std in gnu89 gnu99 c99 c11; do
			pedantic=-pedantic
			# Its // and long long are no part of C89.
			[ $std = gnu89 ] && pedantic=
			# shellcheck disable=SC2086
			if $compiler -std=$std -Wall -Wextra $pedantic $flags "$@" \
				-c -o "$work/unit.o" "$work/unit.c" >"$out" 2>&1 &&
				[ ! -s "$out" ] &&
				nm -u "$work/unit.o" | grep -q " $t_function\$"; then
				continue
			fi
			nm -u "$work/unit.o" >>"$out" 2>&1
			bad "$compiler -std=$std $*: calls $t_function: $t_statement" "$out"
			return
		done
	done
	ok "calls $t_function: $t_statement $*"
}

# refuses STATEMENT [FLAG...]: an error, also where warnings are off.
refuses() {
	r_statement=$1
	shift
	unit "$r_statement"
	for compiler in $compilers; do
		for std in gnu99 c11; do
			# shellcheck disable=SC2086
			if $compiler -std=$std -w $flags "$@" -c -o "$work/unit.o" "$work/unit.c" \
				>"$out" 2>&1; then
				bad "$compiler -std=$std $*: compiles: $r_statement"
				return
			fi
		done
	done
	ok "does not compile: $r_statement $*"
}

takes ripc_compat_send_short "ripc_send_short(1, 4, buf, narrow, 2, NULL, NULL, 0)"
takes ripc_compat_send_short "ripc_send_short(1, 4, buf, narrow_pointer++, 1, items, sizes, 1)"
takes ripc_compat_send_short "ripc_send_short(1, 4, buf, as_signed, 2, NULL, NULL, 0)"
takes ripc_compat_send_short "ripc_send_short(1, 4, buf, NULL, 0, NULL, NULL, 0)"
takes ripc_compat_send_long "ripc_send_long(1, 4, buf, &narrow[1], 1, buf, narrow, 2)"
takes ripc_compat_send_short_size_t "ripc_send_short(1, 4, buf, wide, 2, NULL, NULL, 0)"
takes ripc_compat_send_short_size_t "ripc_send_short(1, 4, buf, wide_pointer++, 1, items, wide, 1)"
takes ripc_compat_send_short_size_t "ripc_send_short(1, 4, buf, (size_t *)sizes, 1, NULL, NULL, 0)"
takes ripc_compat_send_long_size_t "ripc_send_long(1, 4, buf, as_signed_wide, 2, NULL, NULL, 0)"
takes ripc_compat_send_long_size_t "1 ? ripc_send_long(1, 4, buf, wide, 2, NULL, NULL, 0) : 2"
takes ripc_compat_receive "ripc_receive(1, &from, &items, &sizes, &num, NULL, NULL, NULL)"
takes ripc_compat_send_short \
	"(narrow_call = ripc_send_short)(1, 4, buf, narrow, 2, NULL, NULL, 0) + RECV_BUF_SIZE"
# The header declares size_t lengths.
takes ripc_compat_send_short_size_t \
	"ripc_send_short(1, 4, buf, anything, 2, NULL, NULL, 0)" -DRIPC_2012_SIZE_T
takes ripc_compat_send_short_size_t \
	"(wide_call = ripc_send_short)(1, 4, buf, wide, 2, NULL, NULL, 0)" -DRIPC_2012_SIZE_T
takes ripc_compat_send_short \
	"ripc_send_short(1, 4, buf, anything, 2, NULL, NULL, 0)" -DRIPC_2012_SIZE_T=0

for lengths in anything bytes halves longest from; do
	refuses "ripc_send_short(1, 4, buf, $lengths, 2, NULL, NULL, 0)"
	refuses "ripc_send_long(1, 4, buf, $lengths, 2, NULL, NULL, 0)"
done
# Of two types in one call the second would be misread.
refuses "ripc_send_short(1, 4, buf, narrow, 2, buf, wide, 2)"
refuses "ripc_send_long(1, 4, buf, wide, 2, buf, narrow, 2)"
refuses "(ripc_send_short)(1, 4, buf, wide, 2, NULL, NULL, 0)"
refuses "ripc_receive(1, &from, &items, &wide_sizes, &num, NULL, NULL, NULL)"
refuses "ripc_receive(1, &from, NULL, NULL, NULL, &items, &wide_sizes, &num)"
refuses "ripc_send_short(1, 4, buf, narrow, 2, NULL, NULL, 0)" -DRIPC_2012_SIZE_T
refuses "ripc_send_long(1, 4, buf, wide, 2, NULL, NULL, 0)" -DRIPC_2012_SIZE_T=0

# A compound literal has commas of its own: no macro may fall over them.
for compiler in $compilers; do
	unit "ripc_send_long(1, 4, (void *[]){bytes, halves}, (uint32_t[]){1, 2}, 2, NULL, NULL, 0)"
	# shellcheck disable=SC2086
	expect "$compiler: compound literals" 0 60 $compiler -std=c99 -Wall -Wextra -Werror \
		-pedantic $flags -c -o "$work/unit.o" "$work/unit.c"
	unit "ripc_send_long(1, 4, buf, (size_t[]){1, 2}, 2, NULL, NULL, 0)"
	# shellcheck disable=SC2086
	expect "$compiler: compound literals of size_t" 0 60 $compiler -std=c99 -Wall -Wextra \
		-Werror -pedantic $flags -DRIPC_2012_SIZE_T -c -o "$work/unit.o" "$work/unit.c"
	# shellcheck disable=SC2086
	expect "$compiler: such without RIPC_2012_SIZE_T" 1 60 $compiler -std=c99 -w $flags -c \
		-o "$work/unit.o" "$work/unit.c"
done

# C++ decides by overloads.
cat >"$work/unit.cc" <<-END
	#include "../src/ripc.h"
	int statement(void **buf, uint32_t *narrow, size_t *wide)
	{
		return ripc_send_short(1, 4, buf, narrow, 2, NULL, NULL, 0) +
		       ripc_send_long(1, 4, buf, wide, 2, NULL, NULL, 0);
	}
END
for compiler in g++ clang++; do
	command -v $compiler >/dev/null || continue
	for std in c++98 c++17; do
		# shellcheck disable=SC2086
		expect "$compiler -std=$std: both types" 0 60 $compiler -std=$std -Wall -Wextra \
			-Werror $flags -c -o "$work/unit.o" "$work/unit.cc"
		nm -u "$work/unit.o" >"$out"
		has "$compiler -std=$std: uint32_t" "$out" " ripc_compat_send_short\$"
		has "$compiler -std=$std: size_t" "$out" " ripc_compat_send_long_size_t\$"
	done
done

# A tree of 2012 as it was: src/ripc.h with that release's types, which includes a file of the
# programs' own.
mkdir -p "$work/tree/src" "$work/tree/clients"
cp "$srcdir"/tests/compat/programs/*.[ch] "$work/tree/clients"
cat >"$work/tree/src/ripc.h" <<-END
	#ifndef RIPC_H_
	#define RIPC_H_
	#include <stdint.h>
	#include <sys/types.h>
	#include <common.h>
	uint8_t init(void);
	uint16_t ripc_register_random_service_id(void);
	uint8_t ripc_register_service_id(int);
	void *ripc_buf_alloc(size_t size);
	void ripc_buf_free(void *buf);
	uint8_t ripc_send_short(uint16_t src, uint16_t dest, void **buf, size_t *length,
				uint32_t num_items, void **return_bufs,
				size_t *return_buf_lengths, uint32_t num_return_bufs);
	uint8_t ripc_send_long(uint16_t src, uint16_t dest, void **buf, size_t *length,
			       uint32_t num_items, void **return_bufs,
			       size_t *return_buf_lengths, uint32_t num_return_bufs);
	extern struct library_context context;
	#endif
END
# The recipe of ripc_compat(7), as it stands there.
recipe="-include ripc_compat.h"
if grep -q -e "^cc .* $recipe " "$srcdir/doc/man/ripc_compat.7"; then
	ok "ripc_compat(7) gives the recipe"
else
	bad "ripc_compat(7) gives the recipe"
fi
for compiler in $compilers; do
	for file in "$work"/tree/clients/*.c; do
		# shellcheck disable=SC2086
		expect "$compiler: $(basename "$file") in its tree" 0 60 $compiler -Wall -Wextra \
			-Werror $flags $recipe -c -o "$work/unit.o" "$file"
		nm -u "$work/unit.o" | grep -e ' ripc_' | grep -v ' ripc_compat_' >"$out"
		if [ -s "$out" ]; then
			bad "$compiler: $(basename "$file") calls ripc_compat_* only" "$out"
		fi
	done
	# Ours after theirs would be neither of the two.
	printf '#include "src/ripc.h"\n#include "ripc_compat.h"\n' >"$work/tree/mixed.c"
	# shellcheck disable=SC2086
	expect "$compiler: the header of 2012 first" 1 60 $compiler $flags \
		-I"$work/tree/clients" -c -o "$work/unit.o" "$work/tree/mixed.c"
	has "$compiler: is told what to do" "$err" "include ripc_compat.h"
done
finish
