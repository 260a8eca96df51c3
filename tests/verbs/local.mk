# SPDX-License-Identifier: LGPL-2.1-or-later
if HAVE_VERBS
check_PROGRAMS += tests/verbs/test_queue
tests_verbs_test_queue_SOURCES = tests/verbs/test_queue.c
tests_verbs_test_queue_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_verbs_test_queue_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_verbs_test_queue_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/verbs/test_device
tests_verbs_test_device_SOURCES = tests/verbs/test_device.c
tests_verbs_test_device_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_verbs_test_device_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_verbs_test_device_LDADD = $(TEST_LIBS)
endif
