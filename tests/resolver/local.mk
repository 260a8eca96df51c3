# SPDX-License-Identifier: LGPL-2.1-or-later
libtests_la_SOURCES += tests/resolver/bus.c tests/resolver/bus.h tests/resolver/describe.h \
	tests/resolver/ensemble_model.h tests/resolver/ensemble_wrap.h tests/resolver/find.h \
	tests/resolver/live.h tests/resolver/trio.h tests/resolver/use.h

noinst_PROGRAMS += tests/resolver/resolver_tool
tests_resolver_resolver_tool_LDADD = libripc_internal.la
noinst_PROGRAMS += tests/resolver/move_tool
tests_resolver_move_tool_LDADD = libripc_internal.la

check_PROGRAMS += tests/resolver/test_cache
check_PROGRAMS += tests/resolver/test_claim
check_PROGRAMS += tests/resolver/test_claim_two_holders
check_PROGRAMS += tests/resolver/test_core
check_PROGRAMS += tests/resolver/test_list
check_PROGRAMS += tests/resolver/test_live_random
check_PROGRAMS += tests/resolver/test_lookup
check_PROGRAMS += tests/resolver/test_memory
check_PROGRAMS += tests/resolver/test_progress
check_PROGRAMS += tests/resolver/test_random
check_PROGRAMS += tests/resolver/test_resolver
check_PROGRAMS += tests/resolver/test_timers
check_PROGRAMS += tests/resolver/test_file
tests_resolver_test_file_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=if_nametoindex
check_PROGRAMS += tests/resolver/test_host_list
check_PROGRAMS += tests/resolver/test_move
check_PROGRAMS += tests/resolver/test_udp
tests_resolver_test_udp_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=recvmsg,--wrap=if_indextoname,--wrap=if_nametoindex,--wrap=getifaddrs \
	-Wl,--wrap=epoll_ctl,--wrap=setsockopt
tests_resolver_test_memory_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free

if HAVE_ZOOKEEPER
check_PROGRAMS += tests/resolver/test_ensemble_hosts
check_PROGRAMS += tests/resolver/test_ensemble_random
tests_resolver_test_ensemble_random_LDFLAGS = $(tests_resolver_test_zookeeper_LDFLAGS) \
	-Wl,--wrap=clock_gettime
check_PROGRAMS += tests/resolver/test_zookeeper
tests_resolver_test_zookeeper_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=ripc__ensemble_open,--wrap=ripc__ensemble_close,--wrap=ripc__ensemble_fd \
	-Wl,--wrap=ripc__ensemble_report_node,--wrap=ripc__ensemble_submit \
	-Wl,--wrap=ripc__ensemble_next
endif

dist_check_SCRIPTS += tests/resolver/test_hosts.sh tests/resolver/test_netns.sh \
	tests/resolver/test_readdress.sh tests/resolver/test_takeover.sh \
	tests/resolver/test_zookeeper.sh
EXTRA_DIST += tests/resolver/lib.sh
