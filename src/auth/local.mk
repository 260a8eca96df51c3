# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += src/auth/secret.c src/auth/secret.h
