/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/iwarp/soft/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENT_MIN  128u  /* smaller segment sizes are ignored */
#define OVERTAKE_MAX 1024u /* bytes of queued sends that a later Write is sent before */

/* Whether the processor may have the slow copies of segment_len(). */
static bool copies_slowly(void)
{
#ifdef __x86_64__
	return __builtin_cpu_is("amd");
#else
	return false;
#endif
}

void ripc__engine_init(struct ripc__engine *e, struct ripc__regions *regions,
		       struct ripc__slab_pool *pool, const struct ripc__mpa_terms *terms,
		       bool active, uint32_t segment)
{
	struct ripc__engine_conn conn = {
		.crc = terms->crc,
		.soft = terms->soft,
		.align = copies_slowly(),
		.read_depth = (uint8_t)terms->read_depth,
		.serve_depth = (uint8_t)terms->serve_depth,
		.ulpdu_max = RIPC__ULPDU_SOFT,
		.msn_send = 1,
		.msn_read = 1,
		.msn = {1, 1, 1},
	};

	segment = MAX(segment, SEGMENT_MIN);
	if (!terms->soft && segment <= RIPC__ULPDU_SOFT + RIPC__FPDU_LEN + RIPC__FPDU_CRC)
		conn.ulpdu_max = ((segment - RIPC__FPDU_CRC) & ~3u) - RIPC__FPDU_LEN;
	ripc__engine_restore(e, regions, pool, &conn);
	e->tx.open = active;
	if (active && ripc__engine_send(e, NULL, 0, 0))
		ripc__engine_fail(e, -ENOMEM, RIPC__TERM_CATASTROPHE, NULL);
}

void ripc__engine_fini(struct ripc__engine *e)
{
	ripc__engine_drop_tx(e);
	ripc__engine_drop_rx(e);
}

/* Whether the connection can go on with what ripc__engine_save() saves. */
static bool at_rest(const struct ripc__engine *e)
{
	const struct ripc__engine_tx *tx = &e->tx;
	const struct ripc__engine_rx *rx = &e->rx;

	return ripc__engine_idle(e) && tx->writes.tail == tx->reported && !rx->slab &&
	       !rx->stash_len && !rx->placing && !rx->msg && rx->read_head == rx->read_tail;
}

bool ripc__engine_save(struct ripc__engine *e, struct ripc__engine_conn *saved)
{
	if (!at_rest(e))
		return false;
	*saved = e->conn;
	ripc__engine_fini(e);
	return true;
}

void ripc__engine_restore(struct ripc__engine *e, struct ripc__regions *regions,
			  struct ripc__slab_pool *pool, const struct ripc__engine_conn *saved)
{
	*e = (struct ripc__engine){
		.regions = regions, .pool = pool, .conn = *saved, .tx.open = true};
}

int ripc__engine_write(struct ripc__engine *e, const struct ripc__transfer *x)
{
	struct ripc__engine_tx *tx = &e->tx;
	struct ripc__work work = {
		.region = x->mr->priv,
		.src = x->local,
		.len = x->len,
		.to = x->raddr,
		.stag = x->rkey,
		.wr_id = x->wr_id,
		.after = tx->appended,
	};

	if (e->status)
		return -ENOTCONN;
	if (tx->writes.tail - tx->reported >= RIPC__WORKS_MAX)
		return -EAGAIN;
	/*
	 * A few bytes that wait go behind the Write, so that it begins a transmission: its receiver
	 * then expects where its payload is. Behind another Write they announce that one.
	 */
	if (tx->writes.framed == tx->writes.tail && tx->appended - tx->framed <= OVERTAKE_MAX)
		work.after = tx->framed;
	return ripc__works_add(&tx->writes, &work) ? 0 : -ENOMEM;
}

int ripc__engine_read(struct ripc__engine *e, const struct ripc__transfer *x)
{
	struct ripc__region *region = x->mr->priv;
	struct ripc__engine_rx *rx = &e->rx;
	struct ripc__read read = {
		.region = region,
		.dst = x->local,
		.len = x->len,
		.stag = region->stag,
		.to = region->addr + (uint64_t)(x->local - region->base),
		.wr_id = x->wr_id,
	};

	if (e->status)
		return -ENOTCONN;
	if (rx->read_tail - rx->read_head >= e->conn.read_depth)
		return -EAGAIN;
	if (!rx->reads)
		rx->reads = malloc(RIPC__READS_MAX * sizeof(*rx->reads));
	if (!rx->reads || ripc__engine_queue_read(e, &read, x->raddr, x->rkey))
		return -ENOMEM;
	rx->reads[rx->read_tail++ % RIPC__READS_MAX] = read;
	region->users++;
	return 0;
}

void ripc__engine_fail(struct ripc__engine *e, int status, unsigned code, const uint8_t *fpdu)
{
	struct ripc__engine_tx *tx = &e->tx;
	uint8_t head[RIPC__SEND_HEADER + RIPC__READ_REQUEST], *term, *p;
	/* Of a Read Request the payload has been checked last, with codes of RDMAP. */
	bool with_request = fpdu && (fpdu[3] & 0x0f) == RIPC__RDMAP_READ_REQUEST && code >> 8 == 1;
	size_t head_len = 0, len;

	if (e->status)
		return;
	/* The following calls may free the memory of the headers. */
	if (fpdu) {
		head_len = RIPC__FPDU_LEN +
			   (fpdu[2] & RIPC__DDP_T ? RIPC__DDP_TAGGED : RIPC__DDP_UNTAGGED);
		head_len += with_request ? RIPC__READ_REQUEST : 0;
		memcpy(head, fpdu, head_len);
	}
	e->status = status;
	e->term_code = code;
	if (!e->text)
		e->text = ripc__term_text(code);
	ripc__engine_drop_unsent(e);
	ripc__engine_drop_rx(e);
	/* Without memory the connection ends without a Terminate. */
	if (!tx->open || tx->cut || !ripc__engine_may_frame(tx))
		return;
	term = tx->framing->term;
	p = term + RIPC__SEND_HEADER;
	/* Control word: layer, type, code; which headers follow (M: length, D: DDP, R: RDMAP). */
	ripc__put_be32(p,
		       (uint32_t)code << 16 | (fpdu ? 0xc000u : 0) | (with_request ? 0x2000u : 0));
	memcpy(p + 4, head, head_len);
	ripc__ddp_put_untagged(term, RIPC__RDMAP_TERMINATE, true, RIPC__DDP_Q_TERMINATE, 1, 0,
			       4 + head_len);
	len = ripc__engine_finish(e, term, RIPC__SEND_HEADER + 4 + head_len);
	tx->framing->ring[tx->ring_tail++ % RIPC__FRAMED_MAX] = (struct ripc__framed){
		.payload = term,
		.len = (uint32_t)len,
	};
	tx->ring_bytes += len;
}

static bool works_use(const struct ripc__works *works, const struct ripc__region *region)
{
	for (uint32_t i = works->sent; i != works->tail; i++)
		if (works->ring[i % RIPC__WORKS_MAX].region == region)
			return true;
	return false;
}

void ripc__engine_revoke(struct ripc__engine *e, const struct ripc__region *region)
{
	const struct ripc__engine_rx *rx = &e->rx;
	bool peers = (rx->placing && rx->region == region) || works_use(&e->tx.responses, region);
	bool ours = works_use(&e->tx.writes, region);

	for (uint32_t i = rx->read_head; i != rx->read_tail; i++)
		ours |= rx->reads[i % RIPC__READS_MAX].region == region;
	if (!peers && !ours)
		return;
	ripc__engine_drop_tx(e);
	if (e->status)
		return;
	e->text = "memory in use by a transfer was deregistered";
	ripc__engine_fail(e, -ECANCELED, ours ? RIPC__TERM_CATASTROPHE : RIPC__TERM_STAG, NULL);
}
