# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += src/transport/iwarp/address.c src/transport/iwarp/address.h \
	src/transport/iwarp/listener.c src/transport/iwarp/listener.h \
	src/transport/iwarp/udp.c src/transport/iwarp/udp.h src/transport/iwarp/udp_socket.c
libripc_internal_la_SOURCES += src/transport/iwarp/soft/crc32c.c \
	src/transport/iwarp/soft/crc32c.h src/transport/iwarp/soft/ddp.c \
	src/transport/iwarp/soft/ddp.h \
	src/transport/iwarp/soft/endpoint.c src/transport/iwarp/soft/engine.c \
	src/transport/iwarp/soft/engine.h src/transport/iwarp/soft/engine_rx.c \
	src/transport/iwarp/soft/rx_expect.c \
	src/transport/iwarp/soft/engine_tx.c src/transport/iwarp/soft/ep_state.c \
	src/transport/iwarp/soft/listener.c src/transport/iwarp/soft/mcast.c \
	src/transport/iwarp/soft/mpa.c src/transport/iwarp/soft/mpa.h \
	src/transport/iwarp/soft/region.c src/transport/iwarp/soft/region.h \
	src/transport/iwarp/soft/setup.c \
	src/transport/iwarp/soft/socket.c src/transport/iwarp/soft/soft.c \
	src/transport/iwarp/soft/soft.h src/transport/iwarp/soft/stream.c
if HAVE_VERBS
libripc_internal_la_SOURCES += src/transport/iwarp/verbs/cm.c \
	src/transport/iwarp/verbs/connection.c \
	src/transport/iwarp/verbs/device.c src/transport/iwarp/verbs/endpoint.c \
	src/transport/iwarp/verbs/state.c \
	src/transport/iwarp/verbs/verbs.c \
	src/transport/iwarp/verbs/verbs.h
endif
