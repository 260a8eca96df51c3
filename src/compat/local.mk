# SPDX-License-Identifier: LGPL-2.1-or-later
# The interface of 2012, a separate library that uses only the public interface of libripc:
# ripc_compat(7).
include_HEADERS += include/ripc_compat.h
ripc2012dir = $(includedir)/ripc-2012
ripc2012srcdir = $(ripc2012dir)/src
ripc2012src_HEADERS = include/ripc-2012/src/ripc.h
ripc2012incdir = $(ripc2012dir)/include
ripc2012inc_HEADERS = include/ripc-2012/include/config.h
pkgconfig_DATA += ripc-compat.pc

lib_LTLIBRARIES += libripc-compat.la
libripc_compat_la_SOURCES = include/ripc_compat.h src/compat/lengths.h src/compat/memory.c \
	src/compat/memory.h src/compat/message.c src/compat/report.c src/compat/report.h \
	src/compat/services.c src/compat/services.h
libripc_compat_la_LIBADD = libripc.la
libripc_compat_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 -no-undefined \
	-Wl,--version-script=$(top_srcdir)/src/compat/libripc-compat.map
libripc_compat_la_DEPENDENCIES = libripc.la src/compat/libripc-compat.map
EXTRA_DIST += src/compat/libripc-compat.map

dist_man_MANS += doc/man/ripc_compat.7
