# SPDX-License-Identifier: LGPL-2.1-or-later
EXTRA_DIST += tests/conformance/conf.h tests/conformance/process.h tests/conformance/real.h
