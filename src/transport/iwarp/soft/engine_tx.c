/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Transmitting half of the engine: a queue of encoded bytes, writes between them, and responses to
 * reads.
 */
#include "base/copy.h"
#include "base/iov.h"
#include "transport/iwarp/soft/crc32c.h"
#include "transport/iwarp/soft/engine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES 65536u /* one allocation */
/* The same of the first chunk of a queue, which often holds one small message. */
#define FIRST_CHUNK 4096u
/* See segment_len(). */
#define ALIAS_PAGE  4096u
#define ALIAS_BYTES 32u         /* a copy is slow at distances of 1 to ALIAS_BYTES */
#define ALIAS_FROM  (16u << 10) /* bytes of payload from which that costs more than segments */
#define SKEW_FROM   (48u << 10) /* the same for the distance modulo 16 */
#define ALIAS_SEND  (4u << 10)  /* the same for an empty send */
#define EMPTY_SEND  (RIPC__SEND_HEADER + RIPC__FPDU_CRC)
/* payloads longer than this are multiples of 64, so that targets stay aligned */
#define ALIGN_FROM    1024u
#define REMAINDER_MAX 1024u /* payload of a last segment that comes first in place of last */

static struct ripc__framed *framed(struct ripc__engine_tx *tx, uint32_t i)
{
	return &tx->framing->ring[i % RIPC__FRAMED_MAX];
}

bool ripc__engine_may_frame(struct ripc__engine_tx *tx)
{
	if (!tx->framing)
		tx->framing = calloc(1, sizeof(*tx->framing));
	return tx->framing;
}

/* Whether the kernel copies slowly from src to byte at of a socket's empty page. */
static bool is_slow_copy(uint64_t at, uintptr_t src)
{
	uint64_t behind = (at - src) % ALIAS_PAGE;

	return behind && behind <= ALIAS_BYTES;
}

/* Whether target and source differ modulo 16, which short segments can mend. */
static bool is_skewed(uint64_t at, uintptr_t src)
{
	return (at - src) % 16 && !((at - src) % 4);
}

static uint32_t frame_crc(const uint8_t *head, size_t head_len, const struct iovec *iov,
			  unsigned niov, const uint8_t *pad, unsigned pad_len)
{
	uint32_t crc = ripc__crc32c(0, head, head_len);

	for (unsigned i = 0; i < niov; i++)
		crc = ripc__crc32c(crc, iov[i].iov_base, iov[i].iov_len);
	return ripc__crc32c(crc, pad, pad_len);
}

unsigned ripc__engine_frame(struct ripc__engine *e, const struct iovec *iov, unsigned niov,
			    size_t len, uint8_t head[RIPC__SEND_HEADER],
			    uint8_t tail[RIPC__TRAILER_MAX])
{
	unsigned pad = (unsigned)(-(RIPC__SEND_HEADER + len) & 3);

	ripc__ddp_put_untagged(head, RIPC__RDMAP_SEND, true, RIPC__DDP_Q_SEND, e->conn.msn_send++,
			       0, len);
	memset(tail, 0, RIPC__TRAILER_MAX);
	if (e->conn.crc)
		ripc__put_le32(tail + pad,
			       frame_crc(head, RIPC__SEND_HEADER, iov, niov, tail, pad));
	return pad + RIPC__FPDU_CRC;
}

/* An empty chunk with room for len bytes, or NULL. first: the queue is empty. */
static struct ripc__chunk *chunk_get(struct ripc__engine_tx *tx, size_t len, bool first)
{
	bool small = first && len <= FIRST_CHUNK - sizeof(struct ripc__chunk);
	uint32_t bytes = small ? FIRST_CHUNK : CHUNK_BYTES;
	struct ripc__chunk *chunk = small ? tx->spare : NULL;

	if (chunk) {
		tx->spare = NULL;
		return chunk;
	}
	chunk = malloc(bytes);
	if (chunk)
		chunk->cap = bytes - (uint32_t)sizeof(*chunk);
	return chunk;
}

/*
 * Room for len contiguous bytes, less than CHUNK_BYTES, at the end of the queue. Return: where, or
 * NULL.
 */
static uint8_t *reserve(struct ripc__engine_tx *tx, size_t len)
{
	struct ripc__chunk *chunk = tx->tail;

	if (!chunk || chunk->cap - chunk->end < len) {
		chunk = chunk_get(tx, len, !chunk);
		if (!chunk)
			return NULL;
		chunk->next = NULL;
		chunk->start = chunk->end = 0;
		if (tx->tail)
			tx->tail->next = chunk;
		else
			tx->head = chunk;
		tx->tail = chunk;
	}
	return chunk->data + chunk->end;
}

/* Appends to the queue the len bytes that were written to the memory of reserve(). */
static void commit(struct ripc__engine_tx *tx, size_t len)
{
	tx->tail->end += (uint32_t)len;
	tx->appended += len;
}

unsigned ripc__engine_pad_send(struct ripc__engine *e, const struct iovec *iov, unsigned niov,
			       size_t len, uint8_t fpdu[RIPC__SEND_HEADER + RIPC__TRAILER_MAX])
{
	size_t at = RIPC__SEND_HEADER;

	if (len < ALIAS_SEND || !e->conn.soft || !e->conn.align)
		return 0;
	for (unsigned i = 0; i < niov; at += iov[i++].iov_len) {
		if (iov[i].iov_len < ALIAS_SEND)
			continue;
		if (!is_slow_copy(at, (uintptr_t)iov[i].iov_base) ||
		    is_slow_copy(at + EMPTY_SEND, (uintptr_t)iov[i].iov_base))
			return 0;
		return RIPC__SEND_HEADER +
		       ripc__engine_frame(e, NULL, 0, 0, fpdu, fpdu + RIPC__SEND_HEADER);
	}
	return 0;
}

/* Copies len bytes from position *i, *off of the list, and advances it. */
static void take(uint8_t *to, const struct iovec *iov, unsigned *i, size_t *off, size_t len)
{
	while (len) {
		size_t part = iov[*i].iov_len - *off;

		part = MIN(part, len);
		if (part)
			ripc__copy(to, (const uint8_t *)iov[*i].iov_base + *off, part);
		to += part;
		len -= part;
		*off += part;
		if (*off == iov[*i].iov_len) {
			++*i;
			*off = 0;
		}
	}
}

size_t ripc__engine_finish(const struct ripc__engine *e, uint8_t *p, size_t len)
{
	unsigned pad = (unsigned)(-len & 3);

	memset(p + len, 0, pad + RIPC__FPDU_CRC);
	len += pad;
	if (e->conn.crc)
		ripc__put_le32(p + len, ripc__crc32c(0, p, len));
	return len + RIPC__FPDU_CRC;
}

int ripc__engine_send(struct ripc__engine *e, const struct iovec *iov, unsigned niov, size_t len)
{
	size_t most = e->conn.ulpdu_max - RIPC__DDP_UNTAGGED, mo = 0, off = 0, used = 0;
	size_t room = len + (len / most + 1) * (RIPC__SEND_HEADER + RIPC__TRAILER_MAX);
	uint8_t *p = reserve(&e->tx, room);
	unsigned i = 0;

	if (!p)
		return -ENOMEM;
	do {
		size_t part = len - mo < most ? len - mo : most;

		ripc__ddp_put_untagged(p + used, RIPC__RDMAP_SEND, mo + part == len,
				       RIPC__DDP_Q_SEND, e->conn.msn_send, (uint32_t)mo, part);
		take(p + used + RIPC__SEND_HEADER, iov, &i, &off, part);
		used += ripc__engine_finish(e, p + used, RIPC__SEND_HEADER + part);
		mo += part;
	} while (mo < len);
	e->conn.msn_send++;
	commit(&e->tx, used);
	return 0;
}

int ripc__engine_queue_read(struct ripc__engine *e, const struct ripc__read *read, uint64_t raddr,
			    uint32_t rkey)
{
	uint8_t *p = reserve(&e->tx, RIPC__SEND_HEADER + RIPC__READ_REQUEST + RIPC__TRAILER_MAX),
		*body;

	if (!p)
		return -ENOMEM;
	body = p + ripc__ddp_put_untagged(p, RIPC__RDMAP_READ_REQUEST, true, RIPC__DDP_Q_READ,
					  e->conn.msn_read++, 0, RIPC__READ_REQUEST);
	ripc__put_be32(body, read->stag);
	ripc__put_be64(body + 4, read->to);
	ripc__put_be32(body + 12, (uint32_t)read->len);
	ripc__put_be32(body + 16, rkey);
	ripc__put_be64(body + 20, raddr);
	commit(&e->tx, ripc__engine_finish(e, p, RIPC__SEND_HEADER + RIPC__READ_REQUEST));
	return 0;
}

static void frame_bytes(struct ripc__engine_tx *tx, uint64_t limit)
{
	struct ripc__chunk *chunk = tx->head;
	uint64_t at = tx->framed - tx->sent, len;

	/* The bytes are in the queue. NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
	for (; at >= chunk->end - chunk->start; chunk = chunk->next)
		at -= chunk->end - chunk->start;
	at += chunk->start;
	len = chunk->end - at;
	if (len > limit - tx->framed)
		len = limit - tx->framed;
	*framed(tx, tx->ring_tail++) = (struct ripc__framed){
		.payload = chunk->data + at,
		.len = (uint32_t)len,
	};
	tx->ring_bytes += len;
	tx->framed += len;
}

bool ripc__works_add(struct ripc__works *works, const struct ripc__work *work)
{
	if (!works->ring)
		works->ring = malloc(RIPC__WORKS_MAX * sizeof(*works->ring));
	if (!works->ring)
		return false;
	if (work->region)
		work->region->users++;
	works->ring[works->tail++ % RIPC__WORKS_MAX] = *work;
	return true;
}

static struct ripc__work *unframed(const struct ripc__works *works)
{
	return works->framed != works->tail ? &works->ring[works->framed % RIPC__WORKS_MAX] : NULL;
}

/* Drops references to the memory of the works from this one on. */
static void works_release(const struct ripc__works *works, uint32_t from, uint32_t to)
{
	for (; from != to; from++)
		if (works->ring[from % RIPC__WORKS_MAX].region)
			works->ring[from % RIPC__WORKS_MAX].region->users--;
}

/* Removes the works from this one on. */
static void works_drop(struct ripc__works *works, uint32_t from)
{
	works_release(works, from, works->tail);
	works->framed = works->tail = from;
}

/*
 * Payload of the next segment. The kernel copies into the socket with "rep movsb". On AMD family 25
 * that is slow in two cases (conn.align):
 *   - The target is 1 to 32 bytes behind the source, modulo 4096: half the speed. A header in front
 *     causes that if the source begins with a page.
 *   - Target and source differ modulo 16: an eighth more time.
 * Short segments move the rest of the payload on, each by the 20 bytes of a header and a CRC. They
 * are not used for responses to reads in the second case: 512 KiB took longer with them.
 */
static uint32_t segment_len(const struct ripc__engine *e, uintptr_t src, uint64_t left, bool write)
{
	uint64_t at = e->tx.ring_bytes + RIPC__FPDU_LEN + RIPC__DDP_TAGGED;
	uint32_t most = e->conn.ulpdu_max - RIPC__DDP_TAGGED;

	most &= most > ALIGN_FROM ? ~63u : ~3u;
	if (left > most && left % most && left % most <= REMAINDER_MAX && most >= ALIAS_FROM)
		return (uint32_t)(left % most);
	if (e->conn.align && most >= ALIAS_FROM &&
	    ((left >= ALIAS_FROM && is_slow_copy(at, src)) ||
	     (left >= SKEW_FROM && write && is_skewed(at, src))))
		return RIPC__SHORT_SEGMENT;
	return left < most ? (uint32_t)left : most;
}

/* Frames the next segment of the writes or responses. */
static void frame_tagged(struct ripc__engine *e, struct ripc__works *works)
{
	struct ripc__engine_tx *tx = &e->tx;
	struct ripc__framed *s = framed(tx, tx->ring_tail++);
	struct ripc__work *work = unframed(works);
	uint64_t left = work->len - work->framed;
	bool write = works == &tx->writes;
	uint32_t len = segment_len(e, (uintptr_t)work->src + work->framed, left, write);
	unsigned pad = (unsigned)(-(RIPC__FPDU_LEN + RIPC__DDP_TAGGED + len) & 3);
	struct iovec body = {len ? (void *)(work->src + work->framed) : NULL, len};

	s->payload = body.iov_base;
	s->len = len;
	s->works = works;
	s->last = len == left;
	s->head_len = (uint8_t)ripc__ddp_put_tagged(
		s->head, write ? RIPC__RDMAP_WRITE : RIPC__RDMAP_READ_RESPONSE, s->last, work->stag,
		work->to + work->framed, len);
	memset(s->tail, 0, sizeof(s->tail));
	if (e->conn.crc)
		ripc__put_le32(s->tail + pad,
			       frame_crc(s->head, s->head_len, &body, len ? 1 : 0, s->tail, pad));
	s->tail_len = (uint8_t)(pad + RIPC__FPDU_CRC);
	tx->ring_bytes += (uint64_t)s->head_len + len + s->tail_len;
	work->framed += len;
	works->framed += s->last;
}

/*
 * Turns one more run of bytes or one more FPDU into an entry of the ring. Queued sends go first,
 * because they were posted before the next write; writes and responses alternate.
 */
static bool frame_one(struct ripc__engine *e)
{
	struct ripc__engine_tx *tx = &e->tx;
	const struct ripc__work *write = unframed(&tx->writes),
				*response = unframed(&tx->responses);
	uint64_t limit = write ? write->after : tx->appended;
	bool bytes = tx->framed < limit;

	if ((bytes || write) && (!response || !tx->turn)) {
		tx->turn = true;
		if (bytes)
			frame_bytes(tx, limit);
		else
			frame_tagged(e, &tx->writes);
		return true;
	}
	tx->turn = false;
	if (response)
		frame_tagged(e, &tx->responses);
	return response;
}

/* The len bytes at p without the first *skip of them, which is reduced. Return: entries, 0 or 1. */
static inline unsigned add_part(struct iovec *iov, const uint8_t *p, uint32_t len, uint32_t *skip)
{
	uint32_t off = MIN(*skip, len);

	*skip -= off;
	if (off == len)
		return 0;
	*iov = (struct iovec){(void *)(p + off), len - off};
	return 1;
}

unsigned ripc__engine_gather(struct ripc__engine *e, struct iovec *iov, unsigned max_iov,
			     size_t max_bytes)
{
	struct ripc__engine_tx *tx = &e->tx;
	uint32_t skip = tx->skip;
	unsigned n = 0;

	if (!ripc__engine_pending(e))
		return 0;
	if (!e->status && !ripc__engine_may_frame(tx)) {
		e->text = "out of memory to transmit";
		ripc__engine_fail(e, -ENOMEM, RIPC__TERM_CATASTROPHE, NULL);
	}
	while (!e->status && tx->ring_tail - tx->ring_head < RIPC__FRAMED_MAX &&
	       tx->ring_bytes < max_bytes)
		if (!frame_one(e))
			break;
	for (uint32_t i = tx->ring_head; i != tx->ring_tail && n + 3 <= max_iov; i++) {
		const struct ripc__framed *s = framed(tx, i);

		n += add_part(iov + n, s->head, s->head_len, &skip);
		n += add_part(iov + n, s->payload, s->len, &skip);
		n += add_part(iov + n, s->tail, s->tail_len, &skip);
	}
	return n;
}

/* Frees the first len bytes of the queue, all in its first chunk. */
static void free_bytes(struct ripc__engine_tx *tx, uint32_t len)
{
	struct ripc__chunk *chunk = tx->head;

	assert(chunk);
	tx->sent += len;
	chunk->start += len;
	if (chunk->start < chunk->end)
		return;
	tx->head = chunk->next;
	if (!tx->head)
		tx->tail = NULL;
	if (!tx->spare && chunk->cap < FIRST_CHUNK)
		tx->spare = chunk;
	else
		free(chunk);
}

static void done(struct ripc__engine_tx *tx, const struct ripc__framed *s)
{
	if (s->works && s->last) {
		works_release(s->works, s->works->sent, s->works->sent + 1);
		s->works->sent++;
	} else if (!s->works && s->payload != tx->framing->term) {
		free_bytes(tx, s->len);
	}
}

void ripc__engine_sent(struct ripc__engine *e, size_t n)
{
	struct ripc__engine_tx *tx = &e->tx;

	tx->ring_bytes -= n;
	while (tx->ring_head != tx->ring_tail) {
		struct ripc__framed *s = framed(tx, tx->ring_head);
		size_t whole = (size_t)s->head_len + s->len + s->tail_len;

		if (whole - tx->skip > n) {
			tx->skip += (uint32_t)n;
			return;
		}
		n -= whole - tx->skip;
		tx->skip = 0;
		tx->ring_head++;
		done(tx, s);
	}
}

int ripc__engine_queue_sent(struct ripc__engine *e, const struct iovec *iov, unsigned niov,
			    size_t sent)
{
	struct ripc__engine_tx *tx = &e->tx;
	size_t len = ripc__iov_len(iov, niov), off = 0;
	uint8_t *p = reserve(tx, len);
	unsigned i = 0;

	if (!p || (sent && !ripc__engine_may_frame(tx))) {
		/* Part of an FPDU is on the wire: nothing else can follow it. */
		tx->cut = true;
		ripc__engine_fail(e, -ENOMEM, RIPC__TERM_CATASTROPHE, NULL);
		return -ENOMEM;
	}
	take(p, iov, &i, &off, len);
	commit(tx, len);
	if (!sent)
		return 0;
	/* In the ring it has its place: nothing is transmitted before the rest. */
	frame_bytes(tx, tx->appended);
	ripc__engine_sent(e, sent);
	return 0;
}

static void free_chunks(struct ripc__chunk *chunk)
{
	while (chunk) {
		struct ripc__chunk *next = chunk->next;

		free(chunk);
		chunk = next;
	}
}

void ripc__engine_drop_tx(struct ripc__engine *e)
{
	struct ripc__engine_tx *tx = &e->tx;

	/* A partially sent FPDU cannot be completed: its memory must not be read any more. */
	if (tx->ring_head != tx->ring_tail && tx->skip)
		tx->cut = true;
	tx->ring_head = tx->ring_tail = 0;
	tx->skip = 0;
	tx->ring_bytes = 0;
	free(tx->framing);
	tx->framing = NULL;
	works_drop(&tx->writes, tx->writes.sent);
	works_drop(&tx->responses, tx->responses.sent);
	tx->reported = tx->writes.sent;
	free(tx->writes.ring);
	free(tx->responses.ring);
	tx->writes.ring = tx->responses.ring = NULL;
	free_chunks(tx->head);
	free(tx->spare);
	tx->spare = NULL;
	tx->head = tx->tail = NULL;
	tx->sent = tx->framed = tx->appended;
}

void ripc__engine_drop_unsent(struct ripc__engine *e)
{
	struct ripc__engine_tx *tx = &e->tx;
	struct ripc__framed *s;

	if (tx->ring_head == tx->ring_tail || !tx->skip || tx->cut) {
		ripc__engine_drop_tx(e);
		return;
	}
	s = framed(tx, tx->ring_head);
	tx->ring_tail = tx->ring_head + 1;
	tx->ring_bytes = (uint64_t)s->head_len + s->len + s->tail_len - tx->skip;
	s->last = true; /* its write or response is released */
	works_drop(&tx->writes, tx->writes.sent + (s->works == &tx->writes));
	works_drop(&tx->responses, tx->responses.sent + (s->works == &tx->responses));
	if (!s->works) {
		free_chunks(tx->head->next);
		tx->head->next = NULL;
		tx->head->end = tx->head->start + s->len;
		tx->tail = tx->head;
	} else {
		free_chunks(tx->head);
		tx->head = tx->tail = NULL;
		tx->sent = tx->appended;
	}
	tx->framed = tx->appended;
}
