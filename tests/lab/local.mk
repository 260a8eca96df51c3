# SPDX-License-Identifier: LGPL-2.1-or-later
# The lab: guests with RDMA devices in software. It is a stage of scripts/test, not part of make
# check. programs.list holds the programs that the stage runs.
EXTRA_DIST += tests/lab/prepare tests/lab/init tests/lab/guest tests/lab/run tests/lab/lab.sh \
	tests/lab/namespaces tests/lab/meet tests/lab/hangups tests/lab/resources \
	tests/lab/programs tests/lab/suite tests/lab/programs.list tests/lab/programs.long \
	tests/lab/test_run.sh tests/lab/test_addresses.sh tests/lab/test_devices.sh \
	tests/lab/test_queues.sh \
	tests/lab/test_namespaces.sh tests/lab/test_guests.sh tests/lab/test_faults.sh \
	tests/lab/test_keys.sh tests/lab/test_compat.sh tests/lab/test_mpi.sh \
	tests/lab/test_pcie.sh tests/lab/test_doorbell.sh tests/lab/doorbell.c
