/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The cluster's keys and their uses: sealed resolver messages, signed records, lane handshakes
 * (auth/handshake.h) and queue keys. Threat model: doc/security.md; formats: doc/protocol.md.
 * Called under the context's lock; only reading the file may block.
 */
#ifndef RIPC_AUTH_KEY_H
#define RIPC_AUTH_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIPC__KEYS_MAX        2  /* valid at once; the first one seals own messages */
#define RIPC__KEY_ID          8  /* bytes of a key's id */
#define RIPC__MAC             32 /* bytes of a message authentication code (keyed BLAKE2b) */
#define RIPC__SEAL_MAGIC      0x53504952u /* "RIPS", first bytes of a sealed message */
#define RIPC__SEAL_HEAD       48          /* bytes of a sealed message before its content */
#define RIPC__SEAL_BYTES      (RIPC__SEAL_HEAD + RIPC__MAC)
#define RIPC__SIGNATURE_BYTES (RIPC__KEY_ID + RIPC__MAC) /* after a signed record */
/* clock difference between hosts plus delay of a message, at most */
#define RIPC__CLOCK_SKEW_MS 30000
#define RIPC__NONCE         16
#define RIPC__NONCES_MAX    4096 /* lane requests remembered */

struct ripc__auth;

/* The purpose of a code: each has its own derived key. */
enum ripc__purpose { RIPC__KEY_MESSAGE, RIPC__KEY_RECORD, RIPC__KEY_LANE, RIPC__KEY_PURPOSES };

struct ripc__auth_counts {
	uint64_t unauthenticated; /* messages and handshakes without a known key, or forged */
	/* sealed with a known key, but too old, or the clock of the sender is wrong */
	uint64_t late;
	uint64_t replayed; /* sealed with a known key, and received before: duplicates or replays */
};

/*
 * Reads a file of one or two lines of 64 hexadecimal digits. @instance: the own id. Return: 0, or a
 * negative errno, explained with ripc__fail(): -EACCES: other users can read the file; -EINVAL: it
 * is not a key file, or this build has no libsodium; ...
 */
int ripc__auth_open(struct ripc__auth **a, const char *path, const uint8_t instance[16]);
void ripc__auth_close(struct ripc__auth *a);

/*
 * Reloads a changed file, with one check per second at most. Keeps the keys if it cannot be used.
 */
void ripc__auth_reload(struct ripc__auth *a, uint64_t now_ns);

/* Seals a message. Return: its bytes at out, or -EMSGSIZE if they are more than @cap. */
int ripc__auth_seal(struct ripc__auth *a, const uint8_t *in, size_t len, uint8_t *out, size_t cap);

/*
 * Unseals a message; *data points into the buffer. An own one may be a replay, of any age: the
 * caller does not act on it, see ripc__auth_is_own(). Return: its length; -EKEYREJECTED, -ETIME
 * (late), -EALREADY (received before), counted, with *why a constant string.
 */
int ripc__auth_unseal(struct ripc__auth *a, const uint8_t *buf, size_t len, const uint8_t **data,
		      const char **why);

/* Whether a message that was unsealed is one of this context. */
bool ripc__auth_is_own(const struct ripc__auth *a, const uint8_t *buf);

/* Appends a signature without a time to a record. Return: bytes in all, or -EMSGSIZE. */
int ripc__auth_sign(const struct ripc__auth *a, uint8_t *record, size_t len, size_t cap);

/* Return: the bytes of the record before a valid signature, or -EKEYREJECTED, counted. */
int ripc__auth_verify(struct ripc__auth *a, const uint8_t *record, size_t len);

/* The id of the key used for our messages, RIPC__KEY_ID bytes. */
const uint8_t *ripc__auth_key_id(const struct ripc__auth *a);

/* A code over bytes with the key of this id. Return: 0, or -ENOKEY. */
int ripc__auth_mac(const struct ripc__auth *a, const uint8_t id[RIPC__KEY_ID],
		   enum ripc__purpose purpose, const void *bytes, size_t len,
		   uint8_t mac[RIPC__MAC]);

/* Whether two codes are equal, in constant time. */
bool ripc__mac_equal(const uint8_t a[RIPC__MAC], const uint8_t b[RIPC__MAC]);

/*
 * Whether the nonce of an authenticated lane request is new, against replays. Remembers the latest
 * RIPC__NONCES_MAX and counts repeated ones.
 */
bool ripc__auth_nonce_is_new(struct ripc__auth *a, const uint8_t nonce[RIPC__NONCE]);

/* Counts an unauthenticated message or handshake. */
void ripc__auth_count_unauth(struct ripc__auth *a);

void ripc__auth_counts(const struct ripc__auth *a, struct ripc__auth_counts *counts);

/* Describes the keys by their ids and the rejected messages, in one sentence. */
void ripc__auth_describe(const struct ripc__auth *a, char *text, size_t len);

#endif
