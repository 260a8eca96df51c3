# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/transport/ib/test_address
check_PROGRAMS += tests/transport/ib/test_uc_retransmit
check_PROGRAMS += tests/transport/ib/test_wireup
EXTRA_DIST += tests/transport/ib/made_device.h tests/transport/ib/test_qp.sh

if HAVE_VERBS
check_PROGRAMS += tests/transport/ib/test_ah_cache
tests_transport_ib_test_ah_cache_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
tests_transport_ib_test_ah_cache_LDADD = $(TEST_LIBS) $(VERBS_LIBS)
tests_transport_ib_test_ah_cache_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=ripc__verbs_job_start

check_PROGRAMS += tests/transport/ib/test_ep_state
tests_transport_ib_test_ep_state_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
tests_transport_ib_test_ep_state_LDADD = $(TEST_LIBS) $(VERBS_LIBS)

check_PROGRAMS += tests/transport/ib/test_verbs
tests_transport_ib_test_verbs_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
tests_transport_ib_test_verbs_LDADD = $(TEST_LIBS) $(VERBS_LIBS)

check_PROGRAMS += tests/transport/ib/test_async_events
tests_transport_ib_test_async_events_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
tests_transport_ib_test_async_events_LDADD = $(TEST_LIBS) $(VERBS_LIBS)

EXTRA_PROGRAMS += tests/transport/ib/test_mcast
lab_tests += tests/transport/ib/test_mcast
tests_transport_ib_test_mcast_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
tests_transport_ib_test_mcast_LDADD = $(TEST_LIBS) $(VERBS_LIBS)
tests_transport_ib_test_mcast_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=ibv_modify_qp
endif
