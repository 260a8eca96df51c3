/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Contexts on a simulated network (transport/sim/sim.h), in virtual time and one thread. For tests.
 * A context that would sleep runs all the others and the network instead.
 */
#ifndef RIPC_CORE_SIM_WORLD_H
#define RIPC_CORE_SIM_WORLD_H

#include "core/progress/hooks.h"
#include "transport/sim/sim.h"

/* The hooks for ripc__open_hooked(): virtual time, idling, random numbers. */
void ripc__sim_hooks(struct ripc__sim *net, struct ripc__hooks *hooks);
/*
 * Polls the context from now on. Call right after it was opened. Return: 0, or -ENOENT: it has no
 * sim transport.
 */
int ripc__sim_attach(struct ripc__sim *net, struct ripc *ctx);
/* Call before the context is closed. */
void ripc__sim_detach(struct ripc__sim *net, struct ripc *ctx);
/* The instance id of an attached context, or NULL. */
const uint8_t *ripc__sim_instance(struct ripc__sim *net, struct ripc *ctx);
/*
 * Kills the node of a context as ripc__sim_kill() does, and frees the context. No thread may be in
 * a call on it.
 */
void ripc__sim_kill_context(struct ripc__sim *net, struct ripc *ctx, bool silently);
/*
 * fn acts as an application: it is called after each pass, without a lock. It may call the library
 * but not wait. Return: 0, or -ENOMEM.
 */
int ripc__sim_actor(struct ripc__sim *net, void (*fn)(void *arg), void *arg);
void ripc__sim_actor_remove(struct ripc__sim *net, void (*fn)(void *arg), void *arg);
/* Runs contexts and network for this time. */
void ripc__sim_run(struct ripc__sim *net, uint64_t duration_ns);

#endif
