# SPDX-License-Identifier: LGPL-2.1-or-later
dist_check_SCRIPTS += tests/python/test_python.sh
EXTRA_DIST += tests/python/run.py tests/python/support.py tests/python/test_ends.py \
	tests/python/test_examples.py tests/python/test_memory.py \
	tests/python/test_ripc.py tests/python/test_transports.py tests/python/test_wrong.py
