# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += \
	src/transport/window/address.c src/transport/window/address.h src/transport/window/backend.h \
	src/transport/window/endpoint.c \
	src/transport/window/engine.h src/transport/window/engine_plain.h \
	src/transport/window/engine_priv.h \
	src/transport/window/engine_rx.c src/transport/window/engine_tx.c \
	src/transport/window/intake.c src/transport/window/intake.h \
	src/transport/window/handover.c \
	src/transport/window/link.c src/transport/window/link.h \
	src/transport/window/listen.c \
	src/transport/window/pcie.c src/transport/window/pcie.h src/transport/window/pcie_device.c \
	src/transport/window/pcie_device.h src/transport/window/pcie_doorbell.c \
	src/transport/window/pcie_doorbell.h src/transport/window/pcie_endpoint.c \
	src/transport/window/pcie_memory.c src/transport/window/pcie_memory.h \
	src/transport/window/pcie_setup.c \
	src/transport/window/region.c src/transport/window/region.h \
	src/transport/window/segment.c src/transport/window/segment.h src/transport/window/setup.c \
	src/transport/window/shm.c src/transport/window/shm.h
