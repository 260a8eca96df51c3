# SPDX-License-Identifier: LGPL-2.1-or-later
libtests_la_SOURCES += tests/transport/shm/mapped_rig.h tests/transport/shm/rig.h \
	tests/transport/shm/virtual_rig.h

check_PROGRAMS += tests/transport/shm/test_absent_pages
check_PROGRAMS += tests/transport/shm/test_idle_endpoint
check_PROGRAMS += tests/transport/shm/test_in_place
check_PROGRAMS += tests/transport/shm/test_mapped
check_PROGRAMS += tests/transport/shm/test_mapped_exit
check_PROGRAMS += tests/transport/shm/test_mapped_isolation
check_PROGRAMS += tests/transport/shm/test_mapped_lifetime
check_PROGRAMS += tests/transport/shm/test_setup
check_PROGRAMS += tests/transport/shm/test_shm
check_PROGRAMS += tests/transport/shm/test_soak
check_PROGRAMS += tests/transport/shm/test_take
dist_check_SCRIPTS += tests/transport/shm/test_containers.sh
dist_check_SCRIPTS += tests/transport/shm/test_no_proc.sh
