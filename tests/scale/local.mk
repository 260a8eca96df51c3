# SPDX-License-Identifier: LGPL-2.1-or-later
SCALE_CROWD = tests/scale/cluster.c tests/scale/cluster.h tests/scale/ensemble.c \
	tests/scale/network.c tests/scale/world.h
check_PROGRAMS += tests/scale/test_cluster
tests_scale_test_cluster_SOURCES = tests/scale/test_cluster.c $(SCALE_CROWD)

check_PROGRAMS += tests/scale/test_call_history
tests_scale_test_call_history_SOURCES = tests/scale/test_call_history.c \
	tests/scale/call_history.c tests/scale/call_history.h \
	tests/scale/call_app.c tests/scale/call_host.h tests/scale/call_schedule.c \
	tests/scale/call_world.c tests/scale/call_world.h

noinst_PROGRAMS += bench/scale bench/resolve
bench_scale_SOURCES = bench/scale.c $(SCALE_CROWD)
bench_scale_LDADD = libsim.la libripc_internal.la
bench_resolve_SOURCES = bench/resolve.c
bench_resolve_LDADD = libripc.la
EXTRA_DIST += bench/scale.sh bench/resolve.sh
