# SPDX-License-Identifier: LGPL-2.1-or-later
libtests_la_SOURCES += tests/transport/shm/zero_copy_pair.h tests/transport/shm/shm_pair.h \
	tests/transport/shm/virtual_time.h tests/transport/shm/blocks.h

check_PROGRAMS += tests/transport/shm/test_absent_pages
check_PROGRAMS += tests/transport/shm/test_doorbell
check_PROGRAMS += tests/transport/shm/test_connect_failed
check_PROGRAMS += tests/transport/shm/test_idle
check_PROGRAMS += tests/transport/shm/test_import
check_PROGRAMS += tests/transport/shm/test_export
check_PROGRAMS += tests/transport/shm/test_export_death
check_PROGRAMS += tests/transport/shm/test_export_isolation
check_PROGRAMS += tests/transport/shm/test_export_refs
check_PROGRAMS += tests/transport/shm/test_mapped_copy
check_PROGRAMS += tests/transport/shm/test_mapped_ends
tests_transport_shm_test_mapped_ends_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mmap,--wrap=mremap
check_PROGRAMS += tests/transport/shm/test_mapped_random
check_PROGRAMS += tests/transport/shm/test_recycle
check_PROGRAMS += tests/transport/shm/test_release_ack
tests_transport_shm_test_release_ack_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mmap
check_PROGRAMS += tests/transport/shm/test_setup
check_PROGRAMS += tests/transport/shm/test_shm
check_PROGRAMS += tests/transport/shm/test_poll_one
dist_check_SCRIPTS += tests/transport/shm/test_containers.sh
dist_check_SCRIPTS += tests/transport/shm/test_no_proc.sh
