# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/wire/test_record
tests_wire_test_record_SOURCES = tests/wire/test_record.c
tests_wire_test_record_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_wire_test_record_LDADD = $(TEST_LIBS)
