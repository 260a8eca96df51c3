# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += src/transport/ring/backend.h src/transport/ring/endpoint.c \
	src/transport/ring/endpoint.h src/transport/ring/fast_path.h \
	src/transport/ring/progress.c src/transport/ring/region.c src/transport/ring/region.h \
	src/transport/ring/bulk.c src/transport/ring/distance.c src/transport/ring/ring.h \
	src/transport/ring/rx.c src/transport/ring/tx.c
