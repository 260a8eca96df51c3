/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory of long messages over shm against a model, in virtual time: three contexts send parts of
 * memory of all kinds, keep, detach and forward messages, set windows and return buffers aside,
 * cancel, lose lanes, and are killed, closed and opened again. Rules:
 *
 * - A message arrives once at most, in order, with every byte, and not if it was withdrawn. One
 *   with result 0 arrives, unless the receiving context ends.
 * - Its bytes stay until it is freed, also if its sender is killed.
 * - Memory of the application has the bytes that the application wrote, and is its own again when
 *   the request has ended.
 * - An item in a window or return buffer begins where the buffer begins, and uses it up.
 * - In the strict mode a peer has mapped only bytes of buffers that were sent to it.
 */
#define _GNU_SOURCE
#include "core/memory/mapped.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/service/service.h"

#include "blocks.h"

#define HELD    10
#define FLIGHTS 16
#define QUEUE   64
#define ITEMS   3
#define LIVES   64
#define STEPS   20000

struct piece {
	uint32_t tag;
	size_t len;
};

struct expected {
	unsigned n;
	struct piece pieces[ITEMS];
	bool maybe, never;
	bool bare; /* forwarded without an item of its own */
};

/* Messages of one life of a context to another context. */
struct queue {
	struct expected e[QUEUE];
	unsigned first, end;
};

struct held {
	struct ripc_message *m; /* NULL: none */
	struct expected e;
	struct block *in[ITEMS]; /* the window or return buffer of the item, or NULL */
	bool detached[ITEMS];
	unsigned sends, forwarded_to;
};

struct flight {
	struct ripc_request *r; /* NULL: none */
	struct queue *q;
	unsigned number, nparts, nreturns;
	struct held *from;
	struct block *b;
	unsigned parts[ITEMS];
	struct block *returns[2];
	uint64_t head[2];
	bool free_items;
};

static struct host {
	struct held held[HELD];
	struct flight flights[FLIGHTS];
	unsigned life;
} hosts[CONTEXTS];

static struct queue queues[LIVES][CONTEXTS];
static uint8_t instances[LIVES][16];
static unsigned nlives, shown[TAGS]; /* shown: of a block, to these contexts */
static bool strict, few_kills, no_windows, quick;
static unsigned placed[8];

/* ---- sending ---- */

static void part_released(struct block *b, unsigned k)
{
	struct part *p = &b->parts[k];

	b->readers--;
	check(b->base + p->at, p->len, p->tag, "memory that was sent");
	if (!--p->readers)
		write_part(b, p);
}

static void ended(struct flight *f, int rc)
{
	struct expected *e = &f->q->e[f->number % QUEUE];

	ck_assert_msg(!rc || rc == -EPIPE || rc == -ECANCELED || (scarce && rc == -ENOBUFS),
		      "%s: %s", ripc_strerror(rc), ripc_error_detail());
	ck_assert_msg(!rc || rc == -EPIPE || f->number >= f->q->first, "one has come, result %d",
		      rc);
	if (rc && f->number >= f->q->first) {
		e->maybe |= rc == -EPIPE;
		e->never = rc != -EPIPE;
	}
	f->r = NULL;
	for (unsigned k = 0; k < f->nreturns && rc; k++)
		if (f->returns[k]->base && f->returns[k]->use == RETURN_BUFFER)
			f->returns[k]->use = WITHDRAWN;
	if (f->from)
		f->from->sends--;
	if (f->free_items && !rc) {
		f->b->base = NULL;
		return;
	}
	if (f->free_items)
		f->b->use = MINE;
	for (unsigned k = 0; k < f->nparts; k++)
		part_released(f->b, f->parts[k]);
}

static void test_requests(unsigned i)
{
	for (struct flight *f = hosts[i].flights; f < hosts[i].flights + FLIGHTS; f++) {
		int rc = f->r ? ripc_request_test(&f->r) : -EINPROGRESS;

		if (rc != -EINPROGRESS)
			ended(f, rc);
	}
}

static void add_item(struct expected *e, struct iovec *items, void *base, size_t len, uint32_t tag)
{
	items[e->n] = (struct iovec){base, len};
	e->pieces[e->n++] = (struct piece){tag, len};
}

static void add_parts(struct flight *f, struct expected *e, struct iovec *items, unsigned to)
{
	for (unsigned k = 0; k < f->b->nparts && e->n < ITEMS; k++) {
		struct part *p = &f->b->parts[k];

		if (p->sent_to & 1u << to || !draw(3))
			continue;
		p->sent_to |= 1u << to;
		p->readers++;
		f->b->readers++;
		f->parts[f->nparts++] = k;
		add_item(e, items, f->b->base + p->at, p->len, p->tag);
	}
}

static void add_held(struct flight *f, struct expected *e, struct iovec *items, unsigned to)
{
	struct held *h = f->from;

	/* The first bytes of messages in one queue differ. */
	if (!e->n && (h->e.bare || h->forwarded_to & 1u << to))
		return;
	e->bare = !e->n;
	for (unsigned k = 0; k < h->e.n; k++) {
		if (h->detached[k])
			continue;
		if (e->n == ITEMS)
			break;
		add_item(e, items, h->m->items[k].iov_base, h->e.pieces[k].len, h->e.pieces[k].tag);
		if (h->in[k])
			shown[h->in[k]->number] |= 1u << to;
	}
}

static void add_returns(unsigned i, unsigned to, struct flight *f, struct iovec *returns)
{
	while (f->nreturns < 2 && draw(2)) {
		struct block *b = &blocks[i][draw(BLOCKS)];

		if (b == f->b || !is_unused(b))
			continue;
		b->use = RETURN_BUFFER;
		b->peer_service = test_ids() + to;
		returns[f->nreturns] = (struct iovec){b->base, b->len};
		f->returns[f->nreturns++] = b;
	}
}

static void send_one(unsigned i, bool forward)
{
	struct block *b = &blocks[i][draw(BLOCKS)];
	/* Most messages out of one buffer go to one peer, which maps it then. */
	unsigned turn = draw(12) && !forward ? b->number : draw(CONTEXTS);
	unsigned to = (i + 1 + turn % (CONTEXTS - 1)) % CONTEXTS;
	struct queue *q = &queues[hosts[i].life][to];
	struct expected *e = &q->e[q->end % QUEUE];
	struct flight *f = hosts[i].flights;
	struct iovec items[ITEMS], returns[2];
	struct ripc_send_options options = {.size = sizeof(options), .return_buffers = returns};
	struct held *h = &hosts[i].held[draw(HELD)];
	int rc;

	while (f < hosts[i].flights + FLIGHTS && f->r)
		f++;
	if (f == hosts[i].flights + FLIGHTS || q->end - q->first == QUEUE ||
	    (forward ? !h->m : !b->base || b->use != MINE))
		return;
	*f = (struct flight){.q = q, .number = q->end, .b = b, .from = forward ? h : NULL};
	*e = (struct expected){.n = 0};
	if (draw(2)) {
		uint32_t tag = new_tag(++nblocks);

		fill((uint8_t *)f->head, sizeof(f->head), tag);
		shown[nblocks] |= 1u << to;
		add_item(e, items, f->head, sizeof(f->head), tag);
	}
	if (forward)
		add_held(f, e, items, to);
	else
		add_parts(f, e, items, to);
	if (!e->n)
		return;
	if (!forward && e->n == 1 && f->nparts == 1 && b->kind == BUFFER && b->readers == 1 &&
	    !draw(3)) {
		f->free_items = true;
		options.flags = RIPC_FREE_ITEMS;
		b->use = FREED_BY_SEND;
	}
	for (unsigned k = 0; k < e->n; k++)
		shown[block_of[e->pieces[k].tag]] |= 1u << to;
	if (!no_windows && !draw(6))
		add_returns(i, to, f, returns);
	options.nreturn_buffers = f->nreturns;
	rc = ripc_send_async(service[i], test_ids() + to, items, e->n, &options, &f->r);
	ck_assert_msg(!rc || (scarce && rc == -ENOMEM), "%s", ripc_error_detail());
	if (rc) {
		for (unsigned k = 0; k < f->nreturns; k++)
			f->returns[k]->use = MINE;
		for (unsigned k = 0; k < f->nparts; k++)
			part_released(b, f->parts[k]);
		b->use = f->free_items ? MINE : b->use;
		return;
	}
	q->end++;
	if (forward) {
		h->sends++;
		h->forwarded_to |= e->bare ? 1u << to : 0;
	}
}

/* ---- receiving ---- */

static unsigned life_of(const struct ripc_message *m)
{
	unsigned life = 0;

	while (life < nlives && memcmp(instances[life], m->instance, 16))
		life++;
	ck_assert_uint_lt(life, nlives);
	return life;
}

/* The window or return buffer of an item, which is the application's now. */
static struct block *placed_in(unsigned i, const struct ripc_message *m, unsigned k)
{
	bool window = m->placement[k] == RIPC_IN_WINDOW;

	for (struct block *b = blocks[i]; b < blocks[i] + BLOCKS; b++) {
		/* Memory that a send has freed may belong to another block. */
		if (b->base != m->items[k].iov_base || b->use == FREED_BY_SEND)
			continue;
		ck_assert(window ? b->use == WINDOW
				 : b->use == RETURN_BUFFER || b->use == WITHDRAWN);
		ck_assert(window || b->peer_service == m->source);
		ck_assert_uint_le(m->items[k].iov_len, b->len);
		b->use = RECEIVED;
		return b;
	}
	ck_abort_msg("item %u in placement %u lies in none", k, m->placement[k]);
}

static void verify_held(const struct held *h)
{
	for (unsigned k = 0; k < h->e.n; k++)
		if (!h->detached[k])
			check(h->m->items[k].iov_base, h->e.pieces[k].len, h->e.pieces[k].tag,
			      "received");
}

/* A detached item is a buffer of the application. */
static void detach(unsigned i, struct held *h, unsigned k)
{
	struct block *b = free_block(i);

	if (!b || h->detached[k] || h->in[k] || h->m->placement[k] == RIPC_IN_RECEIVE_BUFFER)
		return;
	*b = (struct block){.len = h->e.pieces[k].len, .kind = BUFFER, .number = ++nblocks};
	b->base = ripc_message_detach(h->m, k);
	ck_assert_msg(b->base || (scarce && errno == ENOMEM), "%s", ripc_error_detail());
	if (!b->base)
		return;
	check(b->base, b->len, h->e.pieces[k].tag, "detached");
	h->detached[k] = true;
	divide(b);
}

static void drop(unsigned i, struct held *h)
{
	for (unsigned n = 0; n < HELD && (!h->m || h->sends); n++)
		h = h + 1 < hosts[i].held + HELD ? h + 1 : hosts[i].held;
	if (!h->m || h->sends)
		return;
	verify_held(h);
	if (!draw(4)) {
		detach(i, h, draw(h->e.n));
		return;
	}
	ripc_message_free(h->m);
	h->m = NULL;
	for (unsigned k = 0; k < h->e.n; k++) {
		if (!h->in[k])
			continue;
		check(h->in[k]->base, h->e.pieces[k].len, h->e.pieces[k].tag, "window");
		h->in[k]->use = MINE;
		divide(h->in[k]);
	}
}

static void take(unsigned i)
{
	struct held *h = hosts[i].held;
	struct expected *e;
	struct queue *q;
	uint64_t w;
	uint32_t tag;

	while (h < hosts[i].held + HELD && h->m)
		h++;
	if (h == hosts[i].held + HELD)
		return;
	memset(h, 0, sizeof(*h));
	if (quick)
		drop(i, &hosts[i].held[draw(HELD)]);
	if (ripc_receive(service[i], &h->m, 0)) {
		h->m = NULL;
		return;
	}
	q = &queues[life_of(h->m)][i];
	memcpy(&w, h->m->items[0].iov_base, 8);
	tag = (uint32_t)(w >> 32);
	for (;; q->first++) {
		ck_assert_msg(q->first < q->end, "message %u has come twice, or has changed", tag);
		e = &q->e[q->first % QUEUE];
		if (e->pieces[0].tag == tag && !e->never)
			break;
		/* Its request may have ended. */
		for (unsigned k = 0; k < CONTEXTS; k++)
			test_requests(k);
		ck_assert_msg(e->maybe || e->never, "message %u is lost, or late",
			      e->pieces[0].tag);
	}
	q->first++;
	h->e = *e;
	ck_assert_uint_eq(h->m->nitems, e->n);
	for (unsigned k = 0; k < e->n; k++) {
		ck_assert_uint_eq(h->m->items[k].iov_len, e->pieces[k].len);
		placed[h->m->placement[k]]++;
		if (h->m->placement[k] == RIPC_IN_WINDOW ||
		    h->m->placement[k] == RIPC_IN_RETURN_BUFFER)
			h->in[k] = placed_in(i, h->m, k);
	}
	verify_held(h);
}

/* ---- contexts ---- */

static void open_one(unsigned i)
{
	const struct ripc__hooks hooks = {
		.now = world_now, .idle = world_idle, .random = world_random};
	char options[100];

	snprintf(options, sizeof(options), "transports=shm resolver=local peer_timeout_ms=2000 %s",
		 strict ? "handover=strict" : "");
	ck_assert_int_eq(ripc__open_hooked(&ctx[i], options, &hooks), 0);
	ck_assert_int_eq(ripc_service_register(ctx[i], test_ids() + i, 0, &service[i]), 0);
	ck_assert_uint_lt(nlives, LIVES);
	memset(&hosts[i], 0, sizeof(hosts[i]));
	memset(blocks[i], 0, sizeof(blocks[i]));
	hosts[i].life = nlives;
	memcpy(instances[nlives++], ctx[i]->instance, 16);
}

static void may_be_lost(struct queue *q)
{
	for (unsigned n = q->first; n < q->end; n++)
		q->e[n % QUEUE].maybe = true;
}

static void end_one(unsigned i, bool kill)
{
	struct ripc *c = ctx[i];

	for (unsigned n = 0; n < FLIGHTS; n++)
		if (hosts[i].flights[n].r)
			hosts[i].flights[n].q->e[hosts[i].flights[n].number % QUEUE].maybe = true;
	for (unsigned k = 0; k < CONTEXTS; k++)
		may_be_lost(&queues[hosts[i].life][k]);
	for (unsigned n = 0; n < nlives; n++)
		may_be_lost(&queues[n][i]);
	if (kill) {
		ctx[i] = NULL;
		ripc__kill(c);
	} else {
		ck_assert_int_eq(ripc_close(c), 0);
		ctx[i] = NULL;
	}
	for (struct block *b = blocks[i]; b < blocks[i] + BLOCKS; b++)
		if (b->base && b->kind != BUFFER)
			free(b->base);
}

/* The memory that context i has mapped has only bytes of buffers that were sent to it. */
static void check_isolation(unsigned i)
{
	const struct ripc__memory *m = ctx[i]->memory;

	for (size_t n = 0; n < m->nregions; n++) {
		const struct ripc__region *r = m->regions[n];

		for (size_t k = 0; r->state == RIPC__REGION_IMPORTED && k + 8 <= r->len; k += 8) {
			uint64_t w;

			memcpy(&w, r->base + k, 8);
			ck_assert_msg(!w || shown[block_of[w >> 32 & (TAGS - 1)]] & 1u << i,
				      "%llx at %zu was not for context %u", (unsigned long long)w,
				      k, i);
		}
	}
}

static void act(unsigned i)
{
	struct block *b = &blocks[i][draw(BLOCKS)];
	struct flight *f = &hosts[i].flights[draw(FLIGHTS)];
	struct ripc__lane *lane;

	switch (draw(100)) {
	case 0 ... 24:
		send_one(i, false);
		break;
	case 25 ... 30:
		send_one(i, true);
		break;
	case 31 ... 49:
		take(i);
		break;
	case 50 ... 64:
		drop(i, &hosts[i].held[draw(HELD)]);
		break;
	case 65 ... 70:
		block_new(i);
		break;
	case 71 ... 73:
		verify_block(b);
		block_free(i, b);
		break;
	case 74:
		block_resize(i, b);
		break;
	case 75 ... 76:
		if (!no_windows)
			window_change(i, b);
		break;
	case 77:
		lane_block(i, draw(4));
		break;
	case 78 ... 79:
		lanes_unblock();
		break;
	case 80:
		if (f->r)
			ended(f, ripc_request_cancel(&f->r, 100));
		break;
	case 81:
		lane = draw(8) ? NULL : lane_nth(i, draw(4));
		if (lane)
			ripc__lane_fail(lane, -ECONNRESET, "as the test wants it");
		break;
	case 82:
		if (draw(few_kills ? 100 : 20) || nlives == LIVES)
			break;
		end_one(i, draw(3));
		for (unsigned n = draw(4) * 20; n; n--)
			poll_all();
		open_one(i);
		break;
	case 83:
		if (strict)
			check_isolation(i);
		for (unsigned k = 0; k < BLOCKS; k++)
			verify_block(&blocks[i][k]);
		break;
	default:
		test_requests(i);
		pass(draw(5) * STEP);
	}
}

/* Ends what is under way: each message has arrived that had to. */
static void settle(void)
{
	unsigned was = scarce;

	scarce = 0;
	bool busy = true;

	for (unsigned round = 0; busy; round++) {
		busy = false;
		ck_assert_uint_lt(round, 5000);
		lanes_unblock();
		pass(10 * STEP);
		/* A context looks again for a service that it has not found. */
		now_ns += round < 1000 ? 0 : RIPC__MS;
		for (unsigned i = 0; i < CONTEXTS; i++) {
			test_requests(i);
			take(i);
			for (unsigned k = 0; k < HELD; k++) {
				drop(i, &hosts[i].held[k]);
				busy |= hosts[i].held[k].m != NULL;
			}
			for (unsigned k = 0; k < FLIGHTS; k++)
				busy |= hosts[i].flights[k].r != NULL;
			busy |= service[i]->queued || !ripc__list_empty(&service[i]->rndvs_in);
		}
	}
	scarce = was;
	for (unsigned n = 0; n < nlives * CONTEXTS; n++) {
		struct queue *q = &queues[n / CONTEXTS][n % CONTEXTS];

		for (; q->first < q->end; q->first++)
			ck_assert_msg(q->e[q->first % QUEUE].maybe || q->e[q->first % QUEUE].never,
				      "a message is lost");
	}
}

START_TEST(mapped__random_ends)
{
	bool rare; /* few messages arrive, and fewer in place */

	strict = _i % 2;
	chance = test_seed() + (unsigned)_i;
	for (unsigned i = 0; i < CONTEXTS; i++)
		open_one(i);
	few_kills = draw(2);
	no_windows = draw(2);
	quick = draw(2);
	scarce = draw(3) ? 0 : 2 + draw(20);
	rare = scarce;
	for (unsigned n = 0; n < STEPS; n++)
		act(draw(CONTEXTS));
	settle();
	scarce = 0;
	for (unsigned i = 0; i < CONTEXTS; i++)
		for (unsigned k = 0; k < BLOCKS; k++)
			for (unsigned n = 0; blocks[i][k].base; n++) {
				ck_assert_uint_lt(n, 1000);
				block_free(i, &blocks[i][k]);
				pass(STEP);
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
		ck_assert_uint_eq(service[i]->arriving_bytes, 0);
	}
	ck_assert(strict || rare || placed[RIPC_IN_SENDER_MEMORY] > 0);
}
END_TEST

static void setup(void)
{
	now_ns = ripc__clock_ns();
	drawn = test_seed();
}

int main(void)
{
	Suite *suite = suite_create("mapped_ends");
	TCase *tc = tcase_create("random");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup, world_close);
	tcase_add_loop_test(tc, mapped__random_ends, 0, (int)test_number("RIPC_TEST_ROUNDS", 4));
	suite_add_tcase(suite, tc);
	return test_main("transport/shm/mapped_ends", suite);
}
