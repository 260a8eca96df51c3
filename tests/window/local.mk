# SPDX-License-Identifier: LGPL-2.1-or-later
libtests_la_SOURCES += tests/window/handover_rig.h tests/window/rig.h tests/window/shm_rig.h \
	tests/window/virtual_rig.h

check_PROGRAMS += tests/window/test_engine
check_PROGRAMS += tests/window/test_region
check_PROGRAMS += tests/window/test_arm
check_PROGRAMS += tests/window/test_setup
check_PROGRAMS += tests/window/test_shm
check_PROGRAMS += tests/window/test_cold
check_PROGRAMS += tests/window/test_take
check_PROGRAMS += tests/window/test_pcie_memory
check_PROGRAMS += tests/window/test_pcie
check_PROGRAMS += tests/window/test_handover
check_PROGRAMS += tests/window/test_sees
check_PROGRAMS += tests/window/test_heirs
check_PROGRAMS += tests/window/test_soak
check_PROGRAMS += tests/window/test_loan
check_PROGRAMS += tests/window/test_in_place
dist_check_SCRIPTS += tests/window/test_containers.sh tests/window/test_no_proc.sh
check_PROGRAMS += tests/window/test_absent
