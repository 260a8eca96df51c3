/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Endpoints over rings: their life, exposed memory, and posts. */
#define _GNU_SOURCE
#include "transport/ring/endpoint.h"
#include "base/log.h"
#include "transport/ring/fast_path.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define RECV_MEMORY   ((size_t)64 << 20) /* bytes of received messages that are held at most */
#define READ_DEPTH    8u
#define RDMA_MAX      (1u << 30)
#define MINCORE_PAGES 4096u /* pages that one mincore() asks for */

/* ---- life ---- */

void *ripc__ring_transport_new(size_t size, const struct ripc__transport_ops *ops,
			       const struct ripc__ring_setup_ops *setup, unsigned caps)
{
	struct ripc__transport *t = calloc(1, size);

	if (t)
		t->scratch = malloc(RIPC__RING_RECV_BUF_LEN);
	if (!t || !t->scratch) {
		free(t);
		ripc__fail(-ENOMEM, "%s: out of memory", ops->name);
		return NULL;
	}
	t->ops = ops;
	t->setup = setup;
	t->caps = caps | RIPC__CAP_CONNECTED | RIPC__CAP_READ | RIPC__CAP_CHEAP_REG |
		  RIPC__CAP_TARGET_PROGRESS;
	ripc__list_init(&t->eps);
	ripc__list_init(&t->idle);
	ripc__list_init(&t->deferred_free);
	t->idle_next = &t->idle;
	ripc__slab_pool_init(&t->pool, RECV_MEMORY);
	return t;
}

static void free_setup(struct ripc__ep *ep)
{
	free(ep->setup);
	ep->setup = NULL;
}

static void free_deferred(struct ripc__transport *t)
{
	struct ripc__list *n;

	while ((n = ripc__list_take(&t->deferred_free))) {
		struct ripc__ep *ep = ripc__list_entry(n, struct ripc__ep, link);

		free_setup(ep);
		free(ep);
	}
}

void ripc__ring_transport_begin(struct ripc__transport *t)
{
	free_deferred(t);
	t->scratch_used = false;
}

void ripc__ring_transport_fini(struct ripc__transport *t)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&t->eps)) || (n = ripc__list_first(&t->idle)))
		ripc__ring_ep_close(ripc__list_entry(n, struct ripc__ep, link));
	free_deferred(t);
	ripc__slab_pool_fini(&t->pool);
	free(t->scratch);
}

void ripc__ring_limits(struct ripc__transport *t, struct ripc__transport_limits *limits)
{
	*limits = (struct ripc__transport_limits){
		.fd = t->fd,
		.caps = t->caps,
		.send_max = RIPC__RING_SEND_MAX,
		.recv_depth = 0,
		.read_depth = READ_DEPTH,
		.rdma_max = RDMA_MAX,
	};
}

/* Moves an endpoint to the end of another list. */
static void move_to(struct ripc__list *list, struct ripc__ep *ep)
{
	struct ripc__transport *t = ep->t;

	if (t->idle_next == &ep->link)
		t->idle_next = ep->link.next;
	if (t->last_rx == ep)
		t->last_rx = NULL;
	ripc__list_del(&ep->link);
	ripc__list_add(list, &ep->link);
}

struct ripc__ep *ripc__ring_ep_new(struct ripc__transport *t, enum ripc__ep_state state)
{
	struct ripc__ep *ep = calloc(1, t->setup->ep_size);

	if (ep)
		ep->setup = calloc(1, sizeof(*ep->setup));
	if (!ep || !ep->setup) {
		free(ep);
		return NULL;
	}
	ep->t = t;
	ep->state = state;
	t->neps[state]++;
	ripc__list_add(&t->eps, &ep->link);
	return ep;
}

#define TO(state) (1u << RIPC__EP_##state)

/* The states that may follow each state. */
__attribute__((unused)) static const unsigned next_states[RIPC__EP_STATES] = {
	[RIPC__EP_INCOMING] = TO(REQUESTED),
	[RIPC__EP_REQUESTED] = TO(OPEN),
	[RIPC__EP_CONNECTING] = TO(OPEN) | TO(CLOSED),
	[RIPC__EP_OPEN] = TO(CLOSED),
	[RIPC__EP_CLOSED] = 0,
};

void ripc__ring_ep_set_state(struct ripc__ep *ep, enum ripc__ep_state state)
{
	assert(next_states[ep->state] & 1u << state);
	ep->t->neps[ep->state]--;
	ep->state = state;
	ep->t->neps[state]++;
}

void ripc__ring_ep_open(struct ripc__ep *ep, const struct ripc__ring_backend *be,
			const struct ripc__ring_layout *layout, uint8_t epoch)
{
	const char *lost = ep->lost ? ep->ring.why : NULL;

	ripc__ring_init(&ep->ring, be, layout, epoch);
	ep->ring.why = lost;
	ripc__ring_ep_set_state(ep, RIPC__EP_OPEN);
	ep->established = true;
}

struct ripc__event ripc__ring_ep_request(struct ripc__ep *ep, uint64_t source)
{
	return (struct ripc__event){.kind = RIPC__EV_REQUEST,
				    .request = ep,
				    .data = ep->setup->private,
				    .len = ep->setup->private_len,
				    .source = source,
				    .text = ep->setup->text};
}

void ripc__ring_ep_fail(struct ripc__ep *ep, int status, const char *why)
{
	if (ep->setup->failed)
		return;
	ep->setup->failed = status;
	snprintf(ep->setup->text, sizeof(ep->setup->text), "%s", why);
}

void ripc__ring_ep_defer_free(struct ripc__ep *ep)
{
	struct ripc__transport *t = ep->t;

	if (ep->ring.be.ops)
		ripc__ring_fini(&ep->ring);
	t->setup->release(ep);
	t->neps[ep->state]--;
	move_to(&t->deferred_free, ep);
}

void ripc__ring_ep_close(struct ripc__ep *ep)
{
	if (ep->state == RIPC__EP_OPEN) {
		/* There may be no room for BYE. */
		ripc__ring_flush(&ep->ring);
		ripc__ring_send_bye(&ep->ring);
	}
	ripc__ring_ep_defer_free(ep);
}

void ripc__ring_ep_activate(struct ripc__ep *ep)
{
	ep->empty_polls = 0;
	if (!ep->idle)
		return;
	ep->idle = false;
	move_to(&ep->t->eps, ep);
}

void ripc__ring_ep_make_idle(struct ripc__ep *ep)
{
	ep->idle = true;
	/* The next post takes the slow path, which activates it. */
	ep->ring.tx_fast_end = 0;
	ripc__ring_trim(&ep->ring);
	free_setup(ep);
	move_to(&ep->t->idle, ep);
}

/* ---- set-up ---- */

int ripc__ring_connect(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
		       const void *priv, size_t privlen, void *user, struct ripc__ep **out)
{
	int rc = t->setup->connect(t, addr, addrlen, priv, privlen, out);

	if (!rc)
		(*out)->user = user;
	return rc;
}

int ripc__ring_accept(struct ripc__transport *t, void *request, const void *priv, size_t privlen,
		      void *user, struct ripc__ep **out)
{
	struct ripc__ep *ep = request;
	int rc;

	/* EV_ESTABLISHED has private data on the active side only. */
	ep->setup->private_len = 0;
	rc = ep->t->setup->accept(ep, priv, privlen);
	if (rc) {
		ripc__ring_ep_defer_free(ep);
		return rc;
	}
	ep->user = user;
	*out = ep;
	return 0;
}

void ripc__ring_reject(struct ripc__transport *t, void *request, const void *priv, size_t privlen)
{
	struct ripc__ep *ep = request;

	ep->t->setup->reject(ep, priv, privlen);
	ripc__ring_ep_defer_free(ep);
}

/* ---- memory ---- */

/*
 * Whether all pages of our memory are present; -ENOMEM: some are not mapped. A peer that reads
 * directly waits for missing pages in a system call that only SIGKILL ends, for example for a
 * userfaultfd handler, a FUSE daemon or a file server. That peer holds its context's lock
 * meanwhile. So memory with missing pages is served through the ring, where our own thread touches
 * it. For a mapped file that the process neither owns nor may write, mincore() reports all pages as
 * present (Linux 5.2 and later); /proc/self/pagemap does not, but takes 20 times as long.
 */
static int resident(const void *base, size_t len)
{
	uintptr_t page = (uintptr_t)getpagesize(), at = (uintptr_t)base & ~(page - 1);
	uintptr_t end = (uintptr_t)base + len;
	unsigned char present[MINCORE_PAGES];

	while (at < end) {
		size_t n = (end - at + page - 1) / page;

		n = n < MINCORE_PAGES ? n : MINCORE_PAGES;
		if (mincore((void *)at, n * page, present))
			return errno == ENOMEM ? -ENOMEM : 0;
		for (size_t i = 0; i < n; i++)
			if (!(present[i] & 1))
				return 0;
		at += n * page;
	}
	return 1;
}

/*
 * Whether the peer could read the memory directly, but might have to wait for its pages. Return: 0,
 * 1, or -ENOMEM: it is not mapped.
 */
static int must_serve(const struct ripc__ep *ep, const void *base, size_t len, unsigned access)
{
	int present;

	if ((access & (RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_RESIDENT)) !=
		    RIPC__ACCESS_REMOTE_READ ||
	    !ep->ring.be.ops->read)
		return 0;
	present = resident(base, len);
	return present < 0 ? present : !present;
}

int ripc__ring_mr_reg(struct ripc__transport *t, struct ripc__ep *ep, void *base, size_t len,
		      unsigned access, struct ripc__mr *mr)
{
	struct ripc__ring_region *region = NULL;
	int served;

	if (access & (RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE)) {
		if (!ep || ep->state != RIPC__EP_OPEN)
			return ripc__fail(-ENOTCONN, "%s: no connection to expose memory to",
					  t->ops->name);
		served = must_serve(ep, base, len, access);
		if (served < 0)
			return ripc__fail(-EFAULT, "no memory is mapped at %p", base);
		/* A context that reads its own memory waits for its pages in both cases. */
		if (served && !(t->caps & RIPC__CAP_SELF))
			access |= RIPC__RING_ACCESS_SERVED;
		region = ripc__ring_reg(&ep->ring, base, len, access);
		if (!region)
			return ripc__fail(
				-ENOMEM, "%s: out of memory, or %u regions are exposed to one peer",
				t->ops->name, RIPC__RING_REGIONS_MAX);
	}
	*mr = (struct ripc__mr){
		.base = base,
		.len = len,
		.addr = region ? region->addr : 0,
		.key = region ? region->key : 0,
		.access = access & ~RIPC__RING_ACCESS_SERVED,
		.priv = region,
	};
	return 0;
}

void ripc__ring_mr_dereg(struct ripc__transport *t, struct ripc__mr *mr)
{
	struct ripc__ring_region *region = mr->priv;

	mr->priv = NULL;
	mr->key = 0;
	if (region)
		ripc__ring_dereg(region);
}

/* ---- posts ---- */

/* Several items, a long message, an idle or closed endpoint, a full ring, a weak back end. */
static int __attribute__((noinline)) post_slow(struct ripc__ep *ep, const void *head, size_t len,
					       const struct iovec *items, unsigned n, bool more)
{
	struct iovec all[1 + RIPC__POST_ITEMS_MAX];

	if (ep->state != RIPC__EP_OPEN)
		return -ENOTCONN;
	ripc__ring_ep_activate(ep);
	len = ripc__post_gather(all, head, len, items, n);
	return ripc__ring_send(&ep->ring, all, 1 + n, len, more);
}

/* Whether ring_copy_head() takes a header of this length. */
static inline bool is_head_len(size_t len)
{
	return len == RIPC__POST_SHORT_HEADER_LEN || len == RIPC__POST_CALL_HEADER_LEN ||
	       len == RIPC__POST_HEADER_LEN;
}

/* A message that is too long for slots, or the ring is full. */
static int __attribute__((noinline))
post_bulk(struct ripc__ep *ep, const void *head, size_t len, const struct iovec *item, bool more)
{
	int rc =
		is_head_len(len) ? ripc__ring_send_bulk(&ep->ring, head, len, item, more) : -EAGAIN;

	if (rc == -EAGAIN)
		return post_slow(ep, head, len, item, 1, more);
	ep->empty_polls = 0;
	return rc;
}

int ripc__ring_post(struct ripc__ep *ep, const void *head, size_t head_len,
		    const struct iovec *items, unsigned n, bool more)
{
	/* The fast path is open only as long as the endpoint is open and active. */
	if (!n && head_len >= RIPC__POST_HEADER_LEN && ripc__ring_fits_fast(&ep->ring, head_len)) {
		/* A control message, or a long one without inline items. */
		ep->empty_polls = 0;
		return ripc__ring_send_fast(&ep->ring, head, RIPC__POST_HEADER_LEN,
					    (const uint8_t *)head + RIPC__POST_HEADER_LEN,
					    head_len - RIPC__POST_HEADER_LEN, more);
	}
	if (__builtin_expect(n != 1, 0))
		return post_slow(ep, head, head_len, items, n, more);
	if (__builtin_expect(!ripc__ring_fits_fast(&ep->ring, head_len + items->iov_len), 0))
		return post_bulk(ep, head, head_len, items, more);
	ep->empty_polls = 0;
	if (head_len == RIPC__POST_SHORT_HEADER_LEN)
		return ripc__ring_send_fast(&ep->ring, head, RIPC__POST_SHORT_HEADER_LEN,
					    items->iov_base, items->iov_len, more);
	if (head_len == RIPC__POST_CALL_HEADER_LEN)
		return ripc__ring_send_fast(&ep->ring, head, RIPC__POST_CALL_HEADER_LEN,
					    items->iov_base, items->iov_len, more);
	if (head_len == RIPC__POST_HEADER_LEN)
		return ripc__ring_send_fast(&ep->ring, head, RIPC__POST_HEADER_LEN, items->iov_base,
					    items->iov_len, more);
	return post_slow(ep, head, head_len, items, n, more);
}

int ripc__ring_transfer(struct ripc__ep *ep, const struct ripc__transfer *x)
{
	int rc;

	if (ep->state != RIPC__EP_OPEN)
		return -ENOTCONN;
	ripc__ring_ep_activate(ep);
	if (x->kind == RIPC__READ)
		rc = ripc__ring_read(&ep->ring, x->local, x->len, x->raddr, x->rkey, x->wr_id);
	else
		rc = ripc__ring_write(&ep->ring, x->local, x->len, x->raddr, x->rkey, x->wr_id);
	return rc == -ENOMEM ? ripc__fail_text(rc, "out of memory") : rc;
}
