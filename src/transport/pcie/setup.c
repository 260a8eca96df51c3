/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From a call in the shared memory to a connection. The active side takes a block, writes into its
 * notes what it wants, marks it with the reference of the peer and rings; the peer becomes its
 * user, takes a block of its own, and answers.
 */
#define _GNU_SOURCE
#include "base/log.h"
#include "transport/pcie/pcie.h"
#include "wire/bytes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define NAME        "pcie"
#define VERSION     1
#define ADDRESS_LEN 28 /* bytes of an address */

/* Notes: a request, or what is said with an answer. */
#define PARAMS_FIXED 8
#define PARAMS_LEN   (PARAMS_FIXED + RIPC__PRIVATE_MAX)

/* ---- addresses ---- */

int ripc__pcie_address(struct ripc__transport *tr, uint8_t *buf, size_t cap)
{
	const struct pcie *t = (struct pcie *)tr;

	ripc__put_le16(buf, VERSION);
	ripc__put_le16(buf + 2, 0);
	memcpy(buf + 4, t->memory.id, 16);
	ripc__put_le64(buf + 20, t->memory.ref);
	return ADDRESS_LEN;
}

static bool decode(const uint8_t *addr, size_t len, uint8_t id[16], uint64_t *ref)
{
	if (len != ADDRESS_LEN || ripc__get_le16(addr) != VERSION)
		return false;
	memcpy(id, addr + 4, 16);
	*ref = ripc__get_le64(addr + 20);
	return true;
}

void ripc__pcie_describe(const uint8_t *addr, size_t len, char *text, size_t textlen)
{
	uint8_t id[16];
	uint64_t ref;

	if (decode(addr, len, id, &ref))
		snprintf(text, textlen, "memory %02x%02x%02x%02x, place %llu, number %llu", id[0],
			 id[1], id[2], id[3],
			 (unsigned long long)(ref >> 1 & (RIPC__PCIE_ENTRIES - 1)),
			 (unsigned long long)(ref >> 16));
	else
		snprintf(text, textlen, "address that makes no sense");
}

/* ---- endpoints ---- */

static struct ripc__ep *ep_new(struct pcie *t, enum pcie_state state, uint64_t peer)
{
	struct ripc__ep *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return NULL;
	ep->t = t;
	ep->state = state;
	ep->peer = peer;
	ep->in = ep->out = PCIE_NO_BLOCK;
	ep->can_wake_us = ripc__pcie_doorbell(&t->memory, peer) & RIPC__PCIE_DOORBELL_SEND;
	ep->next = &t->eps;
	ep->prev = t->eps.prev;
	ep->prev->next = ep;
	t->eps.prev = ep;
	t->nconnecting += state == PCIE_CONNECTING;
	return ep;
}

void ripc__pcie_wake(struct pcie *t, uint64_t ref)
{
	if (!t->lost)
		ripc__pcie_doorbell_ring(&t->doorbell, ripc__pcie_doorbell(&t->memory, ref));
}

void ripc__pcie_defer_free(struct ripc__ep *ep)
{
	struct pcie *t = ep->t;

	t->nconnecting -= ep->state == PCIE_CONNECTING;
	if (ep->ring.be.ops) {
		if (t->lost)
			ripc__pcie_stop_writes(ep);
		ripc__ring_fini(&ep->ring);
	}
	if (ep->out != PCIE_NO_BLOCK && !t->lost)
		ripc__pcie_detach(&t->memory, ep->out);
	if (ep->in != PCIE_NO_BLOCK && !t->lost)
		ripc__pcie_block_put(&t->memory, ep->in);
	ep->prev->next = ep->next;
	ep->next->prev = ep->prev;
	ep->next = t->deferred_free;
	t->deferred_free = ep;
}

static void start_engine(struct ripc__ep *ep)
{
	struct ripc__pcie_memory *m = &ep->t->memory;
	struct ripc__ring_backend be = {
		.ops = &ripc__pcie_ops,
		.arg = ep,
		.inbox = ripc__pcie_inbox(m, ep->in),
		.map = ripc__pcie_outbox(m, ep->out),
		.caps = m->write_combining ? 0 : RIPC__RING_CAP_ORDERED,
	};

	ripc__ring_init(&ep->ring, &be, &ripc__pcie_layout, ep->epoch);
	ep->state = PCIE_OPEN;
	ep->established = true;
}

static void params_write(struct pcie *t, uint32_t block, unsigned which, uint8_t epoch,
			 const void *priv, size_t privlen)
{
	uint8_t notes[PARAMS_LEN] = {epoch};

	ripc__put_le16(notes + 2, (uint16_t)privlen);
	if (privlen)
		memcpy(notes + PARAMS_FIXED, priv, privlen);
	ripc__pcie_params_write(&t->memory, block, which, notes, PARAMS_FIXED + privlen);
}

/* Read once, then looked at. Return: false: they make no sense. */
static bool params_read(struct ripc__ep *ep, uint32_t block, unsigned which)
{
	uint8_t notes[PARAMS_LEN];
	size_t len;

	ripc__pcie_params_read(&ep->t->memory, block, which, notes, sizeof(notes));
	len = ripc__get_le16(notes + 2);
	if (len > RIPC__PRIVATE_MAX || !notes[0])
		return false;
	ep->epoch = notes[0];
	memcpy(ep->private, notes + PARAMS_FIXED, len);
	ep->private_len = (uint32_t)len;
	return true;
}

/* ---- active ---- */

static int check_private(size_t privlen)
{
	return privlen <= RIPC__PRIVATE_MAX
		       ? 0
		       : ripc__fail(-EINVAL, NAME ": %zu bytes of private data, at most %d",
				    privlen, RIPC__PRIVATE_MAX);
}

int ripc__pcie_connect(struct ripc__transport *tr, const uint8_t *addr, size_t addrlen,
		       const void *priv, size_t privlen, void *user, struct ripc__ep **out)
{
	struct pcie *t = (struct pcie *)tr;
	uint8_t id[16], epoch;
	struct ripc__ep *ep;
	uint64_t ref;
	int block;

	if (check_private(privlen))
		return -EINVAL;
	if (!decode(addr, addrlen, id, &ref))
		return ripc__fail(-EINVAL, NAME ": the peer's address makes no sense");
	if (memcmp(id, t->memory.id, sizeof(id)))
		return ripc__fail(-EHOSTUNREACH, NAME ": the peer sees another memory");
	if (t->lost)
		return ripc__fail(-ENODEV, NAME ": our place in the memory is lost");
	if (!ripc__pcie_alive(&t->memory, ref, t->peer_timeout_ns))
		return ripc__fail(-ECONNREFUSED, NAME ": the peer is not there any more");
	if (getrandom(&epoch, 1, 0) != 1)
		return ripc__fail(-EIO, NAME ": no random numbers");
	ep = ep_new(t, PCIE_CONNECTING, ref);
	if (!ep)
		return ripc__fail(-ENOMEM, NAME ": out of memory");
	block = ripc__pcie_block_get(&t->memory);
	if (block < 0) {
		ripc__pcie_defer_free(ep);
		return ripc__fail(block, NAME ": all %u blocks of the memory are in use",
				  t->memory.nblocks);
	}
	ep->user = user;
	ep->in = (uint32_t)block;
	ep->epoch = (uint8_t)(1 + epoch % 255);
	params_write(t, ep->in, 0, ep->epoch, priv, privlen);
	ripc__pcie_block_publish(&t->memory, ep->in, ref, RIPC__PCIE_REQUEST);
	ripc__pcie_notify(&t->memory, ref);
	ripc__pcie_wake(t, ref);
	*out = ep;
	return 0;
}

static void fail_later(struct ripc__ep *ep, int status, const char *why)
{
	ep->failed = status;
	ep->why = why;
}

void ripc__pcie_poll_answer(struct ripc__ep *ep)
{
	struct ripc__pcie_memory *m = &ep->t->memory;
	struct ripc__pcie_setup_msg seen;
	uint8_t epoch = ep->epoch;
	uint32_t other;
	unsigned answer = ripc__pcie_answer_read(m, ep->in, &other);

	if (!answer || ep->failed)
		return;
	if (!params_read(ep, ep->in, 1) || ep->epoch != epoch ||
	    (answer != RIPC__PCIE_ACCEPTED && answer != RIPC__PCIE_REJECTED)) {
		fail_later(ep, -EPROTO, "an answer that makes no sense");
		return;
	}
	if (answer == RIPC__PCIE_REJECTED) {
		fail_later(ep, -ECONNREFUSED, "the peer refused");
		return;
	}
	if (other >= m->nblocks || !ripc__pcie_block_read(m, other, &seen) ||
	    seen.owner != ep->peer || seen.target != m->ref ||
	    (uint8_t)seen.call != RIPC__PCIE_ACCEPT || !ripc__pcie_attach(m, other, &seen)) {
		fail_later(ep, -ECONNRESET, "the peer accepted and was gone");
		return;
	}
	ep->out = other;
	ep->t->nconnecting--;
	start_engine(ep);
}

/* ---- passive ---- */

static bool handle_request(struct pcie *t, uint32_t block, const struct ripc__pcie_setup_msg *seen,
			   struct ripc__event *ev)
{
	struct ripc__ep *ep = ep_new(t, PCIE_REQUESTED, seen->owner);

	if (!ep)
		return false;
	if (!ripc__pcie_attach(&t->memory, block, seen)) {
		ripc__pcie_defer_free(ep);
		return false;
	}
	ep->out = block;
	if (!params_read(ep, block, 0)) {
		ripc__pcie_defer_free(ep);
		*ev = (struct ripc__event){.kind = RIPC__EV_BAD_INPUT,
					   .text = "a request in the memory makes no sense"};
		return true;
	}
	snprintf(t->who, sizeof(t->who), "place %llu of %s",
		 (unsigned long long)(seen->owner >> 1 & (RIPC__PCIE_ENTRIES - 1)), t->device.name);
	*ev = (struct ripc__event){.kind = RIPC__EV_REQUEST,
				   .request = ep,
				   .data = ep->private,
				   .len = ep->private_len,
				   .source = (seen->owner >> 1 & (RIPC__PCIE_ENTRIES - 1)) + 1,
				   .text = t->who};
	return true;
}

unsigned ripc__pcie_poll_requests(struct pcie *t, struct ripc__event *events, unsigned max, bool *all)
{
	struct ripc__pcie_setup_msg seen;
	unsigned n = 0;

	for (uint32_t i = 0; i < t->memory.nblocks; i++) {
		if (!ripc__pcie_block_read(&t->memory, i, &seen) ||
		    (seen.call == t->last_msgs[i].call && seen.owner == t->last_msgs[i].owner) ||
		    seen.target != t->memory.ref || (uint8_t)seen.call != RIPC__PCIE_REQUEST)
			continue;
		if (n == max) {
			*all = false;
			return n;
		}
		t->last_msgs[i] = seen;
		n += handle_request(t, i, &seen, &events[n]);
	}
	*all = true;
	return n;
}

int ripc__pcie_accept(struct ripc__transport *tr, void *request, const void *priv, size_t privlen,
		      void *user, struct ripc__ep **out)
{
	struct pcie *t = (struct pcie *)tr;
	struct ripc__ep *ep = request;
	int block;

	if (check_private(privlen)) {
		ripc__pcie_defer_free(ep);
		return -EINVAL;
	}
	if (t->lost || !ripc__pcie_is_owner(&t->memory, ep->out, ep->peer)) {
		ripc__pcie_defer_free(ep);
		return ripc__fail(-ECONNRESET,
				  NAME ": the connection was lost before it was accepted");
	}
	block = ripc__pcie_block_get(&t->memory);
	if (block < 0) {
		ripc__pcie_defer_free(ep);
		return ripc__fail(block, NAME ": all %u blocks of the memory are in use",
				  t->memory.nblocks);
	}
	ep->user = user;
	ep->in = (uint32_t)block;
	ep->private_len = 0;
	params_write(t, ep->out, 1, ep->epoch, priv, privlen);
	ripc__pcie_block_publish(&t->memory, ep->in, ep->peer, RIPC__PCIE_ACCEPT);
	start_engine(ep);
	ripc__pcie_answer(&t->memory, ep->out, RIPC__PCIE_ACCEPTED, ep->in);
	ripc__pcie_notify(&t->memory, ep->peer);
	ripc__pcie_wake(t, ep->peer);
	*out = ep;
	return 0;
}

void ripc__pcie_reject(struct ripc__transport *tr, void *request, const void *priv, size_t privlen)
{
	struct pcie *t = (struct pcie *)tr;
	struct ripc__ep *ep = request;

	if (!t->lost) {
		params_write(t, ep->out, 1, ep->epoch, priv,
			     privlen < RIPC__PRIVATE_MAX ? privlen : RIPC__PRIVATE_MAX);
		ripc__pcie_answer(&t->memory, ep->out, RIPC__PCIE_REJECTED, 0);
		ripc__pcie_notify(&t->memory, ep->peer);
		ripc__pcie_wake(t, ep->peer);
	}
	ripc__pcie_defer_free(ep);
}
