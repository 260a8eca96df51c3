# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/conformance/conformance_sim
check_PROGRAMS += tests/conformance/conformance_soft
check_PROGRAMS += tests/conformance/conformance_self
check_PROGRAMS += tests/conformance/conformance_shm
check_PROGRAMS += tests/conformance/conformance_ntb
check_PROGRAMS += tests/conformance/conformance_pcie
check_LTLIBRARIES += libconformance.la
libconformance_la_SOURCES = tests/conformance/call.c tests/conformance/conf.c \
	tests/conformance/conf.h \
	tests/conformance/process.h tests/conformance/real.h tests/conformance/message.c \
	tests/conformance/fields.c \
	tests/conformance/buffer.c tests/conformance/target.c tests/conformance/flow.c \
	tests/conformance/request.c tests/conformance/life.c tests/conformance/api.c \
	tests/conformance/peer.c tests/conformance/fault.c tests/conformance/death.c \
	tests/conformance/group.c tests/conformance/hostile.c tests/conformance/thread.c \
	tests/conformance/process.c
CONFORMANCE_LIBS = libconformance.la $(TEST_LIBS)
tests_conformance_conformance_sim_LDADD = $(CONFORMANCE_LIBS)
tests_conformance_conformance_soft_LDADD = $(CONFORMANCE_LIBS)
tests_conformance_conformance_self_LDADD = $(CONFORMANCE_LIBS)
tests_conformance_conformance_shm_LDADD = $(CONFORMANCE_LIBS)
tests_conformance_conformance_ntb_LDADD = $(CONFORMANCE_LIBS)
tests_conformance_conformance_pcie_LDADD = $(CONFORMANCE_LIBS)
if HAVE_VERBS
EXTRA_PROGRAMS += tests/conformance/conformance_ib
lab_tests += tests/conformance/conformance_ib
tests_conformance_conformance_ib_LDADD = $(CONFORMANCE_LIBS)
endif

if HAVE_VERBS
EXTRA_PROGRAMS += tests/conformance/conformance_iwarp
lab_tests += tests/conformance/conformance_iwarp
tests_conformance_conformance_iwarp_LDADD = $(CONFORMANCE_LIBS)
endif
