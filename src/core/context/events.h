/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The calls from core/progress to the layers above it: struct ripc__progress_ops. */
#ifndef RIPC_CORE_CONTEXT_EVENTS_H
#define RIPC_CORE_CONTEXT_EVENTS_H

#include "core/progress/context.h"

extern const struct ripc__progress_ops ripc__progress_ops;

#endif
