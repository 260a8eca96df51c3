/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The descriptors on which threads of a context sleep: those of the transports and of the resolver,
 * and an eventfd that wakes the sleeper.
 */
#ifndef RIPC_CORE_PROGRESS_DESCRIPTORS_H
#define RIPC_CORE_PROGRESS_DESCRIPTORS_H

#include "core/progress/state.h"

struct ripc;

/* Creates them; transports and resolver are open. Return: 0 or an error, explained. */
int ripc__descriptors_open(struct ripc *ctx);

/* Closes those that are open. Async-signal-safe: also for a forked child. */
void ripc__descriptors_close(struct ripc *ctx);

/*
 * Masks epfd for the progress thread, or unmasks it. Lock held. Return: whether it is as asked;
 * false: epoll_ctl() failed.
 */
bool ripc__descriptors_mask(struct ripc *ctx, bool masked);

/*
 * Sleeps on epfd (of ctx->progress: epfd or thread_epfd) until a descriptor is readable or until_ns
 * (RIPC__NEVER: no limit). Lock held on entry and return, released meanwhile. The caller made the
 * transition to its state of sleep; woke (WAKE or THREAD_WAKE) is made on return, and ctx->now_ns
 * is the present time. Return: whether transports woke it, and nothing else.
 */
bool ripc__descriptors_sleep(struct ripc *ctx, int epfd, uint64_t until_ns,
			     enum ripc__progress_event woke);

#endif
