/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations that send nothing: watches, routes, counters and completions. */
#ifndef RIPC_TESTS_STRESS_OBSERVE_H
#define RIPC_TESTS_STRESS_OBSERVE_H

#include "objects.h"

/* One of them. */
void observe(struct service *s);
/* Counters that show that a process of the run has violated the protocol. */
void observe_counters(struct context *c);

#endif
