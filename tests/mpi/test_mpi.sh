#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Open MPI of the distribution over the provider: collectives, messages, and a rank that is killed.
name=test_mpi
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"

if [ ! -e .libs/libripc-fi.so ]; then
	skip "the libfabric provider is not built"
	finish
fi
if ! command -v mpicc >/dev/null || ! command -v mpirun >/dev/null; then
	skip "Open MPI is not installed"
	finish
fi
# The providers of a build with sanitizers cannot be loaded into mpirun's programs.
if ldd .libs/libripc-fi.so | grep -q -e libasan -e libtsan -e libubsan; then
	skip "the provider needs a sanitizer's library"
	finish
fi
for program in collectives messages killed; do
	mpicc -std=gnu11 -O1 -o "$work/$program" "$srcdir/tests/mpi/$program.c" 2>"$err" ||
		bad "$program.c compiles" "$err"
done

# Ranks share processors, so a waiting rank yields.
job() {
	ranks=$1
	shift
	env FI_PROVIDER_PATH="$PWD/.libs" LD_LIBRARY_PATH="$PWD/.libs" TMPDIR="$work" \
		OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 \
		mpirun --oversubscribe -x FI_PROVIDER_PATH -x LD_LIBRARY_PATH -x RIPC_INTERFACES \
		-x RIPC_PEER_TIMEOUT_MS -x RIPC_RESOLVE_TIMEOUT_MS \
		--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include ripc --mca osc ^ucx \
		--mca btl self --mca oob_tcp_if_include lo --mca mpi_yield_when_idle 1 \
		-np "$ranks" "$@" >"$out" 2>"$err"
}

for ranks in 1 2 3 5; do
	job "$ranks" "$work/collectives"
	has "collectives of $ranks ranks" "$out" "^collectives: $ranks ranks, [1-9]"
done
for ranks in 1 3; do
	job "$ranks" "$work/messages"
	has "messages of $ranks ranks" "$out" "^messages: $ranks ranks, [1-9]"
done
if job 3 "$work/killed"; then
	bad "a killed rank ends the job with an error" "$out" "$err"
else
	has "the end of a killed rank names it" "$err" "rank 2 .*exited on signal 9"
fi
finish
