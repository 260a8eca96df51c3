# SPDX-License-Identifier: LGPL-2.1-or-later
# Programs that tests/mpi/test_mpi.sh compiles with mpicc and runs.
dist_check_SCRIPTS += tests/mpi/test_mpi.sh tests/mpi/test_mpi_hosts.sh
EXTRA_DIST += tests/mpi/collectives.c tests/mpi/killed.c tests/mpi/messages.c
