# SPDX-License-Identifier: LGPL-2.1-or-later
libtests_la_SOURCES += tests/transport/sim/rig.h

check_PROGRAMS += tests/transport/sim/test_conn
check_PROGRAMS += tests/transport/sim/test_path
check_PROGRAMS += tests/transport/sim/test_net
