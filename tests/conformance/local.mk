# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/conformance/conformance_sim tests/conformance/conformance_soft \
	tests/conformance/conformance_self tests/conformance/conformance_shm tests/conformance/conformance_ntb \
	tests/conformance/conformance_pcie
check_LTLIBRARIES += libconformance.la
libconformance_la_SOURCES = tests/conformance/conf.c tests/conformance/conf.h tests/conformance/process.h \
	tests/conformance/real.h tests/conformance/message.c tests/conformance/buffer.c \
	tests/conformance/target.c tests/conformance/flow.c tests/conformance/request.c \
	tests/conformance/life.c tests/conformance/api.c tests/conformance/peer.c tests/conformance/fault.c \
	tests/conformance/group.c \
	tests/conformance/hostile.c tests/conformance/thread.c tests/conformance/process.c
libconformance_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
libconformance_la_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
CONFORMANCE_LIBS = libconformance.la $(TEST_LIBS)
tests_conformance_conformance_sim_SOURCES = tests/conformance/conformance_sim.c
tests_conformance_conformance_sim_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_conformance_conformance_sim_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_conformance_conformance_sim_LDADD = $(CONFORMANCE_LIBS)
tests_conformance_conformance_soft_SOURCES = tests/conformance/conformance_soft.c
tests_conformance_conformance_soft_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_conformance_conformance_soft_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_conformance_conformance_soft_LDADD = $(CONFORMANCE_LIBS)
tests_conformance_conformance_self_SOURCES = tests/conformance/conformance_self.c
tests_conformance_conformance_self_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_conformance_conformance_self_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_conformance_conformance_self_LDADD = $(CONFORMANCE_LIBS)
tests_conformance_conformance_shm_SOURCES = tests/conformance/conformance_shm.c
tests_conformance_conformance_shm_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_conformance_conformance_shm_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_conformance_conformance_shm_LDADD = $(CONFORMANCE_LIBS)
tests_conformance_conformance_ntb_SOURCES = tests/conformance/conformance_ntb.c
tests_conformance_conformance_ntb_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_conformance_conformance_ntb_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_conformance_conformance_ntb_LDADD = $(CONFORMANCE_LIBS)
tests_conformance_conformance_pcie_SOURCES = tests/conformance/conformance_pcie.c
tests_conformance_conformance_pcie_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_conformance_conformance_pcie_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_conformance_conformance_pcie_LDADD = $(CONFORMANCE_LIBS)
if HAVE_VERBS
EXTRA_PROGRAMS += tests/conformance/conformance_ib
lab_tests += tests/conformance/conformance_ib
tests_conformance_conformance_ib_SOURCES = tests/conformance/conformance_ib.c
tests_conformance_conformance_ib_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_conformance_conformance_ib_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_conformance_conformance_ib_LDADD = $(CONFORMANCE_LIBS)
endif

if HAVE_VERBS
EXTRA_PROGRAMS += tests/conformance/conformance_iwarp
lab_tests += tests/conformance/conformance_iwarp
tests_conformance_conformance_iwarp_SOURCES = tests/conformance/conformance_iwarp.c
tests_conformance_conformance_iwarp_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_conformance_conformance_iwarp_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_conformance_conformance_iwarp_LDADD = $(CONFORMANCE_LIBS)
endif
