# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += src/auth/key.c src/auth/key.h src/auth/handshake.c \
	src/auth/handshake.h
