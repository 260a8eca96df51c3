# SPDX-License-Identifier: LGPL-2.1-or-later
RESOLVER_TEST_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)

noinst_PROGRAMS += tests/resolver/resolver_tool
tests_resolver_resolver_tool_SOURCES = tests/resolver/resolver_tool.c
tests_resolver_resolver_tool_LDADD = libripc_internal.la
noinst_PROGRAMS += tests/resolver/move_tool
tests_resolver_move_tool_SOURCES = tests/resolver/move_tool.c
tests_resolver_move_tool_LDADD = libripc_internal.la

check_PROGRAMS += tests/resolver/test_cache tests/resolver/test_claim tests/resolver/test_core \
	tests/resolver/test_lookup tests/resolver/test_memory tests/resolver/test_progress \
	tests/resolver/test_resolver tests/resolver/test_table tests/resolver/test_timers
RESOLVER_BUS = tests/resolver/bus.c tests/resolver/bus.h tests/resolver/trio.h
check_PROGRAMS += tests/resolver/test_chain tests/resolver/test_file
check_PROGRAMS += tests/resolver/test_move
tests_resolver_test_move_SOURCES = tests/resolver/test_move.c
tests_resolver_test_move_CPPFLAGS = $(RESOLVER_TEST_CPPFLAGS)
tests_resolver_test_move_LDADD = $(TEST_LIBS)
tests_resolver_test_chain_SOURCES = tests/resolver/test_chain.c
tests_resolver_test_chain_CPPFLAGS = $(RESOLVER_TEST_CPPFLAGS)
tests_resolver_test_chain_LDADD = $(TEST_LIBS)
tests_resolver_test_file_SOURCES = tests/resolver/test_file.c tests/resolver/live.h
tests_resolver_test_file_CPPFLAGS = $(RESOLVER_TEST_CPPFLAGS)
tests_resolver_test_file_LDADD = $(TEST_LIBS)
tests_resolver_test_cache_SOURCES = tests/resolver/test_cache.c $(RESOLVER_BUS)
tests_resolver_test_cache_CPPFLAGS = $(RESOLVER_TEST_CPPFLAGS)
tests_resolver_test_cache_LDADD = $(TEST_LIBS)
tests_resolver_test_claim_SOURCES = tests/resolver/test_claim.c $(RESOLVER_BUS)
tests_resolver_test_claim_CPPFLAGS = $(RESOLVER_TEST_CPPFLAGS)
tests_resolver_test_claim_LDADD = $(TEST_LIBS)
tests_resolver_test_core_SOURCES = tests/resolver/test_core.c $(RESOLVER_BUS)
tests_resolver_test_core_CPPFLAGS = $(RESOLVER_TEST_CPPFLAGS)
tests_resolver_test_core_LDADD = $(TEST_LIBS)
tests_resolver_test_lookup_SOURCES = tests/resolver/test_lookup.c $(RESOLVER_BUS)
tests_resolver_test_lookup_CPPFLAGS = $(RESOLVER_TEST_CPPFLAGS)
tests_resolver_test_lookup_LDADD = $(TEST_LIBS)
tests_resolver_test_memory_SOURCES = tests/resolver/test_memory.c
tests_resolver_test_memory_CPPFLAGS = $(RESOLVER_TEST_CPPFLAGS)
tests_resolver_test_memory_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
tests_resolver_test_memory_LDADD = $(TEST_LIBS)
tests_resolver_test_progress_SOURCES = tests/resolver/test_progress.c tests/resolver/live.h
tests_resolver_test_progress_CPPFLAGS = $(RESOLVER_TEST_CPPFLAGS)
tests_resolver_test_progress_LDADD = $(TEST_LIBS)
tests_resolver_test_resolver_SOURCES = tests/resolver/test_resolver.c tests/resolver/live.h
tests_resolver_test_resolver_CPPFLAGS = $(RESOLVER_TEST_CPPFLAGS)
tests_resolver_test_resolver_LDADD = $(TEST_LIBS)
tests_resolver_test_table_SOURCES = tests/resolver/test_table.c
tests_resolver_test_table_CPPFLAGS = $(RESOLVER_TEST_CPPFLAGS)
tests_resolver_test_table_LDADD = $(TEST_LIBS)
tests_resolver_test_timers_SOURCES = tests/resolver/test_timers.c
tests_resolver_test_timers_CPPFLAGS = $(RESOLVER_TEST_CPPFLAGS)
tests_resolver_test_timers_LDADD = $(TEST_LIBS)

if HAVE_ZOOKEEPER
check_PROGRAMS += tests/resolver/test_ensemble_hosts
endif
tests_resolver_test_ensemble_hosts_SOURCES = tests/resolver/test_ensemble_hosts.c
tests_resolver_test_ensemble_hosts_CPPFLAGS = $(RESOLVER_TEST_CPPFLAGS)
tests_resolver_test_ensemble_hosts_LDADD = $(TEST_LIBS)

dist_check_SCRIPTS += tests/resolver/test_hosts.sh tests/resolver/test_netns.sh \
	tests/resolver/test_takeover.sh tests/resolver/test_zookeeper.sh
EXTRA_DIST += tests/resolver/lib.sh
