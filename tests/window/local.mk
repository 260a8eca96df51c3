# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/window/test_engine
tests_window_test_engine_SOURCES = tests/window/test_engine.c tests/window/rig.h
tests_window_test_engine_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_window_test_engine_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_window_test_engine_LDADD = $(TEST_LIBS)
