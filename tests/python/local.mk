# SPDX-License-Identifier: LGPL-2.1-or-later
dist_check_SCRIPTS += tests/python/test_python.sh
EXTRA_DIST += tests/python/test_ripc.py
