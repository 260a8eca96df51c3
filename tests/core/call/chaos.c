/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/call/chaos.h"

#define CALLS     12
#define REQUESTS  32 /* that are received and not answered */
#define SENDS     12
#define BUFFERS   3
#define SPLIT_MAX 4
#define BYTES_MAX (100 * KIB)
#define KEPT      64 /* buffers whose calls have ended */

/* At the begin of each message. */
struct head {
	uint64_t number, life, len;
};

struct open_call {
	struct ripc_request *request; /* NULL: a free place */
	unsigned host;
	uint64_t number;
	bool idempotent, paused;
	uint8_t *bytes;
	size_t len;
	struct iovec buffers[BUFFERS];
	unsigned nbuffers;
};

struct held_request {
	struct ripc_message *message; /* NULL: freed already */
	struct ripc_request *answer;  /* NULL: there is none yet */
	uint8_t *bytes;               /* of the answer */
	unsigned host;
	uint64_t number, life;
	bool used;
};

struct send {
	struct ripc_request *request; /* NULL: a free place */
	unsigned host;
	uint8_t *bytes;
};

struct rig rig;
struct host hosts[HOSTS];
struct history history;
uint64_t rng, numbers;
unsigned results[5];
static struct open_call calls[CALLS];
static struct held_request held[REQUESTS];
static struct send sends[SENDS];
static struct kept {
	unsigned host;
	uint8_t *base;
	size_t len;
} kept[KEPT];
static unsigned nkept;

/* Each number of digits is as likely as the others. */
static size_t draw_len(void)
{
	size_t len = sizeof(struct head) + draw((size_t)1 << draw(18));

	return len < BYTES_MAX ? len : BYTES_MAX;
}

static uint64_t tag_of(const struct head *h)
{
	return h->number * 1000003 + h->life;
}

static uint8_t *message_new(uint64_t number, uint64_t life, size_t len)
{
	const struct head h = {number, life, len};
	uint8_t *p = malloc(len);

	ck_assert_ptr_nonnull(p);
	rig_fill(p, len, tag_of(&h));
	memcpy(p, &h, sizeof(h));
	return p;
}

static unsigned split(struct iovec *items, uint8_t *p, size_t len)
{
	unsigned n = 1 + (unsigned)draw(SPLIT_MAX);

	for (unsigned i = 0; i < n; i++) {
		size_t part = i + 1 == n ? len : draw(len + 1) / (one_in(2) ? 1 : 20);

		items[i] = (struct iovec){p, part};
		p += part;
		len -= part;
	}
	return n;
}

/* The head of a message with right bytes. */
static struct head check_message(const struct ripc_message *m, const char *what)
{
	static uint8_t bytes[BYTES_MAX];
	uint8_t *expected;
	struct head h;
	size_t len = 0;

	for (unsigned i = 0; i < m->nitems; i++) {
		ck_assert_uint_le(len + m->items[i].iov_len, BYTES_MAX);
		if (m->items[i].iov_len)
			memcpy(bytes + len, m->items[i].iov_base, m->items[i].iov_len);
		len += m->items[i].iov_len;
	}
	ck_assert_uint_ge(len, sizeof(h));
	memcpy(&h, bytes, sizeof(h));
	ck_assert_msg(h.len == len && h.number && h.number <= numbers,
		      "%s of %zu bytes has the head of message %llu with %llu bytes", what, len,
		      (unsigned long long)h.number, (unsigned long long)h.len);
	expected = message_new(h.number, h.life, len);
	for (size_t i = 0; i < len; i++)
		ck_assert_msg(bytes[i] == expected[i],
			      "%s %llu of %zu bytes is wrong from byte %zu on; its first item has "
			      "%zu bytes, of %u",
			      what, (unsigned long long)h.number, len, i, m->items[0].iov_len,
			      m->nitems);
	free(expected);
	return h;
}

static void log_event(enum history_kind kind, uint64_t number, uint64_t life)
{
	history_add(&history, &(struct history_event){.kind = kind,
						      .call = number,
						      .at_ns = ripc__sim_now(rig.net),
						      .life = life});
}

/* ---- buffers whose calls have ended ---- */

/* It belongs to the application, which has written to it. host: its context may be gone. */
static void keep(unsigned host, const struct iovec *buffer)
{
	struct kept *k = &kept[nkept++];

	ck_assert_uint_le(nkept, KEPT);
	*k = (struct kept){host, buffer->iov_base, buffer->iov_len};
	memset(k->base, 0xdd, k->len);
}

void check_kept(unsigned host, bool all)
{
	for (unsigned i = 0; i < nkept; i++) {
		struct kept k = kept[i];

		if (k.host != host || (!all && !one_in(4)))
			continue;
		for (size_t at = 0; at < k.len; at++)
			ck_assert_msg(k.base[at] == 0xdd,
				      "a buffer of a call has changed after its end, at byte %zu "
				      "of %zu",
				      at, k.len);
		OK(ripc_buf_free(rig.ctx[host], k.base));
		kept[i--] = kept[--nkept];
	}
}

/* ---- callers ---- */

void start_call(void)
{
	static const int timeouts[] = {-1, -1, 5, 50, 500, 5000};
	unsigned host = (unsigned)draw(HOSTS), k = 0;
	struct ripc_call_options o = {.size = sizeof(o)};
	struct iovec items[SPLIT_MAX];
	struct history_event e = {.kind = HISTORY_STARTED, .deadline_ns = UINT64_MAX};
	int timeout_ms = timeouts[draw(6)];
	struct open_call *c;

	while (k < CALLS && calls[k].request)
		k++;
	if (k == CALLS || !runs(host) || nkept + CALLS * BUFFERS >= KEPT)
		return;
	c = &calls[k];
	*c = (struct open_call){.host = host, .number = ++numbers, .idempotent = one_in(3)};
	c->len = one_in(2) ? sizeof(struct head) + draw(100) : draw_len();
	c->bytes = message_new(c->number, 0, c->len);
	o.flags = c->idempotent ? RIPC_IDEMPOTENT : 0;
	for (unsigned i = one_in(2) ? 0 : 1 + (unsigned)draw(BUFFERS); i; i--) {
		size_t len = 1 + draw_len();

		c->buffers[c->nbuffers++] = (struct iovec){ripc_buf_alloc(rig.ctx[host], len), len};
	}
	o.reply_buffers = c->buffers;
	o.nreply_buffers = c->nbuffers;
	e.call = c->number;
	e.at_ns = ripc__sim_now(rig.net);
	e.idempotent = c->idempotent;
	if (timeout_ms >= 0)
		e.deadline_ns = e.at_ns + (uint64_t)timeout_ms * RIPC__MS;
	history_add(&history, &e);
	OK(ripc_call_start(rig.s[host], 1 + draw(SERVICES), items, split(items, c->bytes, c->len),
			   &o, timeout_ms, &c->request));
}

/* Items in reply buffers have one of their own. */
static void check_placement(const struct open_call *c, const struct ripc_message *m)
{
	unsigned used = 0;

	for (unsigned i = 0; i < m->nitems; i++) {
		unsigned b = 0;

		if (!m->items[i].iov_len || m->placement[i] != RIPC_IN_RETURN_BUFFER)
			continue;
		while (b < c->nbuffers && c->buffers[b].iov_base != m->items[i].iov_base)
			b++;
		ck_assert_uint_lt(b, c->nbuffers);
		ck_assert(!(used & 1u << b));
		ck_assert_uint_ge(c->buffers[b].iov_len, m->items[i].iov_len);
		used |= 1u << b;
	}
}

/* The memory of a call is the application's. alive: its context is open. */
static void call_over(struct open_call *c, bool alive)
{
	for (unsigned i = 0; alive && i < c->nbuffers; i++)
		keep(c->host, &c->buffers[i]);
	/* A request that is still under way would change. */
	memset(c->bytes, 0xdd, c->len);
	free(c->bytes);
	*c = (struct open_call){0};
}

static void check_call(struct open_call *c, bool cancel)
{
	struct history_event e = {
		.kind = HISTORY_ENDED, .call = c->number, .withdrawn = cancel, .paused = c->paused};
	struct ripc_message *m = NULL;

	e.result = cancel ? ripc_request_cancel(&c->request, (int)draw(20))
			  : ripc_call_wait(&c->request, &m, 0);
	if (e.result == -EINPROGRESS)
		return;
	/* The answer was dropped. */
	if (cancel && (!e.result || e.result == -EACCES))
		e.result = -ETIME;
	e.at_ns = ripc__sim_now(rig.net);
	e.has_reply = m;
	if (!e.result) {
		struct head h = check_message(m, "answer");

		e.answered = h.number;
		e.life = h.life;
		check_placement(c, m);
	}
	results[!e.result                ? 0
		: e.has_reply            ? 1
		: e.result == -EPIPE     ? 3
		: e.result == -ETIME     ? 3
		: e.result == -ESHUTDOWN ? 3
					 : 2]++;
	history_add(&history, &e);
	ripc_message_free(m);
	call_over(c, true);
}

/* ---- services ---- */

/* Takes messages of a service. One that was taken over is gone when its queue is empty. */
static void receive(unsigned host, struct ripc_service **s, uint64_t life, unsigned max)
{
	struct ripc_message *m;
	int rc = 0;

	while (*s && max-- && !(rc = ripc_receive(*s, &m, 0))) {
		struct head h = check_message(m, m->call ? "request" : "message");
		unsigned i = 0;

		if (!m->call) {
			results[4]++;
			ripc_message_free(m);
			continue;
		}
		log_event(HISTORY_EXECUTED, h.number, life);
		while (i < REQUESTS && held[i].used)
			i++;
		if (i == REQUESTS) {
			ripc_message_free(m);
			continue;
		}
		held[i] = (struct held_request){
			.message = m, .host = host, .number = h.number, .life = life, .used = true};
	}
	if (rc == -ESHUTDOWN)
		*s = NULL;
}

void receive_some(void)
{
	for (unsigned i = 0; i < HOSTS; i++) {
		if (!runs(i))
			continue;
		if (one_in(3))
			receive(i, &rig.s[i], 0, 1 + (unsigned)draw(4));
		for (unsigned k = 0; k < SERVICES; k++)
			if (one_in(2))
				receive(i, &hosts[i].services[k], hosts[i].lives[k], 4);
	}
}

/* alive: its context is open. */
static void held_over(struct held_request *r, bool alive)
{
	if (alive)
		ripc_message_free(r->message);
	free(r->bytes);
	*r = (struct held_request){0};
}

static void answer(struct held_request *r)
{
	size_t len = one_in(2) ? sizeof(struct head) + draw(100) : draw_len();
	struct iovec items[SPLIT_MAX];
	unsigned n;
	int rc;

	if (one_in(12)) {
		held_over(r, true);
		return;
	}
	if (one_in(12)) {
		ripc_reply_error(r->message, EACCES);
		held_over(r, true);
		return;
	}
	r->bytes = message_new(r->number, r->life, len);
	n = split(items, r->bytes, len);
	rc = one_in(2) ? ripc_reply(r->message, items, n, 0) : -EAGAIN;
	if (rc == -EAGAIN)
		rc = ripc_reply_start(r->message, items, n, NULL, &r->answer);
	ck_assert_msg(!rc || rc == -ECANCELED || rc == -EPIPE || rc == -ESHUTDOWN, "%d: %s", rc,
		      ripc_error_detail());
	memset(items, 0xee, sizeof(items));
	if (!r->answer) {
		memset(r->bytes, 0xee, len);
		held_over(r, true);
	} else if (one_in(3)) {
		ripc_message_free(r->message);
		r->message = NULL;
	}
}

void answer_some(void)
{
	for (unsigned i = 0; i < REQUESTS; i++) {
		struct held_request *r = &held[i];

		if (!r->used || !runs(r->host))
			continue;
		if (r->answer && one_in(100))
			ripc_request_cancel(&r->answer, (int)draw(20));
		else if (r->answer)
			ripc_request_test(&r->answer);
		else if (one_in(6))
			answer(r);
		else
			continue;
		if (r->used && r->bytes && !r->answer)
			held_over(r, true);
	}
}

/* ---- other messages ---- */

void send_message(void)
{
	unsigned host = (unsigned)draw(HOSTS), k = 0;
	uint64_t dest = one_in(2) ? RIG_ID(draw(HOSTS)) : 1 + draw(SERVICES);
	struct ripc_send_options o = {.size = sizeof(o), .flags = RIPC_RELIABLE};
	size_t len = draw_len();
	struct iovec items[SPLIT_MAX];
	uint8_t *p;
	int rc;

	while (k < SENDS && sends[k].request)
		k++;
	if (k == SENDS || !runs(host))
		return;
	p = message_new(++numbers, 1, len);
	if (len < RIPC_SHORT_GUARANTEED || one_in(3)) {
		ripc_send_short(rig.s[host], dest, items, split(items, p, len), &o, 0);
		memset(p, 0xee, len);
		free(p);
		return;
	}
	rc = ripc_send_async(rig.s[host], dest, items, split(items, p, len), NULL,
			     &sends[k].request);
	OK(rc);
	sends[k].host = host;
	sends[k].bytes = p;
}

void check_sends(void)
{
	for (unsigned i = 0; i < SENDS; i++) {
		struct send *x = &sends[i];

		if (!x->request || !runs(x->host))
			continue;
		if (one_in(200))
			ripc_request_cancel(&x->request, 5);
		else
			ripc_request_test(&x->request);
		if (!x->request) {
			free(x->bytes);
			*x = (struct send){0};
		}
	}
}

void check_calls(bool cancel)
{
	for (unsigned i = 0; i < CALLS; i++)
		if (calls[i].request && runs(calls[i].host))
			check_call(&calls[i], cancel && one_in(200));
}

bool calls_left(void)
{
	for (unsigned i = 0; i < CALLS; i++)
		if (calls[i].request)
			return true;
	return false;
}

void host_paused(unsigned host)
{
	for (unsigned i = 0; i < CALLS; i++)
		calls[i].paused |= calls[i].host == host;
}

void host_ended(unsigned i)
{
	for (unsigned k = 0; k < CALLS; k++) {
		if (!calls[k].request || calls[k].host != i)
			continue;
		log_event(HISTORY_KILLED, calls[k].number, 0);
		call_over(&calls[k], false);
	}
	for (unsigned k = 0; k < REQUESTS; k++)
		if (held[k].used && held[k].host == i)
			held_over(&held[k], false);
	for (unsigned k = 0; k < SENDS; k++) {
		if (!sends[k].request || sends[k].host != i)
			continue;
		free(sends[k].bytes);
		sends[k] = (struct send){0};
	}
}
