# SPDX-License-Identifier: LGPL-2.1-or-later
if HAVE_VERBS
libripc_internal_la_SOURCES +=  src/transport/rdma/device.c src/transport/rdma/device.h  \
	src/transport/rdma/jobs.c src/transport/rdma/jobs.h \
	src/transport/rdma/pool.c src/transport/rdma/pool.h  src/transport/rdma/queue.c \
	src/transport/rdma/queue.h  src/transport/rdma/region.c src/transport/rdma/region.h
endif
