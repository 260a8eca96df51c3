# SPDX-License-Identifier: LGPL-2.1-or-later
libtests_la_SOURCES += tests/transport/sim/sim_pair.h

check_PROGRAMS += tests/transport/sim/test_conn
check_PROGRAMS += tests/transport/sim/test_channel
check_PROGRAMS += tests/transport/sim/test_net
