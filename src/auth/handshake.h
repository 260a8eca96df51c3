/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The authenticated handshake of a lane, in three steps. The connecting side sends its hello, a
 * nonce and a code. The accepting side answers with its hello, a nonce and a code over both. The
 * connecting side confirms with a code over both, in its first message on the lane. Each side
 * trusts the other only after a proof of the key over a fresh nonce. Pure: the caller supplies the
 * nonces.
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

/* Both hellos. */
struct ripc__handshake {
	uint8_t request[RIPC__HANDSHAKE_PART]; /* by the connecting side */
	uint8_t reply[RIPC__HANDSHAKE_PART];   /* by the accepting side */
};

/* The nonce of the connecting side, new for each attempt. */
static inline const uint8_t *ripc__handshake_nonce(const struct ripc__handshake *s)
{
	return s->request + RIPC__HELLO_LEN + RIPC__KEY_ID;
}

/* Step 1: @buf (RIPC__HANDSHAKE_LEN) has the hello in front. */
void ripc__handshake_request(const struct ripc__auth *a, struct ripc__handshake *s,
			     const uint8_t nonce[RIPC__NONCE], uint8_t *buf);

/* Checks a request. Return: whether its sender has a key. No side effects. */
bool ripc__handshake_check_request(const struct ripc__auth *a, struct ripc__handshake *s,
				   const uint8_t *buf, size_t len);

/* Step 2, acceptance or refusal: @buf (RIPC__HANDSHAKE_LEN) has the hello in front. */
void ripc__handshake_reply(const struct ripc__auth *a, struct ripc__handshake *s,
			   const uint8_t nonce[RIPC__NONCE], uint8_t *buf);

/* Checks a reply. Return: whether its sender has the key and answers this request. */
bool ripc__handshake_check_reply(const struct ripc__auth *a, struct ripc__handshake *s,
				 const uint8_t *buf, size_t len);

/* Step 3. Return: whether the key is still loaded. */
bool ripc__handshake_confirm(const struct ripc__auth *a, const struct ripc__handshake *s,
			     uint8_t buf[RIPC__CONFIRM_LEN]);

/* Checks a confirmation. Return: whether it belongs to this handshake. */
bool ripc__handshake_check_confirm(const struct ripc__auth *a, const struct ripc__handshake *s,
				   const uint8_t *buf, size_t len);

#endif
