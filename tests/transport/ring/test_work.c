/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Two ring engines over mapped memory: sends, reads, Writes and registrations that end, in random
 * order, across the end of 32-bit slot numbers. Each byte is checked. An end that has nothing to do
 * sleeps until it is kicked, and the kick is read some time later, so a lost one is noticed.
 */
#include "ring_pair.h"

#define REGIONS  4
#define BYTES    20000
#define STEPS    20000
#define BURST    100  /* sends in a row, which fill the ring */
#define OFF      0xee /* content of memory that is not registered */
#define RUNS     12
#define SEND_LEN 3000u

/* Head of each message. */
struct head {
	uint64_t number;         /* of all messages of one direction */
	uint64_t announced, tag; /* 1 + the region that was written, or 0; tag of the content */
	uint64_t len;            /* of the rest, or of the Write */
};

/* Memory that the peer may read or write. */
struct exposed {
	uint8_t memory[BYTES];
	struct ripc__ring_region *region;
	uint64_t tag;         /* of its content, if it may be read */
	bool written;         /* a Write of the peer has begun, and is not announced */
	uint64_t written_tag; /* and the content of it */
	uint32_t written_len;
};

struct transfer {
	uint8_t memory[BYTES];
	uint64_t tag;
	uint32_t from, len;
	bool used;
};

static struct end {
	struct ring_end *e;
	struct end *peer;
	struct exposed readable[REGIONS], writable[REGIONS];
	struct transfer reads[RIPC__RING_READS_MAX], writes[REGIONS];
	unsigned waiting[REGIONS], nwaiting; /* Writes that are not announced */
	uint64_t sent, got;
	bool kicked, asleep, refused;
} ends[2];

static uint64_t rng, tags;

static void kick(void *arg)
{
	((struct end *)arg)->kicked = true;
}

static int read_peer(void *arg, void *to, uint64_t addr, size_t len)
{
	memcpy(to, (const void *)(uintptr_t)addr, len);
	return 0;
}

static const struct ripc__ring_backend_ops can_read = {.kick = kick, .read = read_peer},
					   cannot_read = {.kick = kick};

static uint32_t some_len(uint32_t most)
{
	return (uint32_t)(test_random(&rng) % (test_random(&rng) & 1 ? 100 : most + 1));
}

/* ---- memory ---- */

static void expose(struct end *x, struct exposed *m, bool to_read)
{
	unsigned access = to_read ? RIPC__ACCESS_REMOTE_READ : RIPC__ACCESS_REMOTE_WRITE;

	/* As for memory with missing pages. */
	if (to_read && test_random(&rng) % 4 == 0)
		access |= RIPC__RING_ACCESS_SERVED;
	m->tag = ++tags;
	ring_pair_fill(m->memory, BYTES, m->tag);
	m->region = ripc__ring_reg(&x->e->w, m->memory, BYTES, access);
	ck_assert_ptr_nonnull(m->region);
}

/* Other content follows at once: nobody may read or write it. */
static void hide(struct end *x, struct exposed *m)
{
	ripc__ring_dereg(m->region);
	memset(m->memory, OFF, BYTES);
}

static void end_open(struct end *x, struct ring_end *e, struct end *peer, bool direct,
		     const struct ring_pair *r, uint64_t first)
{
	const struct ripc__ring_backend be = {.ops = direct ? &can_read : &cannot_read,
					      .arg = peer,
					      .inbox = e->inbox,
					      .map = peer == &ends[1] ? r->b.inbox : r->a.inbox};

	memset(x, 0, sizeof(*x));
	x->e = e;
	x->peer = peer;
	ripc__ring_init(&e->w, &be, &r->layout, 1);
	/* As after many messages. */
	e->w.tx = e->w.tx_consumed = e->w.rx = e->w.rx_advertised = first;
	e->w.tx_bulk = e->w.tx_bulk_consumed = first & ~UINT64_C(63);
	e->w.rx_bulk = e->w.rx_bulk_advertised = first & ~UINT64_C(63);
}

/* ---- events ---- */

static void handle_message(struct end *x)
{
	struct head h;
	struct exposed *m;

	ck_assert_uint_ge(x->e->len, sizeof(h));
	memcpy(&h, x->e->buf, sizeof(h));
	ck_assert_uint_eq(h.number, x->got++);
	if (!h.announced) {
		ck_assert_uint_eq(x->e->len, sizeof(h) + h.len);
		ck_assert(ring_pair_check(x->e->buf + sizeof(h), h.len, h.tag));
		return;
	}
	m = &x->writable[h.announced - 1];
	ck_assert(m->written && m->written_tag == h.tag && m->written_len == h.len);
	ck_assert(ring_pair_check(m->memory, h.len, h.tag));
	m->written = false;
	hide(x, m);
	expose(x, m, false);
}

static void handle_event(struct end *x, const struct ripc__event *ev)
{
	struct transfer *t;

	switch (ev->kind) {
	case RIPC__EV_RECV:
		x->e->len = ev->len;
		memmove(x->e->buf, ev->data, ev->len);
		handle_message(x);
		break;
	case RIPC__EV_READ_DONE:
		t = &x->reads[ev->wr_id];
		ck_assert(t->used);
		ck_assert(ev->status == 0 || ev->status == -EACCES);
		if (!ev->status) {
			uint8_t whole[BYTES];

			ring_pair_fill(whole, BYTES, t->tag);
			ck_assert(!memcmp(t->memory, whole + t->from, t->len));
		}
		t->used = false;
		break;
	case RIPC__EV_WRITE_DONE:
		ck_assert(x->writes[ev->wr_id].used);
		x->writes[ev->wr_id].used = false;
		break;
	case RIPC__EV_SENDABLE:
		ck_assert(x->refused);
		x->refused = false;
		break;
	default:
		ck_abort_msg("event %d", ev->kind);
	}
}

/* Return: whether something was done. */
static bool pass(struct end *x)
{
	struct ripc__ring *w = &x->e->w;
	unsigned most = 1 + test_random(&rng) % 8, n = 0;
	struct ripc__event ev;
	bool moved;

	if (x->asleep && !x->kicked)
		return false;
	/* An end that is awake does not read each kick at once. */
	if (x->kicked && (x->asleep || test_random(&rng) & 1)) {
		x->kicked = false;
		ripc__ring_disarm(w);
	}
	x->asleep = false;
	moved = w->work && ripc__ring_progress(w);
	while (n < most && ripc__ring_poll(w, x->e->buf, &ev)) {
		n++;
		handle_event(x, &ev);
	}
	ck_assert_msg(!w->status, "%s", w->why);
	if (n || moved || test_random(&rng) & 1)
		return true;
	ripc__ring_flush(w);
	ripc__ring_arm(w);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	x->asleep = ripc__ring_idle(w);
	return !x->asleep;
}

/* ---- work ---- */

/* A call with work for the engine: its owner makes passes from now on. Return: whether it did. */
static bool is_posted(struct end *x, int rc)
{
	x->asleep = false;
	x->refused |= rc == -EAGAIN;
	ck_assert(rc == 0 || rc == 2 || rc == -EAGAIN);
	return rc != -EAGAIN;
}

static bool post(struct end *x, struct head *h, uint32_t len)
{
	static uint8_t payload[SEND_LEN + 8];
	struct iovec iov[2] = {{h, sizeof(*h)}, {payload, len}};
	uint8_t head[RIPC__POST_HEADER_LEN];
	struct ripc__ring *w = &x->e->w;
	bool more = test_random(&rng) % 4 == 0;
	int rc;

	h->number = x->sent;
	ring_pair_fill(payload, len, h->tag);
	memcpy(head, h, sizeof(*h));
	memcpy(head + sizeof(*h), payload, sizeof(head) - sizeof(*h));
	if (len >= sizeof(head) - sizeof(*h) && ripc__ring_fits_fast(w, sizeof(*h) + len))
		rc = ripc__ring_send_fast(w, head, sizeof(head),
					  payload + sizeof(head) - sizeof(*h),
					  len - (sizeof(head) - sizeof(*h)), more);
	else
		rc = -EAGAIN;
	if (rc == -EAGAIN && len >= sizeof(head) - sizeof(*h)) {
		struct iovec rest = {payload + sizeof(head) - sizeof(*h),
				     len - (sizeof(head) - sizeof(*h))};

		rc = ripc__ring_send_bulk(w, head, sizeof(head), &rest, more);
	}
	if (rc == -EAGAIN)
		rc = ripc__ring_send(w, iov, 2, sizeof(*h) + len, more);
	x->sent += is_posted(x, rc);
	return rc >= 0;
}

static void send_message(struct end *x)
{
	struct head h = {.tag = ++tags, .len = some_len(SEND_LEN)};

	post(x, &h, (uint32_t)h.len);
}

static void start_write(struct end *x, unsigned i)
{
	struct exposed *m = &x->peer->writable[i];
	struct transfer *t = &x->writes[i];

	if (m->written || t->used)
		return;
	t->len = some_len(BYTES);
	m->written_len = t->len;
	m->written_tag = ++tags;
	ring_pair_fill(t->memory, t->len, m->written_tag);
	if (!is_posted(x, ripc__ring_write(&x->e->w, t->memory, t->len, m->region->addr,
					   m->region->key, i)))
		return;
	t->used = m->written = true;
	x->waiting[x->nwaiting++] = i;
}

static void announce(struct end *x)
{
	const struct exposed *m = &x->peer->writable[x->waiting[0]];
	struct head h = {
		.announced = x->waiting[0] + 1, .tag = m->written_tag, .len = m->written_len};

	if (x->nwaiting && post(x, &h, 0))
		memmove(x->waiting, x->waiting + 1, --x->nwaiting * sizeof(x->waiting[0]));
}

static void start_read(struct end *x, uint64_t what)
{
	const struct exposed *m = &x->peer->readable[what % REGIONS];
	unsigned i = what / REGIONS % RIPC__RING_READS_MAX;
	struct transfer *t = &x->reads[i];

	if (t->used)
		return;
	t->len = some_len(BYTES);
	t->from = (uint32_t)(test_random(&rng) % (BYTES - t->len + 1));
	t->tag = m->tag;
	t->used = is_posted(x, ripc__ring_read(&x->e->w, t->memory, t->len,
					       m->region->addr + t->from, m->region->key, i));
}

static void work(struct end *x)
{
	uint64_t what = test_random(&rng);
	struct exposed *m = &x->readable[what >> 8 & (REGIONS - 1)];

	for (unsigned i = 0; !(what >> 32 & 63) && i < BURST && !x->refused; i++)
		send_message(x);
	switch (what & 7) {
	case 0:
	case 1:
		send_message(x);
		break;
	case 2:
		start_write(x, what >> 8 & (REGIONS - 1));
		break;
	case 3:
		announce(x);
		break;
	case 4:
		start_read(x, what >> 8);
		break;
	case 5:
		if (what >> 16 & 7)
			break;
		hide(x, m);
		expose(x, m, true);
		break;
	default:
		pass(x);
	}
}

static bool is_done(const struct end *x)
{
	bool done = x->got == x->peer->sent && !x->nwaiting && !x->refused;

	for (unsigned i = 0; i < REGIONS; i++)
		done &= !x->writes[i].used && !x->writable[i].written;
	for (unsigned i = 0; i < RIPC__RING_READS_MAX; i++)
		done &= !x->reads[i].used;
	return done;
}

static void finish(void)
{
	for (unsigned idle = 0; !is_done(&ends[0]) || !is_done(&ends[1]);) {
		bool moved = false;

		for (unsigned i = 0; i < 2; i++) {
			if (ends[i].nwaiting && !ends[i].refused)
				announce(&ends[i]);
			moved |= pass(&ends[i]);
		}
		idle = moved ? 0 : idle + 1;
		ck_assert_msg(idle < 1000, "both ends sleep, and work is left");
	}
}

START_TEST(ring__random_work)
{
	uint64_t first = (UINT64_C(1) << 32) - 300;
	uint8_t credit[16];
	struct ring_pair r;

	rng = test_seed() + (uint64_t)_i;
	ring_pair_open(&r, &layout_small, false, false, rng);
	end_open(&ends[0], &r.a, &ends[1], _i & 1, &r, first);
	end_open(&ends[1], &r.b, &ends[0], _i & 1, &r, first);
	ripc__put_le64(credit, first);
	ripc__put_le64(credit + 8, first);
	memcpy(r.a.inbox + RIPC__RING_CREDIT_OFF, credit, sizeof(credit));
	memcpy(r.b.inbox + RIPC__RING_CREDIT_OFF, credit, sizeof(credit));
	for (unsigned k = 0; k < 2 * REGIONS; k++) {
		expose(&ends[k & 1], &ends[k & 1].readable[k / 2], true);
		expose(&ends[k & 1], &ends[k & 1].writable[k / 2], false);
	}
	for (unsigned i = 0; i < STEPS; i++) {
		work(&ends[test_random(&rng) & 1]);
		if (test_random(&rng) % 500 == 0)
			finish();
	}
	finish();
	ck_assert_uint_gt(r.a.w.rx, UINT64_C(1) << 32);
	ck_assert_uint_gt(r.b.w.rx, UINT64_C(1) << 32);
	for (unsigned k = 0; k < 2 * REGIONS; k++) {
		hide(&ends[k & 1], &ends[k & 1].readable[k / 2]);
		hide(&ends[k & 1], &ends[k & 1].writable[k / 2]);
	}
	ring_pair_close(&r);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/ring/work");
	TCase *c = tcase_create("work");

	test_seed();
	tcase_set_timeout(c, 300);
	tcase_add_loop_test(c, ring__random_work, 0, RUNS);
	suite_add_tcase(s, c);
	return test_main("transport/ring/work", s);
}
