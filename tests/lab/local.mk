# SPDX-License-Identifier: LGPL-2.1-or-later
# The lab: guests with RDMA devices in software. scripts/test runs it as a stage of its own; make check does not.
EXTRA_DIST += tests/lab/prepare tests/lab/init tests/lab/guest tests/lab/run tests/lab/lab.sh tests/lab/namespaces
