/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The iWARP engine against a hostile peer. The first byte of the input: bit 0 active side, bit 1
 * CRC, bit 2 set-up frames first, bit 3 CRCs are put right, bits 4-6 how the input is cut, bit 7 we
 * have work of our own outstanding. The rest is what the peer sends. Placeholders for what it could
 * know are filled in: see seed(). Long Writes are in the input without their payload: see
 * expand(). They are expected in regions of their own, one after the other; if there are some, the
 * input also runs without expectations, and both runs must have the same events and bytes.
 *
 * With bit 7 the engine also transmits directly whenever it is idle, and its socket takes a part.
 * All that it transmits must be whole FPDUs in order with the bytes that they should have.
 */
#include "fuzz.h"
#include "base/hash.h"
#include "transport/iwarp/address.h"
#include "transport/iwarp/soft/crc32c.h"
#include "transport/iwarp/soft/engine.h"
#include "transport/iwarp/soft/engine_transfer.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CANARY     64u
#define LEN        2048u
#define LONG       4u         /* regions for long Writes */
#define STREAM_MAX (1u << 20) /* bytes of a stream, with the payload of long Writes */
#define PAUSES_MAX 64u        /* places where a stream pauses */
#define EVENTS_MAX 1024u      /* events that are compared */

#define require(condition)        \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

/* Bytes of the regions for long Writes: a Write may fit one and not the next. */
static const size_t long_len[LONG] = {40000, 34000, 34000, 20000};

struct world {
	struct ripc__engine e;
	struct ripc__regions regions;
	struct ripc__slab_pool pool;
	struct ripc__slab *slab;
	struct ripc__region *region[3];
	uint8_t memory[3][CANARY + LEN + CANARY];
	bool expects; /* long Writes */
	struct ripc__region *long_region[LONG];
	uint8_t *long_memory[LONG]; /* allocated, so that ASan knows the bounds */
	unsigned nevents;
	uint64_t events[EVENTS_MAX]; /* hashes of the sends received */
	bool works;                  /* we have work of our own outstanding */
	unsigned ndirect;            /* sends that were transmitted directly */
	/* the FPDU that is being transmitted, up to now, and numbers of the next ones */
	uint8_t out[RIPC__ULPDU_SOFT + 16];
	size_t out_len;
	uint32_t out_msn[RIPC__DDP_QUEUES], out_mo;
	bool out_ended; /* a Terminate was transmitted */
};

/* The bytes of a peer, with the places behind which it pauses. */
struct stream {
	uint8_t *bytes;
	size_t len;
	size_t pauses[PAUSES_MAX];
	unsigned npauses, nlong; /* pauses, long Writes */
};

/* Regions: 0 may be written, 1 may be read, 2 is local. */
static void make_world(struct world *w, bool expects)
{
	static const uint8_t secret[16] = "fuzz";
	static const unsigned access[3] = {RIPC__ACCESS_REMOTE_WRITE, RIPC__ACCESS_REMOTE_READ,
					   RIPC__ACCESS_LOCAL_WRITE};

	memset(w, 0, sizeof(*w));
	for (unsigned q = 0; q < RIPC__DDP_QUEUES; q++)
		w->out_msn[q] = 1;
	memset(w->memory, 0xcc, sizeof(w->memory));
	ripc__regions_init(&w->regions, secret);
	ripc__slab_pool_init(&w->pool, 1u << 20);
	w->slab = ripc__slab_get(&w->pool, RIPC__SLAB_BYTES);
	require(w->slab);
	for (unsigned i = 0; i < 3; i++) {
		w->region[i] = ripc__region_add(&w->regions, w->memory[i] + CANARY, LEN, access[i]);
		require(w->region[i]);
	}
	w->expects = expects;
	for (unsigned i = 0; i < LONG; i++) {
		w->long_memory[i] = malloc(long_len[i]);
		require(w->long_memory[i]);
		memset(w->long_memory[i], 0xcc, long_len[i]);
		w->long_region[i] = ripc__region_add(&w->regions, w->long_memory[i], long_len[i],
						     RIPC__ACCESS_REMOTE_WRITE);
		require(w->long_region[i]);
	}
}

/*
 * The region of the next long Write. After every fourth send it is still the one of the last Write,
 * whose announcement has not come.
 */
static const struct ripc__region *expected_region(const struct world *w)
{
	unsigned next = 0;

	if (!w->expects)
		return NULL;
	while (next < LONG && w->long_region[next]->begun)
		next++;
	if (next && w->nevents % 4 == 3)
		next--;
	return next < LONG ? w->long_region[next] : NULL;
}

static void check_canaries(const struct world *w)
{
	for (unsigned i = 0; i < 3; i++)
		for (unsigned k = 0; k < CANARY; k++)
			require(w->memory[i][k] == 0xcc && w->memory[i][CANARY + LEN + k] == 0xcc);
	/* Read-only memory is not written. */
	for (unsigned k = 0; k < LEN; k++)
		require(w->memory[1][CANARY + k] == 0xcc);
}

/*
 * A tagged segment with STag LONG_STAG + region, to an offset below 2^63, has no payload in the
 * input: expand() adds as much as its length field needs, and padding and CRC. With bit 4 of the
 * STag the peer pauses in front of it, with bit 5 behind it.
 */
#define LONG_STAG   64u
#define LONG_BEFORE 16u
#define LONG_BEHIND 32u

static void add_pause(struct stream *s)
{
	if (s->npauses < PAUSES_MAX)
		s->pauses[s->npauses++] = s->len;
}

/* Return: whether p is such a segment. */
static bool is_long(const uint8_t *p, size_t len)
{
	return len >= RIPC__FPDU_LEN + RIPC__DDP_TAGGED && p[2] & RIPC__DDP_T &&
	       ripc__get_be16(p) >= RIPC__DDP_TAGGED && ripc__get_be32(p + 4) >= LONG_STAG &&
	       ripc__get_be32(p + 4) < 2 * LONG_STAG;
}

/* Copies the input, with the payload of long segments. Return: false: no memory, or too long. */
static bool expand(struct stream *s, const uint8_t *p, size_t len, bool long_ones)
{
	s->bytes = malloc(STREAM_MAX);
	if (!s->bytes || len > STREAM_MAX)
		return false;
	while (len) {
		const size_t head = RIPC__FPDU_LEN + RIPC__DDP_TAGGED;
		size_t whole = len >= 2 ? ripc__fpdu_size(ripc__get_be16(p)) : len;
		bool is = long_ones && is_long(p, len);
		size_t take = is ? head : whole < len ? whole : len;
		uint32_t stag = is ? ripc__get_be32(p + 4) : 0;

		if (s->len + (is ? whole : take) > STREAM_MAX)
			return false;
		if (stag & LONG_BEFORE)
			add_pause(s);
		memcpy(s->bytes + s->len, p, take);
		if (is) {
			for (size_t i = head; i < whole; i++)
				s->bytes[s->len + i] = (uint8_t)((i + s->nlong) % 199);
			ripc__put_be32(s->bytes + s->len + 4, LONG_STAG + stag % LONG);
			s->nlong++;
		}
		s->len += is ? whole : take;
		if (stag & LONG_BEHIND)
			add_pause(s);
		p += take;
		len -= take;
	}
	return true;
}

/*
 * STags 0, 1, 2 and small offsets stand for those of the regions, which no input could guess.
 * OLD_STAG + region stands for an STag that a former region had: one bit differs, and the offset is
 * that of the region.
 */
#define OLD_STAG 128u

/* The region that a placeholder stands for, or NULL; *stag: its STag, or the former one. */
static const struct ripc__region *stands_for(const struct world *w, uint32_t n, uint32_t *stag)
{
	const struct ripc__region *r = NULL;

	if (n < 3)
		r = w->region[n];
	else if (n - LONG_STAG < LONG)
		r = w->long_region[n - LONG_STAG];
	else if (n - OLD_STAG < 3)
		r = w->region[n - OLD_STAG];
	if (r)
		*stag = n < OLD_STAG ? r->stag : r->stag ^ UINT32_C(1) << 31;
	return r;
}

static void seed(const struct world *w, uint8_t *p, size_t len, bool repair)
{
	size_t at = 0;

	while (len - at >= 20) {
		size_t ulpdu = ripc__get_be16(p + at), whole = ripc__fpdu_size(ulpdu);
		uint8_t *stag = NULL, *to = NULL;

		if (p[at + 2] & RIPC__DDP_T) {
			stag = p + at + 4;
			to = p + at + 8;
		} else if ((p[at + 3] & 15) == RIPC__RDMAP_READ_REQUEST && len - at >= 48) {
			stag = p + at + 20 + 16;
			to = p + at + 20 + 20;
		} else if ((p[at + 3] & 15) == RIPC__RDMAP_SEND_INVALIDATE) {
			stag = p + at + 4;
		}
		if (stag) {
			uint32_t real;
			const struct ripc__region *r = stands_for(w, ripc__get_be32(stag), &real);

			if (r)
				ripc__put_be32(stag, real);
			if (r && to && ripc__get_be64(to) < UINT64_C(0x8000000000000000))
				ripc__put_be64(to, ripc__get_be64(to) + r->addr);
		}
		if (whole > len - at)
			return;
		if (repair)
			ripc__put_le32(p + at + whole - 4, ripc__crc32c(0, p + at, whole - 4));
		at += whole;
	}
}

static bool registered(const struct world *w, uint32_t stag)
{
	for (unsigned i = 0; i < 3; i++)
		if (w->region[i]->stag == stag)
			return true;
	for (unsigned i = 0; i < LONG; i++)
		if (w->long_region[i]->stag == stag)
			return true;
	return false;
}

/*
 * Whether the whole FPDUs of a stream name only STags that the engine may accept: of a region, and
 * in responses of the region that is read into.
 */
static bool stags_valid(const struct world *w, const struct stream *s)
{
	size_t at = 0;

	while (s->len - at >= RIPC__FPDU_LEN + 2) {
		const uint8_t *p = s->bytes + at;
		size_t ulpdu = ripc__get_be16(p), whole = ripc__fpdu_size(ulpdu);
		unsigned op = p[3] & 15;

		if (whole > s->len - at)
			return true;
		if (p[2] & RIPC__DDP_T && ulpdu > RIPC__DDP_TAGGED) {
			uint32_t stag = ripc__get_be32(p + 4);

			if (op == RIPC__RDMAP_READ_RESPONSE ? stag != w->region[2]->stag
							    : !registered(w, stag))
				return false;
		} else if (op == RIPC__RDMAP_READ_REQUEST &&
			   ulpdu >= RIPC__DDP_UNTAGGED + RIPC__READ_REQUEST &&
			   ripc__get_be32(p + RIPC__SEND_HEADER + 12) &&
			   !registered(w, ripc__get_be32(p + RIPC__SEND_HEADER + 16))) {
			return false;
		}
		at += whole;
	}
	return true;
}

/* The content of our sends. */
static const uint8_t *our_bytes(void)
{
	static uint8_t bytes[RIPC__SEND_MAX];

	for (size_t i = 0; !bytes[1] && i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i + i / 253);
	return bytes;
}

/* A Terminate is the last FPDU. Sends and responses have their bytes: only 0xcc can be read. */
static void check_fpdu(struct world *w, const uint8_t *p, size_t ulpdu, size_t whole)
{
	struct ripc__ddp ddp;
	const uint8_t *payload;
	size_t len;

	require(!w->out_ended);
	require(ulpdu >= RIPC__DDP_TAGGED && !ripc__ddp_get(&ddp, p + RIPC__FPDU_LEN, ulpdu));
	require(!w->e.conn.crc || ripc__crc32c(0, p, whole - RIPC__FPDU_CRC) ==
					  ripc__get_le32(p + whole - RIPC__FPDU_CRC));
	payload = p + RIPC__FPDU_LEN + ddp.len;
	len = ulpdu - ddp.len;
	w->out_ended = ddp.op == RIPC__RDMAP_TERMINATE;
	if (!ddp.tagged) {
		bool send = ddp.queue == RIPC__DDP_Q_SEND;

		require(ddp.msn == w->out_msn[ddp.queue] && ddp.mo == (send ? w->out_mo : 0));
		require(!send || !memcmp(payload, our_bytes() + ddp.mo, len));
		w->out_msn[ddp.queue] += ddp.last;
		if (send)
			w->out_mo = ddp.last ? 0 : w->out_mo + (uint32_t)len;
	} else if (ddp.op == RIPC__RDMAP_READ_RESPONSE) {
		for (size_t i = 0; i < len; i++)
			require(payload[i] == 0xcc);
	} else {
		require(!len || ddp.stag == 1);
	}
}

/* These bytes were transmitted. */
static void transmitted(struct world *w, const uint8_t *p, size_t n)
{
	while (n) {
		size_t ulpdu = w->out_len < 2 ? 0 : ripc__get_be16(w->out);
		size_t want = w->out_len < 2 ? 2 : ripc__fpdu_size(ulpdu);
		size_t part = want - w->out_len < n ? want - w->out_len : n;

		require(want <= sizeof(w->out));
		memcpy(w->out + w->out_len, p, part);
		w->out_len += part;
		p += part;
		n -= part;
		if (want > 2 && w->out_len == want) {
			check_fpdu(w, w->out, ulpdu, want);
			w->out_len = 0;
		}
	}
}

/* The first n bytes of the list were transmitted. */
static void transmitted_list(struct world *w, const struct iovec *iov, size_t n)
{
	for (; n; iov++) {
		size_t part = iov->iov_len < n ? iov->iov_len : n;

		transmitted(w, iov->iov_base, part);
		n -= part;
	}
}

static void drain(struct world *w)
{
	struct iovec iov[3 * RIPC__FRAMED_MAX];
	unsigned n;

	while ((n = ripc__engine_gather(&w->e, iov, 3 * RIPC__FRAMED_MAX, 3000))) {
		size_t bytes = 0;

		for (unsigned i = 0; i < n; i++)
			bytes += iov[i].iov_len;
		require(bytes > 0);
		/* Half of it, so that most are cut. */
		bytes = bytes > 1 ? bytes / 2 : bytes;
		transmitted_list(w, iov, bytes);
		ripc__engine_sent(&w->e, bytes);
	}
	require(!w->out_len || w->e.tx.cut);
}

/* A send of which the socket takes a part, and a Write behind it. */
static void send_directly(struct world *w)
{
	uint8_t head[RIPC__SEND_HEADER], tail[RIPC__TRAILER_MAX];
	size_t len = w->ndirect * 7 % 300, part = w->ndirect * 29 % (len + 24);
	struct iovec iov[3] = {{head, sizeof(head)}, {(void *)our_bytes(), len}, {tail, 0}};

	if (!ripc__engine_idle(&w->e))
		return;
	w->ndirect++;
	iov[2].iov_len = ripc__engine_frame(&w->e, iov + 1, 1, len, head, tail);
	transmitted_list(w, iov, part);
	require(!ripc__engine_queue_sent(&w->e, iov, 3, part));
	if (w->ndirect % 3 == 0)
		engine_write(&w->e, w->region[2], w->memory[2] + CANARY, LEN, 1, 1, 9);
}

/* Notes a send, to be compared with the other run. */
static void note(struct world *w, const struct ripc__event *ev)
{
	uint64_t hash = ripc__fnv1a(RIPC__FNV1A_INIT ^ ev->len, ev->data, ev->len);

	if (w->nevents < EVENTS_MAX)
		w->events[w->nevents] = hash;
	w->nevents++;
}

static void feed(struct world *w, const uint8_t *p, size_t n, size_t cut)
{
	while (n && !w->e.status) {
		struct ripc__event ev;
		struct iovec iov[RIPC__RX_IOV];
		size_t done = 0;
		uint8_t *data = w->slab->data;
		unsigned niov = ripc__engine_rx_buffer(&w->e, data, RIPC__SLAB_BYTES,
						       expected_region(w), iov);

		if (w->works)
			send_directly(w);
		for (unsigned i = 0; i < niov && done < cut; i++) {
			size_t part = iov[i].iov_len < n ? iov[i].iov_len : n;

			part = part < cut - done ? part : cut - done;
			if (part)
				memcpy(iov[i].iov_base, p, part);
			p += part;
			n -= part;
			done += part;
		}
		ripc__engine_received(&w->e, w->slab, done);
		while (ripc__engine_next(&w->e, &ev)) {
			if (ev.kind != RIPC__EV_RECV)
				continue;
			require(ev.len <= RIPC__SEND_MAX);
			note(w, &ev);
			ripc__slab_put(ev.token);
		}
		drain(w);
	}
}

static size_t set_up(const uint8_t *data, size_t size, bool active, struct ripc__mpa_terms *terms)
{
	struct ripc__mpa frame,
		other = {.revision = 2, .enhanced = true, .ird = 32, .ord = 32, .soft = true};
	const char *why = NULL;
	uint8_t buf[RIPC__MPA_FRAME_MAX];
	int n = ripc__mpa_decode(&frame, active, data, size, &why);

	if (n <= 0) {
		require(n == 0 || why);
		return 0;
	}
	require((size_t)n <= size && frame.privlen <= RIPC__MPA_PRIVATE_MAX);
	if (active) {
		n = ripc__mpa_conclude(&other, &frame, terms, &why) || frame.reject ? 0 : n;
	} else {
		n = ripc__mpa_answer(&frame, false, 32, &other, terms, &why) ? 0 : n;
		require(ripc__mpa_encode(&other, buf) >= RIPC__MPA_HEADER);
	}
	return (size_t)n;
}

/* The peer sends its stream. */
static void run(struct world *w, const struct stream *s, const struct ripc__mpa_terms *terms,
		uint8_t mode)
{
	static const size_t cuts[8] = {SIZE_MAX, 1, 2, 3, 19, 64, 300, 1000};
	size_t at = 0;

	seed(w, s->bytes, s->len, terms->crc && (mode & 8));
	ripc__engine_init(&w->e, &w->regions, &w->pool, terms, mode & 1, 1448);
	w->works = mode & 0x80;
	if (w->works) {
		for (unsigned i = 0; i < 3; i++)
			engine_read(&w->e, w->region[2], w->memory[2] + CANARY, 100 * i, 1, 1, i);
		engine_write(&w->e, w->region[2], w->memory[2] + CANARY, LEN, 1, 1, 9);
		ripc__engine_send(&w->e, &(struct iovec){(void *)our_bytes(), 500}, 1, 500);
	}
	for (unsigned i = 0; i <= s->npauses; i++) {
		size_t end = i < s->npauses ? s->pauses[i] : s->len;

		feed(w, s->bytes + at, end - at, cuts[mode >> 4 & 7]);
		at = end;
	}
	check_canaries(w);
	require(w->e.status || stags_valid(w, s));
}

static void end_world(struct world *w)
{
	ripc__engine_revoke(&w->e, w->region[0]);
	require(w->region[0]->users == 0);
	drain(w);
	ripc__engine_fini(&w->e);
	for (unsigned i = 0; i < 3; i++)
		require(w->region[i]->users == 0);
	for (unsigned i = 0; i < LONG; i++)
		require(w->long_region[i]->users == 0);
	require(w->slab->refs == 1);
	ripc__slab_put(w->slab);
	require(w->pool.bytes == w->pool.nfree * RIPC__SLAB_BYTES);
	ripc__slab_pool_fini(&w->pool);
	ripc__regions_fini(&w->regions);
	for (unsigned i = 0; i < LONG; i++)
		free(w->long_memory[i]);
}

/* Whether it ended because the peer had too many reads outstanding. */
static bool reads_exceeded(const struct world *w)
{
	return w->e.status == -EPROTO && w->e.term_code == RIPC__TERM_U_NO_BUFFER;
}

/*
 * Two runs of a stream had the same events and the same end. The exception is the limit of reads:
 * how a stream is cut decides when their responses leave. Bytes of Writes are the same, too; others
 * of an expected region may have been overwritten.
 */
static void compare(const struct world *w, const struct world *other)
{
	unsigned n = w->nevents < other->nevents ? w->nevents : other->nevents;
	bool limit = reads_exceeded(w) || reads_exceeded(other);
	bool whole = !w->e.status && !other->e.status;

	require(limit || (w->e.status == other->e.status && w->e.term_code == other->e.term_code));
	for (unsigned i = 0; i < n && i < EVENTS_MAX; i++)
		require(w->events[i] == other->events[i]);
	if (!whole)
		return;
	require(w->nevents == other->nevents);
	for (unsigned i = 0; i < LONG; i++) {
		require(w->long_region[i]->written == other->long_region[i]->written);
		for (size_t k = 0; k < long_len[i]; k++)
			require(other->long_memory[i][k] == 0xcc ||
				other->long_memory[i][k] == w->long_memory[i][k]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ripc__mpa_terms terms = {.soft = true, .read_depth = 4, .serve_depth = 4};
	struct ripc__iwarp_address address;
	struct stream stream = {0};
	struct world *w[2] = {NULL, NULL};
	unsigned nworlds;
	uint8_t mode;

	if (size < 1 || size > STREAM_MAX)
		return 0;
	mode = *data++;
	size--;
	terms.crc = mode & 2;
	if (!ripc__iwarp_address_decode(&address, data, size))
		require(address.naddrs >= 1 && address.naddrs <= RIPC__IWARP_ADDRS_MAX);
	if (mode & 4) {
		size_t n = set_up(data, size, mode & 1, &terms);

		if (!n)
			return 0;
		data += n;
		size -= n;
	}
	/* A few bytes at a time, long payload would take long. */
	if (!expand(&stream, data, size, !(mode >> 4 & 7) || (mode >> 4 & 7) > 3)) {
		free(stream.bytes);
		return 0;
	}
	nworlds = stream.nlong ? 2 : 1;
	for (unsigned i = 0; i < nworlds; i++) {
		struct stream s = stream;

		w[i] = malloc(sizeof(*w[i]));
		s.bytes = malloc(s.len + 1);
		require(w[i] && s.bytes);
		memcpy(s.bytes, stream.bytes, s.len);
		make_world(w[i], !i);
		run(w[i], &s, &terms, mode);
		free(s.bytes);
	}
	if (w[1])
		compare(w[0], w[1]);
	for (unsigned i = 0; i < nworlds; i++) {
		end_world(w[i]);
		free(w[i]);
	}
	free(stream.bytes);
	return 0;
}
