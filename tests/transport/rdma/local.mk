# SPDX-License-Identifier: LGPL-2.1-or-later
if HAVE_VERBS
check_PROGRAMS += tests/transport/rdma/test_cq
check_PROGRAMS += tests/transport/rdma/test_queue
check_PROGRAMS += tests/transport/rdma/test_device
check_PROGRAMS += tests/transport/rdma/test_region
check_PROGRAMS += tests/transport/rdma/test_jobs
tests_transport_rdma_test_jobs_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pthread_create
tests_transport_rdma_test_region_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
endif
