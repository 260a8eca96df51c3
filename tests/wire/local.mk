# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/wire/test_record
tests_wire_test_record_SOURCES = tests/wire/test_record.c
tests_wire_test_record_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_wire_test_record_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/wire/test_header tests/wire/test_hello
tests_wire_test_header_SOURCES = tests/wire/test_header.c
tests_wire_test_header_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_wire_test_header_LDADD = $(TEST_LIBS)
tests_wire_test_hello_SOURCES = tests/wire/test_hello.c
tests_wire_test_hello_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_wire_test_hello_LDADD = $(TEST_LIBS)
