# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += src/resolver/holder.c src/resolver/holder.h
libripc_internal_la_SOURCES += src/resolver/backend.h src/resolver/backends.c \
	src/resolver/backends.h src/resolver/cache.c src/resolver/file.c src/resolver/udp.h \
	src/resolver/host_list.c src/resolver/host_list.h \
	src/resolver/cache.h src/resolver/claim.c \
	src/resolver/core.c src/resolver/core.h src/resolver/ensemble.h \
	src/resolver/ensemble_call.h src/resolver/ensemble_hosts.h src/resolver/internal.h \
	src/resolver/list.c src/resolver/listing.c \
	src/resolver/listing.h src/resolver/local.c src/resolver/lookup.c \
	src/resolver/pending.h src/resolver/report.c src/resolver/report.h src/resolver/resolver.c \
	src/resolver/state.c src/resolver/state.h \
	src/resolver/timers.c src/resolver/timers.h src/resolver/udp.c src/resolver/zookeeper.h
if HAVE_ZOOKEEPER
libripc_internal_la_SOURCES += src/resolver/ensemble.c src/resolver/ensemble_call.c \
	src/resolver/ensemble_hosts.c src/resolver/zookeeper.c \
	src/resolver/zookeeper_held.c
endif
