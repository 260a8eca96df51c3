/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The records a resolver knows, in a compact form and bounded: those somebody asked for, and those merely overheard. The
 * overheard ones go first when room is needed, then the least recently used.
 */
#ifndef RIPC_RESOLVER_CACHE_H
#define RIPC_RESOLVER_CACHE_H

#include "resolver/pending.h"
#include "resolver/table.h"
#include "resolver/timers.h"
#include "wire/record.h"

#define RIPC__CACHE_MAX           65536       /* records at most */
#define RIPC__CACHE_OVERHEARD_MAX 16384       /* of these, overheard ones that nobody asked for */
#define RIPC__CACHE_BYTES_MAX     (32u << 20) /* bytes of memory at most */
#define RIPC__CACHE_TTL_MAX_MS    3600000u    /* longer lives are cut to this */

struct ripc__mcast_sender;

struct ripc__cached {
	struct ripc__node node;   /* id: the service */
	struct ripc__timer timer; /* when to refresh or to expire it */
	struct ripc__pending pending;
	TAILQ_ENTRY(ripc__cached) lru;
	uint64_t stored_ns;  /* when it was last confirmed */
	uint64_t expires_ns; /* when it may not be used any more */
	uint64_t since_ns;   /* when its holder registered, by our clock; 0: before it started */
	uint64_t nonce;      /* of the request it answered; 0: overheard */
	uint8_t *bytes;      /* the record, encoded */
	struct ripc__mcast_sender *location; /* where its holder answered and can be asked again; NULL: unknown */
	uint16_t len;                        /* of bytes */
	bool watched;                        /* asked for: its changes are told */
	bool used;                           /* since it was last confirmed: worth a refresh */
	bool moved; /* it was ours before: those who ask us are told where it is now */
	bool gone;  /* given up by its holder; here only until that is told */
};

TAILQ_HEAD(ripc__cached_list, ripc__cached);

struct ripc__cache {
	struct ripc__table table;
	struct ripc__cached_list watched, overheard_lru; /* most recently used last */
	size_t noverheard;
	size_t bytes;                    /* of memory, without the table's */
	struct ripc__timers *timers;     /* shared with the rest of the core */
	struct ripc__pendings *pendings; /* likewise */
	uint32_t timer_kind;
};

void ripc__cache_init(struct ripc__cache *cache, struct ripc__timers *timers, uint32_t timer_kind,
		      struct ripc__pendings *pendings, uint64_t secret);
void ripc__cache_fini(struct ripc__cache *cache);

/* The usable record of a service, or NULL. */
struct ripc__cached *ripc__cache_find(struct ripc__cache *cache, uint64_t service);

/*
 * Stores what was learned. A higher generation replaces a lower one; at the same generation an answer replaces what is
 * there, and an @overheard record only what was registered earlier. A wanted record that changed
 * is told as RIPC__RESOLVED. Return: its place, or NULL if it was not taken (older, or no memory).
 */
struct ripc__cached *ripc__cache_store(struct ripc__cache *cache, const struct ripc__record *record,
				       bool overheard, uint64_t now_ns);

/* Its holder can be asked again at @from. Without memory for that it is not noted. */
void ripc__cache_locate(struct ripc__cache *cache, struct ripc__cached *c,
			const struct ripc__mcast_sender *from);

/* Somebody asked for it: it is used, and its changes are to be told from now on. */
void ripc__cache_watch(struct ripc__cache *cache, struct ripc__cached *c);

/* Its holder gave it up: told as RIPC__GONE if it was wanted, then dropped. */
void ripc__cache_gone(struct ripc__cache *cache, struct ripc__cached *c);

/* Drops it; nothing is told. */
void ripc__cache_remove(struct ripc__cache *cache, struct ripc__cached *c);

/* Decodes it; ttl and since as they are now. */
void ripc__cache_record(const struct ripc__cached *c, struct ripc__record *record, uint64_t now_ns);

/* Instance id of its holder, 16 bytes. */
const uint8_t *ripc__cache_instance(const struct ripc__cached *c);

#endif
