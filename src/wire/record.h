/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Resolver records and the resolver messages that carry them: encode and decode, nothing else.
 * The format is drawn bit by bit in doc/protocol.md.
 */
#ifndef RIPC_WIRE_RECORD_H
#define RIPC_WIRE_RECORD_H

#include "base/name.h"
#include "wire/address.h"
#include "wire/bytes.h"

#include <stddef.h>

#define RIPC__RECORD_ADDRS_MAX 5    /* transports with an address in one record */
#define RIPC__RESOLVER_MSG_MAX 1400 /* bytes of one resolver message at most */
/* the same without the seal of auth/key.h, RIPC__SEAL_BYTES */
#define RIPC__RESOLVER_UNSEALED_MAX 1320
#define RIPC__RESOLVER_MSG_FIXED    81 /* bytes of a message without addresses and name */

/* The location of one service. Copied by assignment. */
struct ripc__record {
	uint64_t service;
	uint8_t instance[16]; /* the context that holds it */
	uint8_t host[16];     /* host of the context (boot and network namespace); zeros: unknown */
	uint64_t generation;  /* grows when a service moves; the higher one wins */
	uint32_t ttl_ms;      /* lifetime of the record in a cache */
	uint32_t since_ms;    /* age of the registration: of two holders the older one wins */
	uint8_t name_len;     /* bytes of name; 0: it was registered by its id alone */
	char name[RIPC__NAME_MAX + 1]; /* terminated, and zeros behind it */
	unsigned naddrs;               /* 0 .. RIPC__RECORD_ADDRS_MAX */
	struct ripc__record_addr {
		uint8_t transport; /* id of the transport */
		uint16_t len;      /* bytes */
		uint8_t addr[RIPC__ADDRESS_MAX];
	} addrs[RIPC__RECORD_ADDRS_MAX];
};

/* Bytes of one encoded record at most. */
#define RIPC__RECORD_BYTES_MAX \
	(57 + RIPC__RECORD_ADDRS_MAX * (3 + RIPC__ADDRESS_MAX) + 1 + RIPC__NAME_MAX)

enum ripc__resolver_kind {
	RIPC__RESOLVE_REQUEST = 1, /* look-up; record: the asker, service 0 if it holds none */
	RIPC__RESOLVE_REPLY = 2,   /* record: the holder */
	RIPC__RESOLVE_PROBE = 3, /* announces a registration, a holder objects; record: the asker */
	RIPC__RESOLVE_GONE = 4,  /* record.instance has unregistered record.service */
	RIPC__RESOLVE_LIST = 5,  /* asks for services from @service on; record: the asker */
	RIPC__RESOLVE_LISTED = 6, /* a page of them; record: their holder */
};

#define RIPC__RESOLVE_VERDICT 1 /* flag of a REPLY: the receiver must give the service up */
#define RIPC__RESOLVE_MORE    2 /* flag of a LISTED: its holder has services with greater ids */

struct ripc__resolver_msg {
	enum ripc__resolver_kind kind;
	uint8_t flags;    /* RIPC__RESOLVE_VERDICT, RIPC__RESOLVE_MORE or 0 */
	uint64_t service; /* the service of the request; LIST, LISTED: the smallest id asked for */
	/*
	 * chosen by the asker, not 0, repeated in the reply; of a REPLY in a dispute: see
	 * ripc__dispute_nonce(); 0: not a reply to a request
	 */
	uint64_t nonce;
	struct ripc__record record;
	/* LISTED: the services, each by ripc__listed_encode(), with rising ids; not owned */
	const uint8_t *listed;
	size_t listed_len; /* bytes */
};

/* Bytes of one service of a LISTED at most. */
#define RIPC__LISTED_FIXED     21 /* without its name */
#define RIPC__LISTED_BYTES_MAX (RIPC__LISTED_FIXED + RIPC__NAME_MAX)

/*
 * Encodes one service of a LISTED: service, generation, age and name. Return: bytes written, or
 * -EMSGSIZE if they exceed cap.
 */
int ripc__listed_encode(const struct ripc__record *record, uint8_t *buf, size_t cap);

/*
 * Decodes the first service of @len > 0 bytes into these members; the others stay. Return: its
 * bytes, or -EPROTO with *why.
 */
int ripc__listed_decode(struct ripc__record *to, const uint8_t *buf, size_t len, const char **why);

/* Return: bytes written, or -EMSGSIZE if they exceed cap. */
int ripc__resolver_msg_encode(const struct ripc__resolver_msg *msg, uint8_t *buf, size_t cap);

/*
 * Validates everything. Return: 0, or -EPROTO / -EPROTONOSUPPORT (another version) with *why a
 * constant string.
 */
int ripc__resolver_msg_decode(struct ripc__resolver_msg *msg, const uint8_t *buf, size_t len,
			      const char **why);

/* Encodes a record alone. Return: bytes written, or -EMSGSIZE. */
int ripc__record_encode(const struct ripc__record *record, uint8_t *buf, size_t cap);

/*
 * Validates everything; all @len bytes must be one record. Return: 0, or -EPROTO with *why a
 * constant string.
 */
int ripc__record_decode(struct ripc__record *r, const uint8_t *buf, size_t len, const char **why);

/* Members of a valid encoded record. */
static inline const uint8_t *ripc__encoded_instance(const uint8_t *record)
{
	return record + 8;
}

static inline uint64_t ripc__encoded_generation(const uint8_t *record)
{
	return ripc__get_le64(record + 40);
}

#endif
