/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The progress thread of a context: it leads while no application thread is in the library, ticks
 * while one is, and sleeps while that thread sleeps for long. States: core/progress/state.h.
 */
#ifndef RIPC_CORE_PROGRESS_PROGRESS_THREAD_H
#define RIPC_CORE_PROGRESS_PROGRESS_THREAD_H

struct ripc;

/* The descriptors are open. Return: 0 or an error, explained. */
int ripc__progress_thread_start(struct ripc *ctx);

/* Ends it and waits for its end. Lock not held. No-op if it was not started. */
void ripc__progress_thread_stop(struct ripc *ctx);

#endif
