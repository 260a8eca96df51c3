/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "endpoint_pair.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

struct side a, b;
char options[64];

/* The connecting and the accepting transport. */
static const struct {
	const struct ripc__transport_ops *active, *passive;
	const char *crc;
} pairs[PAIRS + 1] = {
	{&ripc__transport_iwarp, &ripc__transport_iwarp, ""},
	{&ripc__transport_soft, &ripc__transport_iwarp, "crc=off"},
	{&ripc__transport_iwarp, &ripc__transport_soft, "crc=off"},
	{&ripc__transport_soft, &ripc__transport_iwarp, "crc=on"},
	{&ripc__transport_iwarp, &ripc__transport_soft, "crc=on"},
	[PAIR_IB] = {&ripc__transport_ib, &ripc__transport_ib, ""},
};

static void open_side(struct side *s, const struct ripc__transport_ops *ops, const char *more)
{
	static const uint8_t instance[16] = "test";
	struct ripc__transport_env env = {.opt = &s->opt, .instance = instance};
	char text[128], why[256];

	memset(s, 0, sizeof(*s));
	s->ops = ops;
	snprintf(text, sizeof(text), "%s %s", options, more);
	ck_assert_int_eq(ripc__options_load(&s->opt, text, why, sizeof(why)), 0);
	ck_assert_msg(!ops->open(&s->t, &env), "%s", ripc_error_detail());
	ops->limits(s->t, &s->limits);
}

static void received(struct side *s, const struct ripc__event *e)
{
	ck_assert_uint_ge(e->len, 4);
	ck_assert_ptr_nonnull(e->data);
	ck_assert_mem_eq(e->data, &s->number, 4);
	s->number++;
	s->nrecv++;
	s->closed_before_data |= s->nclosed;
	if (e->token)
		s->ops->release(s->t, e->token);
}

static void closed(struct side *s, const struct ripc__event *e)
{
	s->nclosed++;
	s->status = e->status;
	s->rejected = e->reject;
	snprintf(s->text, sizeof(s->text), "%s", e->text ? e->text : "");
}

static void event(struct side *s, const struct ripc__event *e)
{
	if (e->kind == RIPC__EV_REQUEST || e->kind == RIPC__EV_ESTABLISHED || e->reject) {
		memcpy(s->priv, e->data ? e->data : (const uint8_t *)"", e->len);
		s->privlen = e->len;
	}
	switch (e->kind) {
	case RIPC__EV_REQUEST:
		if (s->refuse)
			s->ops->reject(s->t, e->request, "no room", 7);
		else
			s->ops->accept(s->t, e->request, "welcome", 7, s, &s->ep);
		break;
	case RIPC__EV_ESTABLISHED:
		s->nestablished++;
		s->ep = e->ep;
		break;
	case RIPC__EV_CLOSED:
		closed(s, e);
		break;
	case RIPC__EV_RECV:
		received(s, e);
		break;
	case RIPC__EV_READ_DONE:
		ck_assert_int_eq(e->status, 0);
		s->nread++;
		break;
	case RIPC__EV_WRITE_DONE:
		ck_assert_int_eq(e->status, 0);
		s->nwrite++;
		break;
	case RIPC__EV_SENDABLE:
		s->nsendable++;
		break;
	case RIPC__EV_ADDRESS:
		s->naddress++;
		break;
	default:
		ck_abort_msg("event %d: %s", (int)e->kind, e->text ? e->text : "");
	}
}

void step(struct side *s)
{
	struct ripc__event ev[16];
	uint64_t deadline = RIPC__NEVER;
	unsigned n = s->t ? s->ops->progress(s->t, ev, 16, ripc__clock_ns(), &deadline) : 0;

	for (unsigned i = 0; i < n; i++)
		event(s, &ev[i]);
}

void open_pair(int which)
{
	open_side(&a, pairs[which].active,
		  pairs[which].active == &ripc__transport_soft ? pairs[which].crc : "");
	open_side(&b, pairs[which].passive,
		  pairs[which].passive == &ripc__transport_soft ? pairs[which].crc : "");
}

void start_connect(void)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	int len = b.ops->address(b.t, addr, sizeof(addr));

	ck_assert_int_gt(len, 0);
	ck_assert_int_eq(a.ops->connect(a.t, addr, (size_t)len, "hello", 5, &a, &a.ep), 0);
}

void connect_pair(void)
{
	start_connect();
	UNTIL(a.nestablished && b.nestablished);
	ck_assert_uint_eq(a.privlen, 7);
	ck_assert_mem_eq(a.priv, "welcome", 7);
}

void disconnect(struct side *first, struct side *second)
{
	first->ops->ep_close(first->ep);
	UNTIL(second->nclosed);
	ck_assert_uint_eq(first->nclosed, 0);
	second->ops->ep_close(second->ep);
	a.nestablished = b.nestablished = a.nclosed = b.nclosed = 0;
	a.number = b.number = 0;
}

void close_pair(void)
{
	a.ops->close(a.t);
	b.ops->close(b.t);
}

int send_one(struct side *from, uint32_t number, size_t len)
{
	static uint8_t bytes[65536];

	memcpy(bytes, &number, 4);
	return from->ops->post(from->ep, NULL, 0, &(struct iovec){bytes, len}, 1, false);
}
