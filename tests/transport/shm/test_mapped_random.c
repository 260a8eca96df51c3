/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Mapped zero copy against a model, in virtual time: three contexts send parts of their buffers,
 * use the parts again as soon as they may, keep messages, pass them on, and lose lanes. Each
 * message keeps its content until it is freed, and arrives once and in order.
 */
#define _GNU_SOURCE
#include "core/memory/mapped.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/service/service.h"

#include "virtual_time.h"

#include <errno.h>
#include <stdlib.h>

#define BUFFERS 4
#define PARTS   4 /* of a buffer, that are sent one by one */
#define PART    ((size_t)64 << 10)
#define HELD    12
#define FLIGHTS 24
#define QUEUE   64
#define ITEMS   2

struct buffer {
	uint8_t *base; /* NULL: none */
	uint64_t tag[PARTS];
	bool sent[PARTS]; /* a request reads it */
	unsigned sends;
};

/* A message that is to arrive. */
struct expected {
	unsigned nitems, nparts; /* one item has all parts, or each has one */
	uint64_t tag[PARTS];
	bool maybe, never; /* its sender does not know; its sender has withdrawn it */
};

/* Messages of one context to another: e[first % QUEUE] is the next one. */
struct queue {
	struct expected e[QUEUE];
	unsigned first, end;
};

struct held {
	struct ripc_message *m; /* NULL: none */
	struct expected e;
	unsigned sends; /* requests that pass it on */
	bool detached;  /* its last item was */
};

struct flight {
	struct ripc_request *r; /* NULL: none */
	struct buffer *b;
	struct held *from; /* passed on; or NULL */
	unsigned at[PARTS], nparts;
	struct queue *q;
	unsigned number; /* in q */
	bool free_items;
};

static struct buffer buffers[CONTEXTS][BUFFERS];
static struct held held[CONTEXTS][HELD];
static struct flight flights[CONTEXTS][FLIGHTS];
static struct queue queues[CONTEXTS][CONTEXTS];
static uint64_t chance, next_tag;
static unsigned in_place, received, passed_on;

static unsigned draw(unsigned n)
{
	return (unsigned)(test_random(&chance) % n);
}

static void write_part(struct buffer *b, unsigned i)
{
	b->tag[i] = ++next_tag;
	for (size_t k = 0; k < PART; k += 512)
		memcpy(b->base + i * PART + k, &b->tag[i], 8);
}

static void verify_part(const uint8_t *p, uint64_t tag)
{
	for (size_t k = 0; k < PART; k += 512)
		ck_assert_msg(!memcmp(p + k, &tag, 8), "not the bytes of the sender at %zu", k);
}

static void verify(const struct held *h)
{
	for (unsigned i = 0; i < h->e.nparts - h->detached; i++)
		verify_part(h->e.nitems == 1 ? (uint8_t *)h->m->items[0].iov_base + i * PART
					     : h->m->items[i].iov_base,
			    h->e.tag[i]);
}

/* The request has ended: its memory is the application's again. */
static void ended(struct flight *f, int rc)
{
	struct expected *e = &f->q->e[f->number % QUEUE];

	ck_assert_msg(!rc || rc == -EPIPE || rc == -ECANCELED, "%s: %s", ripc_strerror(rc),
		      ripc_error_detail());
	ck_assert(rc != -ECANCELED || f->number >= f->q->first);
	if (rc && f->number >= f->q->first) {
		e->maybe = rc == -EPIPE;
		e->never = rc == -ECANCELED;
	}
	f->r = NULL;
	if (f->from) {
		f->from->sends--;
		return;
	}
	f->b->sends--;
	if (f->free_items && !rc) {
		f->b->base = NULL;
		return;
	}
	for (unsigned i = 0; i < f->nparts; i++) {
		f->b->sent[f->at[i]] = false;
		write_part(f->b, f->at[i]);
	}
}

static void test_requests(unsigned i)
{
	for (struct flight *f = flights[i]; f < flights[i] + FLIGHTS; f++) {
		int rc = f->r ? ripc_request_test(&f->r) : -EINPROGRESS;

		if (rc != -EINPROGRESS)
			ended(f, rc);
	}
}

static void take(unsigned i)
{
	struct held *h = held[i];
	struct queue *q = NULL;
	struct expected *e;
	uint64_t tag;

	while (h < held[i] + HELD && h->m)
		h++;
	if (h == held[i] + HELD || ripc_receive(service[i], &h->m, 0)) {
		if (h < held[i] + HELD)
			h->m = NULL;
		return;
	}
	for (unsigned k = 0; k < CONTEXTS; k++)
		if (h->m->source == test_ids() + k)
			q = &queues[k][i];
	ck_assert_ptr_nonnull(q);
	memcpy(&tag, h->m->items[0].iov_base, 8);
	for (;; q->first++) {
		ck_assert_msg(q->first < q->end, "message %llu has come twice, or has changed",
			      (unsigned long long)tag);
		e = &q->e[q->first % QUEUE];
		if (e->tag[0] == tag && !e->never)
			break;
		ck_assert_msg(e->maybe || e->never, "message %llu is lost, or late",
			      (unsigned long long)e->tag[0]);
	}
	q->first++;
	h->e = *e;
	h->sends = 0;
	h->detached = false;
	ck_assert_uint_eq(h->m->nitems, e->nitems);
	for (unsigned k = 0; k < e->nitems; k++) {
		ck_assert_uint_eq(h->m->items[k].iov_len, PART * e->nparts / e->nitems);
		in_place += h->m->placement[k] == RIPC_IN_SENDER_MEMORY;
	}
	received++;
	verify(h);
}

static void drop(unsigned i, struct held *h)
{
	void *p;

	if (!h->m || h->sends)
		return;
	verify(h);
	if (h->e.nitems > 1 && !h->detached && draw(2)) {
		p = ripc_message_detach(h->m, 1);
		ck_assert_msg(p != NULL, "%s", ripc_error_detail());
		verify_part(p, h->e.tag[1]);
		ck_assert_int_eq(ripc_buf_free(ctx[i], p), 0);
		h->detached = true;
		return;
	}
	ripc_message_free(h->m);
	h->m = NULL;
}

static void add_part(struct flight *f, struct expected *e, unsigned at)
{
	f->b->sent[at] = true;
	f->at[f->nparts++] = at;
	e->tag[e->nparts++] = f->b->tag[at];
}

/* From context i, a buffer, a part or two of it, or the items of a message that it holds. */
static void send_one(unsigned i, bool pass_on)
{
	struct ripc_send_options options = {.size = sizeof(options), .flags = RIPC_FREE_ITEMS};
	struct buffer *b = &buffers[i][draw(BUFFERS)];
	struct held *h = pass_on ? &held[i][draw(HELD)] : NULL;
	unsigned to = (i + 1 + draw(CONTEXTS - 1)) % CONTEXTS;
	struct queue *q = &queues[i][to];
	struct expected *e = &q->e[q->end % QUEUE];
	struct flight *f = flights[i];
	struct iovec items[ITEMS];

	while (f < flights[i] + FLIGHTS && f->r)
		f++;
	if (f == flights[i] + FLIGHTS || q->end - q->first == QUEUE ||
	    (h ? !h->m || h->detached : !b->base))
		return;
	*f = (struct flight){.b = b, .from = h, .q = q, .number = q->end};
	*e = (struct expected){.nitems = 0};
	if (h) {
		*e = h->e;
		for (unsigned k = 0; k < e->nitems; k++)
			items[k] = h->m->items[k];
	}
	if (!h && !b->sends && !draw(3)) {
		items[0] = (struct iovec){b->base, PARTS * PART};
		e->nitems = 1;
		for (unsigned k = 0; k < PARTS; k++)
			add_part(f, e, k);
	}
	for (unsigned k = 0; !h && e->nparts < PARTS && k < 1 + draw(ITEMS); k++) {
		unsigned at = draw(PARTS);

		if (b->sent[at])
			break;
		items[e->nitems++] = (struct iovec){b->base + at * PART, PART};
		add_part(f, e, at);
	}
	if (!e->nitems)
		return;
	f->free_items = !h && e->nitems == 1 && !b->sends && !draw(4);
	ck_assert_msg(!ripc_send_async(service[i], test_ids() + to, items, e->nitems,
				       f->free_items ? &options : NULL, &f->r),
		      "%s", ripc_error_detail());
	q->end++;
	if (h)
		h->sends++;
	else
		b->sends++;
	passed_on += h != NULL;
	/* The rest of the buffer is not sent any more. */
	for (unsigned k = 0; f->free_items && k < PARTS; k++)
		b->sent[k] = true;
}

static void renew(unsigned i)
{
	struct buffer *b = &buffers[i][draw(BUFFERS)];

	if (b->base && (b->sends || draw(2)))
		return;
	if (b->base)
		ck_assert_msg(!ripc_buf_free(ctx[i], b->base), "%s", ripc_error_detail());
	*b = (struct buffer){.base = ripc_buf_alloc(ctx[i], PARTS * PART)};
	ck_assert_ptr_nonnull(b->base);
	for (unsigned k = 0; k < PARTS; k++)
		write_part(b, k);
}

static void act(unsigned i, unsigned action)
{
	struct flight *f = &flights[i][draw(FLIGHTS)];
	struct ripc__lane *lane;

	switch (action) {
	case 0 ... 29:
		send_one(i, false);
		break;
	case 30 ... 34:
		send_one(i, true);
		break;
	case 35 ... 59:
		take(i);
		break;
	case 60 ... 79:
		drop(i, &held[i][draw(HELD)]);
		break;
	case 80 ... 84:
		renew(i);
		break;
	case 85 ... 86:
		lane_block(i, draw(4));
		break;
	case 87 ... 89:
		lanes_unblock();
		break;
	case 90:
		if (f->r)
			ended(f, ripc_request_cancel(&f->r, 0));
		break;
	case 91:
		lane = draw(8) ? NULL : lane_nth(i, draw(4));
		if (lane)
			ripc__lane_fail(lane, -ECONNRESET, "as the test wants it");
		break;
	default:
		test_requests(i);
		pass(draw(20) * STEP);
	}
}

/* Ends what is under way: each message has arrived that had to. */
static void settle(void)
{
	bool busy = true;

	for (unsigned round = 0; busy; round++) {
		busy = false;
		ck_assert_uint_lt(round, 5000);
		lanes_unblock();
		pass(10 * STEP);
		for (unsigned i = 0; i < CONTEXTS; i++) {
			test_requests(i);
			take(i);
			for (unsigned k = 0; k < HELD; k++) {
				drop(i, &held[i][k]);
				busy |= held[i][k].m != NULL;
			}
			for (unsigned k = 0; k < FLIGHTS; k++)
				busy |= flights[i][k].r != NULL;
			busy |= service[i]->queued || !ripc__list_empty(&service[i]->rndvs_in);
		}
	}
	for (unsigned i = 0; i < CONTEXTS * CONTEXTS; i++) {
		struct queue *q = &queues[i / CONTEXTS][i % CONTEXTS];

		for (; q->first < q->end; q->first++)
			ck_assert_msg(q->e[q->first % QUEUE].maybe || q->e[q->first % QUEUE].never,
				      "a message is lost");
	}
}

START_TEST(mapped__random_use)
{
	const struct ripc__lane *lane;

	chance = test_seed() + (unsigned)_i;
	for (unsigned n = 0; n < 20000; n++)
		act(draw(CONTEXTS), draw(100));
	settle();
	for (unsigned i = 0; i < CONTEXTS * BUFFERS; i++) {
		struct buffer *b = &buffers[i / BUFFERS][i % BUFFERS];

		if (b->base)
			ck_assert_int_eq(ripc_buf_free(ctx[i / BUFFERS], b->base), 0);
	}
	pass(10 * RIPC__MS);
	for (unsigned i = 0; i < CONTEXTS; i++) {
		const struct ripc__memory *m = ctx[i]->memory;

		for (size_t k = 0; k < m->nregions; k++)
			ck_assert_msg(m->regions[k]->state == RIPC__REGION_FREE ||
					      m->regions[k]->state == RIPC__REGION_IMPORTED,
				      "a buffer of %zu bytes is left, state %d, pins %u, sends %u",
				      m->regions[k]->cap, (int)m->regions[k]->state,
				      m->regions[k]->pins, m->regions[k]->sends);
		ck_assert_uint_eq(ctx[i]->stats.bad_messages, 0);
		ripc__list_for_each_entry (lane, &ctx[i]->lanes, link) {
			ck_assert_uint_eq(lane->memory->ref_bytes, 0);
			ck_assert_uint_eq(lane->memory->acks_due, 0);
			ck_assert(ripc__list_empty(&lane->memory->late_refs));
		}
		ck_assert_uint_eq(service[i]->arriving_bytes, 0);
	}
	ck_assert_uint_gt(in_place, received / 16);
	ck_assert_uint_gt(passed_on, 0);
}
END_TEST

static void setup(void)
{
	memset(buffers, 0, sizeof(buffers));
	memset(held, 0, sizeof(held));
	memset(flights, 0, sizeof(flights));
	memset(queues, 0, sizeof(queues));
	in_place = received = passed_on = 0;
	world_open(CONTEXTS, "");
}

int main(void)
{
	Suite *suite = suite_create("mapped_random");
	TCase *tc = tcase_create("random");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup, world_close);
	tcase_add_loop_test(tc, mapped__random_use, 0, 5);
	suite_add_tcase(suite, tc);
	return test_main("transport/shm/mapped_random", suite);
}
