/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A bounded cache of records in encoded form. It holds records of look-ups (watched) and records
 * learned from messages of others (overheard). Eviction takes overheard records first, then the
 * least recently used record.
 */
#ifndef RIPC_RESOLVER_CACHE_H
#define RIPC_RESOLVER_CACHE_H

#include "base/table.h"
#include "resolver/core.h"
#include "resolver/pending.h"
#include "resolver/timers.h"
#include "wire/record.h"

#define RIPC__CACHE_MAX           65536       /* records at most */
#define RIPC__CACHE_OVERHEARD_MAX 16384       /* of these, overheard records */
#define RIPC__CACHE_BYTES_MAX     (32u << 20) /* bytes of memory at most */
#define RIPC__CACHE_TTL_MAX_MS    3600000u    /* longer lifetimes are cut to this */
#define RIPC__CACHE_FRESHER_MS    1000u       /* so much later confirmed: fresher */

struct ripc__cached {
	struct ripc__node node;   /* id: service */
	struct ripc__timer timer; /* the next refresh or the expiry */
	struct ripc__pending pending;
	struct ripc__list lru;
	uint64_t stored_ns;  /* last confirmation */
	uint64_t expires_ns; /* end of its lifetime */
	/* registration by its holder, by our clock; 0: before our clock started */
	uint64_t since_ns;
	uint64_t nonce; /* nonce of the request that it answered; 0: overheard */
	uint8_t *bytes; /* the record, encoded */
	uint16_t len;   /* of bytes */
	/* address for a unicast request to the holder; len 0: unknown */
	struct ripc__backend_addr location;
	/* a look-up asked for it, and was not cancelled: it is refreshed, changes are reported */
	bool watched;
	/* this context held the service before: requests are answered with this record */
	bool moved;
	bool gone; /* released by its holder; kept until the event GONE is taken */
};

struct ripc__cache {
	struct ripc__table table;
	struct ripc__list watched, overheard_lru; /* most recently used at the end */
	size_t noverheard;
	size_t bytes;                /* of memory, without the table's */
	struct ripc__timers *timers; /* shared with the rest of the core */
	struct ripc__list *pendings; /* likewise */
	ripc__timer_fn *due;         /* of each entry's timer */
	ripc__pending_fn *taken;     /* of its events */
};

void ripc__cache_init(struct ripc__cache *cache, struct ripc__timers *timers, ripc__timer_fn *due,
		      struct ripc__list *pendings, ripc__pending_fn *taken, uint64_t secret);
void ripc__cache_fini(struct ripc__cache *cache);

/* The usable record of a service, or NULL. */
struct ripc__cached *ripc__cache_find(struct ripc__cache *cache, uint64_t service);

/*
 * Whether the holder of @record has confirmed it clearly later than that of the entry confirmed it:
 * it has more of its lifetime left.
 */
bool ripc__cache_fresher(const struct ripc__cached *c, const struct ripc__record *record,
			 uint64_t now_ns);

/*
 * Stores a record. A higher generation replaces a lower one, and so does an answer that is fresher:
 * the holder of the higher one has not answered. At the same generation an answer
 * replaces the entry, and an @overheard record replaces only one with an earlier registration. A
 * changed watched record is reported as RIPC__RESOLVED. Return: the entry, or NULL if the record is
 * older or memory ran out.
 */
struct ripc__cached *ripc__cache_store(struct ripc__cache *cache, const struct ripc__record *record,
				       bool overheard, uint64_t now_ns);

/* From now on the record is refreshed and its changes are reported. */
void ripc__cache_watch(struct ripc__cache *cache, struct ripc__cached *c);
/* The opposite: it stays until it expires, and no event is pending. */
void ripc__cache_unwatch(struct ripc__cache *cache, uint64_t service);

/* The holder released the service: reports RIPC__GONE for a watched record, then drops it. */
void ripc__cache_gone(struct ripc__cache *cache, struct ripc__cached *c);

/* Drops the record without an event. */
void ripc__cache_remove(struct ripc__cache *cache, struct ripc__cached *c);

/* Decodes the record; ttl_ms and since_ms are relative to @now_ns. */
void ripc__cache_record(const struct ripc__cached *c, struct ripc__record *record, uint64_t now_ns);

/* The instance id of the holder, 16 bytes. */
const uint8_t *ripc__cache_instance(const struct ripc__cached *c);

#endif
