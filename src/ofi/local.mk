# SPDX-License-Identifier: LGPL-2.1-or-later
# The provider for libfabric, a plug-in that uses only the public interface of libripc: ripc_ofi(7).
EXTRA_DIST += src/ofi/libripc-fi.map
if HAVE_LIBFABRIC
# libfabric loads lib*-fi.so from this directory.
fabricdir = $(libdir)/libfabric
fabric_LTLIBRARIES = libripc-fi.la
libripc_fi_la_SOURCES = src/ofi/address.c src/ofi/address.h src/ofi/av.c src/ofi/av.h \
	src/ofi/cntr.c src/ofi/cntr.h src/ofi/cq.c src/ofi/cq.h src/ofi/endpoint.c \
	src/ofi/endpoint.h src/ofi/eq.c src/ofi/fabric.c src/ofi/fabric.h \
	src/ofi/grant.c src/ofi/info.c src/ofi/info.h src/ofi/matching.c \
	src/ofi/matching.h src/ofi/msg.c src/ofi/peer.c src/ofi/peer.h src/ofi/provider.c \
	src/ofi/provider.h src/ofi/receive.c src/ofi/receive_memory.h \
	src/ofi/send.c src/ofi/wait.c src/ofi/wait.h src/ofi/wire.h
libripc_fi_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden $(LIBFABRIC_CFLAGS)
libripc_fi_la_LIBADD = libripc.la $(LIBFABRIC_LIBS)
libripc_fi_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -no-undefined \
	-Wl,--version-script=$(top_srcdir)/src/ofi/libripc-fi.map
libripc_fi_la_DEPENDENCIES = libripc.la src/ofi/libripc-fi.map
dist_man_MANS += doc/man/ripc_ofi.7
endif
