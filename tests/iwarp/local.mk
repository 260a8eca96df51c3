# SPDX-License-Identifier: LGPL-2.1-or-later
libtests_la_SOURCES += tests/iwarp/ports.c tests/iwarp/ports.h

check_PROGRAMS += tests/iwarp/test_udp
check_PROGRAMS += tests/iwarp/test_line
# It decides what happens between bind() and connect().
tests_iwarp_test_line_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=connect

if HAVE_VERBS
EXTRA_PROGRAMS += tests/iwarp/test_verbs
lab_tests += tests/iwarp/test_verbs
tests_iwarp_test_verbs_SOURCES = tests/iwarp/test_verbs.c tests/iwarp/side.c tests/iwarp/side.h
tests_iwarp_test_verbs_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
tests_iwarp_test_verbs_LDADD = $(TEST_LIBS) $(VERBS_LIBS)
# It decides when events are seen.
tests_iwarp_test_verbs_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=rdma_get_cm_event
endif
