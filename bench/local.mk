# SPDX-License-Identifier: LGPL-2.1-or-later
noinst_PROGRAMS += bench/calls bench/flood bench/connect bench/files \
	bench/ring bench/clients \
	bench/handover bench/layers bench/zero_copy \
	bench/wake bench/distance
bench_calls_SOURCES = bench/calls.c
bench_calls_LDADD = libripc.la
bench_handover_SOURCES = bench/handover.c
bench_handover_LDADD = libripc.la
bench_zero_copy_SOURCES = bench/zero_copy.c
bench_zero_copy_LDADD = libripc.la
bench_distance_SOURCES = bench/distance.c
bench_distance_LDADD = libripc.la
bench_wake_SOURCES = bench/wake.c
bench_wake_LDADD = libripc.la
bench_flood_SOURCES = bench/flood.c
bench_flood_LDADD = libripc_internal.la
bench_connect_SOURCES = bench/connect.c
bench_connect_LDADD = libripc.la
bench_files_SOURCES = bench/files.c
bench_files_LDADD = libripc.la
bench_ring_SOURCES = bench/ring.c
bench_ring_LDADD = libripc_internal.la
bench_layers_SOURCES = bench/layers.c
bench_layers_LDADD = libripc.la
# Made by scripts/bench --bindings: the build needs no compiler for C++.
EXTRA_PROGRAMS += bench/overhead
bench_overhead_SOURCES = bench/overhead.cc
bench_overhead_CXXFLAGS = -std=c++17 -O2 -Wall -Wextra
bench_overhead_LDADD = libripc.la
bench_clients_SOURCES = bench/clients.c
bench_clients_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
bench_clients_LDADD = libtools.la libripc.la
EXTRA_DIST += bench/flood.sh bench/lib.sh bench/messages.sh bench/lab.sh \
	bench/lab_guest.sh bench/lab_report.sh bench/layers.sh \
	bench/profile.sh bench/wake.sh bench/overhead.sh bench/gateway.sh

# Compiled by scripts/bench where the libraries are that they measure.
EXTRA_DIST += bench/cells.sh bench/report.sh bench/pictures.sh bench/peer.h bench/peer.c \
	bench/peer_mpi.c \
	bench/peer_nng.c bench/peer_ofi.c bench/peer_zmq.c scripts/bench \
	bench/calls.sh bench/bindings.py bench/mpi.sh bench/mpi_pingpong.c \
	bench/rpc.h bench/rpc.c bench/rpc_nng.c bench/rpc_zmq.c bench/rpc_grpc.cc \
	bench/rpc_echo.proto
noinst_PROGRAMS += bench/gaps bench/idle bench/memory
bench_gaps_SOURCES = bench/gaps.c
bench_gaps_LDADD =
bench_memory_SOURCES = bench/memory.c
bench_memory_LDADD = libripc.la
bench_idle_SOURCES = bench/idle.c
bench_idle_LDADD = libripc.la
