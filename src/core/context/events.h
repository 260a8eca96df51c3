/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The calls from core/progress, core/peer and core/memory to the layers above them. */
#ifndef RIPC_CORE_CONTEXT_EVENTS_H
#define RIPC_CORE_CONTEXT_EVENTS_H

#include "core/memory/ops.h"
#include "core/peer/ops.h"
#include "core/progress/context.h"

extern const struct ripc__progress_ops ripc__progress_ops;
extern const struct ripc__peer_ops ripc__peer_ops;
extern const struct ripc__memory_ops ripc__memory_ops;

#endif
