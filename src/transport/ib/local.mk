# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += \
	src/transport/ib/address.c src/transport/ib/address.h \
	src/transport/ib/window.c src/transport/ib/window.h \
	src/transport/ib/wireup.c src/transport/ib/wireup.h
if HAVE_VERBS
libripc_internal_la_SOURCES += \
	src/transport/ib/datagram.c src/transport/ib/endpoint.c src/transport/ib/ib.c src/transport/ib/ib.h src/transport/ib/mcast.c \
	src/transport/ib/port.c src/transport/ib/remote.c src/transport/ib/pair.c src/transport/ib/setup.c src/transport/ib/trouble.c src/transport/ib/unreliable.c \
	src/transport/ib/worker.c src/transport/ib/worker.h
endif
