/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The cluster's key, and what is made of it: sealed resolver messages, protected records, lane handshakes (auth/handshake.h)
 * and queue keys. What is protected against whom is said in doc/security.md, the formats in doc/protocol.md.
 *
 * All of it is driven under the context's lock and nothing waits but for the file.
 */
#ifndef RIPC_AUTH_KEY_H
#define RIPC_AUTH_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIPC__KEYS_MAX        2  /* valid at once; the first one is used for what we say */
#define RIPC__KEY_ID          8  /* bytes that tell which key was used */
#define RIPC__MAC             32 /* bytes of a message authentication code (keyed BLAKE2b) */
#define RIPC__SEAL_MAGIC      0x53504952u /* "RIPS", in front of a sealed message */
#define RIPC__SEAL_HEAD       48 /* bytes of a sealed message in front of what it carries */
#define RIPC__SEAL_BYTES      (RIPC__SEAL_HEAD + RIPC__MAC)
#define RIPC__SIGNATURE_BYTES (RIPC__KEY_ID + RIPC__MAC) /* behind a protected record */
#define RIPC__CLOCK_SKEW_MS \
	30000 /* by which the clocks of two hosts may differ, and a message may be late */
#define RIPC__NONCE      16
#define RIPC__NONCES_MAX 4096 /* requests for lanes that are remembered */

struct ripc__auth;

/* What a code is made for: each has a key of its own. */
enum ripc__purpose {
	RIPC__KEY_MESSAGE,
	RIPC__KEY_RECORD,
	RIPC__KEY_LANE,
	RIPC__KEY_QUEUE,
	RIPC__KEY_PURPOSES
};

struct ripc__auth_counts {
	uint64_t unauthenticated; /* messages and handshakes without a key of ours, or forged */
	uint64_t late; /* sealed with a key of ours, but too long ago, or by a clock that is wrong */
	uint64_t replayed; /* sealed with a key of ours, and seen before: the network's doubles, or replays */
};

/*
 * Reads the file: one or two lines of 64 hexadecimal digits. @instance: ours. Return: 0, or a negative errno, explained
 * with ripc__fail(): -EACCES others can read it, -EINVAL not such a file, or this build has no libsodium; ...
 */
int ripc__auth_open(struct ripc__auth **a, const char *path, const uint8_t instance[16]);
void ripc__auth_close(struct ripc__auth *a);

/* Looks, once a second at most, whether the file has changed, and takes its keys; those at hand stay if it cannot be used. */
void ripc__auth_reload(struct ripc__auth *a, uint64_t now_ns);

/* Wraps a message. Return: its bytes at out, or -EMSGSIZE if they are more than @cap. */
int ripc__auth_seal(struct ripc__auth *a, const uint8_t *data, size_t len, uint8_t *out, size_t cap);

/*
 * Unwraps one: *data points into the buffer. Return: its length; -EKEYREJECTED, -ETIME (late), -EALREADY (seen before),
 * with *why a constant string. Counted.
 */
int ripc__auth_unseal(struct ripc__auth *a, const uint8_t *buf, size_t len, const uint8_t **data,
		      const char **why);

/* Puts a code behind a record that is to be kept: it has no age. Return: bytes in all, or -EMSGSIZE. */
int ripc__auth_sign(const struct ripc__auth *a, uint8_t *record, size_t len, size_t cap);

/* Return: the bytes of the record in front of a good code, or -EKEYREJECTED. Counted. */
int ripc__auth_verify(struct ripc__auth *a, const uint8_t *record, size_t len);

/* The id of the key used for what we say, RIPC__KEY_ID bytes. */
const uint8_t *ripc__auth_key_id(const struct ripc__auth *a);

/* A code over two pieces with the key of this id. Return: 0, or -ENOKEY. */
int ripc__auth_mac(const struct ripc__auth *a, const uint8_t id[RIPC__KEY_ID],
		   enum ripc__purpose purpose, const void *one, size_t onelen, const void *two,
		   size_t twolen, uint8_t mac[RIPC__MAC]);

/* Whether two codes are equal, in constant time. */
bool ripc__mac_equal(const uint8_t a[RIPC__MAC], const uint8_t b[RIPC__MAC]);

/*
 * Whether the nonce of a proved request for a lane is new: the latest RIPC__NONCES_MAX are remembered,
 * so that a recording is good for nothing. A request that is not new is counted.
 */
bool ripc__auth_nonce_is_new(struct ripc__auth *a, const uint8_t nonce[RIPC__NONCE]);

/* Counts a stranger met elsewhere. */
void ripc__auth_count_unauth(struct ripc__auth *a);

/*
 * A queue key (Q_Key) for datagrams to the context with this instance id, which those without the key cannot guess. Not of
 * the privileged half. Both sides have to use the same first key: who rotates keys tells it in its address. 0 without keys.
 */
uint32_t ripc__auth_queue_key(const struct ripc__auth *a, const uint8_t instance[16]);

void ripc__auth_counts(const struct ripc__auth *a, struct ripc__auth_counts *counts);

/* In a sentence, for people: what keys there are (by their ids) and what was refused. */
void ripc__auth_describe(const struct ripc__auth *a, char *text, size_t len);

#endif
