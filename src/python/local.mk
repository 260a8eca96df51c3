# SPDX-License-Identifier: LGPL-2.1-or-later
# The package ripc for Python: modules, and an extension module that cffi writes. It uses only the
# public interface of libripc.
PYTHON_MODULES = src/python/ripc/__init__.py src/python/ripc/_aio.py src/python/ripc/_context.py \
	src/python/ripc/_errors.py src/python/ripc/_items.py src/python/ripc/_log.py \
	src/python/ripc/_memory.py src/python/ripc/_message.py src/python/ripc/_request.py \
	src/python/ripc/_service.py src/python/ripc/_wait.py src/python/ripc/py.typed
EXTRA_DIST += $(PYTHON_MODULES) src/python/build.py src/python/glue.c src/python/glue.h
if HAVE_PYTHON
ripcpydir = $(pyexecdir)/ripc
ripcpy_DATA = $(PYTHON_MODULES)
ripcpy_LTLIBRARIES = src/python/_ripc.la
src_python__ripc_la_SOURCES = src/python/glue.c src/python/glue.h
nodist_src_python__ripc_la_SOURCES = src/python/_ripc.c
src_python__ripc_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/src/python $(PYTHON_CPPFLAGS)
# cffi declares no prototype of the module's entry, and Python exports it itself.
src_python__ripc_la_CFLAGS = $(AM_CFLAGS) -Wno-missing-prototypes
src_python__ripc_la_LIBADD = libripc.la
src_python__ripc_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-export-symbols-regex '^PyInit__ripc$$'
# The makefile: another Python may have another directory.
src_python__ripc_la_DEPENDENCIES = libripc.la Makefile
src/python/_ripc.c: src/python/build.py src/python/glue.h include/ripc.h
	$(AM_V_GEN)$(MKDIR_P) src/python && $(PYTHON) -B $(srcdir)/src/python/build.py \
		$(srcdir)/include/ripc.h $(srcdir)/src/python/glue.h $@
CLEANFILES += src/python/_ripc.c
endif
