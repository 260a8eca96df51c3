# SPDX-License-Identifier: LGPL-2.1-or-later
# Programs that load the provider of their build; it exists in builds with shared libraries only.
ofi_tests =
if HAVE_LIBFABRIC
check_PROGRAMS += tests/ofi/test_matching
tests_ofi_test_matching_SOURCES = tests/ofi/test_matching.c src/ofi/matching.c src/ofi/matching.h
tests_ofi_test_matching_LDADD = libtests.la $(CHECK_LIBS)

# Run in the top build directory and load its provider.
OFI_CPPFLAGS = $(AM_CPPFLAGS) $(LIBFABRIC_CFLAGS)
OFI_LDADD = libtests.la $(CHECK_LIBS) $(LIBFABRIC_LIBS)
ofi_tests += tests/ofi/test_info tests/ofi/test_endpoint tests/ofi/test_flow tests/ofi/test_parts \
	tests/ofi/test_peer tests/ofi/test_queues tests/ofi/test_random tests/ofi/test_random_ends \
	tests/ofi/test_restart tests/ofi/test_send
check_PROGRAMS += $(ofi_tests)
tests_ofi_test_info_SOURCES = tests/ofi/test_info.c tests/ofi/side.c tests/ofi/side.h
tests_ofi_test_info_CPPFLAGS = $(OFI_CPPFLAGS)
tests_ofi_test_info_LDADD = $(OFI_LDADD)
tests_ofi_test_endpoint_SOURCES = tests/ofi/test_endpoint.c tests/ofi/side.c tests/ofi/side.h
tests_ofi_test_endpoint_CPPFLAGS = $(OFI_CPPFLAGS)
tests_ofi_test_endpoint_LDADD = $(OFI_LDADD)
tests_ofi_test_flow_SOURCES = tests/ofi/test_flow.c tests/ofi/side.c tests/ofi/side.h
tests_ofi_test_flow_CPPFLAGS = $(OFI_CPPFLAGS)
tests_ofi_test_flow_LDADD = $(OFI_LDADD)
tests_ofi_test_parts_SOURCES = tests/ofi/test_parts.c tests/ofi/side.c tests/ofi/side.h
tests_ofi_test_parts_CPPFLAGS = $(OFI_CPPFLAGS)
tests_ofi_test_parts_LDADD = $(OFI_LDADD)
tests_ofi_test_peer_SOURCES = tests/ofi/test_peer.c tests/ofi/side.c tests/ofi/side.h
tests_ofi_test_peer_CPPFLAGS = $(OFI_CPPFLAGS)
tests_ofi_test_peer_LDADD = $(OFI_LDADD)
tests_ofi_test_queues_SOURCES = tests/ofi/test_queues.c tests/ofi/side.c tests/ofi/side.h
tests_ofi_test_queues_CPPFLAGS = $(OFI_CPPFLAGS)
tests_ofi_test_queues_LDADD = $(OFI_LDADD)
tests_ofi_test_random_SOURCES = tests/ofi/test_random.c tests/ofi/model.c tests/ofi/model.h \
	tests/ofi/side.c tests/ofi/side.h
tests_ofi_test_random_CPPFLAGS = $(OFI_CPPFLAGS)
tests_ofi_test_random_LDADD = $(OFI_LDADD)
tests_ofi_test_random_ends_SOURCES = tests/ofi/test_random_ends.c tests/ofi/side.c tests/ofi/side.h
tests_ofi_test_random_ends_CPPFLAGS = $(OFI_CPPFLAGS)
tests_ofi_test_random_ends_LDADD = $(OFI_LDADD)
tests_ofi_test_restart_SOURCES = tests/ofi/test_restart.c tests/ofi/side.c tests/ofi/side.h
tests_ofi_test_restart_CPPFLAGS = $(OFI_CPPFLAGS)
tests_ofi_test_restart_LDADD = $(OFI_LDADD)
tests_ofi_test_send_SOURCES = tests/ofi/test_send.c tests/ofi/side.c tests/ofi/side.h
tests_ofi_test_send_CPPFLAGS = $(OFI_CPPFLAGS)
tests_ofi_test_send_LDADD = $(OFI_LDADD) libripc.la
endif
