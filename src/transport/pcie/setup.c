/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From a request in the shared memory to a connection. The active side claims a block, writes its
 * parameters there, publishes it for the reference of the peer, and notifies. The peer becomes the
 * user of the block, claims one of its own, and answers.
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
#define ADDRESS_LEN 28 /* bytes */

/* Parameters of a request or an answer. */
#define PARAMS_FIXED 8
#define PARAMS_LEN   (PARAMS_FIXED + RIPC__PRIVATE_MAX)

/* ---- addresses ---- */

int ripc__pcie_address(struct ripc__transport *tr, uint8_t *buf, size_t cap)
{
	const struct pcie *t = (struct pcie *)tr;

	if (pcie_lost(t))
		return -ENODEV;
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
		snprintf(text, textlen, "memory %02x%02x%02x%02x, entry %llu, claim %llu", id[0],
			 id[1], id[2], id[3],
			 (unsigned long long)(ref >> 1 & (RIPC__PCIE_ENTRIES - 1)),
			 (unsigned long long)(ref >> 16));
	else
		snprintf(text, textlen, "malformed address of %zu bytes", len);
}

/* ---- endpoints ---- */

static struct pcie_ep *ep_new(struct pcie *t, enum ripc__ep_state state, uint64_t peer)
{
	struct pcie_ep *ep = pcie_ep(ripc__ring_ep_new(&t->r, state));

	if (!ep)
		return NULL;
	ep->peer = peer;
	ep->in = ep->out = PCIE_NO_BLOCK;
	ep->can_wake_us = ripc__pcie_doorbell(&t->memory, peer) & RIPC__PCIE_DOORBELL_SEND;
	return ep;
}

static void pcie_release(struct ripc__ep *ep)
{
	struct pcie *t = pcie_of(ep);

	if (pcie_lost(t))
		return;
	if (pcie_ep(ep)->out != PCIE_NO_BLOCK)
		ripc__pcie_detach(&t->memory, pcie_ep(ep)->out);
	if (pcie_ep(ep)->in != PCIE_NO_BLOCK)
		ripc__pcie_block_put(&t->memory, pcie_ep(ep)->in);
}

/* Claims our block. Return: 0 or a negative errno, explained. */
static int claim_block(struct pcie_ep *ep)
{
	struct ripc__pcie_memory *m = &pcie_of(&ep->ep)->memory;
	int block = ripc__pcie_block_get(m);

	if (block < 0)
		return ripc__fail(block, NAME ": all %u blocks are taken", m->nblocks);
	ep->in = (uint32_t)block;
	return 0;
}

/* ---- the engine's back end ---- */

/* Writes to the doorbell of a context, if it has one: after ripc__pcie_notify(). */
static void wake(struct pcie *t, uint64_t ref)
{
	if (!pcie_lost(t))
		ripc__pcie_doorbell_ring(&t->doorbell, ripc__pcie_doorbell(&t->memory, ref));
}

static void pcie_notify(struct pcie *t, uint64_t ref)
{
	ripc__pcie_notify(&t->memory, ref);
	wake(t, ref);
}

static void pcie_fence(void *arg)
{
	ripc__pcie_fence(&pcie_of(arg)->memory);
}

/* A peer without a doorbell wakes up by itself and polls. */
static void pcie_kick(void *arg)
{
	wake(pcie_of(arg), pcie_ep(arg)->peer);
}

/* Without write combining a release fence orders stores, as the engine does. */
static const struct ripc__ring_backend_ops uncombined_ops = {.kick = pcie_kick};
static const struct ripc__ring_backend_ops combining_ops = {.fence = pcie_fence, .kick = pcie_kick};

static void start_engine(struct pcie_ep *ep)
{
	struct ripc__pcie_memory *m = &pcie_of(&ep->ep)->memory;
	struct ripc__ring_backend be = {
		.ops = m->write_combining ? &combining_ops : &uncombined_ops,
		.arg = &ep->ep,
		.inbox = ripc__pcie_inbox(m, ep->in),
		.map = ripc__pcie_outbox(m, ep->out),
	};

	ripc__ring_ep_open(&ep->ep, &be, &ripc__pcie_layout, ep->epoch);
}

static void params_write(struct pcie *t, uint32_t block, unsigned which, uint8_t epoch,
			 const void *priv, size_t privlen)
{
	uint8_t params[PARAMS_LEN] = {epoch};

	ripc__put_le16(params + 2, (uint16_t)privlen);
	if (privlen)
		memcpy(params + PARAMS_FIXED, priv, privlen);
	memcpy(ripc__pcie_params(&t->memory, block, which), params, PARAMS_FIXED + privlen);
}

/* Reads them once, then checks them. Return: whether they are well formed. */
static bool params_read(struct pcie_ep *ep, uint32_t block, unsigned which)
{
	uint8_t params[PARAMS_LEN];
	size_t len;

	memcpy(params, ripc__pcie_params(&pcie_of(&ep->ep)->memory, block, which), sizeof(params));
	len = ripc__get_le16(params + 2);
	if (len > RIPC__PRIVATE_MAX || !params[0])
		return false;
	ep->epoch = params[0];
	memcpy(ep->ep.setup->private, params + PARAMS_FIXED, len);
	ep->ep.setup->private_len = (uint32_t)len;
	return true;
}

/* ---- active ---- */

static int pcie_connect(struct ripc__transport *base, const uint8_t *addr, size_t addrlen,
			const void *priv, size_t privlen, struct ripc__ep **out)
{
	struct pcie *t = (struct pcie *)base;
	uint8_t id[16], epoch;
	struct pcie_ep *ep;
	uint64_t ref;
	int rc;

	if (!decode(addr, addrlen, id, &ref))
		return ripc__fail(-EINVAL, NAME ": malformed address of %zu bytes, expected %d",
				  addrlen, ADDRESS_LEN);
	if (memcmp(id, t->memory.id, sizeof(id)))
		return ripc__fail(-EHOSTUNREACH, NAME ": the peer sees another memory");
	if (pcie_lost(t))
		return ripc__fail(-ENODEV, NAME ": our entry in the memory is lost");
	if (!ripc__pcie_alive(&t->memory, ref, t->peer_timeout_ns))
		return ripc__fail(-ECONNREFUSED, NAME ": the peer is not there any more");
	if (getrandom(&epoch, 1, 0) != 1)
		return ripc__fail(-EIO, NAME ": no random numbers");
	ep = ep_new(t, RIPC__EP_CONNECTING, ref);
	if (!ep)
		return ripc__fail(-ENOMEM, NAME ": out of memory");
	rc = claim_block(ep);
	if (rc) {
		ripc__ring_ep_defer_free(&ep->ep);
		return rc;
	}
	ep->epoch = (uint8_t)(1 + epoch % 255);
	params_write(t, ep->in, 0, ep->epoch, priv, privlen);
	ripc__pcie_block_publish(&t->memory, ep->in, ref, RIPC__PCIE_REQUEST);
	pcie_notify(t, ref);
	*out = &ep->ep;
	return 0;
}

void ripc__pcie_poll_answer(struct ripc__ep *base)
{
	struct pcie_ep *ep = pcie_ep(base);
	struct ripc__pcie_memory *m = &pcie_of(base)->memory;
	struct ripc__pcie_setup_msg seen;
	uint8_t epoch = ep->epoch;
	uint32_t other;
	unsigned answer = ripc__pcie_answer_read(m, ep->in, &other);

	if (!answer || base->setup->failed)
		return;
	if (!params_read(ep, ep->in, 1) || ep->epoch != epoch ||
	    (answer != RIPC__PCIE_ACCEPTED && answer != RIPC__PCIE_REJECTED)) {
		ripc__ring_ep_fail(base, -EPROTO, "the peer's answer is malformed");
		return;
	}
	if (answer == RIPC__PCIE_REJECTED) {
		ripc__ring_ep_fail(base, -ECONNREFUSED, "the peer refused");
		return;
	}
	if (other >= m->nblocks || !ripc__pcie_block_read(m, other, &seen) ||
	    seen.owner != ep->peer || seen.target != m->ref ||
	    (uint8_t)seen.call != RIPC__PCIE_ACCEPT || !ripc__pcie_attach(m, other, &seen)) {
		ripc__ring_ep_fail(base, -ECONNRESET, "the peer accepted and was gone");
		return;
	}
	ep->out = other;
	start_engine(ep);
}

/* ---- passive ---- */

static unsigned handle_request(struct pcie *t, uint32_t block,
			       const struct ripc__pcie_setup_msg *seen, struct ripc__event *ev)
{
	struct pcie_ep *ep = ep_new(t, RIPC__EP_REQUESTED, seen->owner);
	unsigned entry = (unsigned)(seen->owner >> 1 & (RIPC__PCIE_ENTRIES - 1));

	if (!ep)
		return 0;
	if (!ripc__pcie_attach(&t->memory, block, seen)) {
		ripc__ring_ep_defer_free(&ep->ep);
		return 0;
	}
	ep->out = block;
	if (!params_read(ep, block, 0)) {
		ripc__ring_ep_defer_free(&ep->ep);
		ripc__report_bad_input(&t->reports, t->device.name, "malformed request");
		return 0;
	}
	snprintf(ep->ep.setup->text, sizeof(ep->ep.setup->text), "entry %u of %.120s", entry,
		 t->device.name);
	*ev = ripc__ring_ep_request(&ep->ep, entry + 1);
	return 1;
}

unsigned ripc__pcie_poll_request(struct pcie *t, struct ripc__event *ev, bool *all)
{
	struct ripc__pcie_setup_msg seen;
	unsigned n = 0;

	*all = false;
	for (uint32_t i = 0; i < t->memory.nblocks; i++) {
		if (!ripc__pcie_block_read(&t->memory, i, &seen) ||
		    (seen.call == t->last_msgs[i].call && seen.owner == t->last_msgs[i].owner) ||
		    seen.target != t->memory.ref || (uint8_t)seen.call != RIPC__PCIE_REQUEST)
			continue;
		if (n)
			return n;
		t->last_msgs[i] = seen;
		n = handle_request(t, i, &seen, ev);
	}
	*all = true;
	return n;
}

static int pcie_accept(struct ripc__ep *base, const void *priv, size_t privlen)
{
	struct pcie_ep *ep = pcie_ep(base);
	struct pcie *t = pcie_of(base);
	int rc;

	if (pcie_lost(t) || !ripc__pcie_is_owner(&t->memory, ep->out, ep->peer))
		return ripc__fail(-ECONNRESET,
				  NAME ": the connection was lost before it was accepted");
	rc = claim_block(ep);
	if (rc)
		return rc;
	params_write(t, ep->out, 1, ep->epoch, priv, privlen);
	ripc__pcie_block_publish(&t->memory, ep->in, ep->peer, RIPC__PCIE_ACCEPT);
	start_engine(ep);
	ripc__pcie_answer(&t->memory, ep->out, RIPC__PCIE_ACCEPTED, ep->in);
	pcie_notify(t, ep->peer);
	return 0;
}

static void pcie_reject(struct ripc__ep *base, const void *priv, size_t privlen)
{
	struct pcie_ep *ep = pcie_ep(base);
	struct pcie *t = pcie_of(base);

	if (pcie_lost(t))
		return;
	params_write(t, ep->out, 1, ep->epoch, priv, privlen);
	ripc__pcie_answer(&t->memory, ep->out, RIPC__PCIE_REJECTED, 0);
	pcie_notify(t, ep->peer);
}

const struct ripc__ring_setup_ops ripc__pcie_setup = {
	.ep_size = sizeof(struct pcie_ep),
	.connect = pcie_connect,
	.accept = pcie_accept,
	.reject = pcie_reject,
	.release = pcie_release,
};
