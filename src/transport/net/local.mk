# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += src/transport/net/mcast.c src/transport/net/mcast.h \
	src/transport/net/sockaddr.c src/transport/net/sockaddr.h
