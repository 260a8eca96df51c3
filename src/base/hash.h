/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A keyed hash: without the key its values cannot be predicted. */
#ifndef RIPC_BASE_HASH_H
#define RIPC_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* SipHash-2-4 of one 64-bit number (Aumasson, Bernstein: SipHash, 2012). */
uint64_t ripc__siphash(const uint64_t key[2], uint64_t number);

/* The same of @len bytes, in the byte order of the paper: equal on every machine. */
uint64_t ripc__siphash_bytes(const uint64_t key[2], const void *bytes, size_t len);

#endif
