/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef RIPC_CORE_CONTEXT_CONTEXT_H
#define RIPC_CORE_CONTEXT_CONTEXT_H

#include "core/progress/context.h"

/*
 * The context of a public call: *ctx, or for NULL the default one, which is opened if necessary.
 * Return: 0; -ESHUTDOWN: it has ended; -EOWNERDEAD: in a forked child; or an error of ripc_open().
 */
int ripc__context(struct ripc **ctx);
/* The same, and begins the call. Return: 0: lock held; or an error, also of ripc__check_open(). */
int ripc__context_enter(struct ripc **ctx);

#endif
