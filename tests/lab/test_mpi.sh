#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# In the lab: Open MPI over the provider for libfabric and the devices.
#
# usage: "$RIPC_LAB_DIR"/test_mpi.sh
name=test_mpi
. "$RIPC_LAB_DIR/../tools/lib.sh"
unset RIPC_INTERFACES
if [ ! -e .libs/libripc-fi.so ] || ! command -v mpicc >/dev/null; then
	skip "the libfabric provider is not built, or Open MPI is not installed"
	finish
fi
for program in collectives messages; do
	expect "$program.c compiles" 0 120 mpicc -std=gnu11 -O1 -o "$work/$program" \
		"$RIPC_LAB_DIR/../mpi/$program.c"
done
FI_PROVIDER_PATH=$PWD/.libs LD_LIBRARY_PATH=$PWD/.libs TMPDIR=$work
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export FI_PROVIDER_PATH LD_LIBRARY_PATH TMPDIR OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM

for transport in ib iwarp/verbs; do
	for program in collectives messages; do
		expect "$transport: $program" 0 300 mpirun --oversubscribe -x FI_PROVIDER_PATH \
			-x LD_LIBRARY_PATH -x RIPC_PEER_TIMEOUT_MS \
			-x RIPC_TRANSPORTS="$transport,self" \
			--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include ripc \
			--mca osc ^ucx --mca btl self --mca oob_tcp_if_include lo \
			--mca mpi_yield_when_idle 1 -np 3 "$work/$program"
		has "$transport: $program of 3 ranks" "$out" "^$program: 3 ranks, [1-9]"
	done
done
finish
