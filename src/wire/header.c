/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "wire/header.h"

#include <assert.h>

/*
 * Per kind: bytes between the header and the descriptors, and whether items, returns and payload
 * may follow. A kind that is not listed has a header alone.
 */
static const struct kind {
	uint8_t fixed;
	bool items, returns, payload;
	bool lens; /* items have a length each, and no descriptor */
	bool instance, ack, call;
} kinds[RIPC__KIND_END] = {
	[RIPC__SHORT] = {.items = true,
			 .returns = true,
			 .payload = true,
			 .lens = true,
			 .instance = true,
			 .ack = true,
			 .call = true},
	[RIPC__LONG] = {.fixed = 16,
			.items = true,
			.returns = true,
			.payload = true,
			.ack = true,
			.call = true},
	[RIPC__ACK] = {.fixed = 16},
	[RIPC__GRANT] = {.fixed = 8, .items = true},
	[RIPC__FIN] = {.fixed = 8},
	[RIPC__CANCEL] = {.fixed = 8},
	[RIPC__CREDIT] = {.fixed = 8},
	[RIPC__PING] = {.fixed = 8},
	[RIPC__PONG] = {.fixed = 8},
	[RIPC__REVOKE] = {.fixed = 8},
	[RIPC__REVOKED] = {.fixed = 8},
	[RIPC__NOSERVICE] = {.instance = true},
	[RIPC__GOAWAY] = {.fixed = 8},
	[RIPC__GROUP] =
		{
			.fixed = 8,
			.items = true,
			.payload = true,
			.lens = true,
			.instance = true,
		},
	[RIPC__JOIN] = {.fixed = 16, .payload = true},
	[RIPC__MEMBER] = {.fixed = 16, .payload = true},
	[RIPC__COORDINATOR] = {.fixed = 16},
	[RIPC__MCAST_ACK] = {.fixed = 8},
	[RIPC__MAP_ACK] = {.fixed = 8},
	[RIPC__RELEASE] = {.fixed = 16},
	[RIPC__UNMAP] = {.fixed = 8},
	[RIPC__RELIABLE_BEGIN] = {.fixed = 8},
	[RIPC__RELIABLE_ACK] = {.fixed = 8},
	[RIPC__RELIABLE_REFUSED] = {.fixed = 8},
	[RIPC__CALL_CANCEL] = {.fixed = 8},
	[RIPC__CALL_STATE] = {.fixed = 16},
	[RIPC__STANDING_GRANT] = {.returns = true},
	[RIPC__DATAGRAM_CONTEXT] = {.fixed = 16},
	[RIPC__DATAGRAM_CONTEXT_ACK] = {.fixed = 8},
	[RIPC__ACK_REQUEST] = {.fixed = 8},
	[RIPC__FLOW_END] = {.fixed = 8},
};

size_t ripc__control_put(uint8_t buf[RIPC__CONTROL_MAX], unsigned kind, uint64_t dest,
			 uint64_t source, uint64_t a, uint64_t b)
{
	uint8_t *p = ripc__header_put(buf, (uint8_t)kind, 0, 0, 0, dest, source);

	/* buf has room for both words; the length leaves out those that the kind does not have. */
	assert((kinds[kind].fixed > 8 || !b) && (kinds[kind].fixed || !a));
	ripc__put_le64(p, a);
	ripc__put_le64(p + 8, b);
	return RIPC__HEADER_LEN + kinds[kind].fixed;
}

/* The first 8 bytes of a message of words alone, but for its kind; and of a LONG of one item. */
#define WORDS_WORD (RIPC__MSG_MAGIC | RIPC__MSG_VERSION << 16)
#define KIND_MASK  UINT64_C(0xff000000)
#define LONG_WORD  (WORDS_WORD | (uint64_t)RIPC__LONG << 24 | UINT64_C(1) << 48)
#define LONG_FLAGS ((uint64_t)RIPC__F_ACK_NOW << 32) /* that it may have besides */

/* SHORT, GROUP: the item lengths must add up to the payload. */
static int check_short(const struct ripc__header *h, const char **why)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < h->nitems; i++)
		sum += ripc__get_le32(h->lens + 4 * i);
	return sum == h->payload_len
		       ? 0
		       : ripc__malformed(why, "item lengths do not add up to the payload");
}

/* Length 0: a return buffer without capacity, or an item that is not in the message. */
static inline bool malformed_len(uint64_t len)
{
	return !len || len >> RIPC__LEN_BITS;
}

/*
 * SHORT, LONG: a return buffer has a length. Without an id it cannot be written: no address, no
 * key.
 */
static int check_returns(const struct ripc__header *h, const char **why)
{
	struct ripc__desc d;

	for (unsigned i = 0; i < h->nreturns; i++) {
		ripc__desc_get(&d, h->returns, i);
		if (!d.how && (d.addr || d.key))
			return ripc__malformed(why, "return buffer with an address and no id");
		if (malformed_len(d.len))
			return ripc__malformed(why, "return buffer length out of bounds");
	}
	return 0;
}

/* STANDING_GRANT: at least one buffer, and each can be written. */
static int check_standing(const struct ripc__header *h, const char **why)
{
	struct ripc__desc d;

	if (!h->nreturns)
		return ripc__malformed(why, "standing grant without a buffer");
	for (unsigned i = 0; i < h->nreturns; i++) {
		ripc__desc_get(&d, h->returns, i);
		if (!d.how)
			return ripc__malformed(why, "standing grant of a buffer without an id");
	}
	return 0;
}

/* GRANT: as the descriptors of the LONG that it answers. */
static int check_grant(const struct ripc__header *h, const char **why)
{
	struct ripc__desc d;

	for (unsigned i = 0; i < h->nitems; i++) {
		ripc__desc_get(&d, h->items, i);
		if (d.how != RIPC__HOW_INLINE && d.how != RIPC__HOW_GRANT)
			return ripc__malformed(why, "granted item with an invalid path");
		if (d.len >> RIPC__LEN_BITS)
			return ripc__malformed(why, "item length out of bounds");
	}
	return 0;
}

/* LONG: whether the path of an item that is not in the message is known, and its length allowed. */
static inline bool is_elsewhere(const uint8_t *desc)
{
	uint32_t how = ripc__get_le32(desc + 20);

	return how != RIPC__HOW_INLINE && how <= RIPC__HOW_MAPPED &&
	       !malformed_len(ripc__get_le64(desc + 8));
}

/* LONG: inline items must add up to the payload, and every item must have a known path. */
static int check_long(const struct ripc__header *h, const char **why)
{
	uint64_t sum = 0;
	struct ripc__desc d;

	for (unsigned i = 0; i < h->nitems; i++) {
		ripc__desc_get(&d, h->items, i);
		if (d.how > RIPC__HOW_MAPPED)
			return ripc__malformed(why, "item with an unknown path");
		if (d.how == RIPC__HOW_INLINE) {
			if (d.len > h->payload_len)
				return ripc__malformed(why, "inline item longer than its message");
			sum += d.len;
		} else if (malformed_len(d.len)) {
			return ripc__malformed(why, "item length out of bounds");
		}
	}
	return sum == h->payload_len
		       ? 0
		       : ripc__malformed(why, "inline items do not add up to the payload");
}

/*
 * The most frequent messages: few comparisons instead of some per field. They are a SHORT of one
 * item, a LONG of one item that is not in the message, and those of one or two words.
 */
static inline bool decode_fast(struct ripc__header *h, const uint8_t *buf, size_t len)
{
	const uint8_t *items = buf + RIPC__HEADER_LEN, *end = buf + len;
	uint64_t first, last, u0 = 0, u1 = 0;
	const struct kind *k;

	if (len < RIPC__FAST_HEADER_LEN)
		return false;
	first = ripc__get_le64(buf);
	last = ripc__get_le64(buf + 24);
	if (last >> 48)
		return false;
	if (first == RIPC__FAST_HEADER_WORD) {
		if (ripc__get_le32(items) != len - RIPC__FAST_HEADER_LEN)
			return false;
		end = items + 4;
	} else if ((first & ~LONG_FLAGS) == LONG_WORD) {
		if (len != RIPC__LONG_FIXED + RIPC__DESC_LEN)
			return false;
		u0 = ripc__get_le64(items);
		u1 = ripc__get_le64(items + 8);
		items += 16;
		if (!is_elsewhere(items))
			return false;
	} else {
		k = &kinds[buf[3] < RIPC__KIND_END ? buf[3] : 0];
		if ((first & ~KIND_MASK) != WORDS_WORD || !k->fixed ||
		    k->items | k->returns | k->payload ||
		    len != (size_t)RIPC__HEADER_LEN + k->fixed)
			return false;
		u0 = ripc__get_le64(items);
		u1 = k->fixed > 8 ? ripc__get_le64(items + 8) : 0;
		items = end;
	}
	/* One by one: compilers clear a whole struct by an instruction that is slow to begin. */
	h->kind = (uint8_t)(first >> 24);
	h->flags = (uint16_t)(first >> 32);
	h->nitems = (uint16_t)(first >> 48);
	h->nreturns = 0;
	h->credits = (uint16_t)(last >> 32);
	h->seq = (uint32_t)last;
	h->number = 0;
	h->dest = ripc__get_le64(buf + 8);
	h->source = ripc__get_le64(buf + 16);
	h->acked = h->call = h->call_word = 0;
	h->u[0] = u0;
	h->u[1] = u1;
	h->instance = NULL;
	h->lens = h->items = items;
	h->returns = h->payload = end;
	h->payload_len = (uint64_t)(buf + len - end);
	return true;
}

/* F_RELIABLE, F_CALL, F_REPLY, F_ACK_NOW: which messages may have them. */
static int check_flags(const struct ripc__header *h, const char **why)
{
	bool call = h->flags & (RIPC__F_CALL | RIPC__F_REPLY);

	if (h->flags & RIPC__F_RELIABLE && (h->kind != RIPC__SHORT || h->instance))
		return ripc__malformed(why, "F_RELIABLE in another message than a SHORT on a lane");
	if (h->flags & RIPC__F_ACK_NOW && h->kind != RIPC__LONG)
		return ripc__malformed(why, "F_ACK_NOW in another message than a LONG");
	if (h->flags & RIPC__F_RELIABLE && h->nreturns)
		return ripc__malformed(why, "return buffers in a reliable short message");
	if (!call)
		return 0;
	if (!kinds[h->kind].call || h->instance ||
	    (h->kind == RIPC__SHORT && !(h->flags & RIPC__F_RELIABLE)))
		return ripc__malformed(why,
				       "F_CALL or F_REPLY in a message that cannot carry a call");
	if (h->flags & RIPC__F_CALL && h->flags & RIPC__F_REPLY)
		return ripc__malformed(why, "F_CALL and F_REPLY in one message");
	return 0;
}

int ripc__call_get(struct ripc__header *h, const uint8_t **at, const uint8_t *end, const char **why)
{
	if (!ripc__call_len(h->flags))
		return 0;
	if (end - *at < RIPC__CALL_EXT)
		return ripc__malformed(why, "truncated");
	h->call = ripc__get_le64(*at);
	h->call_word = ripc__get_le64(*at + 8);
	if (!h->call || h->call_word >> 32)
		return ripc__malformed(why, "call without an id, or with reserved bits set");
	*at += RIPC__CALL_EXT;
	return 0;
}

/*
 * The fields that flags add behind the first 32 bytes. *at: moved behind them. Return: 0 or
 * -EPROTO.
 */
static int decode_extensions(struct ripc__header *h, const uint8_t **at, const uint8_t *end,
			     const char **why)
{
	const uint8_t *p = *at;

	if (h->flags & ~RIPC__F_ALL)
		return ripc__malformed(why, "unknown flags");
	if (h->flags & RIPC__F_INSTANCE) {
		if (!kinds[h->kind].instance)
			return ripc__malformed(why, "F_INSTANCE in a kind without an instance id");
		if (end - p < 16)
			return ripc__malformed(why, "truncated");
		h->instance = p;
		p += 16;
	}
	if (h->flags & RIPC__F_ACK) {
		if (!kinds[h->kind].ack || h->instance)
			return ripc__malformed(
				why, "F_ACK in another message than a SHORT or LONG on a lane");
		if (end - p < RIPC__ACK_WORD)
			return ripc__malformed(why, "truncated");
		h->acked = ripc__get_le64(p);
		p += RIPC__ACK_WORD;
	}
	if (check_flags(h, why))
		return -EPROTO;
	*at = p;
	return h->kind == RIPC__SHORT ? 0 : ripc__call_get(h, at, end, why);
}

static int __attribute__((noinline))
decode(struct ripc__header *h, const uint8_t *buf, size_t len, const char **why)
{
	const uint8_t *p = buf + RIPC__HEADER_LEN, *end = buf + len;
	const struct kind *k;
	size_t need, item;

	if (len < RIPC__HEADER_LEN)
		return ripc__malformed(why, "shorter than a header");
	if (ripc__get_le16(buf) != RIPC__MSG_MAGIC)
		return ripc__malformed(why, "not a libripc message");
	if (buf[2] != RIPC__MSG_VERSION)
		return ripc__malformed(why, "message of another version of the protocol");
	h->kind = buf[3];
	if (!h->kind || h->kind >= RIPC__KIND_END)
		return ripc__malformed(why, "message of unknown kind");
	k = &kinds[h->kind];
	h->flags = ripc__get_le16(buf + 4);
	h->nitems = ripc__get_le16(buf + 6);
	h->dest = ripc__get_le64(buf + 8);
	h->source = ripc__get_le64(buf + 16);
	if (h->flags & RIPC__F_INSTANCE) {
		h->number = ripc__get_le64(buf + 24);
		h->seq = 0;
		h->credits = h->nreturns = 0;
	} else {
		h->number = 0;
		h->seq = ripc__get_le32(buf + 24);
		h->credits = ripc__get_le16(buf + 28);
		h->nreturns = ripc__get_le16(buf + 30);
	}
	if (h->nitems > RIPC_ITEMS_MAX || (k->items ? !h->nitems : h->nitems))
		return ripc__malformed(why, "item count out of bounds");
	if (h->nreturns > (k->returns ? RIPC_RETURN_BUFFERS_MAX : 0))
		return ripc__malformed(why, "return buffer count out of bounds");
	h->instance = NULL;
	h->acked = h->call = h->call_word = 0;
	if (h->flags && decode_extensions(h, &p, end, why))
		return -EPROTO;
	item = k->lens ? 4 : RIPC__DESC_LEN;
	need = k->fixed + h->nreturns * (size_t)RIPC__DESC_LEN + h->nitems * item;
	if ((size_t)(end - p) < need)
		return ripc__malformed(why, "truncated");
	h->u[0] = k->fixed >= 8 ? ripc__get_le64(p) : 0;
	h->u[1] = k->fixed >= 16 ? ripc__get_le64(p + 8) : 0;
	p += k->fixed;
	h->lens = h->items = p;
	p += h->nitems * item;
	if (h->kind == RIPC__SHORT && ripc__call_get(h, &p, end, why))
		return -EPROTO;
	h->returns = p;
	p += (size_t)h->nreturns * RIPC__DESC_LEN;
	h->payload = p;
	h->payload_len = (uint64_t)(end - p);
	if (!k->payload && h->payload_len)
		return ripc__malformed(why, "longer than a message of its kind");
	if (check_returns(h, why))
		return -EPROTO;
	if (k->lens)
		return check_short(h, why);
	if (h->kind == RIPC__LONG)
		return check_long(h, why);
	if (h->kind == RIPC__STANDING_GRANT)
		return check_standing(h, why);
	return h->kind == RIPC__GRANT ? check_grant(h, why) : 0;
}

int ripc__header_decode(struct ripc__header *h, const uint8_t *buf, size_t len, const char **why)
{
	return decode_fast(h, buf, len) ? 0 : decode(h, buf, len, why);
}
