# SPDX-License-Identifier: LGPL-2.1-or-later
libtests_la_SOURCES += tests/flood.h tests/transport/iwarp/soft/bad_fpdu.c \
	tests/transport/iwarp/soft/bad_fpdu.h tests/transport/iwarp/soft/engine_pair.h \
	tests/transport/iwarp/soft/engine_transfer.h tests/transport/transfer.h \
	tests/transport/iwarp/soft/soft_pair.c tests/transport/iwarp/soft/soft_pair.h
# Its a and b are engines, those of soft_pair.c are contexts.
ENGINE_LINK = tests/transport/iwarp/soft/engine_link.c tests/transport/iwarp/soft/engine_link.h

check_PROGRAMS += tests/transport/iwarp/test_address
check_PROGRAMS += tests/transport/iwarp/soft/test_crc32c
check_PROGRAMS += tests/transport/iwarp/soft/test_ep_state
check_PROGRAMS += tests/transport/iwarp/soft/test_mpa
check_PROGRAMS += tests/transport/iwarp/soft/test_region
check_PROGRAMS += tests/transport/iwarp/soft/test_engine
tests_transport_iwarp_soft_test_engine_SOURCES = \
	tests/transport/iwarp/soft/test_engine.c $(ENGINE_LINK)
check_PROGRAMS += tests/transport/iwarp/soft/test_engine_memory
tests_transport_iwarp_soft_test_engine_memory_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc,--wrap=calloc
check_PROGRAMS += tests/transport/iwarp/soft/test_engine_rx
check_PROGRAMS += tests/transport/iwarp/soft/test_engine_rx_bad
check_PROGRAMS += tests/transport/iwarp/soft/test_engine_tx
tests_transport_iwarp_soft_test_engine_tx_SOURCES = \
	tests/transport/iwarp/soft/test_engine_tx.c $(ENGINE_LINK)
check_PROGRAMS += tests/transport/iwarp/soft/test_rx_expect
tests_transport_iwarp_soft_test_rx_expect_SOURCES = \
	tests/transport/iwarp/soft/test_rx_expect.c $(ENGINE_LINK)
check_PROGRAMS += tests/transport/iwarp/soft/test_soft
check_PROGRAMS += tests/transport/iwarp/soft/test_starved
tests_transport_iwarp_soft_test_starved_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc,--wrap=aligned_alloc
check_PROGRAMS += tests/transport/iwarp/soft/test_connect
check_PROGRAMS += tests/transport/iwarp/soft/test_transfer
check_PROGRAMS += tests/transport/iwarp/soft/test_partial
tests_transport_iwarp_soft_test_partial_SOURCES = tests/transport/iwarp/soft/test_partial.c \
	tests/transport/iwarp/soft/partial_socket.c tests/transport/iwarp/soft/partial_socket.h

noinst_PROGRAMS += tests/transport/iwarp/soft/session
tests_transport_iwarp_soft_session_LDADD = libripc_internal.la
dist_check_SCRIPTS += tests/transport/iwarp/soft/test_tshark.sh

check_PROGRAMS += tests/transport/iwarp/soft/test_mcast
tests_transport_iwarp_soft_test_mcast_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sendmsg
check_PROGRAMS += tests/transport/iwarp/soft/test_readdress
check_PROGRAMS += tests/transport/iwarp/soft/test_flood
