# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += include/ripc.h src/core/clock.h src/core/log.c src/core/log.h \
	src/core/options.c src/core/options.h src/transport/transport.h src/resolver/resolver.h
