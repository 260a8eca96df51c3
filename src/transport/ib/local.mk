# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += src/transport/ib/address.c src/transport/ib/address.h \
	src/transport/ib/uc_retransmit.c src/transport/ib/uc_retransmit.h \
	src/transport/ib/wireup.c \
	src/transport/ib/wireup.h
if HAVE_VERBS
libripc_internal_la_SOURCES += src/transport/ib/ah_cache.c src/transport/ib/async_events.c \
	src/transport/ib/completion.c src/transport/ib/datagram.c src/transport/ib/endpoint.c \
	src/transport/ib/ep_state.c src/transport/ib/ib.c \
	src/transport/ib/ib.h src/transport/ib/mcast.c src/transport/ib/port.c \
	src/transport/ib/qp.c src/transport/ib/setup.c \
	src/transport/ib/uc.c src/transport/ib/ud_qp.c
endif
