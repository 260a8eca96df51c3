#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# An installed tree is complete: pkg-config finds it, a program builds against it, shared and
# static, from C and C++, and runs; uninstalling leaves nothing.
. "${srcdir:-.}/tests/install/lib.sh"

make_tree || finish
srcdir=$(cd "$srcdir" && pwd)
export PKG_CONFIG_PATH=$tree$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$tree
export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
cc=${CC:-cc}
cxx=${CXX:-c++}
work=$tree.work
mkdir "$work" && trap 'rm -rf "$tree" "$work"' EXIT

check "ripc.h is installed" test -f "$tree$includedir/ripc.h"
check "ripc.pc is installed" test -f "$tree$libdir/pkgconfig/ripc.pc"
check "pkg-config knows the version" pkg-config --exact-version="$(make_variable PACKAGE_VERSION)" \
	ripc
cflags=$(pkg-config --cflags ripc)
libs=$(pkg-config --libs ripc)
static_libs=$(pkg-config --static --libs ripc)
# Only the public header may be needed, and only the public interface be used.
headers="./ripc-2012/include/config.h ./ripc-2012/src/ripc.h ./ripc.h ./ripc.hpp"
for part in buffer context error items message request service; do
	headers+=" ./ripc/$part.hpp"
done
check "no private header is installed" test "$(cd "$tree$includedir" && find . -type f | sort |
	tr "\n" " ")" = "$headers ./ripc_compat.h "

# A program of 20 lines: two services of one process that talk to each other.
cat >"$work/own.c" <<'C'
#include <ripc.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	struct ripc_service *a, *b;
	struct ripc_message *message;
	char text[] = "hello";
	struct iovec item = { text, sizeof(text) };

	if (ripc_service_register(NULL, RIPC_ANY_ID, 0, &a) ||
	    ripc_service_register(NULL, RIPC_ANY_ID, 0, &b) ||
	    ripc_send_short(a, ripc_service_id(b), &item, 1, NULL, 5000) ||
	    ripc_receive(b, &message, 5000)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	if (message->source != ripc_service_id(a) || message->items[0].iov_len != sizeof(text) ||
	    memcmp(message->items[0].iov_base, text, sizeof(text)))
		return 2;
	ripc_message_free(message);
	return ripc_close(NULL) != 0;
}
C
cp "$work/own.c" "$work/own.cc"
# A plug-in that leaves its context open, and a program that unloads it and then lets its threads
# run.
cat >"$work/plugin.c" <<'C'
#include <ripc.h>

int plugin(void);
int plugin(void)
{
	struct ripc_service *service;

	return ripc_service_register(NULL, RIPC_ANY_ID, 0, &service);
}
C
cat >"$work/loader.c" <<'C'
#include <dlfcn.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	for (int i = 0; i < 2; i++) {
		void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
		int (*plugin)(void) = library ? (int (*)(void))dlsym(library, "plugin") : NULL;

		if (!plugin || plugin() || dlclose(library))
			return 1;
		usleep(200000);
	}
	return 0;
}
C

# build OUT COMPILER SOURCE FLAGS LIBS: flags and libraries are lists of words.
build()
{
	# shellcheck disable=SC2086
	check "$2 builds $(basename "$1")" "$2" -Wall -Wextra -Werror -o "$1" $4 "$3" $5
}
if [ -e "$tree$libdir/libripc.so" ]; then
	build "$work/own-shared" "$cc" "$work/own.c" "$cflags" "$libs" &&
		check "shared, C: runs" env LD_LIBRARY_PATH="$tree$libdir" timeout 60 \
		"$work/own-shared"
	build "$work/own-shared-cxx" "$cxx" "$work/own.cc" "$cflags" "$libs" &&
		check "shared, C++: runs" env LD_LIBRARY_PATH="$tree$libdir" timeout 60 \
		"$work/own-shared-cxx"
	build "$work/client-shared" "$cc" "$srcdir/examples/client.c" "$cflags" "$libs"
	check "the shared one is used" grep -q 'NEEDED.*libripc\.so\.1' \
		<(objdump -p "$work/own-shared")
	check "it stays when a plug-in is unloaded" grep -q NODELETE \
		<(readelf -d "$tree$libdir/libripc.so")
	build "$work/plugin.so" "$cc" "$work/plugin.c" "-shared -fPIC $cflags" "$libs" &&
		build "$work/loader" "$cc" "$work/loader.c" "" "-ldl" &&
		check "a plug-in that is unloaded with its context open harms nobody" \
			env LD_LIBRARY_PATH="$tree$libdir" timeout 60 "$work/loader" \
			"$work/plugin.so"
else
	skip "the shared library is not built"
fi
# A program of 2012, with no flags but those of pkg-config.
cflags_2012=$(pkg-config --cflags ripc-compat)
if [ -e "$tree$libdir/libripc-compat.so" ]; then
	build "$work/compat-shared" "$cc" "$srcdir/tests/compat/programs/resolver.c" \
		"$cflags_2012" \
		"$(pkg-config --libs ripc-compat) -Wl,-rpath-link,$tree$libdir" &&
		check "2012, shared: runs" env LD_LIBRARY_PATH="$tree$libdir" timeout 60 \
		"$work/compat-shared" 1 0
fi
if [ -e "$tree$libdir/libripc-compat.a" ]; then
	build "$work/compat-static" "$cc" "$srcdir/tests/compat/programs/resolver.c" \
		"$cflags_2012 -static" \
		"$(pkg-config --static --libs ripc-compat)" &&
		check "2012, static: runs" timeout 60 "$work/compat-static" 1 0
fi
if [ -e "$tree$libdir/libripc.a" ]; then
	build "$work/own-static" "$cc" "$work/own.c" "$cflags -static" "$static_libs" &&
		check "static, C: runs" timeout 60 "$work/own-static"
	build "$work/own-static-cxx" "$cxx" "$work/own.cc" "$cflags -static" "$static_libs" &&
		check "static, C++: runs" timeout 60 "$work/own-static-cxx"
	build "$work/client-static" "$cc" "$srcdir/examples/client.c" "$cflags -static" \
		"$static_libs"
else
	skip "the static library is not built"
fi

python=$(make_variable PYTHON)
if [ -n "$python" ] && [ -e "$PWD/src/python/_ripc.la" ]; then
	pyexecdir=$(make_variable pyexecdir)
	pyexecdir=$tree${pyexecdir/'${prefix}'/$prefix}
	check "the module for Python has its types" test -f "$pyexecdir/ripc/py.typed"
	check "the module for Python runs" env PYTHONPATH="$pyexecdir" \
		LD_LIBRARY_PATH="$tree$libdir" timeout 60 "$python" -B -c '
import ripc
service = ripc.Context().register()
service.send(service.id, b"hello")
assert bytes(service.receive(5)) == b"hello"'
else
	skip "the binding for Python is not built"
fi

check "make uninstall" flock "$PWD/Makefile" "${MAKE:-make}" -s uninstall DESTDIR="$tree"
check "make uninstall leaves nothing" test -z "$(find "$tree" -type f -o -type l)"
finish
