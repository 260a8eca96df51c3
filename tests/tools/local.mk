# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/tools/test_histogram
tests_tools_test_histogram_SOURCES = tests/tools/test_histogram.c
tests_tools_test_histogram_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_tools_test_histogram_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_tools_test_histogram_LDADD = libtools.la $(TEST_LIBS)
