# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += src/base/addr_changes.c \
	src/base/addr_changes.h \
	src/base/admission.c \
	src/base/admission.h \
	src/base/clock.h \
	src/base/copy.c \
	src/base/copy.h \
	src/base/file.c \
	src/base/file.h \
	src/base/hash.c \
	src/base/hash.h \
	src/base/host.c \
	src/base/host.h src/base/iov.h \
	src/base/list.h \
	src/base/log.c \
	src/base/log.h \
	src/base/mappings.c \
	src/base/mappings.h \
	src/base/memory_limit.c \
	src/base/memory_limit.h \
	src/base/name.c \
	src/base/name.h \
	src/base/options.c \
	src/base/options.h \
	src/base/output.c \
	src/base/output.h \
	src/base/resolver_chain.c \
	src/base/resolver_chain.h \
	src/base/slab.c \
	src/base/slab.h \
	src/base/table.c \
	src/base/table.h \
	src/base/text.c \
	src/base/text.h \
	src/base/thread.h
