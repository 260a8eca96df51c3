# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Shared by the shell tests. They run in the top directory of a build tree, with srcdir in the
# environment as "make check" sets it, and end with the line "NAME: N passed, N failed, N skipped"
# as the test programs do (tests/harness.h).
set -u
name=$(basename "$0" .sh)
srcdir=${srcdir:-.}
passed=0
failed=0
skipped=0
export LC_ALL=C RIPC_INTERFACES=lo
# The flags and the job server of the make that runs this test must not reach the makes in here.
unset MAKEFLAGS MFLAGS MAKELEVEL

# A variable of the makefile of this build tree.
make_variable()
{
	sed -n "s/^$1 = //p" Makefile | head -n 1
}

# check TEXT COMMAND...: one case; it passes if the command does, else its output is shown.
check()
{
	local text=$1 out rc
	shift
	out=$("$@" 2>&1)
	rc=$?
	if [ $rc -eq 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL: $text (exit code $rc): $*"
		printf '%s\n' "$out" | sed 's/^/    /'
	fi
	return $rc
}

skip()
{
	skipped=$((skipped + 1))
	echo "SKIP: $*"
}

have()
{
	command -v "$1" >/dev/null 2>&1
}

# Installs this build into $tree, a directory of its own, and removes that at the end. One at a
# time: libtool links again in the build tree. Unlike "make install" this makes no programs that are
# not installed.
make_tree()
{
	tree=$(mktemp -d "$PWD/install-tree.XXXXXX") || exit 1
	trap 'rm -rf "$tree"' EXIT
	prefix=$(make_variable prefix)
	libdir=$(make_variable libdir)
	libdir=${libdir/'${exec_prefix}'/$prefix}
	includedir=$prefix/include
	mandir=$prefix/share/man
	check "make install" flock "$PWD/Makefile" "${MAKE:-make}" -s install-exec install-data \
		DESTDIR="$tree"
}

finish()
{
	echo "$name: $passed passed, $failed failed, $skipped skipped"
	[ $failed -eq 0 ]
	exit
}
