# SPDX-License-Identifier: LGPL-2.1-or-later
# Which call fails is decided by the linker: see tests/faults/inject.h.
if HAVE_VERBS
# They need devices: the lab runs them.
FAULTS_WRAP = -Wl,--wrap=_ibv_query_gid_ex -Wl,--wrap=_ibv_query_gid_table \
	-Wl,--wrap=ibv_alloc_pd -Wl,--wrap=ibv_create_ah -Wl,--wrap=ibv_create_comp_channel \
	-Wl,--wrap=ibv_create_cq -Wl,--wrap=ibv_create_qp -Wl,--wrap=ibv_create_srq \
	-Wl,--wrap=ibv_fork_init -Wl,--wrap=ibv_get_cq_event -Wl,--wrap=ibv_get_device_list \
	-Wl,--wrap=ibv_modify_qp -Wl,--wrap=ibv_modify_srq -Wl,--wrap=ibv_open_device \
	-Wl,--wrap=ibv_query_device -Wl,--wrap=ibv_query_gid -Wl,--wrap=ibv_query_pkey \
	-Wl,--wrap=ibv_query_port -Wl,--wrap=ibv_query_qp -Wl,--wrap=ibv_reg_mr \
	-Wl,--wrap=ibv_reg_mr_iova2 -Wl,--wrap=ibv_resize_cq -Wl,--wrap=rdma_accept \
	-Wl,--wrap=rdma_bind_addr -Wl,--wrap=rdma_connect -Wl,--wrap=rdma_create_event_channel \
	-Wl,--wrap=rdma_create_id -Wl,--wrap=rdma_create_qp -Wl,--wrap=rdma_disconnect \
	-Wl,--wrap=rdma_get_cm_event -Wl,--wrap=rdma_listen -Wl,--wrap=rdma_reject \
	-Wl,--wrap=rdma_resolve_addr -Wl,--wrap=rdma_resolve_route -Wl,--wrap=rdma_set_option
EXTRA_PROGRAMS += tests/faults/test_faults tests/faults/test_kills tests/faults/test_cycles
lab_tests += tests/faults/test_faults tests/faults/test_kills tests/faults/test_cycles
tests_faults_test_faults_SOURCES = tests/faults/test_faults.c tests/faults/leaks.c \
	tests/faults/leaks.h tests/faults/inject.c tests/faults/inject.h
tests_faults_test_faults_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
tests_faults_test_faults_LDADD = $(TEST_LIBS) $(VERBS_LIBS)
tests_faults_test_faults_LDFLAGS = $(AM_LDFLAGS) $(FAULTS_WRAP)
tests_faults_test_kills_SOURCES = tests/faults/test_kills.c tests/faults/leaks.c \
	tests/faults/leaks.h tests/faults/inject.c tests/faults/inject.h
tests_faults_test_kills_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
tests_faults_test_kills_LDADD = $(TEST_LIBS) $(VERBS_LIBS)
tests_faults_test_kills_LDFLAGS = $(AM_LDFLAGS) $(FAULTS_WRAP)
tests_faults_test_cycles_SOURCES = tests/faults/test_cycles.c tests/faults/leaks.c \
	tests/faults/leaks.h
endif
