/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that may travel: buffers of the pool, regions the application registered, and the windows and return buffers
 * cut out of them. Everything under the context's lock.
 *
 * A buffer of the pool is in one of these hands: the cache (free), the application, a received message, or nobody yet
 * (`zombie`: freed by the application while a peer may still write into it; it goes to the cache when the
 * peer let go). sends counts the sends under way that read from it, holds the windows and return buffers in it.
 */
#ifndef RIPC_CORE_MEMORY_BUFFER_H
#define RIPC_CORE_MEMORY_BUFFER_H

#include "base/list.h"
#include "transport/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIPC__TP_MAX            8  /* transports of one context */
#define RIPC__CLASS_MIN         8  /* smallest buffer: 2^8 bytes */
#define RIPC__CLASS_MAX         47 /* largest */
#define RIPC__RECV_WINDOWS_MAX  65536
#define RIPC__LOCAL_RETURNS_MAX 65536 /* return buffers offered by one context at one time */
#define RIPC__MEMFDS_MAX        64 /* buffers with a descriptor of their own, which can be handed over */
#define RIPC__CACHED_MR_MAX \
	(1u << 20) /* bytes of the largest region registered whole as the source of writes */
#define RIPC__MEMFD_CLASS_MIN 16 /* from buffers of 2^16 bytes on */

struct ripc;
struct ripc_service;
struct ripc__peer;
struct ripc__lane;
struct ripc__bounce;

enum ripc__region_state {
	RIPC__REGION_USER, /* the application's own memory, registered */
	RIPC__REGION_FREE, /* pool: in the cache */
	RIPC__REGION_APP,  /* pool: the application's */
	RIPC__REGION_MESSAGE, /* pool: holds an item of a received message, or one that is arriving, or a copy to send */
	RIPC__REGION_IMPORTED, /* a peer's buffer, mapped for reading: handover.h */
};

/* A registration of a whole region on one transport, for local use. */
struct ripc__cached_mr {
	struct ripc__mr mr;
	unsigned tp;
	unsigned users; /* items that are written from it, or read into it */
	bool dropped; /* the region lies elsewhere now, or is gone: this goes with the last of them */
};

struct ripc__region {
	uint8_t *base;
	size_t len;        /* what the application asked for, or registered */
	size_t cap;        /* pool: bytes mapped */
	size_t prefaulted; /* pool: bytes whose pages have been touched */
	enum ripc__region_state state;
	uint8_t class;     /* pool: cap == 1 << class */
	bool free_pending; /* to be freed when holds is 0 */
	unsigned sends;    /* sends under way that read from it */
	unsigned pins;     /* windows and return buffers in it */
	struct ripc__cached_mr *cached_mr[RIPC__TP_MAX]; /* as target of our own reads, and source of writes; kept; NULL: not yet */
	struct ripc__list free_link; /* cache: in its class */
	struct ripc__list lru_link;  /* cache: least recently used first */
	struct ripc *ctx;
	int fd;                    /* pool: the memory object that it is, sealed; -1: it is none */
	struct ripc__list exports; /* struct ripc__export: what the reader knows it by */
	uint8_t export_peer[16]; /* the peer's instance that it was last sent to: nobody else is given it */
	unsigned peer_streak;  /* long messages to the reader since another one was sent to */
	unsigned export_after; /* how many it takes before it is given to the reader */
	uint64_t counted_seq;  /* ripc_request.started of the last of them */
	bool exported;         /* the reader has it, or may have: it sees what is written there */
	bool detached; /* it was given to a peer, and has memory of its own where it has been written to since */
	size_t stale_len; /* pool: bytes at its beginning that may hold what an earlier owner wrote */
	struct ripc__list refs; /* struct ripc__request_item: of it, what peers read in place */
	struct ripc__list import_refs; /* BORROWED: struct ripc__import_ref: what of it is in use */
	struct ripc__list lane_link;   /* BORROWED: in lane->borrowed */
	struct ripc__lane *lane;       /* BORROWED: NULL when it is gone */
	uint32_t export_id;            /* BORROWED: what the peer calls it */
	bool unmap_pending; /* BORROWED: to be unmapped when nothing of it is in use any more */
};

/* Memory set aside as the target of one incoming item. */
struct ripc__recv_window {
	struct ripc__list link;
	uint8_t *base;
	size_t len;
	struct ripc__region *region;
	struct ripc_service *service; /* NULL: any */
	bool arriving;                /* an item is just being placed in it */
};

/* A buffer we offered to a peer. */
struct ripc__local_return {
	struct ripc__list link; /* in memory.returns */
	uint32_t id;            /* names it on the wire; never 0 */
	uint8_t *base;
	size_t len;
	struct ripc__region *region;
	struct ripc_service *service; /* the peer's long messages to it may use the buffer */
	struct ripc__peer *peer;      /* to whom it is offered; NULL: to nobody (any more) */
	struct ripc__lane *lane;      /* lane over which the peer can write it; NULL: it cannot */
	struct ripc__mr mr;           /* with lane, without stage: the exposure */
	struct ripc__bounce *bounce; /* with lane: what the peer writes instead, to be copied; NULL: the buffer itself */
	bool advertised; /* the peer has been told of it */
	bool revoking;   /* REVOKE was sent, REVOKED has not come */
	bool arriving;   /* we are reading an item into it */
};

struct ripc__memory {
	struct ripc__region **regions; /* sorted by base, not overlapping */
	size_t nregions, regions_cap;
	struct ripc__list classes[RIPC__CLASS_MAX + 1]; /* free buffers */
	struct ripc__list shared[RIPC__CLASS_MAX + 1];  /* free buffers with a descriptor */
	bool can_export;           /* there is a transport that hands buffers over */
	int fds[RIPC__MEMFDS_MAX]; /* their descriptors, for a forked child to close; -1: none */
	struct ripc__list lru;
	uint64_t cached_bytes;
	uint64_t bounce_bytes; /* of all lanes: stage.h */
	struct ripc__list recv_windows;
	unsigned nrecv_windows;
	struct ripc__list returns;
	unsigned nreturns;
	uint32_t next_return_id;
	struct ripc__local_return **return_index; /* power-of-two table by id */
	unsigned return_index_cap;
};

void ripc__memory_init(struct ripc *ctx);
/* Frees everything. No transport is open any more. */
void ripc__memory_fini(struct ripc *ctx);

/*
 * Whether [p, p+len) lies within the bytes that were asked for, or registered. A buffer of the pool
 * has more, as its class is a power of two. Those are nobody's: they are not sent, not written
 * into, and no address there names the buffer.
 */
static inline bool ripc__region_contains(const struct ripc__region *r, const void *p, size_t len)
{
	size_t at = (size_t)((const uint8_t *)p - r->base);

	return at < r->len && len <= r->len - at;
}

/* The region that holds [p, p+len), or NULL. */
struct ripc__region *ripc__memory_find(struct ripc *ctx, const void *p, size_t len);
/* The region whose memory p is in, be it behind the bytes that were asked for; or NULL. */
struct ripc__region *ripc__memory_find_cap(struct ripc *ctx, const void *p);

/* A buffer of at least len bytes in the given state. NULL: out of memory. */
struct ripc__region *ripc__pool_get(struct ripc *ctx, size_t len, enum ripc__region_state state);
/*
 * Likewise, its pages not touched yet. That takes a while where it is large, and is done by ripc__region_prefault(), without the
 * lock while nobody else knows of the buffer, or while it is held (region->holds).
 */
struct ripc__region *ripc__pool_get_untouched(struct ripc *ctx, size_t len,
					      enum ripc__region_state state);
/*
 * Around what takes long and needs no lock, in the middle of a call that holds it: other threads go on meanwhile, and ripc_close() waits.
 */
void ripc__lock_suspend(struct ripc *ctx);
void ripc__lock_resume(struct ripc *ctx);

/* Page faults in the middle of a transfer are dear: every page in use has been written to before. */
void ripc__region_prefault(struct ripc__region *region, size_t len);
void ripc__pool_put(struct ripc *ctx, struct ripc__region *region);
/* Frees what lies idle until no more than limit bytes of it are left, the least recently used first. */
void ripc__pool_trim(struct ripc *ctx, uint64_t limit);

/*
 * Parts a buffer that is in the application's hands from the memory that a peer has been given: what is written to it from now on
 * lies elsewhere. Return: 0, or -ENOMEM and all is as before.
 */
int ripc__pool_detach(struct ripc *ctx, struct ripc__region *region);
/*
 * Makes a parted buffer, all of which is about to be sent, one that can be given to a peer again; without memory it stays as it is. It is
 * copied without the lock.
 */
void ripc__pool_reattach(struct ripc *ctx, struct ripc__region *region);
/* A mapping of a peer's buffer becomes a region; NULL: out of memory. And ceases to be one: it is unmapped. */
struct ripc__region *ripc__region_import(struct ripc *ctx, void *base, size_t len);
void ripc__region_unmap(struct ripc *ctx, struct ripc__region *region);

/* Called whenever holds or sends went down: a zombie goes back to the cache. */
void ripc__region_release(struct ripc *ctx, struct ripc__region *region);

/*
 * Registration of [base, base+len) as the target of our reads over one transport. *kept is the region's, until ripc__cached_mr_release(), or NULL: it
 * is own, which the caller deregisters. Return NULL: failed, explained.
 */
struct ripc__mr *ripc__sink_mr(struct ripc *ctx, unsigned tp, struct ripc__region *region, void *base,
			       size_t len, struct ripc__mr *own, struct ripc__cached_mr **cached);
/*
 * Likewise, kept for the region, as the source of our writes, until ripc__cached_mr_release(). NULL: it has none, and had better get none. That it
 * cannot be registered may be known only when it is used first.
 */
struct ripc__cached_mr *ripc__cached_mr_hold(struct ripc *ctx, unsigned tp,
					     struct ripc__region *region);
void ripc__cached_mr_release(struct ripc *ctx, struct ripc__cached_mr *cached_mr);
/* Ends those that nothing is written from or read into. Return: whether there were any. */
bool ripc__mr_cache_trim(struct ripc *ctx);

/* Windows: finds the first that fits, marks it as arriving. */
struct ripc__recv_window *ripc__recv_window_claim(struct ripc *ctx, struct ripc_service *service,
						  size_t len);
/* The item arrived (used up) or did not (free again). */
void ripc__recv_window_release(struct ripc *ctx, struct ripc__recv_window *w, bool used);
/* Drops all windows of a service. */
void ripc__recv_windows_drop(struct ripc *ctx, struct ripc_service *service);

/* Return buffers, owner's side. */
struct ripc__local_return *ripc__local_return_new(struct ripc *ctx, struct ripc_service *service,
						  void *base, size_t len);
struct ripc__local_return *ripc__local_return_find(struct ripc *ctx, uint64_t id);
/* One that a long item of this length from peer to service may be read into: offered to the peer, which cannot write it itself. */
struct ripc__local_return *ripc__local_return_claim(struct ripc *ctx, struct ripc_service *service,
						    struct ripc__peer *peer, size_t len);
/* Ends remote access and forgets it. */
void ripc__local_return_drop(struct ripc *ctx, struct ripc__local_return *r);
/* Withdraws: at once if no peer can write it, else asks the peer (REVOKE) and drops it when the answer comes. */
void ripc__local_return_revoke(struct ripc *ctx, struct ripc__local_return *r);
/* No peer writes into it any more, by its own word or since the lane is gone: drops one that was being withdrawn. */
void ripc__local_return_revoked(struct ripc *ctx, struct ripc__local_return *r);
/* The lane over which it was exposed is gone: it stays offered, but cannot be written remotely. */
void ripc__local_returns_lane_gone(struct ripc *ctx, struct ripc__lane *lane);
void ripc__local_returns_peer_gone(struct ripc *ctx, struct ripc__peer *peer);

/* -EBUSY, explained, if [p, p+len) overlaps a window, a return buffer or (with sends) a region a send reads from. */
int ripc__range_check(struct ripc *ctx, const struct ripc__region *region, const void *p, size_t len);

#endif
