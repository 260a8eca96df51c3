# SPDX-License-Identifier: LGPL-2.1-or-later
libtests_la_SOURCES += tests/transport/ring/heap_backend.h tests/transport/ring/ring_pair.h \
	tests/transport/ring/ring_sim.c tests/transport/ring/ring_sim.h \
	tests/transport/ring/sim_ntb.c tests/transport/ring/sim_ntb.h

check_PROGRAMS += tests/transport/ring/test_arm
check_PROGRAMS += tests/transport/ring/test_endpoint
tests_transport_ring_test_endpoint_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
check_PROGRAMS += tests/transport/ring/test_ring
check_PROGRAMS += tests/transport/ring/test_region
check_PROGRAMS += tests/transport/ring/test_soak
check_PROGRAMS += tests/transport/ring/test_work
