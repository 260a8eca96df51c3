# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/base/test_log
check_PROGRAMS += tests/base/test_options
check_PROGRAMS += tests/base/test_host
check_PROGRAMS += tests/base/test_slab
check_PROGRAMS += tests/base/test_admission
check_PROGRAMS += tests/base/test_hash
check_PROGRAMS += tests/base/test_resolver_chain
