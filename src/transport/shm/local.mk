# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += src/transport/shm/address.c src/transport/shm/address.h \
	src/transport/shm/doorbell.c src/transport/shm/listen.c \
	src/transport/shm/packet.c src/transport/shm/segment.c src/transport/shm/segment.h \
	src/transport/shm/setup.c src/transport/shm/shm.c src/transport/shm/shm.h
