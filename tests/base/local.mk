# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/base/test_log
tests_base_test_log_SOURCES = tests/base/test_log.c
tests_base_test_log_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_base_test_log_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/base/test_options
tests_base_test_options_SOURCES = tests/base/test_options.c
tests_base_test_options_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_base_test_options_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/base/test_host
tests_base_test_host_SOURCES = tests/base/test_host.c
tests_base_test_host_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_base_test_host_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/base/test_slab
tests_base_test_slab_SOURCES = tests/base/test_slab.c
tests_base_test_slab_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_base_test_slab_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/base/test_admission
tests_base_test_admission_SOURCES = tests/base/test_admission.c
tests_base_test_admission_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_base_test_admission_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/base/test_hash
tests_base_test_hash_SOURCES = tests/base/test_hash.c
tests_base_test_hash_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_base_test_hash_LDADD = $(TEST_LIBS)
