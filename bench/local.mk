# SPDX-License-Identifier: LGPL-2.1-or-later
noinst_PROGRAMS += bench/peers bench/first bench/files bench/window
bench_peers_SOURCES = bench/peers.c
bench_peers_LDADD = libripc.la
bench_first_SOURCES = bench/first.c
bench_first_LDADD = libripc.la
bench_files_SOURCES = bench/files.c
bench_files_LDADD = libripc.la
bench_window_SOURCES = bench/window.c
bench_window_LDADD = libripc_internal.la
EXTRA_DIST += bench/lib.sh bench/shm.sh bench/vs_ucx.sh bench/lab.sh bench/lab_guest.sh
