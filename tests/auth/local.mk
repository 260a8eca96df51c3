# SPDX-License-Identifier: LGPL-2.1-or-later
libtests_la_SOURCES += tests/auth/keys.h tests/flood.h

if HAVE_SODIUM
check_PROGRAMS += tests/auth/test_key
check_PROGRAMS += tests/auth/test_handshake
check_PROGRAMS += tests/auth/test_cluster
check_PROGRAMS += tests/auth/test_replay
endif
