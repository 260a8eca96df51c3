# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/ib/test_address
check_PROGRAMS += tests/ib/test_window
check_PROGRAMS += tests/ib/test_wireup
EXTRA_DIST += tests/ib/test_pair.sh

if HAVE_VERBS
EXTRA_PROGRAMS += tests/ib/test_mcast
lab_tests += tests/ib/test_mcast
tests_ib_test_mcast_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
tests_ib_test_mcast_LDADD = $(TEST_LIBS) $(VERBS_LIBS)
tests_ib_test_mcast_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=ibv_modify_qp
endif
