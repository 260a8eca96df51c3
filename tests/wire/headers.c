/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "headers.h"
#include "wire/bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t rng;

const struct header_kind kinds[KINDS] = {
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

static uint8_t *put_call(struct made *m, uint8_t *p)
{
	if (!(m->flags & (RIPC__F_CALL | RIPC__F_REPLY)))
		return p;
	ripc__put_le64(p, m->call = test_random(&rng) | 1);
	ripc__put_le64(p + 8, m->call_word = (uint32_t)test_random(&rng));
	return p + RIPC__CALL_EXT;
}

void make(struct made *m, unsigned k, unsigned nitems, unsigned nreturns, bool instance)
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

void make_minimal(struct made *m, unsigned k, unsigned nitems, unsigned nreturns)
{
	do
		make(m, k, nitems, nreturns, false);
	while (m->flags);
}

int decode(const uint8_t *buf, size_t len)
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

void same_desc(const struct ripc__desc *a, const struct ripc__desc *b)
{
	ck_assert_uint_eq(a->addr, b->addr);
	ck_assert_uint_eq(a->len, b->len);
	ck_assert_uint_eq(a->key, b->key);
	ck_assert_uint_eq(a->how, b->how);
}

void headers_setup(void)
{
	rng = test_seed();
}
