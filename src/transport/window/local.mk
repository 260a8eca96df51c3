# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += \
	src/transport/window/backend.h \
	src/transport/window/engine.h src/transport/window/engine_priv.h \
	src/transport/window/engine_rx.c src/transport/window/engine_tx.c \
	src/transport/window/link.c src/transport/window/link.h \
	src/transport/window/region.c src/transport/window/region.h
