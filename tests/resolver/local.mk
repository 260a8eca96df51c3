# SPDX-License-Identifier: LGPL-2.1-or-later
noinst_PROGRAMS += tests/resolver/resolver_tool
tests_resolver_resolver_tool_SOURCES = tests/resolver/resolver_tool.c
tests_resolver_resolver_tool_LDADD = libripc_internal.la

check_PROGRAMS += tests/resolver/test_core
tests_resolver_test_core_SOURCES = tests/resolver/test_core.c tests/resolver/bus.c tests/resolver/bus.h
tests_resolver_test_core_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_resolver_test_core_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/resolver/test_resolver
tests_resolver_test_resolver_SOURCES = tests/resolver/test_resolver.c
tests_resolver_test_resolver_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_resolver_test_resolver_LDADD = $(TEST_LIBS)

dist_check_SCRIPTS += tests/resolver/test_netns.sh
