/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "resolver/zookeeper.h"

#include "auth/key.h"
#include "base/clock.h"
#include "base/host.h"

#include <stdlib.h>
#include <string.h>

/* how long the node of a service that is registered may be another's: it may be going */
#define RELEASE_WAIT_NS (200 * RIPC__MS)

struct ripc__zk_held *ripc__zk_held_find(struct ripc__zk *z, uint64_t service)
{
	return (struct ripc__zk_held *)ripc__table_find(&z->held, service);
}

void ripc__zk_held_remove(struct ripc__zk *z, struct ripc__zk_held *h)
{
	ripc__table_remove(&z->held, &h->node);
	ripc__list_del(&h->link);
	free(h->bytes);
	free(h);
}

void ripc__zk_held_set_state(struct ripc__zk_held *h, enum ripc__zk_held_state to)
{
	h->state = to;
	if (to == RIPC__ZK_CREATED) {
		h->nonce = h->taken_ns = 0;
		h->last = false;
	} else if (to == RIPC__ZK_TAKEN && !h->taken_ns) {
		h->taken_ns = ripc__clock_ns();
	}
}

static void claim(struct ripc__zk *z, struct ripc__zk_held *h, bool force)
{
	ripc__zk_held_set_state(h, RIPC__ZK_CLAIMING);
	(void)ripc__ensemble_submit(z->e, force ? RIPC__CALL_CLAIM_FORCE : RIPC__CALL_CLAIM,
				    h->node.id, h->bytes, h->len, NULL);
}

void ripc__zk_claim(struct ripc__zk *z, struct ripc__zk_held *h)
{
	claim(z, h, h->force);
}

struct ripc__zk_held *ripc__zk_held_update(struct ripc__zk *z, const struct ripc__record *record,
					   bool force)
{
	struct ripc__zk_held *h = ripc__zk_held_find(z, record->service);
	struct ripc__record stored = *record;
	uint8_t bytes[RIPC__NODE_MAX], *copy;
	int len;

	/* The age would make every copy differ. */
	stored.since_ms = 0;
	len = ripc__record_encode(&stored, bytes, sizeof(bytes));
	if (len > 0 && z->auth)
		len = ripc__auth_sign(z->auth, bytes, (size_t)len, sizeof(bytes));
	if (len <= 0 || (h && h->state != RIPC__ZK_ENDED && h->len == (size_t)len &&
			 !memcmp(h->bytes, bytes, h->len)))
		return h;
	copy = malloc((size_t)len);
	if (!copy)
		return h;
	memcpy(copy, bytes, (size_t)len);
	if (!h) {
		h = calloc(1, sizeof(*h));
		if (!h) {
			free(copy);
			return NULL;
		}
		h->node.id = record->service;
		ripc__table_add(&z->held, &h->node);
		ripc__list_add(&z->held_list, &h->link);
	}
	free(h->bytes);
	h->bytes = copy;
	h->len = (size_t)len;
	h->force = force && record->generation > 1;
	ripc__zk_claim(z, h);
	return h;
}

void ripc__zk_release(struct ripc__zk *z, uint64_t service)
{
	/* Without memory it stays until the session ends; peers find no such service here. */
	(void)ripc__ensemble_submit(z->e, RIPC__CALL_RELEASE, service, NULL, 0, NULL);
}

void ripc__zk_drop(struct ripc__backend *b, uint64_t service)
{
	struct ripc__zk *z = (struct ripc__zk *)b;
	struct ripc__zk_held *h = ripc__zk_held_find(z, service);

	if (!h)
		return;
	if (h->state != RIPC__ZK_TAKEN)
		ripc__zk_release(z, service);
	ripc__zk_held_remove(z, h);
}

bool ripc__zk_settled(const struct ripc__backend *b, uint64_t service)
{
	struct ripc__zk *z = (struct ripc__zk *)b;
	struct ripc__zk_held *h = ripc__zk_held_find(z, service);

	/* The holder of the node has had the time to release it: the next report is a conflict. */
	if (h && h->state == RIPC__ZK_TAKEN && !h->last &&
	    ripc__clock_ns() - h->taken_ns >= RELEASE_WAIT_NS) {
		h->last = true;
		ripc__zk_claim(z, h);
	}
	/* Do not wait for an ensemble that is known to be disconnected. */
	return !h || h->state == RIPC__ZK_CREATED || z->state == RIPC__ZK_DISCONNECTED;
}

void ripc__zk_taken(struct ripc__zk *z, struct ripc__zk_held *h,
		    const struct ripc__ensemble_report *r)
{
	struct ripc__resolver_msg msg = {.kind = RIPC__RESOLVE_REPLY, .service = h->node.id};
	bool split;

	ripc__zk_held_set_state(h, RIPC__ZK_TAKEN);
	if (ripc__zk_decode(z, h->node.id, r->bytes, r->len, &msg.record)) {
		/* The node may get a record, or go; a FOUND has set the watch. */
		if (r->kind == RIPC__ENS_TAKEN)
			(void)ripc__zk_watch(z, h->node.id);
		return;
	}
	/*
	 * The node of a dead process of this host, or of a holder that our kernel rules out,
	 * remains only until its session ends.
	 */
	if (z->kernel_enforced && ripc__host_same(msg.record.host, z->host)) {
		claim(z, h, true);
		return;
	}
	/* An unregistration may still be under way: its node is watched, and will go. */
	if (h->nonce && !h->last) {
		(void)ripc__zk_watch(z, h->node.id);
		return;
	}
	/* Of two holders the one in the ensemble keeps the service. */
	msg.nonce = h->nonce ? h->nonce : ripc__dispute_nonce(z->instance);
	msg.flags = RIPC__RESOLVE_VERDICT;
	/* This node is not watched: nothing will report its end. */
	msg.record.ttl_ms = MIN(msg.record.ttl_ms, RIPC__ZK_STALE_TTL_MS);
	split = !h->nonce && msg.record.generation <= ripc__encoded_generation(h->bytes);
	ripc__zk_queue_msg(z, &msg, split);
	/* That holder has no way to detect this one. */
	if (split)
		(void)ripc__ensemble_submit(z->e, RIPC__CALL_REPORT_RIVAL, r->service, h->bytes,
					    h->len, r);
}

void ripc__zk_held_found(struct ripc__zk *z, struct ripc__zk_held *h,
			 const struct ripc__ensemble_report *r)
{
	bool created = h->state == RIPC__ZK_CREATED;

	if (!r->ours && (created || (h->state == RIPC__ZK_TAKEN && !h->nonce)))
		ripc__zk_taken(z, h, r);
	else if (r->ours && created && (r->len != h->len || memcmp(r->bytes, h->bytes, r->len)))
		ripc__zk_claim(z, h);
}

void ripc__zk_rival(struct ripc__zk *z, struct ripc__zk_held *h, const uint8_t *bytes, size_t len)
{
	struct ripc__resolver_msg msg = {.kind = RIPC__RESOLVE_GONE, .service = h->node.id};

	if (!ripc__zk_decode(z, h->node.id, bytes, len, &msg.record))
		ripc__zk_queue_msg(z, &msg, true);
}
