# SPDX-License-Identifier: LGPL-2.1-or-later
libtests_la_SOURCES += tests/transport/iwarp/udp_helpers.c tests/transport/iwarp/udp_helpers.h

check_PROGRAMS += tests/transport/iwarp/test_udp
# It decides whether a datagram is sent.
tests_transport_iwarp_test_udp_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sendto
check_PROGRAMS += tests/transport/iwarp/test_udp_socket
# It decides what happens between bind() and connect().
tests_transport_iwarp_test_udp_socket_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=connect

if HAVE_VERBS
check_PROGRAMS += tests/transport/iwarp/verbs/test_state
tests_transport_iwarp_verbs_test_state_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
tests_transport_iwarp_verbs_test_state_LDADD = $(TEST_LIBS) $(VERBS_LIBS)

check_PROGRAMS += tests/transport/iwarp/verbs/test_connection
tests_transport_iwarp_verbs_test_connection_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
tests_transport_iwarp_verbs_test_connection_LDADD = $(TEST_LIBS) $(VERBS_LIBS)

EXTRA_PROGRAMS += tests/transport/iwarp/verbs/test_verbs
lab_tests += tests/transport/iwarp/verbs/test_verbs
tests_transport_iwarp_verbs_test_verbs_SOURCES = tests/transport/iwarp/verbs/test_verbs.c \
	tests/transport/iwarp/endpoint_pair.c tests/transport/iwarp/endpoint_pair.h
tests_transport_iwarp_verbs_test_verbs_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
tests_transport_iwarp_verbs_test_verbs_LDADD = $(TEST_LIBS) $(VERBS_LIBS)
# It decides when events are seen.
tests_transport_iwarp_verbs_test_verbs_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=rdma_get_cm_event
endif
