/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The handshake of a lane with keys, in three steps: who connects sends its hello, a nonce and a code; who accepts or
 * refuses answers with its own hello, a nonce and a code over both; who connected confirms, in the first message on the lane, with
 * a code over both again. Neither side believes the other before it has proved to know the key in answer to a fresh nonce.
 * No I/O, no clock; the nonces come from outside.
 */
#ifndef RIPC_AUTH_HANDSHAKE_H
#define RIPC_AUTH_HANDSHAKE_H

#include "auth/key.h"
#include "wire/hello.h"

/* A hello with its proof, as private data. */
#define RIPC__HANDSHAKE_PART (RIPC__HELLO_LEN + RIPC__KEY_ID + RIPC__NONCE)
#define RIPC__HANDSHAKE_LEN  (RIPC__HANDSHAKE_PART + RIPC__MAC)
/* The confirmation. */
#define RIPC__CONFIRM_LEN (8 + RIPC__MAC)

/* What the two have said so far. */
struct ripc__handshake {
	uint8_t request[RIPC__HANDSHAKE_PART]; /* by the one that connects */
	uint8_t reply[RIPC__HANDSHAKE_PART];   /* by the other */
};

/* The nonce of the one that connects: drawn anew for each attempt. */
static inline const uint8_t *ripc__handshake_nonce(const struct ripc__handshake *s)
{
	return s->request + RIPC__HELLO_LEN + RIPC__KEY_ID;
}

/* Step 1: @buf (RIPC__HANDSHAKE_LEN) has the hello in front. */
void ripc__handshake_request(const struct ripc__auth *a, struct ripc__handshake *s,
			     const uint8_t nonce[RIPC__NONCE], uint8_t *buf);

/* The other side takes it. Return: whether it comes from one that has a key. Costs nothing but the computation. */
bool ripc__handshake_check_request(const struct ripc__auth *a, struct ripc__handshake *s,
				   const uint8_t *buf, size_t len);

/* Step 2, acceptance or refusal: @buf (RIPC__HANDSHAKE_LEN) has the hello in front. */
void ripc__handshake_reply(const struct ripc__auth *a, struct ripc__handshake *s,
			   const uint8_t nonce[RIPC__NONCE], uint8_t *buf);

/* The one that asked takes it. Return: whether it is the answer of one that has the key to this very question. */
bool ripc__handshake_check_reply(const struct ripc__auth *a, struct ripc__handshake *s,
				 const uint8_t *buf, size_t len);

/* Step 3. Return: whether the key is still at hand. */
bool ripc__handshake_confirm(const struct ripc__auth *a, const struct ripc__handshake *s,
			     uint8_t buf[RIPC__CONFIRM_LEN]);

/* The one that answered takes it. Return: whether it is the confirmation of this handshake. */
bool ripc__handshake_check_confirm(const struct ripc__auth *a, const struct ripc__handshake *s,
				   const uint8_t *buf, size_t len);

#endif
