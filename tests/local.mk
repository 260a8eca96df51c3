# SPDX-License-Identifier: LGPL-2.1-or-later
# Tests are programs of the check framework, one per source file, named tests/<dir>/test_<file>.c.
# Each ends with the line "NAME: N passed, N failed, N skipped" (tests/harness.c); scripts/test adds
# these up.
check_LTLIBRARIES += libtests.la
libtests_la_SOURCES = tests/harness.c tests/harness.h tests/lock_gate.c tests/lock_gate.h \
	tests/flood.h tests/transitions.h

# Tests that need RDMA devices and are skipped without: tests/lab/ runs them. Also in
# EXTRA_PROGRAMS.
lab_tests =
CLEANFILES += $(lab_tests)

TEST_LIBS = libtests.la libsim.la libripc_internal.la $(CHECK_LIBS)
LDADD = $(TEST_LIBS)
TESTS = $(check_PROGRAMS) $(dist_check_SCRIPTS)
# Tests use the loopback only.
AM_TESTS_ENVIRONMENT = RIPC_INTERFACES=lo; export RIPC_INTERFACES;

include tests/base/local.mk
include tests/core/local.mk
include tests/wire/local.mk
include tests/auth/local.mk
include tests/resolver/local.mk
include tests/transport/iwarp/soft/local.mk
include tests/transport/iwarp/local.mk
include tests/transport/ring/local.mk
include tests/transport/shm/local.mk
include tests/transport/pcie/local.mk
include tests/transport/sim/local.mk
include tests/scale/local.mk
include tests/conformance/local.mk
include tests/transport/ib/local.mk
include tests/transport/rdma/local.mk
include tests/tools/local.mk
include tests/fuzz/local.mk
include tests/install/local.mk
include tests/mutate/local.mk
include tests/faults/local.mk
include tests/stress/local.mk
include tests/lab/local.mk
include tests/compat/local.mk
include tests/ofi/local.mk
include tests/mpi/local.mk
include tests/cxx/local.mk
include tests/python/local.mk
