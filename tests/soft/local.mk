# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/soft/test_address tests/soft/test_crc32c tests/soft/test_mpa tests/soft/test_region
tests_soft_test_address_SOURCES = tests/soft/test_address.c
tests_soft_test_address_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_soft_test_address_LDADD = $(TEST_LIBS)
tests_soft_test_crc32c_SOURCES = tests/soft/test_crc32c.c
tests_soft_test_crc32c_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_soft_test_crc32c_LDADD = $(TEST_LIBS)
tests_soft_test_mpa_SOURCES = tests/soft/test_mpa.c
tests_soft_test_mpa_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_soft_test_mpa_LDADD = $(TEST_LIBS)
tests_soft_test_region_SOURCES = tests/soft/test_region.c
tests_soft_test_region_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_soft_test_region_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/soft/test_engine
tests_soft_test_engine_SOURCES = tests/soft/test_engine.c tests/soft/rig.h
tests_soft_test_engine_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_soft_test_engine_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/soft/test_engine_rx tests/soft/test_engine_bad
tests_soft_test_engine_rx_SOURCES = tests/soft/test_engine_rx.c tests/soft/forge.c tests/soft/forge.h tests/soft/rig.h
tests_soft_test_engine_rx_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_soft_test_engine_rx_LDADD = $(TEST_LIBS)
tests_soft_test_engine_bad_SOURCES = tests/soft/test_engine_bad.c tests/soft/forge.c tests/soft/forge.h tests/soft/rig.h
tests_soft_test_engine_bad_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_soft_test_engine_bad_LDADD = $(TEST_LIBS)

# Two transports in one thread.
check_LTLIBRARIES += libsoftsides.la
libsoftsides_la_SOURCES = tests/soft/sides.c tests/soft/sides.h
libsoftsides_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
check_PROGRAMS += tests/soft/test_soft tests/soft/test_connect tests/soft/test_transfer
tests_soft_test_soft_SOURCES = tests/soft/test_soft.c
tests_soft_test_soft_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_soft_test_soft_LDADD = libsoftsides.la $(TEST_LIBS)
tests_soft_test_connect_SOURCES = tests/soft/test_connect.c
tests_soft_test_connect_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_soft_test_connect_LDADD = libsoftsides.la $(TEST_LIBS)
tests_soft_test_transfer_SOURCES = tests/soft/test_transfer.c
tests_soft_test_transfer_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_soft_test_transfer_LDADD = libsoftsides.la $(TEST_LIBS)

noinst_PROGRAMS += tests/soft/session
tests_soft_session_SOURCES = tests/soft/session.c
tests_soft_session_LDADD = libripc_internal.la
dist_check_SCRIPTS += tests/soft/test_tshark.sh

check_PROGRAMS += tests/soft/test_mcast
tests_soft_test_mcast_SOURCES = tests/soft/test_mcast.c
tests_soft_test_mcast_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_soft_test_mcast_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/soft/test_readdress
tests_soft_test_readdress_SOURCES = tests/soft/test_readdress.c
tests_soft_test_readdress_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_soft_test_readdress_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/soft/test_flood
tests_soft_test_flood_SOURCES = tests/soft/test_flood.c tests/flood.h
tests_soft_test_flood_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_soft_test_flood_LDADD = $(TEST_LIBS)
