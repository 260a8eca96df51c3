# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/transport/pcie/test_memory
check_PROGRAMS += tests/transport/pcie/test_pcie
check_PROGRAMS += tests/transport/pcie/test_stopped_peer
libtests_la_SOURCES += tests/transport/pcie/pcie_pair.h
