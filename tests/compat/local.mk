# SPDX-License-Identifier: LGPL-2.1-or-later
libtests_la_SOURCES += tests/compat/compat.h

check_PROGRAMS += tests/compat/test_compat
tests_compat_test_compat_LDADD = libtests.la libripc-compat.la libripc.la $(CHECK_LIBS)
check_PROGRAMS += tests/compat/test_memory
tests_compat_test_memory_LDADD = libtests.la libripc-compat.la libripc.la $(CHECK_LIBS)

# Programs of the shape of those of 2012; tests/compat/test_programs.sh compiles and runs them.
dist_check_SCRIPTS += tests/compat/test_header.sh tests/compat/test_programs.sh
EXTRA_DIST += tests/compat/programs/bulk_client.c tests/compat/programs/bulk_server.c \
	tests/compat/programs/common.h tests/compat/programs/long_client.c \
	tests/compat/programs/long_server.c tests/compat/programs/pair_client.c \
	tests/compat/programs/pair_server.c tests/compat/programs/resolver.c \
	tests/compat/programs/short_client.c tests/compat/programs/short_server.c \
	tests/compat/programs/tcp_pingpong.c tests/compat/programs/wide_client.c \
	tests/compat/programs/wide_server.c

# Those that the lab runs; nobody wants to wait for a compiler in an emulator.
lab_compat = tests/compat/short_server tests/compat/short_client tests/compat/long_server \
	tests/compat/long_client
EXTRA_PROGRAMS += $(lab_compat)
lab_tests += $(lab_compat)
COMPAT_CPPFLAGS = -iquote $(top_srcdir)/include/ripc-2012/include
tests_compat_short_server_SOURCES = tests/compat/programs/short_server.c \
	tests/compat/programs/common.h
tests_compat_short_server_CPPFLAGS = $(COMPAT_CPPFLAGS)
tests_compat_short_server_LDADD = libripc-compat.la
tests_compat_short_client_SOURCES = tests/compat/programs/short_client.c \
	tests/compat/programs/common.h
tests_compat_short_client_CPPFLAGS = $(COMPAT_CPPFLAGS)
tests_compat_short_client_LDADD = libripc-compat.la
tests_compat_long_server_SOURCES = tests/compat/programs/long_server.c \
	tests/compat/programs/common.h
tests_compat_long_server_CPPFLAGS = $(COMPAT_CPPFLAGS)
tests_compat_long_server_LDADD = libripc-compat.la
tests_compat_long_client_SOURCES = tests/compat/programs/long_client.c \
	tests/compat/programs/common.h
tests_compat_long_client_CPPFLAGS = $(COMPAT_CPPFLAGS)
tests_compat_long_client_LDADD = libripc-compat.la
