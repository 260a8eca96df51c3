# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/wire/test_record
check_PROGRAMS += tests/wire/test_elided
WIRE_MESSAGES = tests/wire/headers.c tests/wire/headers.h
check_PROGRAMS += tests/wire/test_header
tests_wire_test_header_SOURCES = tests/wire/test_header.c $(WIRE_MESSAGES)
check_PROGRAMS += tests/wire/test_header_items
tests_wire_test_header_items_SOURCES = tests/wire/test_header_items.c $(WIRE_MESSAGES)
check_PROGRAMS += tests/wire/test_hello
check_PROGRAMS += tests/wire/test_immediate
