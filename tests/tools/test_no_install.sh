#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# scripts/lib.sh: --no-install names the packages that are missing, and installs nothing.
name=test_no_install
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
. "$top/tests/tools/lib.sh"

# in_script CODE ARGUMENT...: runs CODE in a script that has sourced lib.sh, with a package database
# in which only "present" is installed, and an apt-get that must not be called.
in_script()
{
	local code=$1
	shift
	mkdir -p "$work/bin" "$work/tree"
	printf '#!/bin/sh\n[ "$3" = present ] && echo install ok installed\n' \
		>"$work/bin/dpkg-query"
	printf '#!/bin/sh\necho "$@" >>%s/apt\n' "$work" >"$work/bin/apt-get"
	chmod +x "$work/bin/dpkg-query" "$work/bin/apt-get"
	printf '. "%s/scripts/lib.sh"\n%s\n' "$top" "$code" >"$work/script"
	(cd "$work/tree" && PATH=$work/bin:$PATH timeout 60 bash "$work/script" "$@" >"$out" \
		2>"$err")
}

if ! command -v dpkg-query >/dev/null; then
	skip "not a Debian system: nothing is ever installed"
	finish
fi
rm -f "$work/apt"
in_script 'echo "first argument: $1"; need_packages present' --no-install quick
[ $? -eq 0 ] && ok "nothing is missing" || bad "nothing is missing" "$out" "$err"
has "the script has its own arguments" "$out" '^first argument: quick$'
in_script 'need_packages present absent1 absent2; echo "it went on"' --no-install
[ $? -eq 1 ] && ok "packages are missing: the script ends" ||
	bad "packages are missing" "$out" "$err"
has "they are named" "$err" 'these packages are missing: absent1 absent2$'
[ ! -e "$work/apt" ] && ok "apt-get was not called" || bad "apt-get was called" "$work/apt"
NO_INSTALL=yes in_script 'need_packages absent1'
[ $? -eq 1 ] && ok "scripts that it calls know" || bad "scripts that it calls install" "$out" "$err"
finish
