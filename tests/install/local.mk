# SPDX-License-Identifier: LGPL-2.1-or-later
# Tests of what is built and installed, as shell scripts.
dist_check_SCRIPTS += tests/install/test_header.sh tests/install/test_symbols.sh \
	tests/install/test_manpages.sh tests/install/test_install.sh \
	tests/install/test_documents.sh tests/install/test_bindings.sh
EXTRA_DIST += tests/install/lib.sh tests/install/documents.sh
AM_TESTS_ENVIRONMENT += CC='$(CC)'; CXX='$(CXX)'; MAKE='$(MAKE)'; export CC CXX MAKE;
