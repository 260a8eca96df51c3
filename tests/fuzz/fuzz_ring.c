/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The ring engine against a peer that writes arbitrary data, at any place and time, between any
 * two steps of our side: it may break the connection, and nothing else.
 *
 * An input is one byte of set-up, then steps: a byte that selects the step, and its arguments.
 * Missing bytes are 0.
 */
#include "fuzz.h"
#include "transport/transport.h"
#include "transport/ring/ring.h"
#include "transport/ring/fast_path.h"
#include "wire/bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 4096
#define MEMORY    65536u /* exposed, or read into */
#define REGIONS   8u

static const struct ripc__ring_layout layout = {6, 16};

struct input {
	const uint8_t *at, *end;
};

struct world {
	struct ripc__ring w;
	uint8_t *inbox, *outbox, *memory;
	size_t size;
	struct ripc__ring_region *regions[REGIONS];
	uint64_t reads, writes; /* posted and not completed: bits by number */
	unsigned next;
};

static void check(bool ok)
{
	if (!ok)
		abort();
}

static uint32_t take(struct input *in, unsigned bytes)
{
	uint32_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v |= in->at < in->end ? (uint32_t)*in->at++ << 8 * i : 0;
	return v;
}

static void no_kick(void *arg)
{
}

/* The peer's memory, as far as it lets us read it. */
static int read_zeros(void *arg, void *to, uint64_t addr, size_t len)
{
	if (addr & 1)
		return -EFAULT;
	memset(to, 0, len);
	return 0;
}

static const struct ripc__ring_backend_ops readable_ops = {.kick = no_kick, .read = read_zeros},
					   unreadable_ops = {.kick = no_kick};

/* The peer writes into our segment. */
static void write_random(struct world *x, struct input *in)
{
	size_t at = take(in, 3) % x->size, len = take(in, 1);

	for (size_t i = 0; i < len && at + i < x->size && in->at < in->end; i++)
		x->inbox[at + i] = *in->at++;
}

/* The peer writes a possible message: the expected next slot, with any kind, length and body. */
static void message(struct world *x, struct input *in)
{
	uint64_t index = x->w.rx + take(in, 1) % 4;
	uint8_t *slot = x->inbox + RIPC__RING_SLOTS_OFF +
			(index & x->w.mask) * (uint64_t)RIPC__RING_SLOT_LEN;
	uint64_t kind = take(in, 1), len = take(in, 2);

	for (unsigned i = 0; i < RIPC__RING_SLOT_BODY; i++)
		slot[8 + i] = (uint8_t)take(in, 1);
	ripc__put_le64(slot,
		       (uint32_t)(index + 1) | len << 32 | kind << 48 | (uint64_t)x->w.epoch << 56);
}

/* The peer reports how much it has received: all, or any number. */
static void credit(struct world *x, struct input *in)
{
	uint8_t *at = x->inbox + RIPC__RING_CREDIT_OFF;

	if (take(in, 1) & 1) {
		ripc__put_le64(at, x->w.tx);
		ripc__put_le64(at + 8, x->w.tx_bulk);
	} else {
		ripc__put_le64(at, take(in, 4));
		ripc__put_le64(at + 8, take(in, 4));
	}
}

static void poll_ring(struct world *x)
{
	uint8_t *buf = malloc(RIPC__RING_RECV_BUF_LEN), *room = malloc(RIPC__RING_RECV_FAST_MAX);
	struct ripc__event ev;
	uint32_t len;

	check(buf != NULL && room != NULL);
	for (unsigned i = 0; i < 256 && ripc__ring_recv_fast(&x->w, room, &len) > 0; i++)
		check(len <= RIPC__RING_RECV_FAST_MAX);
	free(room);
	for (unsigned i = 0; i < 256 && ripc__ring_recv_bulk(&x->w, buf, &ev); i++)
		check(ev.len <= RIPC__RING_SEND_MAX);
	for (unsigned i = 0; i < 256 && ripc__ring_poll(&x->w, buf, &ev); i++) {
		uint64_t *open = ev.kind == RIPC__EV_READ_DONE ? &x->reads : &x->writes;

		if (ev.kind == RIPC__EV_RECV) {
			check(ev.len <= RIPC__RING_SEND_MAX);
		} else if (ev.kind != RIPC__EV_SENDABLE) {
			/* Each once, and only what was posted. */
			check(ev.wr_id < 64 && *open >> ev.wr_id & 1);
			*open &= ~(UINT64_C(1) << ev.wr_id);
		}
	}
	check(!x->w.status || x->w.why);
	free(buf);
}

static int number(struct world *x)
{
	for (unsigned i = 0; i < 64; i++) {
		unsigned id = x->next++ % 64;

		if (!((x->reads | x->writes) >> id & 1))
			return (int)id;
	}
	return -1;
}

static void ours(struct world *x, struct input *in)
{
	uint32_t what = take(in, 1) % 6, at = take(in, 2), len = take(in, 2) % 20000,
		 key = take(in, 4);
	struct iovec iov = {x->memory + at % (MEMORY / 2), len};
	struct ripc__ring_region **r = &x->regions[at % REGIONS];
	int id = number(x);

	switch (what) {
	case 0:
	case 1:
		ripc__ring_send(&x->w, &iov, 1, len, what);
		break;
	case 2:
		if (id >= 0 && !ripc__ring_read(&x->w, x->memory, len, at, key, (uint64_t)id))
			x->reads |= UINT64_C(1) << id;
		break;
	case 3:
		if (id >= 0 && !ripc__ring_write(&x->w, x->memory, len, at, key, (uint64_t)id))
			x->writes |= UINT64_C(1) << id;
		break;
	case 4:
		if (!*r)
			*r = ripc__ring_reg(&x->w, iov.iov_base, len, key & 7);
		break;
	default:
		if (*r)
			ripc__ring_dereg(*r);
		*r = NULL;
	}
}

static void run(struct world *x, struct input *in)
{
	for (unsigned i = 0; i < STEPS_MAX && in->at < in->end; i++) {
		switch (take(in, 1) % 8) {
		case 0:
			write_random(x, in);
			break;
		case 1:
		case 2:
			message(x, in);
			break;
		case 3:
			credit(x, in);
			break;
		case 4:
			poll_ring(x);
			break;
		case 5:
			if (x->w.work)
				ripc__ring_progress(&x->w);
			break;
		case 6:
			ours(x, in);
			break;
		default:
			ripc__ring_arm(&x->w);
			ripc__ring_idle(&x->w);
			ripc__ring_flush(&x->w);
		}
	}
	poll_ring(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, data + size};
	struct world x = {.size = (ripc__ring_segment_len(&layout) + 63) & ~(size_t)63};
	struct ripc__ring_backend be = {0};

	be.ops = take(&in, 1) & 2 ? &readable_ops : &unreadable_ops;
	x.inbox = aligned_alloc(64, x.size);
	x.outbox = aligned_alloc(64, x.size);
	x.memory = calloc(1, MEMORY);
	check(x.inbox && x.outbox && x.memory);
	memset(x.inbox, 0, x.size);
	memset(x.outbox, 0, x.size);
	be.inbox = x.inbox;
	be.map = x.outbox;
	ripc__ring_init(&x.w, &be, &layout, 1);
	/* A hello as it should be: without one there is nothing to be found. */
	ripc__put_le64(x.inbox + RIPC__RING_HELLO_OFF, RIPC__RING_MAGIC + (UINT64_C(1) << 56));
	ripc__put_le32(x.inbox + RIPC__RING_HELLO_OFF + 8, layout.slot_bits);
	ripc__put_le32(x.inbox + RIPC__RING_HELLO_OFF + 12, layout.bulk_bits);
	ripc__put_le64(x.inbox + RIPC__RING_HELLO_OFF + 16, 1);
	run(&x, &in);
	ripc__ring_send_bye(&x.w);
	ripc__ring_fini(&x.w);
	for (unsigned i = 0; i < REGIONS; i++)
		if (x.regions[i])
			ripc__ring_dereg(x.regions[i]);
	free(x.inbox);
	free(x.outbox);
	free(x.memory);
	return 0;
}
