/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory for messages: pool buffers, regions registered by the application, and the receive windows
 * and return buffers in them. All under the context's lock.
 *
 * A pool buffer belongs to the cache (free), the application, or a received message. A buffer that
 * the application freed while a peer may still write it is FREED, and goes to the cache later.
 * sends counts the sends that read from the region; pins counts its receive windows and return
 * buffers. A window or return buffer that an item has used up returns to the application with the
 * message: unread keeps the region until ripc_receive() or ripc_call_wait() returns it.
 */
#ifndef RIPC_CORE_MEMORY_BUFFER_H
#define RIPC_CORE_MEMORY_BUFFER_H

#include "base/list.h"
#include "core/progress/context.h"
#include "transport/transport.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIPC__CLASS_MIN         8  /* smallest buffer: 2^8 bytes */
#define RIPC__CLASS_MAX         47 /* largest buffer: 2^47 bytes */
#define RIPC__RECV_WINDOWS_MAX  65536
#define RIPC__LOCAL_RETURNS_MAX 65536 /* return buffers that one context offers at a time */
#define RIPC__MEMFDS_MAX        64    /* buffers with their own descriptor, which can be exported */
#define RIPC__IMPORT_FDS_MAX    64    /* imports whose descriptor is kept, to forward them */
/* bytes of the largest region that is registered whole as the source of writes */
#define RIPC__CACHED_MR_MAX   (1u << 20)
#define RIPC__MEMFD_CLASS_MIN 16 /* buffers of 2^16 bytes and more */

/* Unread bytes of long messages at one service; above, no new message is fetched. */
#define RIPC__UNREAD_MAX (64u << 20)

struct ripc;
struct ripc_service;
struct ripc__peer;
struct ripc__lane;
struct ripc__bounce;

/*
 * The owner of a region. USER and IMPORTED stay; a pool buffer changes hands:
 *
 *   FREE --allocated--> APP, MESSAGE --freed--> FREED --no pin, no send--> FREE
 *   MESSAGE --the application keeps the item--> APP
 *   APP, MESSAGE --freed, and nobody else uses it--> FREE
 */
enum ripc__region_state {
	RIPC__REGION_FREE, /* pool: in the cache */
	RIPC__REGION_APP,  /* pool: the application's */
	/* pool: an item of a received or arriving message, or a copy to send */
	RIPC__REGION_MESSAGE,
	RIPC__REGION_FREED,    /* pool: nobody's; goes to the cache when sends and pins are 0 */
	RIPC__REGION_USER,     /* memory registered by the application */
	RIPC__REGION_IMPORTED, /* a peer's buffer, mapped read-only: mapped.h */
};

/*
 * Which other processes see the memory of a region.
 *
 *   PRIVATE --exported--> EXPORTED --a peer that may still read it is lost--> TAINTED
 *   EXPORTED, TAINTED --copy on write--> DETACHED --a memory object again--> PRIVATE, EXPORTED
 *   EXPORTED --its memory object moves to another region--> PRIVATE
 */
enum ripc__region_sharing {
	RIPC__REGION_PRIVATE,
	/* private pages replace those that peers see as they are written */
	RIPC__REGION_DETACHED,
	/* a peer has mapped it, or may have: the peer reads all that is written there */
	RIPC__REGION_EXPORTED,
	/* likewise, for ever: it is not used again. IMPORTED: its owner is notified */
	RIPC__REGION_TAINTED,
};

/* Registration of a whole region on one transport, for local use. */
struct ripc__cached_mr {
	struct ripc__mr mr;
	unsigned tp;
	unsigned users; /* items that are read into it or written from it */
	bool dropped;   /* the region was moved or freed: deregister with the last user */
};

struct ripc__region {
	uint8_t *base;
	size_t len;                    /* bytes that the application asked for, or registered */
	size_t cap;                    /* bytes of memory; pool: may be more than len */
	size_t prefaulted;             /* pool: bytes whose pages have been touched */
	enum ripc__region_state state; /* ripc__region_set_state() */
	uint8_t class;                 /* pool: cap == 1 << class */
	unsigned sends;                /* sends that read from it */
	unsigned pins; /* receive windows and return buffers in it; regions of which it is origin */
	unsigned unread;           /* items in it of messages that were not received yet */
	struct ripc__list returns; /* struct ripc__local_return in it, receive windows too */
	/* per transport: cached registration for our reads and writes; NULL: none yet */
	struct ripc__cached_mr *cached_mr[RIPC__TP_MAX];
	struct ripc__list free_link; /* cache: in its class */
	struct ripc__list lru_link;  /* cache: least recently used first */
	struct ripc *ctx;
	int fd; /* pool, IMPORTED: descriptor of its sealed memory object; -1: none */
	/* with a memory object: its inode; IMPORTED: 0, unless it is a buffer of this context */
	uint64_t object;
	struct ripc__list exports; /* struct ripc__export: exports of this region */
	/* instance of the peer that it was last sent to; strict: the only one it is exported to */
	uint8_t export_peer[16];
	unsigned peer_streak; /* long messages to this peer since the last message to another one */
	unsigned export_after;             /* streak that is needed before an export */
	uint64_t counted_seq;              /* start_seq of the last request counted */
	enum ripc__region_sharing sharing; /* ripc__region_set_sharing() */
	unsigned uses;                     /* long messages out of it since it was allocated */
	unsigned uses_ever;                /* and since its memory was created */
	size_t stale_len; /* pool: bytes at its start that may hold data of an earlier owner */
	struct ripc__list refs; /* struct ripc__export_ref: its items that peers read in place */
	/*
	 * DETACHED: the region that has its memory object. The pages that were not written since
	 * then are still those of the object, so it is pinned. NULL: nobody writes the object.
	 */
	struct ripc__region *origin;
	struct ripc__list import_refs; /* IMPORTED: struct ripc__import_ref: its items in use */
	struct ripc__list lane_link;   /* IMPORTED: in the lane's list of imports */
	struct ripc__lane *lane;       /* IMPORTED: NULL: the lane is closed */
	uint32_t export_id;            /* IMPORTED: the peer's id of the export */
	bool unmap_pending;            /* IMPORTED: unmap when no item is in use */
};

/*
 * Memory set aside as the target of one incoming item: a return buffer, which is offered to a peer,
 * or a receive window, which no peer knows and any peer's item may take.
 */
struct ripc__local_return {
	union {
		struct ripc__node call_node; /* with call: in memory.call_returns */
		uint64_t call;               /* 0, or only the answer of this call may use it */
	};
	/* in memory.returns; flow: lane->memory->standing; window: service->windows or of memory */
	struct ripc__list link;
	struct ripc__list region_link; /* without flow */
	union {
		struct ripc__node id_node; /* in memory.return_ids */
		uint64_t id;               /* id on the wire, of 32 bits; never 0. Window: 0 */
	};
	uint8_t *base;
	size_t len;
	struct ripc__region *region;
	/* the peer's long messages to this service may use the buffer; window: NULL: to any */
	struct ripc_service *service;
	struct ripc__peer *peer; /* peer that has received the offer; NULL: none */
	struct ripc__lane *lane; /* lane over which the peer can write it; NULL: none */
	struct ripc__mr mr;      /* with lane and without bounce: the registration */
	/*
	 * with lane: the peer writes here and the data is copied; NULL: it writes the buffer itself
	 */
	struct ripc__bounce *bounce;
	/* a pool buffer of the library for messages of this flow: standing.h; or NULL */
	struct ripc__flow *flow;
	bool window;   /* a receive window: id, peer, lane, mr, bounce and flow are not used */
	bool revoking; /* REVOKE was sent, REVOKED has not arrived */
	bool arriving; /* an item is read into it */
};

struct ripc__memory {
	struct ripc__region **regions; /* sorted by base, without overlap */
	size_t nregions, regions_cap;
	struct ripc__region *found; /* the last one that was looked up; or NULL */
	struct ripc__list classes[RIPC__CLASS_MAX + 1]; /* free buffers */
	struct ripc__list shared[RIPC__CLASS_MAX + 1];  /* free buffers with a descriptor */
	/* instance of the peer that got the last long message out of a buffer of the class */
	uint8_t last_peer[RIPC__CLASS_MAX + 1][16];
	bool can_export; /* a transport can export buffers */
	/* descriptors + 1, of buffers, then of imports; 0: none. memory_object.c */
	int object_fds[RIPC__MEMFDS_MAX + RIPC__IMPORT_FDS_MAX];
	union ripc__ref *free_refs; /* singly linked: mapped.h */
	unsigned nfree_refs;
	struct ripc__list lru;
	uint64_t cached_bytes;
	uint64_t bounce_bytes;          /* bytes of bounce buffers of all lanes: bounce.h */
	uint64_t standing_bytes;        /* bytes of pool buffers offered to all peers: standing.h */
	struct ripc__list recv_windows; /* those of no service */
	unsigned nrecv_windows;         /* all */
	struct ripc__list returns;
	struct ripc__table call_returns; /* those of calls, by call */
	struct ripc__table return_ids;   /* all, and standing buffers, by id */
	/* struct ripc__message: those not received yet with items in windows or return buffers */
	struct ripc__list unread;
	uint32_t next_return_id;
};

/* The transports are open. */
void ripc__memory_init(struct ripc *ctx);
/* Frees everything. All transports are closed. */
void ripc__memory_fini(struct ripc *ctx);

/* A pool buffer changes hands. FREED twice is a faulty program, and harmless. */
static inline void ripc__region_set_state(struct ripc__region *r, enum ripc__region_state to)
{
	assert(r->state == RIPC__REGION_FREE
		       ? to == RIPC__REGION_APP || to == RIPC__REGION_MESSAGE
		       : r->state <= RIPC__REGION_FREED &&
				 (to == RIPC__REGION_FREE || to == RIPC__REGION_FREED ||
				  (to == RIPC__REGION_APP && r->state == RIPC__REGION_MESSAGE)));
	r->state = to;
}

/* TAINTED follows EXPORTED, and ends by DETACHED. */
static inline void ripc__region_set_sharing(struct ripc__region *r, enum ripc__region_sharing to)
{
	assert(to == RIPC__REGION_TAINTED
		       ? r->sharing == RIPC__REGION_EXPORTED
		       : r->sharing != RIPC__REGION_TAINTED || to == RIPC__REGION_DETACHED);
	r->sharing = to;
}

/* A peer is lost that may still read it. */
static inline void ripc__region_taint(struct ripc__region *r)
{
	assert(r->sharing != RIPC__REGION_PRIVATE);
	/* The peers of a detached one read other pages. */
	if (r->sharing == RIPC__REGION_EXPORTED)
		ripc__region_set_sharing(r, RIPC__REGION_TAINTED);
}

/*
 * Whether [p, p+len) lies within the bytes that were asked for or registered. The bytes of a pool
 * buffer above len, up to its power of two, belong to nobody: they are not sent or written.
 */
static inline bool ripc__region_contains(const struct ripc__region *r, const void *p, size_t len)
{
	size_t at = (size_t)((const uint8_t *)p - r->base);

	return at < r->len && len <= r->len - at;
}

/* Finds the region that contains [p, p+len), or NULL. */
struct ripc__region *ripc__memory_find(struct ripc *ctx, const void *p, size_t len);
/* Finds the region whose memory contains p, including the bytes above len; or NULL. */
struct ripc__region *ripc__memory_find_cap(struct ripc *ctx, const void *p);

/* Allocates a buffer of at least len bytes in the given state. Return: NULL: out of memory. */
struct ripc__region *ripc__pool_get(struct ripc *ctx, size_t len, enum ripc__region_state state);
/*
 * As ripc__pool_get(), with untouched pages. Touch them by ripc__region_prefault(), without the
 * lock while no other thread knows the buffer, or while it is pinned (region->pins). A buffer of
 * the application: preferably one that the peer of this instance has mapped; NULL: that the last
 * receiver of such a buffer has mapped.
 */
struct ripc__region *ripc__pool_get_untouched(struct ripc *ctx, size_t len,
					      enum ripc__region_state state,
					      const uint8_t *instance);
/* Touches all pages: page faults during a transfer are expensive. */
void ripc__region_prefault(struct ripc__region *region, size_t len);
void ripc__pool_put(struct ripc *ctx, struct ripc__region *region);
/* Frees idle buffers, the least recently used first, until at most limit bytes remain. */
void ripc__pool_trim(struct ripc *ctx, uint64_t limit);

/* A detached region has pages of its own, or is unmapped: its origin may return to the pool. */
void ripc__region_origin_release(struct ripc *ctx, struct ripc__region *region);

/* Call after pins or sends went down: frees a region that is FREED. */
void ripc__region_release(struct ripc *ctx, struct ripc__region *region);

/*
 * Registration of [base, base+len) as the target of our reads over one transport. *cached_mr is the
 * region's registration, to be released by ripc__cached_mr_release(), or NULL: the caller
 * deregisters the result. Return: NULL: failed, explained.
 */
struct ripc__mr *ripc__sink_mr(struct ripc *ctx, unsigned tp, struct ripc__region *region,
			       void *base, size_t len, struct ripc__mr *own,
			       struct ripc__cached_mr **cached);
/*
 * As ripc__sink_mr(), for the source of our writes, always cached; released by
 * ripc__cached_mr_release(). NULL: registering the whole region is impossible or too expensive. A
 * failure may appear only at the first use.
 */
struct ripc__cached_mr *ripc__cached_mr_hold(struct ripc *ctx, unsigned tp,
					     struct ripc__region *region);
void ripc__cached_mr_release(struct ripc *ctx, struct ripc__cached_mr *cached_mr);
/* Deregisters cached registrations that no transfer uses. Return: whether there were any. */
bool ripc__mr_cache_trim(struct ripc *ctx);

/* The service is being closed: drops its receive windows, but those with an item on its way. */
void ripc__recv_windows_drop(struct ripc_service *service);

/* Local return buffers: the owner's side. */
struct ripc__local_return *ripc__local_return_new(struct ripc *ctx, struct ripc_service *service,
						  void *base, size_t len);
/*
 * Sets memory aside, in no list but its region's; service: or NULL. Return: NULL, explained, with
 * errno: EINVAL, EBUSY, ENOMEM.
 */
struct ripc__local_return *ripc__target_new(struct ripc *ctx, struct ripc_service *service,
					    void *base, size_t len, const char *what);
struct ripc__local_return *ripc__local_return_find(struct ripc *ctx, uint64_t id);
/* Draws an id for it and adds it to the table of ids. Return: 0, or -ENOMEM. */
int ripc__local_return_index(struct ripc *ctx, struct ripc__local_return *r);
/* Removes it from the table. */
void ripc__local_return_unindex(struct ripc *ctx, struct ripc__local_return *r);
/* The descriptor of one that the peer can write. */
struct ripc__desc ripc__local_return_desc(const struct ripc__local_return *r);
/* Ends remote access. */
void ripc__local_return_unexpose(struct ripc *ctx, struct ripc__local_return *r);
/*
 * Finds a return buffer that the peer cannot write itself, else a receive window, for a long item
 * of this length from peer to service. call: the call whose answer the item belongs to, or 0.
 */
struct ripc__local_return *ripc__local_return_claim(struct ripc *ctx, struct ripc_service *service,
						    struct ripc__peer *peer, uint64_t call,
						    size_t len);
/*
 * The item that was to arrive in it does not: it is offered again. If its buffer was freed, or its
 * service is being closed, it is withdrawn.
 */
void ripc__local_return_unclaim(struct ripc *ctx, struct ripc__local_return *r);
/* Ends remote access and frees the offer. */
void ripc__local_return_drop(struct ripc *ctx, struct ripc__local_return *r);
/*
 * Withdraws an offer: at once if no peer can write it; else sends REVOKE and drops it on REVOKED.
 */
void ripc__local_return_revoke(struct ripc *ctx, struct ripc__local_return *r);
/* Withdraws all offers in a pinned region; windows: and its receive windows. */
void ripc__local_returns_withdraw(struct ripc *ctx, struct ripc__region *region, bool windows);
/*
 * The peer writes it no more (REVOKED arrived, or the lane is closed): drops an offer that is being
 * withdrawn.
 */
void ripc__local_return_revoked(struct ripc *ctx, struct ripc__local_return *r);
/* The lane over which it was exposed is closed: it stays offered, but the peer cannot write it. */
void ripc__local_returns_lane_gone(struct ripc *ctx, struct ripc__lane *lane);
/* Whether the peer can write one over the lane; revoking: only those that await REVOKED. */
bool ripc__local_returns_on_lane(const struct ripc__lane *lane, bool revoking);
void ripc__local_returns_peer_gone(struct ripc *ctx, struct ripc__peer *peer);

/*
 * Registers the return buffers of o as offers; on error none remains. call: the call whose answer
 * alone may use them, or 0. ids: room for RIPC_RETURN_BUFFERS_MAX.
 */
int ripc__local_returns_add(struct ripc_service *s, const struct ripc_send_options *o,
			    uint64_t call, uint32_t *ids);
/* Ends the offers of a call: withdraws them, or if its peer has no right to them, drops them. */
void ripc__local_returns_end_call(struct ripc *ctx, uint64_t call, bool revoke);
/* One of the offers of a call, or NULL. */
struct ripc__local_return *ripc__local_return_of_call(struct ripc *ctx, uint64_t call);
/* Withdraws the offers of a message that failed. */
void ripc__local_returns_undo(struct ripc *ctx, const uint32_t *ids, unsigned n);
/* The message with the offers was sent. */
void ripc__local_returns_advertised(struct ripc__lane *lane, const uint32_t *ids, unsigned n);
/*
 * Call before the message that offers them over lane is built: a delayed ACK must not wait for
 * memory that takes long to register.
 */
void ripc__local_returns_before_reg(struct ripc__lane *lane, const uint32_t *ids, unsigned n);
/*
 * Exposes them to the lane's peer if the lane can write, and encodes a descriptor of each. Return:
 * the end of the encoding; *n: number of descriptors.
 */
uint8_t *ripc__local_returns_encode(struct ripc__lane *lane, const uint32_t *ids, unsigned *n,
				    uint8_t *p);

/*
 * Return: -EBUSY, explained, if [p, p+len) overlaps a receive window, a return buffer, an item of a
 * message that was not received yet, or memory that a send reads from.
 */
int ripc__range_check(struct ripc *ctx, const struct ripc__region *region, const void *p,
		      size_t len);

/*
 * Return: 0; -EBUSY, explained: a send reads from the region, an item in it was not received yet,
 * or (with pins) a window or return buffer lies in it.
 */
int ripc__region_busy(const struct ripc__region *r, bool pins);

/* The public calls of these names, with the lock, which some release meanwhile. */
int ripc__buf_free(struct ripc *ctx, void *ptr);
/*
 * A buffer as of ripc_buf_alloc_for(); service: NULL: ripc_buf_alloc(). The lock is released
 * meanwhile. *mapped: whether the holder of the service has mapped it. Return: NULL: out of memory.
 */
struct ripc__region *ripc__app_buffer_new(struct ripc *ctx, size_t len, const uint64_t *service,
					  bool *mapped);
/*
 * ripc_buf_alloc() if ptr is NULL, or for a service ripc_buf_alloc_for(); else ripc_buf_realloc().
 * Return: 0 and *out; -EINVAL, -EBUSY, -ENOMEM, explained.
 */
int ripc__buf_alloc(struct ripc *ctx, void *ptr, size_t len, const uint64_t *service, void **out);
int ripc__buf_register(struct ripc *ctx, void *base, size_t len);
int ripc__buf_unregister(struct ripc *ctx, void *base);
int ripc__window_add(struct ripc *ctx, struct ripc_service *service, void *base, size_t len);
int ripc__window_remove(struct ripc *ctx, void *base);

/* ---- for core/memory: the table of all memory of a context, by address ---- */

/* A region that is not in the table, with empty lists. Return: NULL: out of memory. */
struct ripc__region *ripc__regions_new(struct ripc *ctx);
/* Both count its bytes, unless they are a peer's. Return: 0 or -ENOMEM. */
int ripc__regions_insert(struct ripc *ctx, struct ripc__region *r);
void ripc__regions_remove(struct ripc *ctx, struct ripc__region *r);
/* A region of this memory, in the table. Return: NULL: out of memory. */
struct ripc__region *ripc__regions_add(struct ripc *ctx, void *base, size_t len,
				       enum ripc__region_state state);
/* Ends its cached registrations: those in use end with their last user. */
void ripc__cached_mrs_drop(struct ripc *ctx, struct ripc__region *r);
/* Unmaps or frees the memory of a region of the pool or of a peer. */
void ripc__pool_unmap(struct ripc *ctx, struct ripc__region *r);
/* Ends a region of the pool, which is not in the cache, or of a peer. Nothing uses it. */
void ripc__region_destroy(struct ripc *ctx, struct ripc__region *r);

#endif
