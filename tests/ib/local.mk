# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/ib/test_address tests/ib/test_window tests/ib/test_wireup
tests_ib_test_address_SOURCES = tests/ib/test_address.c
tests_ib_test_address_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_ib_test_address_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_ib_test_address_LDADD = $(TEST_LIBS)
tests_ib_test_window_SOURCES = tests/ib/test_window.c
tests_ib_test_window_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_ib_test_window_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_ib_test_window_LDADD = $(TEST_LIBS)
tests_ib_test_wireup_SOURCES = tests/ib/test_wireup.c
tests_ib_test_wireup_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_ib_test_wireup_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_ib_test_wireup_LDADD = $(TEST_LIBS)
EXTRA_DIST += tests/ib/test_pair.sh

if HAVE_VERBS
EXTRA_PROGRAMS += tests/ib/test_mcast
lab_tests += tests/ib/test_mcast
tests_ib_test_mcast_SOURCES = tests/ib/test_mcast.c
tests_ib_test_mcast_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_ib_test_mcast_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
tests_ib_test_mcast_LDADD = $(TEST_LIBS) $(VERBS_LIBS)
tests_ib_test_mcast_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=ibv_modify_qp
endif
