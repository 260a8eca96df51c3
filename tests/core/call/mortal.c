/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "mortal.h"

#include "base/clock.h"
#include "harness.h"
#include "ripc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX (300 * 1024)      /* of a request or an answer */
#define HEAD      16                /* bytes at the begin of each, before a pattern */
#define HELD_MAX  8                 /* requests that a server has at once */
#define BUSY_NS   (8000 * RIPC__MS) /* on a busy machine a process may be so late */

static unsigned me;
static uint64_t rng, life;
static struct ripc *ctx;
static struct ripc_service *service;

static unsigned draw(unsigned n)
{
	return (unsigned)(test_random(&rng) % n);
}

static size_t draw_bytes(void)
{
	switch (draw(8)) {
	case 0:
		return HEAD + draw(BYTES_MAX - HEAD);
	case 1:
	case 2:
		return HEAD + draw(9000);
	default:
		return HEAD + draw(100);
	}
}

/* A call with this number: two words, and a pattern behind them. */
static void fill(uint8_t *p, size_t len, uint64_t call, uint64_t word)
{
	memcpy(p, &call, 8);
	memcpy(p + 8, &word, 8);
	for (size_t i = HEAD; i < len; i++)
		p[i] = (uint8_t)(call * 31 + i * 7);
}

static bool intact(const uint8_t *p, size_t len, uint64_t call)
{
	for (size_t i = HEAD; i < len; i++)
		if (p[i] != (uint8_t)(call * 31 + i * 7))
			return false;
	return true;
}

uint64_t mortal_id(unsigned process)
{
	return test_ids() + process;
}

/* A new life: the former one has ended, so nobody holds the id. */
static bool begin(unsigned process, const char *options, uint64_t seed)
{
	int rc;

	me = process;
	rng = seed;
	life = board_number(&board->nlives);
	rc = ripc_open(&ctx, options);
	if (!rc)
		rc = ripc_service_register(ctx, mortal_id(me), draw(2) ? RIPC_TAKEOVER : 0,
					   &service);
	if (rc)
		board_complain("process %u, life %llu: %d: %s", me, (unsigned long long)life, rc,
			       ripc_error_detail());
	return !rc;
}

/* ---- server ---- */

struct held {
	struct ripc_message *request;
	struct ripc_request *answer; /* a long one under way */
	uint8_t *bytes;
	uint64_t due_ns;
};

static struct held held[HELD_MAX];

static void held_over(struct held *h)
{
	ripc_message_free(h->request);
	free(h->bytes);
	*h = (struct held){0};
}

static bool may_fail(int rc)
{
	return rc == -ECANCELED || rc == -EPIPE || rc == -ETIMEDOUT || rc == -EHOSTUNREACH;
}

/* Answers, refuses or frees a request. */
static void answer(struct held *h)
{
	uint64_t call, len;
	struct iovec item;
	int rc = 0;

	memcpy(&call, h->request->items[0].iov_base, 8);
	memcpy(&len, (const uint8_t *)h->request->items[0].iov_base + 8, 8);
	h->bytes = malloc(len);
	if (!h->bytes)
		return;
	fill(h->bytes, len, call, life);
	item = (struct iovec){h->bytes, len};
	switch (draw(16)) {
	case 0:
		break;
	case 1:
		rc = ripc_reply_error(h->request, EACCES);
		break;
	case 2:
	case 3:
	case 4:
		rc = ripc_reply(h->request, &item, 1, (int)draw(300));
		if (rc == -EAGAIN)
			return;
		break;
	default:
		rc = ripc_reply_start(h->request, &item, 1, NULL, &h->answer);
		if (!rc)
			return;
		break;
	}
	if (rc && !may_fail(rc))
		board_complain("an answer returned %d: %s", rc, ripc_error_detail());
	held_over(h);
}

static void receive(struct held *h, int timeout_ms)
{
	struct history_event e = {.kind = HISTORY_EXECUTED, .life = life};
	const struct ripc_message *m;
	int rc = ripc_receive(service, &h->request, timeout_ms);

	if (rc) {
		if (rc != -ETIMEDOUT && rc != -EAGAIN)
			board_complain("ripc_receive() returned %d: %s", rc, ripc_error_detail());
		return;
	}
	m = h->request;
	memcpy(&e.call, m->items[0].iov_base, 8);
	e.at_ns = ripc__clock_ns();
	board_log(me, &e);
	if (!m->call || m->nitems != 1 ||
	    !intact(m->items[0].iov_base, m->items[0].iov_len, e.call))
		board_complain("the request of call %llu has wrong bytes",
			       (unsigned long long)e.call);
	h->due_ns = ripc__clock_ns() + (draw(4) ? 0 : draw(60) * RIPC__MS);
}

int mortal_server(unsigned process, const char *options, uint64_t seed)
{
	unsigned busy = 0;

	if (!begin(process, options, seed))
		return 1;
	while (!board->leave[me]) {
		/* Waits only if there is nothing else to do. */
		int timeout_ms = busy ? 1 : 10;

		busy = 0;
		for (unsigned i = 0; i < HELD_MAX; i++) {
			struct held *h = &held[i];

			if (!h->request) {
				receive(h, timeout_ms);
				timeout_ms = 0;
			} else if (h->answer) {
				int rc = ripc_request_test(&h->answer);

				if (rc != -EINPROGRESS && rc && !may_fail(rc))
					board_complain("a long answer returned %d", rc);
				if (rc != -EINPROGRESS)
					held_over(h);
			} else if (ripc__clock_ns() >= h->due_ns) {
				answer(h);
			}
			busy += h->request != NULL;
		}
	}
	return ripc_close(ctx) != 0;
}

/* ---- client ---- */

struct slot {
	struct ripc_request *request;
	uint64_t call, cancel_ns;
	uint8_t *bytes, *reply; /* of the library */
	size_t reply_len;
	bool idle; /* reply has the pattern of an unused one */
};

static struct slot slots[BOARD_OPEN_MAX];

#define UNUSED 0xa5

/* Nobody writes a reply buffer after its call has ended. */
static void check_unused(const struct slot *s)
{
	for (size_t i = 0; s->idle && i < BYTES_MAX; i++) {
		if (s->reply[i] == UNUSED)
			continue;
		board_complain("a reply buffer was written after call %llu had ended",
			       (unsigned long long)s->call);
		return;
	}
}

static void call_start(struct slot *s)
{
	struct iovec item, back = {s->reply, BYTES_MAX};
	struct ripc_call_options o = {.size = sizeof(o)};
	struct history_event e = {.kind = HISTORY_STARTED, .call = board_number(&board->ncalls)};
	int timeout_ms = draw(12) ? 1 << draw(11) : -1, rc;

	check_unused(s);
	s->idle = false;
	s->call = e.call;
	s->reply_len = draw_bytes();
	item = (struct iovec){s->bytes, draw_bytes()};
	fill(s->bytes, item.iov_len, s->call, s->reply_len);
	if (!draw(3)) {
		o.reply_buffers = &back;
		o.nreply_buffers = 1;
	}
	o.flags = draw(8) ? 0 : RIPC_IDEMPOTENT;
	s->cancel_ns = draw(10) ? RIPC__NEVER : ripc__clock_ns() + draw(100) * RIPC__MS;
	e.at_ns = ripc__clock_ns();
	e.idempotent = o.flags;
	e.deadline_ns =
		timeout_ms < 0 ? UINT64_MAX : e.at_ns + (uint64_t)timeout_ms * RIPC__MS + BUSY_NS;
	board_log(me, &e);
	rc = ripc_call_start(service, mortal_id(draw(SERVERS)), &item, 1, &o, timeout_ms,
			     &s->request);
	if (rc)
		board_complain("ripc_call_start() returned %d: %s", rc, ripc_error_detail());
}

static bool is_result(const struct history_event *e)
{
	switch (e->result) {
	case 0:
	case -EPIPE:
	case -EHOSTUNREACH:
	case -ETIMEDOUT:
	case -ETIME:
		return true;
	case -EACCES:
		return e->has_reply;
	case -ECANCELED:
		return e->has_reply || e->withdrawn;
	default:
		return false;
	}
}

/* Waits for the end of a call for up to 5 ms. */
static void call_check(struct slot *s)
{
	struct history_event e = {.kind = HISTORY_ENDED, .call = s->call};
	struct ripc_message *m = NULL;

	if (ripc__clock_ns() >= s->cancel_ns) {
		e.withdrawn = true;
		e.result = ripc_request_cancel(&s->request, (int)draw(100));
		/* It drops the answer. */
		if (!e.result)
			e.result = -ETIME;
	} else {
		e.result = ripc_call_wait(&s->request, &m, (int)draw(6));
		if (e.result == -EINPROGRESS)
			return;
	}
	e.at_ns = ripc__clock_ns();
	e.has_reply = m || (e.withdrawn && e.result == -EACCES);
	if (!e.result) {
		const uint8_t *p = m->items[0].iov_base;

		board_number(&board->nanswered);
		memcpy(&e.answered, p, 8);
		memcpy(&e.life, p + 8, 8);
		if (m->nitems != 1 || m->items[0].iov_len != s->reply_len ||
		    !intact(p, s->reply_len, s->call))
			board_complain("the answer of call %llu has wrong bytes",
				       (unsigned long long)s->call);
	}
	if (!is_result(&e))
		board_complain("call %llu ended with %d: %s", (unsigned long long)s->call, e.result,
			       ripc_error_detail());
	board_log(me, &e);
	ripc_message_free(m);
	memset(s->bytes, 0x5a, BYTES_MAX);
	memset(s->reply, UNUSED, BYTES_MAX);
	s->idle = true;
}

/* Return: whether calls are under way. */
static bool calls_run(void)
{
	bool busy = false;

	for (unsigned i = 0; i < BOARD_OPEN_MAX; i++) {
		struct slot *s = &slots[i];

		if (s->request)
			call_check(s);
		else if (!board->calm && board_has_room() && !draw(2))
			call_start(s);
		busy |= s->request != NULL;
	}
	return busy;
}

/* Segments of peers that are mapped here. */
static unsigned mapped_segments(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:ripc") != NULL;
	if (f)
		fclose(f);
	return n;
}

static void expect_nothing_left(unsigned descriptors)
{
	unsigned now = test_descriptors(), segments = mapped_segments();

	if (now > descriptors || segments)
		board_complain("process %u keeps %d descriptors and %u segments of dead peers", me,
			       (int)(now - descriptors), segments);
}

int mortal_client(unsigned process, const char *options, uint64_t seed)
{
	unsigned descriptors;
	uint64_t end_ns = 0;
	bool busy = true;

	/* The libraries keep what they opened first. */
	if (ripc_open(&ctx, options) || ripc_close(ctx)) {
		board_complain("process %u: %s", process, ripc_error_detail());
		return 1;
	}
	descriptors = test_descriptors();
	if (!begin(process, options, seed))
		return 1;
	for (unsigned i = 0; i < BOARD_OPEN_MAX; i++) {
		slots[i].bytes = ripc_buf_alloc(ctx, BYTES_MAX);
		slots[i].reply = ripc_buf_alloc(ctx, BYTES_MAX);
		if (!slots[i].bytes || !slots[i].reply) {
			board_complain("no buffers: %s", ripc_error_detail());
			return 1;
		}
	}
	while (!board->leave[me] && (busy || !board->calm))
		busy = calls_run();
	for (unsigned i = 0; !busy && i < BOARD_OPEN_MAX; i++)
		check_unused(&slots[i]);
	/* The first client lives on until its servers are dead. */
	while (me == SERVERS && !board->leave[me]) {
		board->idle = !busy;
		test_pause(&end_ns, TEST_PATIENCE_MS);
	}
	if (ripc_close(ctx))
		board_complain("process %u: ripc_close: %s", me, ripc_error_detail());
	expect_nothing_left(descriptors);
	return 0;
}
