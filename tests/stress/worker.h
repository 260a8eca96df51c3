/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A process of the run: its threads, and what must be left of them at its end. */
#ifndef RIPC_TESTS_STRESS_WORKER_H
#define RIPC_TESTS_STRESS_WORKER_H

#include <stdint.h>

#define WORKER_THREADS 3

/* Runs in a child, in this place of the board, until PHASE_CLOSE. Return: the exit code. */
int worker_main(unsigned process, uint64_t seed);

#endif
