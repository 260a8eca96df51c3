/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Receiving half of the engine: finds FPDUs in the stream, checks them, places payload, yields
 * events.
 */
#include "transport/iwarp/soft/crc32c.h"
#include "transport/iwarp/soft/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COPY_MAX \
	256u /* a partial send up to this length is kept in the stash, a longer one in a block */
#define TERMINATE_MAX 64u /* longest payload of a Terminate */

/* The target of the payload of an FPDU, filled by check(). */
struct target {
	uint8_t *dst;                /* NULL: the payload is used in place */
	struct ripc__region *region; /* that dst lies in */
};

/* Ends the engine because of the FPDU at @fpdu. Return: 0, so that next() can return it. */
static int violation(struct ripc__engine *e, int code, const uint8_t *fpdu)
{
	int status = code == RIPC__TERM_CRC ? -EBADMSG : -EPROTO;

	ripc__engine_fail(e, status, (unsigned)code, fpdu);
	return 0;
}

static void drop_region(struct ripc__engine_rx *rx)
{
	if (rx->region)
		rx->region->users--;
	rx->region = NULL;
}

void ripc__engine_drop_rx(struct ripc__engine *e)
{
	struct ripc__engine_rx *rx = &e->rx;

	drop_region(rx);
	rx->placing = false;
	rx->expected = NULL;
	rx->ahead = 0;
	for (; rx->read_head != rx->read_tail; rx->read_head++)
		rx->reads[rx->read_head % RIPC__READS_MAX].region->users--;
	free(rx->reads);
	rx->reads = NULL;
	if (rx->msg)
		ripc__slab_put(rx->msg);
	rx->msg = NULL;
	if (rx->slab)
		ripc__slab_put(rx->slab);
	rx->slab = NULL;
	rx->p = rx->end = NULL;
	free(rx->stash);
	rx->stash = NULL;
	rx->stash_len = 0;
}

/* Whether [to, to + len) lies within the region. Return: 0, or one of the two codes. */
static int check_range(const struct ripc__region *region, uint64_t to, uint64_t len, int wraps,
		       int beyond)
{
	if (to + len < to)
		return wraps;
	if (to < region->addr || to - region->addr > region->len ||
	    len > region->len - (to - region->addr))
		return beyond;
	return 0;
}

static int check_write(struct ripc__engine *e, const struct ripc__ddp *ddp, uint32_t payload,
		       struct target *t)
{
	struct ripc__region *region;
	int code;

	if (!payload) /* RFC 5041 section 5.2: nothing is placed, nothing is checked */
		return 0;
	region = ripc__region_find(e->regions, ddp->stag);
	if (!region)
		return RIPC__TERM_T_STAG;
	if (!(region->access & RIPC__ACCESS_REMOTE_WRITE))
		return RIPC__TERM_ACCESS;
	code = check_range(region, ddp->to, payload, RIPC__TERM_T_WRAP, RIPC__TERM_T_BOUNDS);
	if (code)
		return code;
	t->dst = region->base + (ddp->to - region->addr);
	t->region = region;
	region->begun = true;
	return 0;
}

/* Responses come in the order of our requests, each in the order of its bytes. */
static int check_response(struct ripc__engine *e, const struct ripc__ddp *ddp, uint32_t payload,
			  struct target *t)
{
	struct ripc__engine_rx *rx = &e->rx;
	const struct ripc__read *read;

	if (rx->read_head == rx->read_tail)
		return RIPC__TERM_OPCODE;
	read = &rx->reads[rx->read_head % RIPC__READS_MAX];
	if (payload) {
		if (ddp->stag != read->stag)
			return RIPC__TERM_T_STAG;
		if (ddp->to != read->to + read->got || payload > read->len - read->got)
			return RIPC__TERM_T_BOUNDS;
		t->dst = read->dst + read->got;
		t->region = read->region;
	}
	if (ddp->last && read->got + payload != read->len)
		return RIPC__TERM_T_BOUNDS;
	return 0;
}

static int check_send(struct ripc__engine *e, const struct ripc__ddp *ddp, uint32_t payload)
{
	struct ripc__engine_rx *rx = &e->rx;
	const struct ripc__region *region;

	if (ddp->msn != e->conn.msn[RIPC__DDP_Q_SEND])
		return RIPC__TERM_U_MSN;
	if (ddp->mo != rx->msg_len)
		return RIPC__TERM_U_OFFSET;
	if (payload > RIPC__SEND_MAX - rx->msg_len)
		return RIPC__TERM_U_TOO_LONG;
	if (rx->msg && ddp->op != rx->msg_op)
		return RIPC__TERM_OPCODE;
	if (ddp->op == RIPC__RDMAP_SEND_INVALIDATE || ddp->op == RIPC__RDMAP_SEND_SE_INVALIDATE) {
		region = ripc__region_find(e->regions, ddp->stag);
		if (!region ||
		    !(region->access & (RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE)))
			return RIPC__TERM_INVALIDATE;
	}
	return 0;
}

/* A message of one segment: a Read Request or a Terminate. */
static int check_single(const struct ripc__engine *e, const struct ripc__ddp *ddp, uint32_t payload,
			uint32_t least, uint32_t most)
{
	if (ddp->msn != e->conn.msn[ddp->queue])
		return RIPC__TERM_U_MSN;
	if (ddp->mo)
		return RIPC__TERM_U_OFFSET;
	if (payload > most)
		return RIPC__TERM_U_TOO_LONG;
	return payload < least || !ddp->last ? RIPC__TERM_UNSPECIFIED : 0;
}

static int check_request(const struct ripc__engine *e, const struct ripc__ddp *ddp,
			 uint32_t payload)
{
	int code = check_single(e, ddp, payload, RIPC__READ_REQUEST, RIPC__READ_REQUEST);

	if (!code && e->tx.responses.tail - e->tx.responses.sent >= e->conn.serve_depth)
		code = RIPC__TERM_U_NO_BUFFER;
	return code;
}

/*
 * Checks all fields of the header before the payload is received. Return: 0, or the Terminate code.
 */
static int check(struct ripc__engine *e, const struct ripc__ddp *ddp, uint32_t payload,
		 struct target *t)
{
	switch (ddp->op) {
	case RIPC__RDMAP_WRITE:
		return check_write(e, ddp, payload, t);
	case RIPC__RDMAP_READ_RESPONSE:
		return check_response(e, ddp, payload, t);
	case RIPC__RDMAP_READ_REQUEST:
		return check_request(e, ddp, payload);
	case RIPC__RDMAP_TERMINATE:
		return check_single(e, ddp, payload, 4, TERMINATE_MAX);
	default:
		return check_send(e, ddp, payload);
	}
}

/*
 * Opens or continues a send of several segments. Return: target of this segment, or NULL: no
 * memory.
 */
static uint8_t *message_part(struct ripc__engine *e, const struct ripc__ddp *ddp, uint32_t payload)
{
	struct ripc__engine_rx *rx = &e->rx;

	if (!rx->msg) {
		rx->msg = ripc__slab_get(e->pool, ddp->last ? payload : RIPC__SEND_MAX);
		rx->msg_op = ddp->op;
	}
	return rx->msg ? rx->msg->data + rx->msg_len : NULL;
}

static int no_memory(struct ripc__engine *e)
{
	e->text = "out of memory for a message";
	ripc__engine_fail(e, -ENOMEM, RIPC__TERM_DDP_CATASTROPHE, NULL);
	return 0;
}

static void invalidate(struct ripc__engine *e, const struct ripc__ddp *ddp)
{
	struct ripc__region *region;

	if (ddp->op != RIPC__RDMAP_SEND_INVALIDATE && ddp->op != RIPC__RDMAP_SEND_SE_INVALIDATE)
		return;
	region = ripc__region_find(e->regions, ddp->stag);
	if (region)
		region->access &= ~(unsigned)(RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE);
}

/* A send is complete: in one block (@data NULL), or at data in the slab. Return: events, 0 or 1. */
static int deliver(struct ripc__engine *e, const struct ripc__ddp *ddp, const uint8_t *data,
		   uint32_t len, struct ripc__event *ev)
{
	struct ripc__engine_rx *rx = &e->rx;
	struct ripc__slab *slab = data ? rx->slab : rx->msg;

	e->conn.msn[RIPC__DDP_Q_SEND]++;
	invalidate(e, ddp);
	slab->refs += data != NULL;
	rx->msg = NULL;
	rx->msg_len = 0;
	if (!len) {
		ripc__slab_put(slab);
		return 0;
	}
	*ev = (struct ripc__event){
		.kind = RIPC__EV_RECV,
		.data = data ? data : slab->data,
		.len = len,
		.token = slab,
	};
	return 1;
}

static int serve(struct ripc__engine *e, const uint8_t *fpdu)
{
	const uint8_t *body = fpdu + RIPC__SEND_HEADER;
	struct ripc__work r = {
		.stag = ripc__get_be32(body),
		.to = ripc__get_be64(body + 4),
		.len = ripc__get_be32(body + 12),
	};
	uint64_t from = ripc__get_be64(body + 20);
	int code = 0;

	e->conn.msn[RIPC__DDP_Q_READ]++;
	if (r.len) {
		r.region = ripc__region_find(e->regions, ripc__get_be32(body + 16));
		if (!r.region)
			code = RIPC__TERM_STAG;
		else if (!(r.region->access & RIPC__ACCESS_REMOTE_READ))
			code = RIPC__TERM_ACCESS;
		else
			code = check_range(r.region, from, r.len, RIPC__TERM_WRAP,
					   RIPC__TERM_BOUNDS);
		if (code)
			return violation(e, code, fpdu);
		r.src = r.region->base + (from - r.region->addr);
	}
	return ripc__works_add(&e->tx.responses, &r) ? 0 : no_memory(e);
}

static int read_done(struct ripc__engine_rx *rx, struct ripc__event *ev)
{
	const struct ripc__read *read = &rx->reads[rx->read_head++ % RIPC__READS_MAX];

	read->region->users--;
	*ev = (struct ripc__event){.kind = RIPC__EV_READ_DONE, .wr_id = read->wr_id};
	return 1;
}

static int terminated(struct ripc__engine *e, const uint8_t *fpdu)
{
	unsigned code = ripc__get_be16(fpdu + RIPC__SEND_HEADER);

	e->text = ripc__term_text(code);
	e->tx.cut = true; /* a Terminate is not answered */
	ripc__engine_fail(e, -ECONNABORTED, code, NULL);
	return 0;
}

/* The FPDU is complete, its payload placed (@fpdu NULL) or at fpdu. Return: events, 0 or 1. */
static int complete(struct ripc__engine *e, const struct ripc__ddp *ddp, uint32_t payload,
		    const uint8_t *fpdu, struct ripc__event *ev)
{
	struct ripc__engine_rx *rx = &e->rx;
	int n = 0;

	e->tx.open = true;
	rx->bulk = ddp->tagged && payload;
	switch (ddp->op) {
	case RIPC__RDMAP_WRITE:
		break;
	case RIPC__RDMAP_READ_RESPONSE:
		rx->reads[rx->read_head % RIPC__READS_MAX].got += payload;
		if (ddp->last)
			n = read_done(rx, ev);
		break;
	case RIPC__RDMAP_READ_REQUEST:
		n = serve(e, fpdu);
		break;
	case RIPC__RDMAP_TERMINATE:
		n = terminated(e, fpdu);
		break;
	default:
		if (fpdu && !rx->msg && ddp->last) {
			n = deliver(e, ddp, fpdu + RIPC__SEND_HEADER, payload, ev);
			break;
		}
		rx->msg_len += payload;
		if (ddp->last)
			n = deliver(e, ddp, NULL, rx->msg_len, ev);
	}
	return n;
}

/* A segment of a write was placed whole. */
static void note_written(struct ripc__region *region, const struct ripc__ddp *ddp, uint32_t payload)
{
	uint64_t from;

	if (!region || ddp->op != RIPC__RDMAP_WRITE)
		return;
	from = ddp->to - region->addr;
	if (from <= region->written && region->written < from + payload)
		region->written = from + payload;
}

/* Keeps the few bytes of an incomplete FPDU. Return: 0, so that next() can return it. */
static int park(struct ripc__engine *e)
{
	struct ripc__engine_rx *rx = &e->rx;

	rx->stash_len = (uint32_t)(rx->end - rx->p);
	if (rx->stash_len) {
		if (!rx->stash)
			rx->stash = malloc(RIPC__STASH_BYTES);
		if (!rx->stash)
			return no_memory(e);
		memcpy(rx->stash, rx->p, rx->stash_len);
	}
	rx->p = rx->end = NULL;
	if (rx->slab)
		ripc__slab_put(rx->slab);
	rx->slab = NULL;
	return 0;
}

/*
 * Continues an FPDU whose payload is being placed. Return: 1 event; 0: more bytes are needed, or
 * the engine ended; -1: FPDU done.
 */
static int store(struct ripc__engine *e, struct ripc__event *ev)
{
	struct ripc__engine_rx *rx = &e->rx;
	size_t have = (size_t)(rx->end - rx->p), part = MIN(have, rx->left);
	unsigned pad = (unsigned)(-(RIPC__FPDU_LEN + rx->ddp.len + rx->payload) & 3);

	if (part) {
		ripc__copy(rx->dst, rx->p, part);
		if (e->conn.crc)
			rx->crc = ripc__crc32c(rx->crc, rx->dst, part);
		rx->dst += part;
		rx->p += part;
		rx->left -= (uint32_t)part;
		have -= part;
	}
	if (rx->left || have < pad + RIPC__FPDU_CRC)
		return park(e);
	if (e->conn.crc && ripc__crc32c(rx->crc, rx->p, pad) != ripc__get_le32(rx->p + pad))
		return violation(e, RIPC__TERM_CRC, NULL);
	rx->p += pad + RIPC__FPDU_CRC;
	rx->placing = false;
	note_written(rx->region, &rx->ddp, rx->payload);
	drop_region(rx);
	return complete(e, &rx->ddp, rx->payload, NULL, ev) ? 1 : -1;
}

/* Starts to place the payload of a partial FPDU. Return: false: no memory. */
static bool begin(struct ripc__engine *e, const struct ripc__ddp *ddp, uint32_t payload,
		  const struct target *t)
{
	struct ripc__engine_rx *rx = &e->rx;
	size_t head = RIPC__FPDU_LEN + ddp->len;

	rx->dst = ddp->tagged ? t->dst : message_part(e, ddp, payload);
	if (payload && !rx->dst)
		return false;
	rx->crc = e->conn.crc ? ripc__crc32c(0, rx->p, head) : 0;
	rx->p += head;
	rx->ddp = *ddp;
	rx->payload = rx->left = payload;
	rx->region = t->region;
	if (rx->ahead && rx->p == rx->ahead_at) {
		if (e->conn.crc)
			rx->crc = ripc__crc32c(rx->crc, rx->dst, rx->ahead);
		rx->dst += rx->ahead;
		rx->left -= rx->ahead;
		rx->ahead = 0;
	}
	if (rx->region)
		rx->region->users++;
	rx->placing = true;
	return true;
}

/* The next FPDU, if enough of it was received. Return: as store(). */
static int parse(struct ripc__engine *e, struct ripc__event *ev)
{
	struct ripc__engine_rx *rx = &e->rx;
	const uint8_t *fpdu = rx->p;
	size_t have = (size_t)(rx->end - fpdu), ulpdu, head, whole;
	struct target t = {0};
	struct ripc__ddp ddp;
	uint32_t payload;
	int code, n;

	if (have < RIPC__FPDU_LEN + 2)
		return park(e);
	ulpdu = ripc__get_be16(fpdu);
	head = RIPC__FPDU_LEN + (fpdu[2] & RIPC__DDP_T ? RIPC__DDP_TAGGED : RIPC__DDP_UNTAGGED);
	whole = ripc__fpdu_size(ulpdu);
	if (head > RIPC__FPDU_LEN + ulpdu)
		return violation(e, RIPC__TERM_FRAMING, NULL);
	if (have < head)
		return park(e);
	if (e->conn.crc && have >= whole &&
	    ripc__crc32c(0, fpdu, whole - RIPC__FPDU_CRC) !=
		    ripc__get_le32(fpdu + whole - RIPC__FPDU_CRC))
		return violation(e, RIPC__TERM_CRC, NULL);
	code = ripc__ddp_get(&ddp, fpdu + RIPC__FPDU_LEN, ulpdu);
	payload = (uint32_t)(RIPC__FPDU_LEN + ulpdu - head);
	if (!code)
		code = check(e, &ddp, payload, &t);
	if (code)
		return violation(e, code, fpdu);
	if (ddp.tagged && t.region)
		ripc__rx_learn(rx, &ddp, payload, (uint64_t)(t.dst - t.region->base));
	if (have < whole) {
		/* Short FPDUs are completed in place; long payload is received into its target. */
		if (!ddp.tagged && (payload <= COPY_MAX || ddp.queue != RIPC__DDP_Q_SEND))
			return park(e);
		return begin(e, &ddp, payload, &t) ? -1 : no_memory(e);
	}
	if (ddp.tagged && payload) {
		ripc__copy(t.dst, fpdu + head, payload);
		note_written(t.region, &ddp, payload);
	} else if (ddp.queue == RIPC__DDP_Q_SEND && !ddp.tagged && (rx->msg || !ddp.last)) {
		uint8_t *to = message_part(e, &ddp, payload);

		if (!to)
			return no_memory(e);
		ripc__copy(to, fpdu + head, payload);
	}
	n = complete(e, &ddp, payload, fpdu, ev);
	if (!e->status)
		rx->p += whole;
	return n ? 1 : -1;
}

int ripc__engine_next(struct ripc__engine *e, struct ripc__event *ev)
{
	struct ripc__engine_tx *tx = &e->tx;
	struct ripc__engine_rx *rx = &e->rx;

	if (e->status)
		return 0;
	if (tx->reported != tx->writes.sent) {
		*ev = (struct ripc__event){
			.kind = RIPC__EV_WRITE_DONE,
			.wr_id = tx->writes.ring[tx->reported++ % RIPC__WORKS_MAX].wr_id,
		};
		return 1;
	}
	while (rx->p < rx->end) {
		int n = rx->placing ? store(e, ev) : parse(e, ev);

		if (n >= 0)
			return n;
	}
	if (rx->slab)
		park(e);
	return 0;
}

unsigned ripc__engine_rx_buffer(struct ripc__engine *e, uint8_t *space, size_t len,
				const struct ripc__region *expected, struct iovec iov[RIPC__RX_IOV])
{
	struct ripc__engine_rx *rx = &e->rx;

	rx->space = space;
	rx->expected = NULL;
	if (rx->placing && rx->left) {
		/* The same message continues: only what precedes its payload goes to the slab. */
		size_t beyond = RIPC__TRAILER_MAX + RIPC__FPDU_LEN + RIPC__DDP_TAGGED;

		iov[0] = (struct iovec){rx->dst, rx->left};
		if (rx->ddp.last)
			beyond = RIPC__BULK_PEEK;
		else if (rx->ddp.tagged)
			beyond -= 3 - (unsigned)(-(RIPC__FPDU_LEN + rx->ddp.len + rx->payload) & 3);
		if (!rx->ddp.last && rx->ddp.op == RIPC__RDMAP_WRITE)
			beyond += RIPC__SHORT_SEGMENTS;
		iov[1] = (struct iovec){space, MIN(beyond, len)};
		return 2;
	}
	if (ripc__rx_expects(rx, expected, len))
		return ripc__rx_expect(rx, expected, iov);
	if (rx->stash_len)
		memcpy(space, rx->stash, rx->stash_len);
	len -= rx->stash_len;
	if ((rx->bulk || rx->read_head != rx->read_tail) && len > RIPC__BULK_PEEK)
		len = RIPC__BULK_PEEK;
	iov[0] = (struct iovec){space + rx->stash_len, len};
	return 1;
}

size_t ripc__engine_received(struct ripc__engine *e, struct ripc__slab *slab, size_t n)
{
	struct ripc__engine_rx *rx = &e->rx;
	size_t part = 0;

	if (rx->expected) {
		n = ripc__rx_received_ahead(rx, n);
	} else if (rx->placing && rx->left) {
		rx->fresh = NULL;
		part = MIN(n, rx->left);
		if (e->conn.crc)
			rx->crc = ripc__crc32c(rx->crc, rx->dst, part);
		rx->dst += part;
		rx->left -= (uint32_t)part;
		n -= part;
	} else {
		rx->fresh = rx->stash_len || rx->placing ? NULL : rx->space;
	}
	if (!n)
		return 0;
	n += rx->stash_len;
	rx->stash_len = 0;
	rx->p = rx->space;
	rx->end = rx->space + n;
	rx->slab = slab;
	slab->refs++;
	return n;
}
