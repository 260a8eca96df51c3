/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One end of an iWARP connection once it is set up: MPA framing (RFC 5044), DDP segments (RFC
 * 5041), RDMAP operations (RFC 5040). Pure: bytes, memory and posts go in; bytes to transmit,
 * memory for received bytes and events come out.
 *
 *   transmit:  gather() returns the next bytes, the payload in place; sent() takes the number of
 *     bytes transmitted
 *   receive:   rx_buffer() returns the memory for the next bytes; received() takes the number of
 *     bytes received; then call next() until it returns 0
 *
 * Every STag, right, bound, offset, length, queue and message number is checked before a byte is
 * placed. The first violation, a Terminate of the peer and a lack of memory end the engine: status
 * is set, and gather() still yields our Terminate. CRCs cover what was placed already: a tagged
 * segment with a wrong one has reached its target when the engine ends.
 */
#ifndef RIPC_IWARP_ENGINE_H
#define RIPC_IWARP_ENGINE_H

#include "transport/iwarp/soft/ddp.h"
#include "transport/iwarp/soft/mpa.h"
#include "transport/iwarp/soft/region.h"
#include "transport/transport.h"
#include "base/slab.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define RIPC__SEND_MAX  33792u /* longest send: a payload of 32 KiB and a header */
#define RIPC__READS_MAX 32u    /* reads outstanding in one direction at most */
#define RIPC__WORKS_MAX 64u    /* writes posted and not yet reported at most; >= READS_MAX */
#define RIPC__FRAMED_MAX \
	32u /* FPDUs, or runs of queued bytes, returned by gather() and not yet sent */
#define RIPC__STASH_BYTES 320u /* longest part of an FPDU kept between two receives */
/* longest ULPDU to a peer of this stack: a payload of 65472 bytes and a tagged header */
#define RIPC__ULPDU_SOFT 65486u
/*
 * Payload of a short segment, which moves the following long one to a place that the kernel copies
 * fast (engine_tx.c); and the bytes of the three that may precede a long one
 */
#define RIPC__SHORT_SEGMENT  64u
#define RIPC__SHORT_SEGMENTS (3u * (RIPC__SHORT_SEGMENT + 20u))
#define RIPC__SEND_HEADER    20u /* length and header in front of a send */
#define RIPC__TRAILER_MAX    7u  /* padding and CRC behind it */
#define RIPC__RX_IOV         3u  /* entries that rx_buffer() returns at most */

/* Encoded sends and read requests that wait to be transmitted. */
struct ripc__chunk {
	struct ripc__chunk *next;
	uint32_t start, end; /* bytes not yet sent are data[start .. end) */
	uint32_t cap;        /* bytes at data */
	uint8_t data[];
};

/* Bytes for the tagged memory of the peer: a local write, or the response to a read of the peer. */
struct ripc__work {
	struct ripc__region *region; /* NULL: a response of no bytes */
	const uint8_t *src;
	uint64_t len, framed; /* bytes; those that FPDUs were made of */
	uint64_t to;
	uint32_t stag;
	uint64_t wr_id; /* of a write */
	uint64_t after; /* of a write: position in the byte queue */
};

/* All writes, or all responses, in order. */
struct ripc__works {
	struct ripc__work *ring;     /* of RIPC__WORKS_MAX; NULL: none yet */
	uint32_t tail, framed, sent; /* counters into it */
};

/* A local read that waits for its response. */
struct ripc__read {
	struct ripc__region *region;
	uint8_t *dst;
	uint64_t len, got; /* bytes wanted, bytes placed */
	uint64_t to;       /* tagged offset of dst as advertised to the peer */
	uint32_t stag;
	uint64_t wr_id;
};

/* One FPDU, or a run of bytes of a chunk, that is being sent. */
struct ripc__framed {
	const uint8_t *payload;
	uint32_t len;              /* bytes at payload */
	struct ripc__works *works; /* part of one of these; NULL: queued bytes, or term */
	uint8_t head_len, tail_len;
	bool last; /* ends its write or response */
	uint8_t head[RIPC__FPDU_LEN + RIPC__DDP_TAGGED];
	uint8_t tail[RIPC__TRAILER_MAX];
};

/* FPDUs that are being sent. */
struct ripc__framing {
	struct ripc__framed ring[RIPC__FRAMED_MAX];
	uint8_t term[80]; /* our Terminate, an FPDU */
};

/*
 * Memory below a pointer is allocated on first use and kept until ripc__engine_save() or the end:
 * an active connection reuses it for each message, an idle one has none of it.
 */
struct ripc__engine_tx {
	bool open; /* transmission is allowed; passive side: after the first FPDU arrived */
	bool cut;  /* an FPDU cannot be completed: nothing may follow */
	bool turn; /* a response is next, if both a write and a response are possible */
	struct ripc__chunk *head, *tail; /* queue of encoded bytes */
	/* an empty chunk of FIRST_CHUNK, kept until ripc__engine_save(), or NULL */
	struct ripc__chunk *spare;
	uint64_t appended, framed, sent; /* bytes put into the queue, framed, sent, in all */
	struct ripc__works writes, responses;
	uint32_t reported;             /* counter into writes */
	struct ripc__framing *framing; /* NULL: its ring is empty */
	uint32_t ring_head, ring_tail; /* counters into its ring */
	uint32_t skip;                 /* bytes of ring[ring_head] that are sent */
	uint64_t ring_bytes;           /* bytes of the ring that are not sent */
};

/*
 * Where the payload of the last long Write lay in the stream and in its region. The next one
 * probably lies alike: rx_buffer() then returns the place of its payload before its header came.
 */
struct ripc__rx_pattern {
	uint32_t lead;    /* bytes of a reception in front of the payload; 0: nothing is expected */
	uint32_t payload; /* its bytes */
	uint64_t offset;  /* in the region */
	bool last;        /* no segment of the Write followed */
	uint8_t trust;    /* receptions without a Write until nothing is expected */
};

struct ripc__engine_rx {
	const uint8_t *p, *end;  /* received and not yet parsed, in slab */
	struct ripc__slab *slab; /* referenced while p < end */
	uint8_t *space;          /* given to rx_buffer() */
	uint32_t stash_len;
	bool placing;         /* the payload of ddp goes directly to dst */
	bool bulk;            /* the last FPDU was tagged: the next one probably is */
	const uint8_t *fresh; /* space, if the reception began with an FPDU; else NULL */
	struct ripc__rx_pattern pattern;
	uint8_t unlearned;                   /* long Writes after which pattern is set again */
	const struct ripc__region *expected; /* iov[1] of rx_buffer() lies in it; NULL: none */
	uint32_t ahead; /* bytes received there, of the FPDU whose header ends at ahead_at */
	const uint8_t *ahead_at;
	uint8_t *dst;
	uint32_t left;               /* bytes of the payload still to come */
	uint32_t payload;            /* bytes of the whole payload */
	uint32_t crc;                /* of the FPDU so far */
	struct ripc__region *region; /* that dst lies in; NULL: none */
	struct ripc__ddp ddp;
	struct ripc__slab *msg; /* send that comes in several parts; NULL: none */
	uint32_t msg_len;       /* bytes of it received */
	uint8_t msg_op;
	struct ripc__read *reads;      /* ring of RIPC__READS_MAX; NULL: no reads yet */
	uint32_t read_tail, read_head; /* counters into it */
	uint8_t *stash;                /* RIPC__STASH_BYTES; NULL: not used yet */
};

/* All that an engine keeps while nothing is under way. */
struct ripc__engine_conn {
	bool crc;
	bool soft;                      /* the peer is of this stack */
	bool align;                     /* some copies of the kernel are slow, see engine_tx.c */
	uint8_t read_depth;             /* local reads outstanding at most */
	uint8_t serve_depth;            /* reads of the peer outstanding at most */
	uint32_t ulpdu_max;             /* longest ULPDU that is sent */
	uint32_t msn_send, msn_read;    /* next message numbers */
	uint32_t msn[RIPC__DDP_QUEUES]; /* numbers expected next */
};

struct ripc__engine {
	struct ripc__regions *regions;
	struct ripc__slab_pool *pool;
	struct ripc__engine_conn conn;
	int status; /* 0, or a negative errno: the engine ended; -ECONNABORTED: by the peer */
	unsigned term_code; /* enum ripc__term of the end: received if by the peer, else sent */
	const char *text;   /* reason of the end, a constant */
	struct ripc__engine_tx tx;
	struct ripc__engine_rx rx;
};

/*
 * Starts an engine on the terms of the set-up; both depths are at most RIPC__READS_MAX. @active:
 * this end sent the request; it must send first, so an empty send is queued. @segment: bytes of a
 * TCP segment, which an FPDU does not exceed unless the peer is of this stack.
 */
void ripc__engine_init(struct ripc__engine *e, struct ripc__regions *regions,
		       struct ripc__slab_pool *pool, const struct ripc__mpa_terms *terms,
		       bool active, uint32_t segment);
/* Frees all memory. */
void ripc__engine_fini(struct ripc__engine *e);
/*
 * Ends an engine whose connection goes on, and saves its state for ripc__engine_restore(). Return:
 * false: a message, transfer or FPDU is under way, and nothing was done.
 */
bool ripc__engine_save(struct ripc__engine *e, struct ripc__engine_conn *saved);
void ripc__engine_restore(struct ripc__engine *e, struct ripc__regions *regions,
			  struct ripc__slab_pool *pool, const struct ripc__engine_conn *saved);

/* Whether gather() would return entries. */
static inline bool ripc__engine_pending(const struct ripc__engine *e)
{
	const struct ripc__engine_tx *tx = &e->tx;

	if (!tx->open)
		return false;
	return tx->ring_head != tx->ring_tail ||
	       (!e->status && (tx->framed != tx->appended || tx->writes.framed != tx->writes.tail ||
			       tx->responses.framed != tx->responses.tail));
}

/* Whether nothing is queued: only then ripc__engine_frame() may be used. */
static inline bool ripc__engine_idle(const struct ripc__engine *e)
{
	return e->tx.open && !e->status && !ripc__engine_pending(e);
}

/* Bytes of sends and read requests that are queued. */
static inline uint64_t ripc__engine_queued(const struct ripc__engine *e)
{
	return e->tx.appended - e->tx.sent;
}

/*
 * Builds an empty send for the caller to transmit in front of the next one, if the kernel would
 * copy that one slowly otherwise, see segment_len(). A peer of this stack ignores it. The engine
 * must be idle. Return: its bytes; 0: none.
 */
unsigned ripc__engine_pad_send(struct ripc__engine *e, const struct iovec *iov, unsigned niov,
			       size_t len, uint8_t fpdu[RIPC__SEND_HEADER + RIPC__TRAILER_MAX]);
/*
 * Builds head and tail of a send for the caller to transmit around the len gathered bytes. The
 * engine must be idle, and len must fit one FPDU. If the caller transmits less than the whole, it
 * calls ripc__engine_queue_sent(). Return: bytes of the tail.
 */
unsigned ripc__engine_frame(struct ripc__engine *e, const struct iovec *iov, unsigned niov,
			    size_t len, uint8_t head[RIPC__SEND_HEADER],
			    uint8_t tail[RIPC__TRAILER_MAX]);
/*
 * Queues that send, with its head and tail, of which the caller transmitted the first sent bytes.
 * The rest is transmitted before anything else. Return: 0; -ENOMEM: the engine has ended.
 */
int ripc__engine_queue_sent(struct ripc__engine *e, const struct iovec *iov, unsigned niov,
			    size_t sent);

/* Queues a send of len <= RIPC__SEND_MAX gathered bytes, copied. Return: 0 or -ENOMEM. */
int ripc__engine_send(struct ripc__engine *e, const struct iovec *iov, unsigned niov, size_t len);
/*
 * Queue a transfer whose mr->priv is a region. Return: 0, -EAGAIN (WORKS_MAX, read_depth),
 * -ENOMEM. x->len of a read is less than 2^32.
 */
int ripc__engine_write(struct ripc__engine *e, const struct ripc__transfer *x);
int ripc__engine_read(struct ripc__engine *e, const struct ripc__transfer *x);

/*
 * The next bytes to transmit, about max_bytes of them. Return: entries filled in, 0: nothing to do.
 */
unsigned ripc__engine_gather(struct ripc__engine *e, struct iovec *iov, unsigned max_iov,
			     size_t max_bytes);
/* The first n bytes were sent. */
void ripc__engine_sent(struct ripc__engine *e, size_t n);

/*
 * The memory for the next bytes. @space: free bytes of a slab, len >= 2 * RIPC__STASH_BYTES of
 * them. @expected: the region of the peer's next Write, if it is known; only this peer may write
 * it; NULL: unknown. Return: entries in iov: 1: space; 2: payload, then space; 3: space, payload
 * that is expected, space.
 */
unsigned ripc__engine_rx_buffer(struct ripc__engine *e, uint8_t *space, size_t len,
				const struct ripc__region *expected,
				struct iovec iov[RIPC__RX_IOV]);
/*
 * n > 0 bytes were received there; space is in slab. The caller calls next() afterwards. Return:
 * bytes of space that are used now.
 */
size_t ripc__engine_received(struct ripc__engine *e, struct ripc__slab *slab, size_t n);
/*
 * The next event: EV_RECV, whose token is a reference to its slab, EV_READ_DONE or EV_WRITE_DONE. A
 * send of no bytes is no message: doc/protocol.md, section 5.1. The caller fills in user and ep.
 * Return: 1, or 0: there is none, see status.
 */
int ripc__engine_next(struct ripc__engine *e, struct ripc__event *ev);
/* Whether next() has work: received bytes or an event. */
static inline bool ripc__engine_unparsed(const struct ripc__engine *e)
{
	return e->rx.slab || e->tx.reported != e->tx.writes.sent;
}

/*
 * The region is about to be freed: an engine that uses it ends and drops its references. A partly
 * sent FPDU cannot be completed then, and no Terminate follows it.
 */
void ripc__engine_revoke(struct ripc__engine *e, const struct ripc__region *region);

/*
 * Internal: ends the engine. The peer gets a Terminate with this code and with the headers at fpdu
 * (NULL: none), also of a Read Request whose payload is not allowed.
 */
void ripc__engine_fail(struct ripc__engine *e, int status, unsigned code, const uint8_t *fpdu);
/*
 * Drops everything that waits to be transmitted, except the FPDU (or run of queued bytes) that is
 * partly sent and can be completed.
 */
void ripc__engine_drop_unsent(struct ripc__engine *e);
/*
 * Appends padding and CRC to the FPDU whose first len bytes are at p. Return: bytes of the FPDU.
 */
size_t ripc__engine_finish(const struct ripc__engine *e, uint8_t *p, size_t len);
/* Appends a work. Return: false: no memory. */
bool ripc__works_add(struct ripc__works *works, const struct ripc__work *work);
/* Allocates the framing if there is none. Return: false: no memory. */
bool ripc__engine_may_frame(struct ripc__engine_tx *tx);
/* Drops all references to registered memory. */
void ripc__engine_drop_tx(struct ripc__engine *e);
void ripc__engine_drop_rx(struct ripc__engine *e);
/* Queues a Read Request. */
int ripc__engine_queue_read(struct ripc__engine *e, const struct ripc__read *read, uint64_t raddr,
			    uint32_t rkey);

/* ---- rx_expect.c, a private part of engine_rx.c ---- */

/* Bytes per reception when the next FPDU is probably tagged, because they are copied. */
#define RIPC__BULK_PEEK 4096u

/*
 * A segment with this header comes, for this offset in its region. If it is a long one of a Write,
 * the next Write is expected.
 */
void ripc__rx_learn(struct ripc__engine_rx *rx, const struct ripc__ddp *ddp, uint32_t payload,
		    uint64_t offset);
/*
 * Whether the next Write is expected, in that region, and there is space if it does not come. Other
 * bytes may then overwrite the region, so it must not hold payload yet.
 */
bool ripc__rx_expects(const struct ripc__engine_rx *rx, const struct ripc__region *region,
		      size_t len);
/* The memory for the next bytes, after ripc__rx_expects(). Return: entries in iov. */
unsigned ripc__rx_expect(struct ripc__engine_rx *rx, const struct ripc__region *region,
			 struct iovec iov[RIPC__RX_IOV]);
/* n > 0 bytes were received there. Return: those in space, without a gap. */
size_t ripc__rx_received_ahead(struct ripc__engine_rx *rx, size_t n);

#endif
