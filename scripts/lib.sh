# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Functions of the scripts: packages, configuring and building under build/, and the loopback as the
# only network. A script changes into the top directory and sources this file. For Debian 12 and its
# derivatives.
set -u
jobs=$(nproc)
export LC_ALL=C.UTF-8 RIPC_INTERFACES=lo
# configure prefers bash for itself, libtool and make, although it takes longer than Debian's sh.
export CONFIG_SHELL=/bin/sh
exec </dev/null

say()
{
	printf '== %s\n' "$*"
}

die()
{
	printf '%s: %s\n' "$(basename "$0")" "$*" >&2
	exit 1
}

as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo -E "$@"
	else
		die "packages are missing: run this as root or install sudo; needed: $*"
	fi
}

# Whether a package is installed.
installed()
{
	dpkg-query -W -f='${Status}\n' "$1" 2>/dev/null | grep -q '^install ok installed'
}

# --no-install as the first argument of a script: missing packages end it, or skip the part that
# needs them.
if [ "${1-}" = --no-install ]; then
	export NO_INSTALL=yes
	shift
fi

# need_packages NAME...: installs missing packages; uses the network only if any is missing.
need_packages()
{
	local missing=() package
	if ! command -v dpkg-query >/dev/null; then
		say "not a Debian system: install these packages or their equivalents by hand: $*"
		return 0
	fi
	for package in "$@"; do
		installed "$package" || missing+=("$package")
	done
	[ ${#missing[@]} -eq 0 ] && return 0
	[ "${NO_INSTALL-}" != yes ] || die "--no-install: these packages are missing: ${missing[*]}"
	say "installing ${missing[*]}"
	if [ -z "${lists_updated-}" ]; then
		as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update >build/apt.log 2>&1 ||
			say "apt-get update failed, trying with the lists there are"
		lists_updated=yes
	fi
	# A machine that has just booted may be installing updates.
	if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
		-o DPkg::Lock::Timeout=300 install "${missing[@]}" >>build/apt.log 2>&1; then
		tail -n 30 build/apt.log
		die "apt-get could not install ${missing[*]}; all of its output is in build/apt.log"
	fi
}

# Packages for every build, and those for the tests, the fuzzers and the linters. The header of
# uthash and the static parts are needed at build time only.
base_packages=(gcc libc6-dev make autoconf automake libtool pkg-config uthash-dev libjansson-dev
	libibverbs-dev librdmacm-dev libsodium-dev libzookeeper-mt-dev libfabric-dev)
# libuv1-dev: for the example of ripc_service_fd(3); with libconfig-dev for ripc-gateway.
# jq: for the tests of the benchmarks.
test_packages=(g++ check systemtap-sdt-dev xz-utils mandoc iproute2 procps binutils libuv1-dev
	libfabric-bin openmpi-bin libopenmpi-dev libconfig-dev libzmq3-dev libnng-dev
	python3-dev python3-cffi python3-numpy libasio-dev jq)
full_packages=(clang libclang-rt-dev valgrind tshark zookeeper default-jre-headless)
# The lab: an emulator, the packages in its guests, and third-party programs for their devices.
lab_packages=(qemu-system-x86 busybox-static kmod cpio gcc-12 make xz-utils libelf1 util-linux \
	procps perftest
	ibverbs-utils rdmacm-utils iproute2)
# gRPC, to be compared with by scripts/bench.
grpc_packages=(g++ protobuf-compiler-grpc libgrpc++-dev libprotobuf-dev)
lint_packages=(clang clang-format clang-tidy cppcheck shellcheck codespell libuv1-dev
	libconfig-dev libzmq3-dev libnng-dev)

# Makes ./configure if it is missing or older than one of its sources.
prepare()
{
	if [ ! -x configure ] || [ ! -f Makefile.in ] ||
		[ -n "$(find configure.ac Makefile.am ./*/ \
		-name build -prune -o \( -name local.mk -o -name configure.ac -o \
		-name Makefile.am \) \
		-newer configure -print 2>/dev/null)" ]; then
		say "autoreconf"
		autoreconf -fi >build/autoreconf.log 2>&1 ||
			{ cat build/autoreconf.log; die "autoreconf failed"; }
		touch configure
	fi
}

# configured NAME ARGUMENT...: a build tree build/NAME, configured once with these arguments.
configured()
{
	local dir=build/$1
	shift
	# The objects of another configuration may lack what this one links.
	if [ -f "$dir/.arguments" ] && [ "$(<"$dir/.arguments")" != "$*" ]; then
		rm -rf "$dir"
	fi
	mkdir -p "$dir"
	if [ ! -f "$dir/Makefile" ] || [ configure -nt "$dir/config.status" ] ||
		[ ! -f "$dir/.arguments" ]; then
		(cd "$dir" && ../../configure -q "$@") >"$dir/configure.log" 2>&1 ||
			{ cat "$dir/configure.log"; return 1; }
		echo "$*" >"$dir/.arguments"
	fi
}

# built NAME TARGET...: makes the targets in build/NAME; shows the output if that fails.
built()
{
	local dir=build/$1
	shift
	if ! make -C "$dir" -j"$jobs" "$@" >"$dir/make.log" 2>&1; then
		grep -n -B2 -A12 -E '(error|warning):|Error [0-9]|undefined reference' \
			"$dir/make.log" | head -n 200
		echo "all of the output is in $dir/make.log"
		return 1
	fi
}

# The words of a variable of build/NAME's makefile.
make_words()
{
	printf 'include Makefile\nripc-print-words:\n\t@echo $(%s)\n' "$2" |
		make -s -C "build/$1" -f - ripc-print-words 2>/dev/null
}

mkdir -p build
