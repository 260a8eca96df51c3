# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += src/transport/sim/channel.c src/transport/sim/conn.c \
	src/transport/sim/datagram.c src/transport/sim/fault.c src/transport/sim/memory.c \
	src/transport/sim/net.c \
	src/transport/sim/net.h src/transport/sim/op.c src/transport/sim/packet.c \
	src/transport/sim/sim.c src/transport/sim/sim.h
