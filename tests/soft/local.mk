# SPDX-License-Identifier: LGPL-2.1-or-later
libtests_la_SOURCES += tests/flood.h tests/soft/forge.c tests/soft/forge.h tests/soft/rig.h \
	tests/soft/sides.c tests/soft/sides.h

check_PROGRAMS += tests/soft/test_address
check_PROGRAMS += tests/soft/test_crc32c
check_PROGRAMS += tests/soft/test_mpa
check_PROGRAMS += tests/soft/test_region
check_PROGRAMS += tests/soft/test_engine
check_PROGRAMS += tests/soft/test_engine_rx
check_PROGRAMS += tests/soft/test_engine_bad
check_PROGRAMS += tests/soft/test_soft
check_PROGRAMS += tests/soft/test_connect
check_PROGRAMS += tests/soft/test_transfer

noinst_PROGRAMS += tests/soft/session
tests_soft_session_LDADD = libripc_internal.la
dist_check_SCRIPTS += tests/soft/test_tshark.sh

check_PROGRAMS += tests/soft/test_mcast
check_PROGRAMS += tests/soft/test_readdress
check_PROGRAMS += tests/soft/test_flood
