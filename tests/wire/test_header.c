/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages between contexts: round trips of every kind, and every way to break them. */
#include "harness.h"
#include "wire/bytes.h"
#include "wire/header.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUF_MAX (RIPC__HEADER_MAX + 4096)

static uint64_t rng;

/* The bytes after the header: as in doc/protocol.md, section 1.1. */
static const struct {
	uint8_t kind;
	unsigned words; /* u64 */
	bool items, returns, payload, instance;
	bool lens;   /* items have a length each, and no descriptor */
	bool record; /* what follows is not for the header to judge */
	bool acked;  /* may carry the end of a request */
} kinds[] = {
	{RIPC__SHORT, 0, true, true, true, true, true, false, true},
	{RIPC__LONG, 2, true, true, true, false, false, false, true},
	{RIPC__ACK, 2, false, false, false, false, false, false, false},
	{RIPC__GRANT, 1, true, false, false, false, false, false, false},
	{RIPC__FIN, 1, false, false, false, false, false, false, false},
	{RIPC__CANCEL, 1, false, false, false, false, false, false, false},
	{RIPC__CREDIT, 1, false, false, false, false, false, false, false},
	{RIPC__PING, 1, false, false, false, false, false, false, false},
	{RIPC__PONG, 1, false, false, false, false, false, false, false},
	{RIPC__REVOKE, 1, false, false, false, false, false, false, false},
	{RIPC__REVOKED, 1, false, false, false, false, false, false, false},
	{RIPC__NOSERVICE, 0, false, false, false, true, false, false, false},
	{RIPC__GROUP, 1, true, false, true, true, true, false, false},
	{RIPC__JOIN, 2, false, false, false, false, false, true, false},
	{RIPC__MEMBER, 2, false, false, false, false, false, true, false},
	{RIPC__COORDINATOR, 2, false, false, false, false, false, false, false},
	{RIPC__MCAST_ACK, 1, false, false, false, false, false, false, false},
	{RIPC__MAP_ACK, 1, false, false, false, false, false, false, false},
	{RIPC__RELEASE, 2, false, false, false, false, false, false, false},
	{RIPC__UNMAP, 1, false, false, false, false, false, false, false},
	{RIPC__GOAWAY, 1, false, false, false, false, false, false, false},
	{RIPC__RELIABLE_BEGIN, 1, false, false, false, false, false, false, false},
	{RIPC__RELIABLE_ACK, 1, false, false, false, false, false, false, false},
	{RIPC__RELIABLE_REFUSED, 1, false, false, false, false, false, false, false},
	{RIPC__CALL_CANCEL, 1, false, false, false, false, false, false, false},
	{RIPC__CALL_STATE, 2, false, false, false, false, false, false, false},
	{RIPC__WATCH, 0, false, false, false, false, false, false, false},
	{RIPC__WATCH_END, 0, false, false, false, false, false, false, false},
	{RIPC__STANDING_GRANT, 0, false, true, false, false, false, false, false},
	{RIPC__DATAGRAM_CONTEXT, 2, false, false, false, false, false, false, false},
	{RIPC__DATAGRAM_CONTEXT_ACK, 1, false, false, false, false, false, false, false},
	{RIPC__ACK_REQUEST, 1, false, false, false, false, false, false, false},
	{RIPC__FLOW_END, 1, false, false, false, false, false, false, false},
	{RIPC__BYE, 0, false, false, false, false, false, false, false},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* A message that was made, and what must come out of it again. */
struct made {
	uint64_t number;
	uint8_t buf[BUF_MAX];
	size_t len;
	unsigned k; /* index of its kind */
	uint64_t dest, source, acked, call, call_word, u[2];
	uint16_t nitems, nreturns, credits, flags;
	uint32_t seq;
	struct ripc__desc items[RIPC_ITEMS_MAX], returns[RIPC_RETURN_BUFFERS_MAX];
	size_t payload_at, payload_len;
};

static uint8_t *put_call(struct made *m, uint8_t *p)
{
	if (!(m->flags & (RIPC__F_CALL | RIPC__F_REPLY)))
		return p;
	ripc__put_le64(p, m->call = test_random(&rng) | 1);
	ripc__put_le64(p + 8, m->call_word = (uint32_t)test_random(&rng));
	return p + RIPC__CALL_EXT;
}

static void make(struct made *m, unsigned k, unsigned nitems, unsigned nreturns, bool instance)
{
	uint8_t *p;

	memset(m, 0, sizeof(*m));
	m->k = k;
	m->dest = test_random(&rng);
	m->source = test_random(&rng);
	m->seq = (uint32_t)test_random(&rng);
	m->credits = (uint16_t)test_random(&rng);
	m->nitems = (uint16_t)(kinds[k].items ? nitems : 0);
	m->flags = instance && kinds[k].instance ? RIPC__F_INSTANCE : 0;
	m->nreturns = (uint16_t)(kinds[k].returns && !m->flags ? nreturns : 0);
	if (kinds[k].kind == RIPC__STANDING_GRANT && !m->nreturns)
		m->nreturns = 1;
	/* One or the other. */
	if (kinds[k].acked && !m->flags && test_random(&rng) & 1)
		m->flags = RIPC__F_ACK;
	/* Reliable, and part of a call: without return buffers. */
	if (kinds[k].acked && !(m->flags & RIPC__F_INSTANCE) && test_random(&rng) & 1) {
		m->flags |= test_random(&rng) & 1 ? RIPC__F_CALL : RIPC__F_REPLY;
		if (kinds[k].kind == RIPC__SHORT) {
			m->flags |= RIPC__F_RELIABLE;
			m->nreturns = 0;
		}
	}
	p = ripc__header_put(m->buf, kinds[k].kind, m->flags, m->nitems, m->nreturns, m->dest,
			     m->source);
	if (m->flags & RIPC__F_INSTANCE) {
		m->seq = m->credits = 0;
		ripc__number_stamp(m->buf, m->number = test_random(&rng));
	} else {
		ripc__header_stamp(m->buf, m->seq, m->credits);
	}
	if (m->flags & RIPC__F_INSTANCE)
		for (unsigned i = 0; i < 16; i++)
			*p++ = (uint8_t)(0x40 + i);
	if (m->flags & RIPC__F_ACK) {
		ripc__put_le64(p, m->acked = test_random(&rng));
		p += RIPC__ACK_WORD;
	}
	/* Behind the lengths of a SHORT. */
	if (!kinds[k].lens)
		p = put_call(m, p);
	for (unsigned i = 0; i < kinds[k].words; i++, p += 8)
		ripc__put_le64(p, m->u[i] = test_random(&rng));
	for (unsigned i = 0; i < m->nitems; i++) {
		struct ripc__desc *d = &m->items[i];

		d->len = test_random(&rng) % 50;
		d->addr = test_random(&rng);
		d->key = (uint32_t)test_random(&rng);
		d->how = test_random(&rng) % 4;
		if (kinds[k].kind == RIPC__GRANT)
			d->how = d->how & 1 ? RIPC__HOW_GRANT : RIPC__HOW_INLINE;
		if (kinds[k].lens || d->how == RIPC__HOW_INLINE)
			m->payload_len += kinds[k].payload ? d->len : 0;
		else
			d->len++;
		if (kinds[k].lens) {
			ripc__put_le32(p, (uint32_t)d->len);
			p += 4;
		} else {
			p = ripc__desc_put(p, d);
		}
	}
	if (kinds[k].lens)
		p = put_call(m, p);
	for (unsigned i = 0; i < m->nreturns; i++) {
		struct ripc__desc *d = &m->returns[i];

		*d = (struct ripc__desc){
			test_random(&rng), 1 + test_random(&rng) % ((UINT64_C(1) << 47) - 1),
			(uint32_t)test_random(&rng), (uint32_t)test_random(&rng) | 1};
		p = ripc__desc_put(p, d);
	}
	m->payload_at = (size_t)(p - m->buf);
	for (size_t i = 0; i < m->payload_len; i++)
		*p++ = (uint8_t)test_random(&rng);
	m->len = (size_t)(p - m->buf);
}

/* One without flags. */
static void make_minimal(struct made *m, unsigned k, unsigned nitems, unsigned nreturns)
{
	do
		make(m, k, nitems, nreturns, false);
	while (m->flags);
}

/* Decodes a copy of exactly that size. An error has a reason. */
static int decode(const uint8_t *buf, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);
	const char *why = NULL;
	struct ripc__header h;
	int rc;

	memcpy(copy, buf, len);
	rc = ripc__header_decode(&h, copy, len, &why);
	ck_assert(rc == 0 || rc == -EPROTO);
	ck_assert(!rc || (why && *why));
	if (!rc) {
		/* All its parts lie within the payload. */
		ck_assert(h.payload >= copy && h.payload + h.payload_len == copy + len);
		ck_assert_uint_le(h.nitems, RIPC_ITEMS_MAX);
		ck_assert_uint_le(h.nreturns, RIPC_RETURN_BUFFERS_MAX);
	}
	free(copy);
	return rc;
}

static void same_desc(const struct ripc__desc *a, const struct ripc__desc *b)
{
	ck_assert_uint_eq(a->addr, b->addr);
	ck_assert_uint_eq(a->len, b->len);
	ck_assert_uint_eq(a->key, b->key);
	ck_assert_uint_eq(a->how, b->how);
}

START_TEST(kind_name__unique)
{
	for (unsigned i = 0; i < KINDS; i++) {
		ck_assert_str_ne(ripc__kind_name(kinds[i].kind), "unknown");
		for (unsigned k = 0; k < i; k++)
			ck_assert_str_ne(ripc__kind_name(kinds[i].kind),
					 ripc__kind_name(kinds[k].kind));
	}
	ck_assert_str_eq(ripc__kind_name(0), "unknown");
	ck_assert_str_eq(ripc__kind_name(RIPC__KIND_END), "unknown");
	ck_assert_str_eq(ripc__kind_name(UINT32_MAX), "unknown");
}
END_TEST

/* _i: the kind. */
START_TEST(decode__round_trip_header)
{
	for (int round = 0; round < 300; round++) {
		struct made m;
		struct ripc__header h;
		struct ripc__desc d;
		const char *why;

		make(&m, (unsigned)_i, 1 + (unsigned)(test_random(&rng) % RIPC_ITEMS_MAX),
		     (unsigned)(test_random(&rng) % (RIPC_RETURN_BUFFERS_MAX + 1)), round & 1);
		ck_assert_int_eq(ripc__header_decode(&h, m.buf, m.len, &why), 0);
		ck_assert_uint_eq(h.kind, kinds[_i].kind);
		ck_assert_uint_eq(h.flags, m.flags);
		ck_assert_uint_eq(h.nitems, m.nitems);
		ck_assert_uint_eq(h.nreturns, m.nreturns);
		ck_assert_uint_eq(h.credits, m.credits);
		ck_assert_uint_eq(h.seq, m.seq);
		ck_assert_uint_eq(h.number, m.number);
		ck_assert_uint_eq(h.dest, m.dest);
		ck_assert_uint_eq(h.source, m.source);
		ck_assert_uint_eq(h.u[0], m.u[0]);
		ck_assert_uint_eq(h.u[1], m.u[1]);
		ck_assert(h.instance ==
			  (m.flags & RIPC__F_INSTANCE ? m.buf + RIPC__HEADER_LEN : NULL));
		ck_assert(h.acked == (m.flags & RIPC__F_ACK ? m.acked : 0));
		ck_assert_uint_eq(h.call, m.call);
		ck_assert_uint_eq(h.call_word, m.call_word);
		for (unsigned i = 0; i < m.nitems; i++) {
			if (kinds[_i].lens) {
				ck_assert_uint_eq(ripc__get_le32(h.lens + 4 * i), m.items[i].len);
			} else {
				ripc__desc_get(&d, h.items, i);
				same_desc(&d, &m.items[i]);
			}
		}
		for (unsigned i = 0; i < m.nreturns; i++) {
			ripc__desc_get(&d, h.returns, i);
			same_desc(&d, &m.returns[i]);
		}
		ck_assert_ptr_eq(h.payload, m.buf + m.payload_at);
		ck_assert_uint_eq(h.payload_len, m.payload_len);
	}
}
END_TEST

START_TEST(decode__every_truncation)
{
	struct made m;

	make(&m, (unsigned)_i, 5, 3, true);
	for (size_t len = 0; len < m.len; len++)
		ck_assert_int_eq(decode(m.buf, len), -EPROTO);
	/* Nor may anything follow. */
	m.buf[m.len] = 0;
	ck_assert_int_eq(decode(m.buf, m.len + 1), kinds[_i].record ? 0 : -EPROTO);
}
END_TEST

START_TEST(decode__every_mutation_of_a_byte)
{
	struct made m;

	make(&m, (unsigned)_i, 3, 2, true);
	for (size_t at = 0; at < m.len; at++) {
		uint8_t was = m.buf[at];

		for (unsigned v = 0; v < 256; v++) {
			m.buf[at] = (uint8_t)v;
			if (at < 3 && v != was)
				ck_assert_int_eq(decode(m.buf, m.len), -EPROTO);
			else
				(void)decode(m.buf, m.len);
		}
		m.buf[at] = was;
	}
	ck_assert_int_eq(decode(m.buf, m.len), 0);
}
END_TEST

START_TEST(decode__header_alone_has_32_bytes)
{
	struct made m;

	make(&m, KINDS - 1, 0, 0, false);
	ck_assert_uint_eq(m.len, 32);
	ck_assert_int_eq(decode(m.buf, 31), -EPROTO);
	ck_assert_int_eq(decode(m.buf, 0), -EPROTO);
	ck_assert_int_eq(decode(m.buf, 32), 0);
}
END_TEST

START_TEST(decode__only_known_kinds)
{
	struct made m;

	make(&m, KINDS - 1, 0, 0, false);
	for (unsigned v = 0; v < 256; v++) {
		bool known = v == RIPC__BYE || v == RIPC__NOSERVICE || v == RIPC__WATCH ||
			     v == RIPC__WATCH_END;

		/* Others have more behind the header, or do not exist. */
		m.buf[3] = (uint8_t)v;
		ck_assert_int_eq(decode(m.buf, m.len), known ? 0 : -EPROTO);
	}
}
END_TEST

START_TEST(decode__unknown_flags)
{
	struct made m;

	make(&m, KINDS - 1, 0, 0, false);
	for (unsigned bit = 1; bit < 16; bit++) {
		ripc__put_le16(m.buf + 4, (uint16_t)(1u << bit));
		ck_assert_int_eq(decode(m.buf, m.len), -EPROTO);
	}
}
END_TEST

START_TEST(decode__f_instance_where_allowed)
{
	for (unsigned k = 0; k < KINDS; k++) {
		struct made m;

		make_minimal(&m, k, 1, 0);
		ck_assert_int_eq(decode(m.buf, m.len), 0);
		ripc__put_le16(m.buf + 4, RIPC__F_INSTANCE);
		memmove(m.buf + 48, m.buf + 32, m.len - 32);
		memset(m.buf + 32, 7, 16);
		ck_assert_int_eq(decode(m.buf, m.len + 16), kinds[k].instance ? 0 : -EPROTO);
	}
}
END_TEST

/* Flags of SHORT and LONG, which exclude one another in part, and a call has an id. */
START_TEST(decode__call_flags)
{
	static const struct {
		uint16_t flags;
		bool in_short, in_long;
	} cases[] = {
		{RIPC__F_RELIABLE, true, false},
		{RIPC__F_CALL, false, true},
		{RIPC__F_REPLY, false, true},
		{RIPC__F_CALL | RIPC__F_REPLY, false, false},
		{RIPC__F_RELIABLE | RIPC__F_CALL, true, false},
		{RIPC__F_RELIABLE | RIPC__F_REPLY, true, false},
		{RIPC__F_RELIABLE | RIPC__F_CALL | RIPC__F_REPLY, false, false},
		{RIPC__F_ACK_NOW, false, true},
		{RIPC__F_ACK_NOW | RIPC__F_CALL, false, true},
		{RIPC__F_ACK_NOW | RIPC__F_RELIABLE, false, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool call = cases[i].flags & (RIPC__F_CALL | RIPC__F_REPLY);

		for (unsigned k = 0; k < KINDS; k++) {
			bool ok = kinds[k].kind == RIPC__SHORT
					  ? cases[i].in_short
					  : kinds[k].kind == RIPC__LONG && cases[i].in_long;
			struct made m;
			size_t ext = call ? RIPC__CALL_EXT : 0;
			/* Behind the length of the item of a SHORT. */
			size_t at = kinds[k].lens ? 36 : 32;

			make_minimal(&m, k, 1, 0);
			ripc__put_le16(m.buf + 4, cases[i].flags);
			if (call && m.len >= at) {
				memmove(m.buf + at + ext, m.buf + at, m.len - at);
				memset(m.buf + at, 7, 12);
				memset(m.buf + at + 12, 0, 4);
			}
			ck_assert_int_eq(decode(m.buf, m.len + ext), ok ? 0 : -EPROTO);
			if (!ok || !call)
				continue;
			ck_assert_int_eq(decode(m.buf, m.len + ext - 1), -EPROTO);
			ripc__put_le64(m.buf + at, 0);
			ck_assert_int_eq(decode(m.buf, m.len + ext), -EPROTO);
			ripc__put_le64(m.buf + at, 1);
			ripc__put_le64(m.buf + at + 8, UINT64_C(1) << 32);
			ck_assert_int_eq(decode(m.buf, m.len + ext), -EPROTO);
		}
	}
	/* No return buffers with a reliable short message. */
	for (unsigned k = 0; k < KINDS; k++) {
		struct made m;

		if (kinds[k].kind != RIPC__SHORT)
			continue;
		make_minimal(&m, k, 1, 1);
		ck_assert_int_eq(decode(m.buf, m.len), 0);
		ripc__put_le16(m.buf + 4, RIPC__F_RELIABLE);
		ck_assert_int_eq(decode(m.buf, m.len), -EPROTO);
	}
}
END_TEST

/* Nor beside an instance id: datagrams end no requests. */
START_TEST(decode__f_ack_only_where_allowed)
{
	for (unsigned k = 0; k < KINDS; k++) {
		struct made m;

		make_minimal(&m, k, 1, 0);
		ripc__put_le16(m.buf + 4, RIPC__F_ACK);
		memmove(m.buf + 40, m.buf + 32, m.len - 32);
		memset(m.buf + 32, 7, 8);
		ck_assert_int_eq(decode(m.buf, m.len + 8), kinds[k].acked ? 0 : -EPROTO);
		ripc__put_le16(m.buf + 4, RIPC__F_ACK | RIPC__F_INSTANCE);
		memmove(m.buf + 56, m.buf + 40, m.len - 32);
		memset(m.buf + 32, 7, 24);
		ck_assert_int_eq(decode(m.buf, m.len + 24), -EPROTO);
	}
}
END_TEST

START_TEST(decode__counts_of_items_and_returns)
{
	struct made m;

	for (unsigned k = 0; k < KINDS; k++) {
		make(&m, k, 1, 0, false);
		ripc__put_le16(m.buf + 6, kinds[k].items ? 0 : 1);
		ck_assert_int_eq(decode(m.buf, m.len), -EPROTO);
		if (!kinds[k].items)
			continue;
		make(&m, k, RIPC_ITEMS_MAX, RIPC_RETURN_BUFFERS_MAX, false);
		ck_assert_int_eq(decode(m.buf, m.len), 0);
		ripc__put_le16(m.buf + 6, RIPC_ITEMS_MAX + 1);
		ck_assert_int_eq(decode(m.buf, m.len), -EPROTO);
		ripc__put_le16(m.buf + 6, UINT16_MAX);
		ck_assert_int_eq(decode(m.buf, m.len), -EPROTO);
	}
	for (unsigned k = 0; k < KINDS; k++) {
		make(&m, k, 1, RIPC_RETURN_BUFFERS_MAX, false);
		ck_assert_int_eq(decode(m.buf, m.len), 0);
		ripc__put_le16(m.buf + 30, kinds[k].returns ? RIPC_RETURN_BUFFERS_MAX + 1 : 1);
		ck_assert_int_eq(decode(m.buf, m.len), -EPROTO);
	}
}
END_TEST

/* Lengths whose sum wraps round to the right one. */
START_TEST(decode__short_lengths_that_wrap)
{
	uint8_t buf[RIPC__HEADER_LEN + 8 + 4], *p;

	memset(buf, 0, sizeof(buf));
	p = ripc__header_put(buf, RIPC__SHORT, 0, 2, 0, 1, 2);
	ripc__put_le32(p, UINT32_MAX);
	ripc__put_le32(p + 4, 5);
	ck_assert_int_eq(decode(buf, sizeof(buf)), -EPROTO);
	ripc__put_le32(p, 4);
	ripc__put_le32(p + 4, 0);
	ck_assert_int_eq(decode(buf, sizeof(buf)), 0);
}
END_TEST

START_TEST(decode__long_lengths_that_wrap)
{
	uint8_t buf[RIPC__LONG_FIXED + 2 * RIPC__DESC_LEN + 4], *p;
	struct ripc__desc d = {.len = UINT64_MAX - 3}, e = {.len = 8};

	memset(buf, 0, sizeof(buf));
	p = ripc__header_put(buf, RIPC__LONG, 0, 2, 0, 1, 2) + 16;
	ripc__desc_put(ripc__desc_put(p, &d), &e);
	ck_assert_int_eq(decode(buf, sizeof(buf)), -EPROTO);
	d.len = e.len = 2;
	ripc__desc_put(ripc__desc_put(p, &d), &e);
	ck_assert_int_eq(decode(buf, sizeof(buf)), 0);
}
END_TEST

START_TEST(decode__known_item_paths)
{
	uint8_t buf[RIPC__LONG_FIXED + RIPC__DESC_LEN], *p;
	struct ripc__desc d = {.addr = 1, .len = 10};

	memset(buf, 0, sizeof(buf));
	p = ripc__header_put(buf, RIPC__LONG, 0, 1, 0, 1, 2) + 16;
	for (uint32_t how = 0; how < 10; how++) {
		d.how = how;
		ripc__desc_put(p, &d);
		ck_assert_int_eq(decode(buf, sizeof(buf)),
				 how >= RIPC__HOW_READ && how <= RIPC__HOW_MAPPED ? 0 : -EPROTO);
	}
	/* Only an inline item may be empty, and none may be absurd. */
	d.len = 0;
	for (uint32_t how = 0; how <= RIPC__HOW_MAPPED; how++) {
		d.how = how;
		ripc__desc_put(p, &d);
		ck_assert_int_eq(decode(buf, sizeof(buf)), how ? -EPROTO : 0);
	}
	d.how = RIPC__HOW_READ;
	d.len = UINT64_C(1) << 62;
	ripc__desc_put(p, &d);
	ck_assert_int_eq(decode(buf, sizeof(buf)), -EPROTO);
}
END_TEST

/* doc/protocol.md 1.2: lengths are below 2^47, whatever an item travels by. */
START_TEST(decode__lengths_below_2_47)
{
	uint8_t buf[RIPC__LONG_FIXED + RIPC__DESC_LEN], *p;
	struct ripc__desc d = {.addr = 1};

	memset(buf, 0, sizeof(buf));
	p = ripc__header_put(buf, RIPC__LONG, 0, 1, 0, 1, 2) + 16;
	for (uint32_t how = RIPC__HOW_READ; how <= RIPC__HOW_MAPPED; how++)
		for (unsigned bits = 46; bits < 64; bits++) {
			d.how = how;
			d.len = UINT64_C(1) << bits;
			ripc__desc_put(p, &d);
			ck_assert_int_eq(decode(buf, sizeof(buf)), bits < 47 ? 0 : -EPROTO);
			d.len--;
			ripc__desc_put(p, &d);
			ck_assert_int_eq(decode(buf, sizeof(buf)), bits <= 47 ? 0 : -EPROTO);
		}
}
END_TEST

START_TEST(decode__grants_are_bounded)
{
	uint8_t buf[RIPC__HEADER_LEN + 8 + RIPC__DESC_LEN], *p;
	struct ripc__desc d = {0};
	int rc;

	memset(buf, 0, sizeof(buf));
	p = ripc__header_put(buf, RIPC__GRANT, 0, 1, 0, 0, 0) + 8;
	for (uint32_t how = 0; how < 6; how++)
		for (unsigned bits = 46; bits < 64; bits++) {
			bool known = how == RIPC__HOW_INLINE || how == RIPC__HOW_GRANT;

			d.how = how;
			d.len = UINT64_C(1) << bits;
			ripc__desc_put(p, &d);
			rc = decode(buf, sizeof(buf));
			ck_assert_int_eq(rc, known && bits < 47 ? 0 : -EPROTO);
		}
}
END_TEST

/* _i: SHORT or LONG. */
START_TEST(decode__return_buffers_have_a_length_and_may_have_no_id)
{
	static const struct {
		struct ripc__desc d;
		bool ok;
	} cases[] = {{{.addr = 5, .len = 1, .key = 7, .how = 1}, true},
		     {{.len = (UINT64_C(1) << 47) - 1, .how = UINT32_MAX}, true},
		     {{.len = 1}, true},
		     {{.len = 1, .addr = 5}, false},
		     {{.len = 1, .key = 7}, false},
		     {{.how = 1}, false},
		     {{.len = 0}, false},
		     {{.len = UINT64_C(1) << 47, .how = 1}, false},
		     {{.len = UINT64_C(1) << 47}, false},
		     {{.len = UINT64_MAX, .how = 1}, false}};
	uint8_t buf[RIPC__LONG_FIXED + 2 * RIPC__DESC_LEN], *p, *back;
	unsigned kind = _i ? RIPC__LONG : RIPC__SHORT;

	memset(buf, 0, sizeof(buf));
	p = ripc__header_put(buf, kind, 0, 1, 1, 1, 2);
	back = p + (_i ? 16 + RIPC__DESC_LEN : 4);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ripc__desc_put(back, &cases[i].d);
		ck_assert_int_eq(decode(buf, (size_t)(back - buf) + RIPC__DESC_LEN),
				 cases[i].ok ? 0 : -EPROTO);
	}
}
END_TEST

/* Each buffer of a STANDING_GRANT has an id, whatever its place. */
START_TEST(decode__standing_buffers_have_an_id)
{
	uint8_t buf[RIPC__HEADER_LEN + RIPC_RETURN_BUFFERS_MAX * RIPC__DESC_LEN];

	for (unsigned without = 0; without <= RIPC_RETURN_BUFFERS_MAX; without++) {
		uint8_t *p = ripc__header_put(buf, RIPC__STANDING_GRANT, 0, 0,
					      RIPC_RETURN_BUFFERS_MAX, 1, 2);

		ripc__header_stamp(buf, 0, 0);
		for (unsigned i = 0; i < RIPC_RETURN_BUFFERS_MAX; i++)
			p = ripc__desc_put(
				p, &(struct ripc__desc){.len = 1, .how = i == without ? 0 : 1});
		ck_assert_int_eq(decode(buf, sizeof(buf)),
				 without < RIPC_RETURN_BUFFERS_MAX ? -EPROTO : 0);
	}
	ripc__header_put(buf, RIPC__STANDING_GRANT, 0, 0, 0, 1, 2);
	ripc__header_stamp(buf, 0, 0);
	ck_assert_int_eq(decode(buf, RIPC__HEADER_LEN), -EPROTO);
}
END_TEST

START_TEST(decode__random_bytes)
{
	for (int i = 0; i < 100000; i++) {
		uint8_t buf[600];
		size_t len = test_random(&rng) % sizeof(buf);

		for (size_t k = 0; k < len; k++)
			buf[k] = (uint8_t)test_random(&rng);
		/* Most get past the first checks. */
		if (i & 3 && len >= 32) {
			ripc__header_put(buf, (uint8_t)(test_random(&rng) % RIPC__KIND_END),
					 test_random(&rng) & 1, (uint16_t)(test_random(&rng) % 6),
					 (uint16_t)(test_random(&rng) % 3), 1, 2);
		}
		(void)decode(buf, len);
	}
}
END_TEST

START_TEST(header_put__bytes)
{
	static const uint8_t want[RIPC__HEADER_LEN] = {
		0x72, 0x70, 4,    13,   1,    0,    2,    0,    8,    7,    6,
		5,    4,    3,    2,    1,    0x18, 0x17, 0x16, 0x15, 0x14, 0x13,
		0x12, 0x11, 0x24, 0x23, 0x22, 0x21, 0x32, 0x31, 3,    0};
	uint8_t buf[RIPC__HEADER_LEN], *end;

	memset(buf, 0xff, sizeof(buf));
	end = ripc__header_put(buf, 13, 1, 2, 3, 0x0102030405060708u, 0x1112131415161718u);
	ck_assert_ptr_eq(end, buf + RIPC__HEADER_LEN);
	/* Neither sequence nor credits yet. */
	ck_assert_uint_eq(ripc__get_le32(buf + 24), 0);
	ck_assert_uint_eq(ripc__get_le16(buf + 28), 0);
	ripc__header_stamp(buf, 0x21222324, 0x3132);
	ck_assert_mem_eq(buf, want, sizeof(want));
}
END_TEST

START_TEST(control_put__words_of_the_kind)
{
	static const struct {
		unsigned kind, words;
	} cases[] = {{RIPC__BYE, 0}, {RIPC__PING, 1}, {RIPC__ACK, 2}, {RIPC__RELEASE, 2}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint8_t buf[RIPC__CONTROL_MAX];
		size_t len = ripc__control_put(buf, cases[i].kind, 5, 6, 7, 8);
		struct ripc__header h;
		const char *why;

		ck_assert_uint_eq(len, RIPC__HEADER_LEN + 8 * cases[i].words);
		ck_assert_int_eq(ripc__header_decode(&h, buf, len, &why), 0);
		ck_assert_uint_eq(h.kind, cases[i].kind);
		ck_assert_uint_eq(h.dest, 5);
		ck_assert_uint_eq(h.source, 6);
		ck_assert(cases[i].words < 1 || h.u[0] == 7);
		ck_assert(cases[i].words < 2 || h.u[1] == 8);
	}
}
END_TEST

START_TEST(desc_put__bytes)
{
	static const uint8_t want[RIPC__DESC_LEN] = {
		8,    7,    6,    5,    4,    3,    2,    1,    0x18, 0x17, 0x16, 0x15,
		0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21, 0x34, 0x33, 0x32, 0x31};
	struct ripc__desc d = {0x0102030405060708u, 0x1112131415161718u, 0x21222324, 0x31323334},
			  back;
	uint8_t buf[2 * RIPC__DESC_LEN];

	ck_assert_ptr_eq(ripc__desc_put(buf + RIPC__DESC_LEN, &d), buf + 2 * RIPC__DESC_LEN);
	ck_assert_mem_eq(buf + RIPC__DESC_LEN, want, sizeof(want));
	ripc__desc_get(&back, buf, 1);
	same_desc(&d, &back);
}
END_TEST

/* The largest headers fit what others reserve for them. */
START_TEST(sizes__largest_header)
{
	struct made m;

	make_minimal(&m, 1, RIPC_ITEMS_MAX, RIPC_RETURN_BUFFERS_MAX);
	ck_assert_uint_eq(m.payload_at, RIPC__HEADER_MAX);
	make(&m, 0, RIPC_ITEMS_MAX, RIPC_RETURN_BUFFERS_MAX, true);
	ck_assert_uint_le(m.payload_at, RIPC__SHORT_HEADER_MAX);
	do
		make(&m, 0, RIPC_ITEMS_MAX, RIPC_RETURN_BUFFERS_MAX, false);
	while (m.flags != RIPC__F_ACK);
	ck_assert_uint_eq(m.payload_at, RIPC__SHORT_HEADER_MAX);
	ck_assert_uint_ge(RIPC__MSG_MIN_MAX, RIPC__SHORT_HEADER_MAX + RIPC_SHORT_GUARANTEED);
}
END_TEST

static void setup(void)
{
	rng = test_seed();
}

int main(void)
{
	Suite *suite = suite_create("wire/header");
	TCase *tc = tcase_create("header");

	test_seed();
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, kind_name__unique);
	tcase_add_loop_test(tc, decode__round_trip_header, 0, KINDS);
	tcase_add_loop_test(tc, decode__every_truncation, 0, KINDS);
	tcase_add_loop_test(tc, decode__every_mutation_of_a_byte, 0, KINDS);
	tcase_add_test(tc, decode__header_alone_has_32_bytes);
	tcase_add_test(tc, decode__only_known_kinds);
	tcase_add_test(tc, decode__unknown_flags);
	tcase_add_test(tc, decode__f_instance_where_allowed);
	tcase_add_test(tc, decode__call_flags);
	tcase_add_test(tc, decode__f_ack_only_where_allowed);
	tcase_add_test(tc, decode__counts_of_items_and_returns);
	tcase_add_test(tc, decode__short_lengths_that_wrap);
	tcase_add_test(tc, decode__long_lengths_that_wrap);
	tcase_add_test(tc, decode__known_item_paths);
	tcase_add_test(tc, decode__lengths_below_2_47);
	tcase_add_test(tc, decode__grants_are_bounded);
	tcase_add_loop_test(tc, decode__return_buffers_have_a_length_and_may_have_no_id, 0, 2);
	tcase_add_test(tc, decode__standing_buffers_have_an_id);
	tcase_add_test(tc, decode__random_bytes);
	tcase_add_test(tc, header_put__bytes);
	tcase_add_test(tc, control_put__words_of_the_kind);
	tcase_add_test(tc, desc_put__bytes);
	tcase_add_test(tc, sizes__largest_header);
	suite_add_tcase(suite, tc);
	return test_main("wire/header", suite);
}
