# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += src/wire/address.h src/wire/bytes.h src/wire/elided.c \
	src/wire/elided.h src/wire/header.c \
	src/wire/header.h src/wire/hello.c src/wire/hello.h src/wire/immediate.c \
	src/wire/immediate.h src/wire/record.c src/wire/record.h
