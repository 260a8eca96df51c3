#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# libripc.so exports the functions of ripc.h, with their version, and nothing else; the static
# library defines no global name outside of ripc_*.
. "${srcdir:-.}/tests/install/lib.sh"

nm=$(make_variable NM | awk '{print $1}')
have "$nm" || nm="nm"
shared=.libs/libripc.so
static=.libs/libripc.a
wanted=$("${CC:-cc}" -fpreprocessed -dD -E -P "$srcdir/include/ripc.h" | grep -v '^typedef' |
	grep -oE '\bripc_[a-z_]+\(' | tr -d '(' | sort -u)

if [ -e $shared ]; then
	exported=$("$nm" -D --defined-only $shared | awk '$2 != "A" {print $3}' | sort)
	check "libripc.so exports the functions of ripc.h and nothing else" \
		diff <(echo "$wanted") <(sed -E 's/@@RIPC_0\.[12]$//' <<<"$exported")
	check "the name in libripc.so has its version" \
		grep -q 'SONAME.*libripc\.so\.1' <(objdump -p $shared)
	check "libripc.so needs nothing but the C library and what configure found" \
		test -z "$(objdump -p $shared | awk '/NEEDED/ {print $2}' |
		grep -v -e '^libc\.so' -e '^libgcc_s\.so' \
			-e '^ld-linux' -e '^libibverbs\.so' -e '^librdmacm\.so' \
			-e '^libsodium\.so' -e '^libzookeeper_mt\.so')"
else
	skip "the shared library is not built"
fi
if [ -e $static ]; then
	check "libripc.a has the functions of ripc.h" test -z "$(comm -23 <(echo "$wanted") \
		<("$nm" --defined-only $static 2>/dev/null | awk '$2 == "T" {print $3}' | sort -u))"
	check "libripc.a defines no foreign name" test \
		-z "$("$nm" --defined-only $static 2>/dev/null |
		awk '$2 ~ /^[A-TV-Z]$/ && $3 !~ /^ripc_/ {print $3}')"
else
	skip "the static library is not built"
fi
check "the map names no function that is not there" diff <(echo "$wanted") \
	<(sed -n 's/^\t\t\(ripc_[a-z_]*\);/\1/p' "$srcdir/src/libripc.map" | sort)
compat=$(grep -ohE '\bripc_compat_[a-z_]+' "$srcdir/include/ripc_compat.h" | sort -u)
if [ -e .libs/libripc-compat.so ]; then
	check "libripc-compat.so exports the functions of ripc_compat.h and nothing else" \
		diff <(sed 's/$/@@RIPC_COMPAT_1/' <<<"$compat") \
		<("$nm" -D --defined-only .libs/libripc-compat.so | awk '$2 != "A" {print $3}' |
		sort)
else
	skip "the shared library of ripc_compat.h is not built"
fi
# The library may not end the process, print, or install signal handlers.
if grep -q '^#define RIPC_DEBUG' config.h; then
	skip "a debug build has assertions"
elif [ -e $shared ]; then
	check "libripc.so does not exit, abort, print, or set signal handlers" test \
		-z "$("$nm" -D --undefined-only \
		$shared | awk '{print $2}' | sed 's/@.*//' |
		grep -xE -e 'exit|_exit|quick_exit|abort|__assert_fail|printf|puts|putchar|perror' \
		-e 'signal|sigaction|rand|srand|random|srandom')"
fi
finish
