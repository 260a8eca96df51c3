# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += src/transport/pcie/device.c src/transport/pcie/device.h \
	src/transport/pcie/doorbell.c src/transport/pcie/doorbell.h src/transport/pcie/memory.c \
	src/transport/pcie/memory.h src/transport/pcie/pcie.c \
	src/transport/pcie/pcie.h src/transport/pcie/setup.c
