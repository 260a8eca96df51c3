# SPDX-License-Identifier: LGPL-2.1-or-later
if HAVE_VERBS
check_PROGRAMS += tests/verbs/test_queue
check_PROGRAMS += tests/verbs/test_device
endif
