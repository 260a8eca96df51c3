/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Mapped zero copy: a long item between two processes of one host stays in place. The sender's
 * buffer is a memory object that the receiver maps read-only; the message points into it.
 *
 *   sender    export: a buffer given to one peer          reference: an item that a peer reads in
 *     place
 *   receiver  import: a peer's buffer, mapped             import reference: an item of a message in
 *     it
 *
 * A buffer is exported when it is sent for the second time, or at once if the peer has mapped
 * others; until the peer's MAP_ACK items are copied. Later items are referenced. The request ends
 * when the peer sends RELEASE, which is the ACK as well. If that takes longer than a copy, the
 * sender requests the ACK. After the same time again, the sender detaches the buffer: later writes
 * go to private pages at the same address. The memory object with the old data gets another
 * address, and returns to the pool after the last RELEASE: late references, which count in
 * region->sends. So a receiver that keeps its messages blocks nobody. A buffer that is used for
 * each message costs a copy then; services that keep such messages get references less often.
 *
 * An item in other memory is copied into a pool buffer that the peer has mapped. Its request frees
 * the buffer, as with RIPC_FREE_ITEMS: a mapped copy, rendezvous/prepared.h.
 *
 * Rules:
 * - Memory is recycled with its exports: the next buffer that goes to the peer is mapped already. A
 *   region with references returns neither to the application nor to the pool.
 * - An import is forwarded by its descriptor: the next process maps the original object, and the
 *   owner gets RELEASE when both have released it. That includes its owner, as one more mapping. An
 *   item in a buffer that the owner's application may write to is copied there.
 * - A peer whose lane is lost may still read. Memory with references of such a peer is tainted: it
 *   is not used again. A forwarder notifies the owner by RIPC__RELEASE_LOST.
 * - Mappings of peers are read-only, by the seals of the object, and ours is the only other one.
 * - In the strict mode a buffer is exported to one peer only, when it was sent to it twice in a
 *   row. It is detached before it is sent to another peer or receives data, and its memory does not
 *   return to the pool. A buffer with data of earlier owners is not exported, and no import is
 *   forwarded. So a peer sees only what the application sends to it or keeps in the same buffer.
 */
#ifndef RIPC_CORE_MEMORY_MAPPED_H
#define RIPC_CORE_MEMORY_MAPPED_H

#include "core/memory/buffer.h"
#include "core/peer/lane.h"

#include <stdlib.h>

/* Bytes from which an item is mapped: below, a copy takes no longer. */
#define RIPC__MAPPED_ITEM_MIN (16u << 10)

struct ripc__message;

#define RIPC__EXPORTS_MAX 256  /* buffers exported to one peer; later ones are copied */
#define RIPC__IMPORTS_MAX 1024 /* imports of one peer */

/* A buffer exported to the peer of one lane. */
struct ripc__export {
	struct ripc__list link;      /* in region->exports */
	struct ripc__list lane_link; /* in lane->memory->exports */
	struct ripc__lane *lane;
	struct ripc__region *region;
	uint32_t export_id;    /* id on the wire; never reused on the lane */
	size_t len;            /* bytes that the peer may read */
	bool acked;            /* MAP_ACK has arrived */
	unsigned copied_items; /* items copied because MAP_ACK has not arrived */
};

/* The references of one sent message. Embedded in the request. */
struct ripc__export_refs {
	unsigned count; /* items that the peer reads in place */
	/*
	 * after the ACK: time at which items that are still referenced are detached (copied); 0:
	 * they were detached
	 */
	uint64_t deadline_ns;
};

/*
 * An item of a sent message that the peer reads in place. The item of its request has it; then it
 * is late: it outlives the request.
 */
struct ripc__export_ref {
	struct ripc__list link;  /* in region->refs; late: in lane->memory->late_refs */
	struct ripc__lane *lane; /* lane to the peer */
	struct ripc__region *region;
	struct ripc__export_ref **item_ref; /* of the item of its request; late: undefined */
	struct ripc__export_refs *refs;     /* of its request; late: undefined */
	uint64_t request;                   /* id of the request */
	unsigned item;
	size_t len;
};

/* An item of a received message that lies in an import. */
struct ripc__import_ref {
	struct ripc__list link; /* in region->import_refs */
	struct ripc__region *region;
	struct ripc__lane *lane; /* lane for RELEASE; NULL: the sender does not wait any more */
	uint64_t request;        /* the sender's request id */
	unsigned item;
	const struct ripc__message *message; /* message of the item; NULL: still arriving */
	bool ack_due;                        /* RELEASE is to carry the ACK of the message */
	bool released; /* the message was freed; a send that forwards the item has not ended */
};

/* Memory of a reference of either kind. */
union ripc__ref {
	union ripc__ref *next_free; /* in memory->free_refs */
	struct ripc__export_ref export_ref;
	struct ripc__import_ref import_ref;
};

#define RIPC__FREE_REFS_MAX 64 /* kept for reuse at most */

/* Return: NULL: out of memory. */
static inline void *ripc__ref_alloc(struct ripc__memory *m)
{
	union ripc__ref *ref = m->free_refs;

	if (RIPC__UNLIKELY(!ref))
		return malloc(sizeof(*ref));
	m->free_refs = ref->next_free;
	m->nfree_refs--;
	return ref;
}

static inline void ripc__ref_free(struct ripc__memory *m, void *p)
{
	union ripc__ref *ref = (union ripc__ref *)p;

	if (RIPC__UNLIKELY(m->nfree_refs >= RIPC__FREE_REFS_MAX)) {
		free(ref);
		return;
	}
	ref->next_free = m->free_refs;
	m->free_refs = ref;
	m->nfree_refs++;
}

/* ---- sender ---- */

/* Resets the export state: the buffer has a new owner. */
void ripc__export_reset(struct ripc__region *region);
/* Whether an item of len bytes in the region is for the peer of the lane to map, not to copy. */
bool ripc__export_applies(const struct ripc__lane *lane, const struct ripc__region *region,
			  size_t len);
/*
 * Tries to reference an item in a region over the lane. c: credit of the service that it goes to.
 * Return: the export that the item lies in; NULL: copy it; missing steps may have begun.
 */
const struct ripc__export *ripc__export_item(struct ripc__lane *lane, struct ripc__credit *c,
					     struct ripc__region *region, const uint8_t *base,
					     size_t len);
/* Whether the region still has the export of this id. */
bool ripc__export_is_current(const struct ripc__lane *lane, struct ripc__region *region,
			     uint32_t export_id);
void ripc__export_acked(struct ripc__lane *lane, uint64_t export_id);
/*
 * The message is about to be sent: the reference *item_ref to an item of len bytes begins. Return:
 * whether there is memory.
 */
static inline bool ripc__export_ref_begin(struct ripc__export_ref **item_ref,
					  struct ripc__export_refs *refs, struct ripc__lane *lane,
					  struct ripc__region *region, uint64_t request,
					  unsigned item, size_t len)
{
	struct ripc__export_ref *ref =
		(struct ripc__export_ref *)ripc__ref_alloc(lane->ctx->memory);

	if (!ref)
		return false;
	*ref = (struct ripc__export_ref){
		.lane = lane,
		.region = region,
		.item_ref = item_ref,
		.refs = refs,
		.request = request,
		.item = item,
		.len = len,
	};
	*item_ref = ref;
	ripc__list_add(&region->refs, &ref->link);
	refs->count++;
	lane->memory->ref_bytes += len;
	return true;
}

/* Its request has no reference to the item any more. */
static inline void ripc__export_ref_unlink(struct ripc__export_ref *ref)
{
	ripc__list_del(&ref->link);
	*ref->item_ref = NULL;
	ref->refs->count--;
}

static inline void ripc__export_ref_free(struct ripc__export_ref *ref)
{
	ref->lane->memory->ref_bytes -= ref->len;
	ripc__ref_free(ref->lane->ctx->memory, ref);
}

/* The peer released the item, or the message has ended. NULL: there is no reference. */
static inline void ripc__export_ref_end(struct ripc__export_ref *ref)
{
	if (!ref)
		return;
	ripc__export_ref_unlink(ref);
	ripc__export_ref_free(ref);
}
/* The references to a region end before their requests, which the timer completes, later. */
void ripc__export_refs_end_early(struct ripc__region *region);
/*
 * The references to one region become late references of another one, which may be the same: it is
 * not used again before the peers release them. ended: the caller ends the request of these; NULL:
 * the timer ends all requests.
 */
void ripc__export_refs_outlive(struct ripc__region *from, struct ripc__region *to,
			       const struct ripc__export_refs *ended);
/* Whether a reference to the region belongs to a closed lane. */
bool ripc__export_refs_lost(const struct ripc__region *region);
/* The peer has released an item of an ended request. lost: another process may still read it. */
void ripc__late_ref_release(struct ripc__lane *lane, uint64_t request, uint64_t item, bool lost);
/* Time that a peer may hold a reference to so many bytes before they are detached. */
uint64_t ripc__export_ref_max_ns(uint64_t bytes);
/* A reference expired: the service gets references less often. */
void ripc__export_back_off(const struct ripc *ctx, struct ripc__credit *c);
/* Whether memory that one peer has mapped is used for nothing else. */
bool ripc__export_strict(const struct ripc *ctx);
/* Whether the peer of this instance has mapped the region. */
bool ripc__export_mapped_by(const struct ripc__region *region, const uint8_t *instance);
/*
 * Exports a buffer that will be sent to the lane's peer, so that it is mapped by then. Return:
 * whether the peer has mapped it.
 */
bool ripc__export_ahead(struct ripc__lane *lane, struct ripc__region *region);
/* Whether the buffer of the application is used for one message after another. */
bool ripc__export_reused(const struct ripc__region *region);
/* Sends UNMAP to the peers. */
void ripc__exports_drop(struct ripc__region *region);
/*
 * The lane is closed. References end with their requests; late ones end, and their regions are
 * tainted.
 */
void ripc__exports_lane_gone(struct ripc__lane *lane);

/* ---- receiver ---- */

/*
 * Adds a buffer that the peer exported, mapped at base, with its descriptor. Takes ownership of
 * both in all cases.
 */
void ripc__import_add(struct ripc__lane *lane, void *base, size_t len, int fd, uint64_t export_id);
/* Whether the import is a buffer of this context that the application may write to. */
bool ripc__import_is_own(struct ripc *ctx, const struct ripc__region *region);
/* UNMAP arrived: the peer does not send from the buffer any more. */
void ripc__import_unmap(struct ripc__lane *lane, uint64_t export_id);
/*
 * References [at, at+len) of an import. Return: 0, -EPROTO: out of range, -ENOBUFS: out of memory.
 */
int ripc__import_ref_new(struct ripc__lane *lane, uint64_t export_id, uint64_t at, uint64_t len,
			 uint64_t request, unsigned item, struct ripc__import_ref **import_ref,
			 uint8_t **base);
/* Ends a reference that was just made, without RELEASE. */
void ripc__import_ref_cancel(struct ripc__import_ref *import_ref);
/* Ends a reference: sends RELEASE when no send of ours reads the item either. */
void ripc__import_ref_release(struct ripc__import_ref *import_ref);
/*
 * Whether the ACK of a message whose items all lie in imports may wait for their RELEASE. Counts
 * the message.
 */
static inline bool ripc__import_ack_may_wait(struct ripc__lane *lane)
{
	struct ripc__lane_memory *m = lane->memory;

	if (m->ack_skip) {
		m->ack_skip--;
		return false;
	}
	if (m->ack_backoff)
		m->ack_backoff--;
	return true;
}
/* The ACK waits: the RELEASE of this item carries it. */
static inline void ripc__import_ack_delay(struct ripc__import_ref *import_ref)
{
	import_ref->ack_due = true;
	import_ref->lane->memory->acks_due++;
}
/*
 * ACKs cannot wait any more. Return: a request whose ACK the caller is to send; 0: there is none.
 */
uint64_t ripc__import_ack_take(struct ripc__lane *lane);
/*
 * The sender has requested an ACK, because a message was not freed soon: the next 8 messages of the
 * lane are acknowledged at once, up to 1024 if that repeats. Called before ripc__import_ack_take().
 */
void ripc__import_acks_back_off(struct ripc__lane *lane);
/* Ends the reference of an item whose message was freed or detached. */
void ripc__import_ref_release_item(struct ripc__region *region, const struct ripc__message *m,
				   unsigned item);
/* No send reads from the region any more. */
void ripc__import_settle(struct ripc__region *region);
/* The lane is closed: items that the application holds stay readable. */
void ripc__imports_lane_gone(struct ripc__lane *lane);

#endif
