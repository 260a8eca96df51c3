# SPDX-License-Identifier: LGPL-2.1-or-later
libtests_la_SOURCES += tests/sim/rig.h

check_PROGRAMS += tests/sim/test_conn
check_PROGRAMS += tests/sim/test_way
check_PROGRAMS += tests/sim/test_net
