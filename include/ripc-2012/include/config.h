/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Serves programs of 2012 that include "config.h" and have lost theirs: what it said about the system. */
#ifndef RIPC_2012_CONFIG_H
#define RIPC_2012_CONFIG_H

#define HAVE_STDBOOL_H 1
#define HAVE__BOOL     1

#endif
