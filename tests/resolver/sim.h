/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The resolver's back end on a simulated network: env->sim is a struct ripc__sim. */
#ifndef RIPC_TESTS_RESOLVER_SIM_H
#define RIPC_TESTS_RESOLVER_SIM_H

#include "resolver/backend.h"

extern const struct ripc__backend_ops ripc__backend_sim;

#endif
