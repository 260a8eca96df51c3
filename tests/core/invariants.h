/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Rules for the counters of a context while no call is on it, and for the messages that it sends.
 * The rig checks both in every test (rig.h).
 */
#ifndef RIPC_TESTS_CORE_INVARIANTS_H
#define RIPC_TESTS_CORE_INVARIANTS_H

#include "core/progress/context.h"

/* Each counter of the context is the number, or the bytes, of what it counts. */
void check_counters(struct ripc *ctx);
/* A message of a context: its receiver can decode it, and fields without a meaning are 0. */
void check_sent(const uint8_t *data, size_t len);

#endif
