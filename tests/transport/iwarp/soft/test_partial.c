/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * iwarp/soft over sockets that take and give a few bytes at a time, or none: sends, Writes, reads,
 * revoked memory and closed connections in random order. Each message, Write and read is checked
 * byte by byte. A side runs only when its descriptor is readable or its deadline has passed, so a
 * wake-up that is lost is noticed.
 */
#include "partial_socket.h"
#include "soft_pair.h"
#include "transport/transfer.h"

#include <errno.h>
#include <poll.h>

#define TARGETS 3      /* for Writes of the peer */
#define READS   36     /* more than may be outstanding */
#define BYTES   150000 /* of a target, and of memory that is read */
#define STEPS   1200   /* of a session */
#define BURST   100    /* sends in a row that fill the queue if they are long */
#define OFF     0xee   /* content of memory that is not registered */

enum kind { MESSAGE = 1, ANNOUNCEMENT = 2 };

/* Head of each message. */
struct head {
	uint32_t kind, number;   /* of all messages of one direction */
	uint32_t target, length; /* ANNOUNCEMENT: of the Write */
	uint64_t tag;            /* of the content: of the rest, or of the Write */
};

/* Memory that the peer writes, and the Write that is under way. */
struct target {
	uint8_t *memory, *source; /* source: of the peer */
	struct ripc__mr mr, source_mr;
	uint64_t tag;
	size_t len;
	bool writing, unannounced; /* the source is in use; the announcement has not come */
	bool revoked, source_revoked;
	bool overwritten; /* write_elsewhere() wrote into a part of it */
};

struct read {
	uint8_t *memory;
	struct ripc__mr mr;
	size_t from, len;
	bool used, revoked;
};

static struct end {
	struct side *side;
	struct end *peer;
	struct target targets[TARGETS];
	struct read reads[READS];
	uint8_t *readable; /* that the peer reads */
	struct ripc__mr readable_mr;
	unsigned waiting[TARGETS], nwaiting; /* Writes that are not announced yet */
	uint32_t sent, got;                  /* messages */
	uint64_t deadline_ns;
	bool asleep, closed;
	bool refused; /* a post returned -EAGAIN: EV_SENDABLE follows */
} ends[2];

static uint64_t rng, tags;
static size_t len_max; /* of payload */
static bool may_end;   /* the connection */

/* ---- content ---- */

static void fill(uint8_t *p, size_t len, uint64_t tag)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = test_random(&tag);

		memcpy(p + i, &v, len - i < 8 ? len - i : 8);
	}
}

static bool is_filled(const uint8_t *p, size_t len, uint64_t tag)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = test_random(&tag);

		if (memcmp(p + i, &v, len - i < 8 ? len - i : 8))
			return false;
	}
	return true;
}

static void check_off(const uint8_t *p)
{
	ck_assert(p[0] == OFF && !memcmp(p, p + 1, BYTES - 1));
}

static size_t some_len(void)
{
	size_t most = test_random(&rng) % 4 ? 200 : len_max;

	return test_random(&rng) % (most < len_max ? most + 1 : len_max + 1);
}

/* ---- memory ---- */

/* Of two targets one is memory of the pool, which is granted to one peer. */
static void register_target(struct end *e, struct target *t)
{
	bool granted = test_random(&rng) & 1;

	memset(t->memory, 0, BYTES);
	ck_assert_int_eq(ops->reg(e->side->t, e->side->ep, t->memory, BYTES,
				  RIPC__ACCESS_REMOTE_WRITE | (granted ? RIPC__ACCESS_RESIDENT : 0),
				  &t->mr),
			 0);
	t->unannounced = t->revoked = t->overwritten = false;
}

static void end_open(struct end *e)
{
	e->readable = malloc(BYTES);
	fill(e->readable, BYTES, e == ends);
	for (unsigned i = 0; i < TARGETS; i++) {
		e->targets[i].memory = malloc(BYTES);
		e->targets[i].source = malloc(BYTES);
	}
	for (unsigned i = 0; i < READS; i++)
		e->reads[i].memory = malloc(BYTES);
}

static void end_free(struct end *e)
{
	free(e->readable);
	for (unsigned i = 0; i < TARGETS; i++) {
		free(e->targets[i].memory);
		free(e->targets[i].source);
	}
	for (unsigned i = 0; i < READS; i++)
		free(e->reads[i].memory);
}

/* A connection was set up. */
static void end_start(struct end *e)
{
	struct ripc__transport *t = e->side->t;

	e->sent = e->got = e->nwaiting = 0;
	e->asleep = e->closed = e->refused = false;
	e->deadline_ns = RIPC__NEVER;
	ck_assert_int_eq(ops->reg(t, e->side->ep, e->readable, BYTES, RIPC__ACCESS_REMOTE_READ,
				  &e->readable_mr),
			 0);
	for (unsigned i = 0; i < TARGETS; i++) {
		register_target(e, &e->targets[i]);
		e->targets[i].writing = e->targets[i].source_revoked = false;
		ck_assert_int_eq(ops->reg(e->peer->side->t, NULL, e->targets[i].source, BYTES, 0,
					  &e->targets[i].source_mr),
				 0);
	}
	for (unsigned i = 0; i < READS; i++) {
		e->reads[i].used = e->reads[i].revoked = false;
		ck_assert_int_eq(ops->reg(t, NULL, e->reads[i].memory, BYTES,
					  RIPC__ACCESS_LOCAL_WRITE, &e->reads[i].mr),
				 0);
	}
}

/* Its connection has ended. */
static void end_stop(struct end *e)
{
	struct ripc__transport *t = e->side->t;

	ops->dereg(t, &e->readable_mr);
	for (unsigned i = 0; i < TARGETS; i++) {
		if (e->targets[i].revoked)
			check_off(e->targets[i].memory);
		else
			ops->dereg(t, &e->targets[i].mr);
		if (!e->targets[i].source_revoked)
			ops->dereg(e->peer->side->t, &e->targets[i].source_mr);
	}
	for (unsigned i = 0; i < READS; i++) {
		if (e->reads[i].revoked)
			check_off(e->reads[i].memory);
		else
			ops->dereg(t, &e->reads[i].mr);
	}
}

/* ---- events ---- */

static void handle_announcement(struct end *e, const struct head *h)
{
	struct target *t = &e->targets[h->target];

	ck_assert(t->unannounced && t->tag == h->tag && t->len == h->length);
	if (t->revoked || t->overwritten)
		return;
	ck_assert(is_filled(t->memory, t->len, t->tag));
	ck_assert_uint_eq(ops->written(e->side->t, &t->mr), t->len);
	/* The Write is complete: the connection goes on. */
	ops->dereg(e->side->t, &t->mr);
	register_target(e, t);
}

static void handle_message(struct end *e, const struct ripc__event *ev)
{
	struct head h;

	ck_assert_uint_ge(ev->len, sizeof(h));
	memcpy(&h, ev->data, sizeof(h));
	ck_assert_uint_eq(h.number, e->got++);
	if (h.kind == ANNOUNCEMENT)
		handle_announcement(e, &h);
	ck_assert_uint_eq(ev->len - sizeof(h), h.kind == MESSAGE ? h.length : 0);
	ck_assert(is_filled(ev->data + sizeof(h), ev->len - sizeof(h), h.tag));
	if (ev->token)
		ops->release(e->side->t, ev->token);
}

static void handle_event(struct end *e, const struct ripc__event *ev)
{
	struct read *r = &e->reads[ev->wr_id];
	struct target *t;

	switch (ev->kind) {
	case RIPC__EV_RECV:
		handle_message(e, ev);
		break;
	case RIPC__EV_READ_DONE:
		ck_assert_int_eq(ev->status, 0);
		ck_assert(r->used && !r->revoked);
		ck_assert(!memcmp(r->memory, e->peer->readable + r->from, r->len));
		r->used = false;
		break;
	case RIPC__EV_WRITE_DONE:
		t = &e->peer->targets[ev->wr_id];
		ck_assert(t->writing || may_end);
		t->writing = false;
		break;
	case RIPC__EV_CLOSED:
		e->closed = true;
		break;
	case RIPC__EV_SENDABLE:
		ck_assert(e->refused);
		e->refused = false;
		break;
	default:
		ck_abort_msg("event %d: %s", ev->kind, ev->text ? ev->text : "");
	}
}

static unsigned pass(struct end *e)
{
	struct pollfd p = {.fd = test_fd(ops, e->side->t), .events = POLLIN};
	struct ripc__event events[8];
	uint64_t now = ripc__clock_ns();
	unsigned n, max = 1 + test_random(&rng) % 8;

	if (e->asleep && now < e->deadline_ns && !poll(&p, 1, 0))
		return 0;
	e->deadline_ns = RIPC__NEVER;
	n = ops->progress(e->side->t, events, max, now, &e->deadline_ns);
	for (unsigned i = 0; i < n; i++)
		handle_event(e, &events[i]);
	e->asleep = !n && e->deadline_ns > now && !ops->arm(e->side->t);
	return n;
}

/* ---- work ---- */

/* Return: whether it was posted. */
static bool is_posted(struct end *e, int rc)
{
	e->refused |= rc == -EAGAIN;
	if (rc == -EAGAIN || (rc == -ENOTCONN && may_end))
		return false;
	ck_assert_int_ge(rc, 0);
	return true;
}

/* Return: whether it was posted. */
static bool post(struct end *e, struct head *h, size_t len)
{
	static uint8_t payload[RIPC__SEND_MAX];
	size_t first = len ? test_random(&rng) % len : 0;
	struct iovec items[2] = {{payload, first}, {payload + first, len - first}};
	int rc;

	h->number = e->sent;
	fill(payload, len, h->tag);
	rc = ops->post(e->side->ep, h, sizeof(*h), items, 2, test_random(&rng) % 4 == 0);
	memset(payload, OFF, len);
	if (!is_posted(e, rc))
		return false;
	e->sent++;
	/* Delayed: progress() must be called soon. */
	e->asleep = e->asleep && !rc;
	return true;
}

static void send_message(struct end *e)
{
	size_t len = some_len();
	struct head h = {.kind = MESSAGE, .tag = ++tags};

	h.length = (uint32_t)(len < RIPC__SEND_MAX - sizeof(h) ? len : RIPC__SEND_MAX - sizeof(h));
	post(e, &h, h.length);
}

static void start_write(struct end *e, unsigned i)
{
	struct target *t = &e->peer->targets[i];
	int rc;

	if (t->writing || t->unannounced || t->source_revoked)
		return;
	/* The receiver expects Writes alike. */
	t->len = test_random(&rng) & 1 ? some_len() : len_max;
	t->tag = ++tags;
	fill(t->source, t->len, t->tag);
	rc = test_write(ops, e->side->ep, &t->source_mr, t->source, t->len, t->mr.addr, t->mr.key,
			i);
	if (!is_posted(e, rc))
		return;
	t->writing = t->unannounced = true;
	e->waiting[e->nwaiting++] = i;
	e->asleep = false;
}

/* The send behind a Write arrives after its bytes. */
static void announce(struct end *e)
{
	const struct target *t = &e->peer->targets[e->waiting[0]];
	struct head h = {.kind = ANNOUNCEMENT,
			 .target = e->waiting[0],
			 .length = (uint32_t)t->len,
			 .tag = t->tag};

	if (e->nwaiting && post(e, &h, 0))
		memmove(e->waiting, e->waiting + 1, --e->nwaiting * sizeof(e->waiting[0]));
}

static void start_read(struct end *e, unsigned i)
{
	struct read *r = &e->reads[i];
	int rc;

	if (r->used || r->revoked)
		return;
	r->len = some_len();
	r->from = test_random(&rng) % (BYTES - r->len + 1);
	rc = test_read(ops, e->side->ep, &r->mr, r->memory, r->len,
		       e->peer->readable_mr.addr + r->from, e->peer->readable_mr.key, i);
	if (!is_posted(e, rc))
		return;
	r->used = true;
	e->asleep = false;
}

static void work(struct end *e)
{
	uint64_t what = test_random(&rng);

	if (!(what >> 32 & 127) && partial_socket_max > BURST)
		for (unsigned i = 0; i < BURST; i++)
			send_message(e);
	switch (what % 8) {
	case 0:
	case 1:
		send_message(e);
		break;
	case 2:
		start_write(e, what / 8 % TARGETS);
		break;
	case 3:
		announce(e);
		break;
	case 4:
		start_read(e, what / 8 % READS);
		break;
	case 5:
		if (what / 8 % 16 == 0)
			(void)ops->arm(e->side->t);
		break;
	default:
		pass(e);
	}
}

static bool is_done(const struct end *e)
{
	bool done = e->got == e->peer->sent && !e->nwaiting && !e->refused;

	for (unsigned i = 0; i < TARGETS; i++)
		done &= !e->targets[i].writing && !e->targets[i].unannounced;
	for (unsigned i = 0; i < READS; i++)
		done &= !e->reads[i].used;
	return done;
}

/* Waits for whatever wakes one of them. */
static void wait_for_wakeup(void)
{
	struct pollfd p[2] = {{.fd = test_fd(ops, a.t), .events = POLLIN},
			      {.fd = test_fd(ops, b.t), .events = POLLIN}};
	uint64_t now = ripc__clock_ns();
	int ms = (int)(TIMEOUT_NS / RIPC__MS);

	for (unsigned i = 0; i < 2; i++) {
		if (!ends[i].asleep || ends[i].deadline_ns <= now)
			return;
		if (ends[i].deadline_ns != RIPC__NEVER)
			ms = (int)((ends[i].deadline_ns - now) / RIPC__MS) + 1;
	}
	ck_assert_msg(poll(p, 2, ms) > 0 || ms != (int)(TIMEOUT_NS / RIPC__MS),
		      "both sides sleep, and work is left");
}

static void run_until(bool (*condition)(void))
{
	uint64_t end_ns = ripc__clock_ns() + TIMEOUT_NS;

	while (!condition()) {
		ck_assert_msg(ripc__clock_ns() < end_ns, "the time is up");
		for (unsigned i = 0; i < 2; i++)
			if (!ends[i].closed && ends[i].nwaiting)
				announce(&ends[i]);
		if (!pass(&ends[0]) && !pass(&ends[1]))
			wait_for_wakeup();
	}
}

static bool both_done(void)
{
	ck_assert(!ends[0].closed && !ends[1].closed);
	return is_done(&ends[0]) && is_done(&ends[1]);
}

static bool both_closed(void)
{
	return ends[0].closed && ends[1].closed;
}

/* ---- the end ---- */

/* Takes memory away from a transfer. Return: whether one was under way. */
static bool take_memory(struct end *e)
{
	unsigned i = test_random(&rng) % (2 * TARGETS + READS);
	struct target *t = &e->targets[i % TARGETS];
	struct read *r = &e->reads[i % READS];

	if (i < TARGETS && t->unannounced) {
		ops->dereg(e->side->t, &t->mr);
		memset(t->memory, OFF, BYTES);
		return t->revoked = true;
	}
	if (i >= TARGETS && i < 2 * TARGETS && t->writing) {
		ops->dereg(e->peer->side->t, &t->source_mr);
		memset(t->source, OFF, BYTES);
		return t->source_revoked = true;
	}
	if (i >= 2 * TARGETS && r->used) {
		ops->dereg(e->side->t, &r->mr);
		memset(r->memory, OFF, BYTES);
		return r->revoked = true;
	}
	return false;
}

/* Writes where the peer does not allow it: both sides have sends, Writes and reads under way. */
static void write_elsewhere(struct end *e)
{
	struct target *t = &e->peer->targets[0];

	may_end = t->overwritten = true;
	while (!e->closed && test_write(ops, e->side->ep, &t->source_mr, t->source, BYTES / 2,
					t->mr.addr + BYTES / 2 + 1, t->mr.key, 0) == -EAGAIN)
		pass(e);
	while (!e->closed || !e->peer->closed)
		work(&ends[test_random(&rng) & 1]);
}

static void start(bool crc, uint32_t ulpdu)
{
	static const size_t limits[5][2] = {
		{3, 600}, {60, 5000}, {3000, 40000}, {200000, BYTES}, {1u << 30, 40000}};
	unsigned n = a.nestablished, i = test_random(&rng) % 5;
	struct ripc__ep *ep;

	partial_socket_max = 0;
	may_end = false;
	side_connect(&a, &b, &ep);
	UNTIL(a.nestablished > n && b.nestablished > n);
	partial_socket_max = limits[i][0];
	len_max = limits[i][1];
	for (i = 0; i < 2; i++) {
		struct ripc__engine *e = ends[i].side->ep->engine;

		ck_assert(e->conn.crc == crc);
		if (ulpdu)
			e->conn.ulpdu_max = ulpdu;
		end_start(&ends[i]);
	}
}

static void session(bool crc, uint32_t ulpdu)
{
	unsigned last = test_random(&rng) % 4;

	start(crc, ulpdu);
	for (unsigned i = 0; i < STEPS; i++) {
		work(&ends[test_random(&rng) & 1]);
		if (i % (STEPS / 4) != STEPS / 8)
			continue;
		run_until(both_done);
		ops->trim(a.ep);
		ops->trim(b.ep);
	}
	if (last == 0)
		run_until(both_done);
	may_end = true;
	if (last == 1) {
		for (unsigned i = 0; i < 1000 && !take_memory(&ends[i & 1]); i++)
			work(&ends[test_random(&rng) & 1]);
		for (unsigned i = 0; i < 100; i++)
			work(&ends[test_random(&rng) & 1]);
	} else if (last == 2) {
		write_elsewhere(&ends[test_random(&rng) & 1]);
	}
	ops->ep_close(a.ep);
	ends[0].closed = true;
	if (last != 3)
		run_until(both_closed);
	ops->ep_close(b.ep);
	end_stop(&ends[0]);
	end_stop(&ends[1]);
}

START_TEST(soft__sockets_that_take_a_part)
{
	bool crc = _i & 1;

	rng = partial_socket_rng = test_seed() + (uint64_t)_i;
	sides_open(crc ? "crc=on" : "crc=off");
	for (unsigned i = 0; i < 2; i++) {
		ends[i] = (struct end){.side = i ? &b : &a, .peer = &ends[!i]};
		end_open(&ends[i]);
	}
	for (unsigned i = 0; i < 8; i++)
		session(crc, _i & 2 ? 1442 : 0);
	for (unsigned i = 0; i < 2; i++)
		end_free(&ends[i]);
	sides_close();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/iwarp/soft/partial");
	TCase *c = tcase_create("partial");

	test_seed();
	tcase_set_timeout(c, 300);
	tcase_add_loop_test(c, soft__sockets_that_take_a_part, 0, 4);
	suite_add_tcase(s, c);
	return test_main("transport/iwarp/soft/partial", s);
}
