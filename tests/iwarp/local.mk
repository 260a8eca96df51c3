# SPDX-License-Identifier: LGPL-2.1-or-later
if HAVE_VERBS
EXTRA_PROGRAMS += tests/iwarp/test_verbs
lab_tests += tests/iwarp/test_verbs
tests_iwarp_test_verbs_SOURCES = tests/iwarp/test_verbs.c
tests_iwarp_test_verbs_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_iwarp_test_verbs_LDADD = $(TEST_LIBS)
endif
