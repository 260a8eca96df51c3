# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/window/test_engine
tests_window_test_engine_SOURCES = tests/window/test_engine.c tests/window/rig.h
tests_window_test_engine_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_window_test_engine_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_window_test_engine_LDADD = $(TEST_LIBS)
check_PROGRAMS += tests/window/test_shm
tests_window_test_shm_SOURCES = tests/window/test_shm.c
tests_window_test_shm_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_window_test_shm_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_window_test_shm_LDADD = $(TEST_LIBS)
check_PROGRAMS += tests/window/test_handover
tests_window_test_handover_SOURCES = tests/window/test_handover.c
tests_window_test_handover_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_window_test_handover_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_window_test_handover_LDADD = $(TEST_LIBS)
