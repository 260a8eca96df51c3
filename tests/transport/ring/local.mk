# SPDX-License-Identifier: LGPL-2.1-or-later
libtests_la_SOURCES += tests/transport/ring/rig.h

check_PROGRAMS += tests/transport/ring/test_arm
check_PROGRAMS += tests/transport/ring/test_engine
check_PROGRAMS += tests/transport/ring/test_region
