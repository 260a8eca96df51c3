/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "soft_pair.h"

#include <stdio.h>

struct side a, b;
static unsigned fds_before;

int side_open(struct side *s, const char *options)
{
	struct ripc__options opt;
	static const uint8_t instance[16] = "test";
	struct ripc__transport_env env = {.opt = &opt, .instance = instance};
	char why[256];

	memset(s, 0, sizeof(*s));
	s->max = 16;
	ck_assert_int_eq(ripc__options_load(&opt, options, why, sizeof(why)), 0);
	/*
	 * A closed receive window of an idle side counts as dead for TCP, and the duration depends
	 * on the machine.
	 */
	opt.peer_timeout_ms = 600000;
	return ops->open(&s->t, &env);
}

void side_close(struct side *s)
{
	while (s->nheld)
		ops->release(s->t, s->held[--s->nheld]);
	ops->close(s->t);
	free(s->last);
}

void sides_open(const char *options)
{
	fds_before = test_descriptors();
	ck_assert_int_eq(side_open(&a, options), 0);
	ck_assert_int_eq(side_open(&b, options), 0);
}

void sides_close(void)
{
	side_close(&a);
	side_close(&b);
	ck_assert_uint_eq(test_descriptors(), fds_before);
}

static void received(struct side *s, const struct ripc__event *e)
{
	s->nrecv++;
	s->sum += e->len;
	free(s->last);
	s->last = malloc(e->len + 1);
	if (e->len)
		memcpy(s->last, e->data, e->len);
	s->last_len = e->len;
	s->closed_before_data |= s->nclosed;
	if (s->in_order) {
		ck_assert_uint_ge(e->len, 4);
		ck_assert_mem_eq(e->data, &s->number, 4);
		s->number++;
	}
	if (s->hold && e->token)
		s->held[s->nheld++] = e->token;
	else if (e->token)
		ops->release(s->t, e->token);
}

void side_handle(struct side *s, const struct ripc__event *e)
{
	switch (e->kind) {
	case RIPC__EV_REQUEST:
		s->nrequest++;
		s->privlen = e->len;
		memcpy(s->priv, e->data, e->len);
		ck_assert_uint_gt(strlen(e->text), 0);
		if (s->answer_later) {
			s->request = e->request;
		} else if (s->refuse) {
			ops->reject(s->t, e->request, "no room", 7);
		} else {
			ck_assert_int_eq(ops->accept(s->t, e->request, "welcome", 7, s, &s->ep), 0);
		}
		break;
	case RIPC__EV_ESTABLISHED:
		ck_assert_ptr_eq(e->user, s);
		s->nestablished++;
		s->ep = e->ep;
		if (e->data) {
			s->privlen = e->len;
			memcpy(s->priv, e->data, e->len);
		}
		break;
	case RIPC__EV_CLOSED:
		ck_assert_ptr_eq(e->user, s);
		ck_assert_int_lt(e->status, 0);
		s->nclosed++;
		s->closed_status = e->status;
		s->rejected = e->reject;
		if (e->reject) {
			s->privlen = e->len;
			memcpy(s->priv, e->data, e->len);
		}
		snprintf(s->text, sizeof(s->text), "%s", e->text);
		break;
	case RIPC__EV_RECV:
		received(s, e);
		break;
	case RIPC__EV_DATAGRAM:
		s->ndatagram++;
		s->fromlen = e->fromlen;
		memcpy(s->from, e->from, e->fromlen);
		free(s->last);
		s->last = malloc(e->len + 1);
		memcpy(s->last, e->data, e->len);
		s->last_len = e->len;
		ops->release(s->t, e->token);
		break;
	case RIPC__EV_READ_DONE:
		ck_assert_int_eq(e->status, 0);
		s->nread++;
		s->wr_id = e->wr_id;
		break;
	case RIPC__EV_WRITE_DONE:
		s->nwrite++;
		s->wr_id = e->wr_id;
		break;
	case RIPC__EV_SENDABLE:
		s->nsendable++;
		break;
	case RIPC__EV_FD_LOW:
		s->nlow++;
		break;
	case RIPC__EV_BAD_INPUT:
		s->ngarbage++;
		snprintf(s->text, sizeof(s->text), "%s", e->text);
		break;
	default:
		ck_abort_msg("event %d", e->kind);
	}
}

unsigned side_step(struct side *s)
{
	struct ripc__event events[64];
	uint64_t deadline = RIPC__NEVER;
	unsigned n = ops->progress(s->t, events, s->max, ripc__clock_ns(), &deadline);

	ck_assert_uint_le(n, s->max);
	for (unsigned i = 0; i < n; i++)
		side_handle(s, &events[i]);
	return n;
}

void side_connect(struct side *from, struct side *to, struct ripc__ep **ep)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	int len = ops->address(to->t, addr, sizeof(addr));

	ck_assert_int_gt(len, 0);
	ck_assert_int_eq(ops->connect(from->t, addr, (size_t)len, "hello", 5, from, ep), 0);
}

void sides_connect(const char *options)
{
	struct ripc__ep *ep;

	sides_open(options);
	side_connect(&a, &b, &ep);
	UNTIL(a.nestablished && b.nestablished);
	ck_assert_ptr_eq(a.ep, ep);
}

int side_post(struct side *s, const void *p, size_t len, bool more)
{
	struct iovec iov = {(void *)p, len};

	return ops->post(s->ep, NULL, 0, &iov, 1, more);
}

void sides_live(void)
{
	ck_assert_msg(!a.nclosed, "a was closed: %d, %s", a.closed_status, a.text);
	ck_assert_msg(!b.nclosed, "b was closed: %d, %s", b.closed_status, b.text);
}

uint8_t *side_pattern(size_t len, unsigned seed)
{
	uint8_t *p = malloc(len ? len : 1);

	ck_assert_ptr_nonnull(p);
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)((i * 2654435761u + seed) >> 13);
	return p;
}
