# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/sim/test_conn tests/sim/test_way tests/sim/test_net
tests_sim_test_conn_SOURCES = tests/sim/test_conn.c tests/sim/rig.h
tests_sim_test_conn_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_sim_test_conn_LDADD = $(TEST_LIBS)
tests_sim_test_way_SOURCES = tests/sim/test_way.c tests/sim/rig.h
tests_sim_test_way_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_sim_test_way_LDADD = $(TEST_LIBS)
tests_sim_test_net_SOURCES = tests/sim/test_net.c tests/sim/rig.h
tests_sim_test_net_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_sim_test_net_LDADD = $(TEST_LIBS)
