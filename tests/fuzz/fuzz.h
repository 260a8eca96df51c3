/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The interface of a fuzz target, called by libFuzzer or by the replay of the corpus (replay.c). */
#ifndef RIPC_TESTS_FUZZ_H
#define RIPC_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/*
 * Runs one input. Keeps no state from one input to the next, waits for nothing, reads no clock; an
 * invariant that does not hold ends the process with abort(). Return: 0.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
