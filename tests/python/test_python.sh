#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The binding for Python, from the build tree: the modules tests/python/test_*.py. LONG=yes: 10^6
# messages in the test of leaks.
set -u
srcdir=${srcdir:-.}
module=$PWD/src/python/.libs/_ripc.so
if [ ! -e "$module" ]; then
	echo "SKIP: the binding for Python is not built:" \
		"$(sed -n 's/^python_state = //p' Makefile)"
	echo "python: 0 passed, 0 failed, 1 skipped"
	exit 0
fi
work=$(mktemp -d "$PWD/python-tree.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/ripc" && ln -s "$(realpath "$srcdir")"/src/python/ripc/*.py "$work/ripc/" &&
	ln -s "$module" "$work/ripc/" || exit 1
preload=''
if nm -D "$PWD/.libs/libripc.so" | grep -q __asan_init; then
	preload=$(${CC:-cc} -print-file-name=libasan.so)
	# The interpreter frees little at its end, and the test of leaks measures its memory.
	export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0:quarantine_size_mb=1
fi
export PYTHONPATH=$work PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH=$PWD/.libs LC_ALL=C.UTF-8
LD_PRELOAD=$preload timeout 300 "$(sed -n 's/^PYTHON = //p' Makefile)" \
	"$srcdir/tests/python/run.py"
