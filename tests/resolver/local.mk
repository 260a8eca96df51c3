# SPDX-License-Identifier: LGPL-2.1-or-later
noinst_PROGRAMS += tests/resolver/resolver_tool
tests_resolver_resolver_tool_SOURCES = tests/resolver/resolver_tool.c
tests_resolver_resolver_tool_LDADD = libripc_internal.la
