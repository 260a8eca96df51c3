/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#define GUARD 16

struct end ends[ENDPOINTS];
struct op *ops;
unsigned nops;

void model_begin(void)
{
	ops = calloc(OPS_MAX, sizeof(*ops));
	ck_assert_ptr_nonnull(ops);
}

/* ---- contents ---- */

static uint8_t byte_of(unsigned id, size_t i)
{
	return (uint8_t)(i < 4 ? id >> (8 * i) : i * 7 + i / 251 + id * 13);
}

uint8_t *guarded(size_t len)
{
	uint8_t *buf = malloc(len + GUARD);

	ck_assert_ptr_nonnull(buf);
	memset(buf, 0xee, len + GUARD);
	return buf;
}

void done_with(struct op *o)
{
	if (o->buf)
		memset(o->buf, 0xdd, o->len);
	o->reused = true;
}

static void check_reused(const struct op *o)
{
	for (size_t i = 0; o->reused && o->buf && i < o->len; i++)
		ck_assert_msg(o->buf[i] == 0xdd, "byte %zu of op %zu was written after its end", i,
			      (size_t)(o - ops));
}

void fill_message(const struct op *s)
{
	for (size_t i = 0; i < s->len; i++)
		s->buf[i] = byte_of((unsigned)(s - ops), i);
}

static void check_contents(const struct op *r, unsigned id, size_t len)
{
	for (size_t i = 0; i < len; i++)
		ck_assert_msg(r->buf[i] == byte_of(id, i), "op %zu: byte %zu of message %u of %zu",
			      (size_t)(r - ops), i, id, ops[id].len);
	for (size_t i = len; i < r->len + GUARD; i++)
		ck_assert_msg(r->buf[i] == 0xee, "op %zu: byte %zu behind message %u of %zu",
			      (size_t)(r - ops), i, id, len);
}

/* ---- the model ---- */

bool fits(const struct op *r, const struct op *m)
{
	return m->kind == SEND && m->other == (int)r->ep && m->tagged == r->tagged &&
	       (r->other < 0 || !ends[r->ep].directed || r->other == (int)m->ep) &&
	       (!r->tagged || !((r->tag ^ m->tag) & ~r->ignore));
}

struct op *new_op(enum kind kind, unsigned ep)
{
	struct op *o = &ops[nops++];

	ck_assert_uint_lt(nops, OPS_MAX);
	*o = (struct op){.kind = kind, .ep = ep};
	return o;
}

/* The message of a completion. */
static struct op *message_of(const struct op *r, uint64_t flags, uint64_t tag, uint64_t data)
{
	uint64_t id = 0;

	if (r->tagged)
		id = tag >> ID_SHIFT;
	else if (flags & FI_REMOTE_CQ_DATA)
		id = data;
	else
		for (unsigned i = 0; i < 4; i++)
			id |= (uint64_t)r->buf[i] << (8 * i);
	ck_assert_uint_lt(id, nops);
	return &ops[id];
}

static void check_match(struct op *r, struct op *m, uint64_t flags, uint64_t data)
{
	ck_assert_msg(fits(r, m), "op %zu and message %zu do not fit", (size_t)(r - ops),
		      (size_t)(m - ops));
	ck_assert_uint_eq(flags, FI_RECV | (r->tagged ? FI_TAGGED : FI_MSG) |
					 (m->has_data ? FI_REMOTE_CQ_DATA : 0));
	if (m->has_data)
		ck_assert_uint_eq(data, m - ops);
	ck_assert_int_ne(m->state, FAILED);
}

static void matched(struct op *r, struct op *m)
{
	ck_assert_msg(!m->match, "message %zu was received twice", (size_t)(m - ops));
	m->match = r;
	r->match = m;
}

static void receive_completed(struct op *r, const struct fi_cq_err_entry *e, fi_addr_t source)
{
	struct end *at = &ends[r->ep];
	struct op *m;
	size_t len;

	ck_assert_int_eq(r->state, OPEN);
	r->state = e->err ? FAILED : DONE;
	if (e->err == FI_ECANCELED) {
		ck_assert(r->kind == RECEIVE);
		ck_assert_uint_eq(e->len, 0);
		at->receive_errors++;
		done_with(r);
		return;
	}
	if (e->err == FI_ENOMSG) {
		ck_assert(r->kind == PEEK);
		return;
	}
	if (r->kind == CLAIM) {
		m = r->match;
	} else {
		m = message_of(r, e->flags, e->tag, e->data);
		if (r->kind != PEEK || r->discard || r->unclaimed)
			matched(r, m);
	}
	check_match(r, m, e->flags, e->data);
	if (r->tagged)
		ck_assert_uint_eq(e->tag, m->tag);
	if (!e->err)
		ck_assert_uint_eq(source, at->to[m->ep]);
	if (r->kind == PEEK) {
		ck_assert_uint_eq(e->len, m->len);
		ck_assert_int_eq(e->err, 0);
		return;
	}
	if (r->discard) {
		ck_assert_int_eq(e->err, 0);
		return;
	}
	len = m->len < r->len ? m->len : r->len;
	ck_assert_int_eq(e->err, len < m->len ? FI_ETRUNC : 0);
	ck_assert_uint_eq(e->len, len);
	if (e->err)
		ck_assert_uint_eq(e->olen, m->len - len);
	check_contents(r, (unsigned)(m - ops), len);
	if (e->err)
		at->receive_errors++;
	else
		at->received++;
	done_with(r);
}

static void send_completed(struct op *s, const struct fi_cq_err_entry *e)
{
	ck_assert_int_eq(s->state, OPEN);
	ck_assert_uint_eq(e->flags, FI_SEND | (s->tagged ? FI_TAGGED : FI_MSG));
	ck_assert(e->err == 0 || e->err == FI_ECANCELED);
	s->state = e->err ? FAILED : DONE;
	if (e->err) {
		ck_assert_ptr_null(s->match);
		ends[s->ep].send_errors++;
	} else {
		ends[s->ep].sent++;
	}
	done_with(s);
}

static void completed(const struct fi_cq_err_entry *e, fi_addr_t source)
{
	struct op *o = e->op_context;

	ck_assert(o >= ops && o < ops + nops);
	ck_assert_msg(e->err || o->notify, "a completion that was not asked for");
	if (o->kind == SEND)
		send_completed(o, e);
	else
		receive_completed(o, e, source);
}

bool poll_queue(struct fid_cq *cq, unsigned n)
{
	struct fi_cq_tagged_entry e[8];
	struct fi_cq_err_entry err = {0};
	fi_addr_t sources[8];
	ssize_t got = fi_cq_readfrom(cq, e, n, sources);

	if (got == -FI_EAVAIL) {
		ck_assert_int_eq(fi_cq_readerr(cq, &err, 0), 1);
		ck_assert_int_ne(err.err, 0);
		completed(&err, 0);
		return true;
	}
	if (got == -FI_EAGAIN)
		return false;
	ck_assert_int_ge(got, 0);
	for (ssize_t i = 0; i < got; i++) {
		struct fi_cq_err_entry one = {
			.op_context = e[i].op_context,
			.flags = e[i].flags,
			.len = e[i].len,
			.data = e[i].data,
			.tag = e[i].tag,
		};

		completed(&one, sources[i]);
	}
	return got > 0;
}

static bool poll_all(void)
{
	bool any = false;

	for (unsigned i = 0; i < ENDPOINTS; i++) {
		any |= poll_queue(ends[i].tx, 8);
		any |= poll_queue(ends[i].rx, 8);
	}
	return any;
}

/* ---- the end ---- */

static bool send_is_due(const struct op *s)
{
	return s->state == OPEN && s->match && (s->match->kind != PEEK || s->match->discard);
}

/* Whether something must still happen without a further call. */
static bool is_busy(void)
{
	for (unsigned i = 0; i < nops; i++) {
		struct op *o = &ops[i];

		if (o->kind == PEEK || o->kind == CLAIM) {
			if (o->state == OPEN)
				return true;
			continue;
		}
		if (o->kind == SEND) {
			if (send_is_due(o) && o->notify)
				return true;
			continue;
		}
		if (o->state != OPEN)
			continue;
		for (unsigned k = 0; k < nops; k++)
			if (fits(o, &ops[k]) && !ops[k].match && ops[k].state != FAILED)
				return true;
	}
	return false;
}

void settle(void)
{
	uint64_t end_ns = 0;

	do {
		while (poll_all())
			;
		if (!is_busy())
			break;
		ck_assert_msg(test_pause(&end_ns, TEST_PATIENCE_MS), "operations do not end");
	} while (true);
	for (unsigned i = 0; i < nops; i++)
		if (ops[i].kind == SEND && ops[i].waits && !ops[i].match)
			ck_assert_int_ne(ops[i].state, DONE);
}

void check_order(void)
{
	for (struct op *r1 = ops; r1 < ops + nops; r1++) {
		const struct op *m1 = r1->match;

		if (r1->kind == SEND || !m1)
			continue;
		for (struct op *r2 = r1 + 1; r2 < ops + nops; r2++) {
			const struct op *m2 = r2->match;

			if (r2->kind == SEND || !m2 || r2->ep != r1->ep || m1->ep != m2->ep)
				continue;
			ck_assert_msg(m1 < m2 || !fits(r1, m2) || !fits(r2, m1),
				      "receives %zu, %zu took messages %zu, %zu",
				      (size_t)(r1 - ops), (size_t)(r2 - ops), (size_t)(m1 - ops),
				      (size_t)(m2 - ops));
		}
	}
}

void check_counters(void)
{
	for (unsigned i = 0; i < nops; i++)
		if (ops[i].kind == SEND && ops[i].state == OPEN) {
			ck_assert(!ops[i].notify);
			ends[ops[i].ep].sent++;
			ops[i].state = DONE;
		}
	for (unsigned i = 0; i < ENDPOINTS; i++) {
		struct end *e = &ends[i];

		AWAIT(fi_cntr_read(e->tx_cntr) >= e->sent);
		ck_assert_uint_eq(fi_cntr_read(e->tx_cntr), e->sent);
		ck_assert_uint_eq(fi_cntr_readerr(e->tx_cntr), e->send_errors);
		ck_assert_uint_eq(fi_cntr_read(e->rx_cntr), e->received);
		ck_assert_uint_eq(fi_cntr_readerr(e->rx_cntr), e->receive_errors);
	}
}

void model_end(void)
{
	for (unsigned i = 0; i < nops; i++) {
		check_reused(&ops[i]);
		free(ops[i].buf);
	}
	free(ops);
}
