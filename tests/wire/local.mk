# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/wire/test_record
check_PROGRAMS += tests/wire/test_elided
check_PROGRAMS += tests/wire/test_header
check_PROGRAMS += tests/wire/test_hello
check_PROGRAMS += tests/wire/test_immediate
