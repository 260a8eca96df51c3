# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += src/transport/ring/backend.h src/transport/ring/delivery.c \
	src/transport/ring/delivery.h src/transport/ring/engine.h src/transport/ring/engine_private.h \
	src/transport/ring/engine_rx.c src/transport/ring/engine_tx.c src/transport/ring/fast_path.h \
	src/transport/ring/region.c src/transport/ring/region.h src/transport/ring/sim_link.c \
	src/transport/ring/sim_link.h
