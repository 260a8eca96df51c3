# SPDX-License-Identifier: LGPL-2.1-or-later
if HAVE_VERBS
libripc_internal_la_SOURCES += \
	src/transport/verbs/device.c src/transport/verbs/device.h \
	src/transport/verbs/pool.c src/transport/verbs/pool.h \
	src/transport/verbs/queue.c src/transport/verbs/queue.h \
	src/transport/verbs/region.c src/transport/verbs/region.h
endif
