/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Endpoints over rings, with the smallest back end: set-up, posts, memory, passes, sleeping. */
#include "heap_backend.h"

#include "harness.h"
#include "ripc.h"
#include "transitions.h"
#include "transport/transfer.h"

#include <poll.h>
#include <sys/mman.h>

#define OPS   (&heap_ops)
#define PEERS 3

static struct ripc__transport *a, *b;
static struct ripc__ep *from[PEERS], *to[PEERS];

static bool no_memory; /* for the transfers of a ring */

void *__real_calloc(size_t n, size_t len);
void *__wrap_calloc(size_t n, size_t len);
void *__wrap_calloc(size_t n, size_t len)
{
	return no_memory && len == sizeof(struct ripc__ring_transfers) ? NULL
								       : __real_calloc(n, len);
}

static void setup(void)
{
	struct ripc__transport_env env = {0};

	ck_assert_int_eq(OPS->open(&a, &env), 0);
	ck_assert_int_eq(OPS->open(&b, &env), 0);
}

static void teardown(void)
{
	OPS->close(a);
	OPS->close(b);
}

static struct ripc__event poll_event(struct ripc__transport *t)
{
	struct ripc__event ev = {.kind = RIPC__EV_NONE};
	uint64_t deadline = UINT64_MAX;

	OPS->progress(t, &ev, 1, 1, &deadline);
	return ev;
}

static struct ripc__event await(struct ripc__transport *t, enum ripc__ev_kind kind)
{
	for (int i = 0; i < 1000; i++) {
		struct ripc__event ev = poll_event(t);

		if (ev.kind == kind)
			return ev;
		ck_assert_int_eq(ev.kind, RIPC__EV_NONE);
		ev = poll_event(t == a ? b : a);
		ck_assert_int_eq(ev.kind, RIPC__EV_NONE);
	}
	ck_abort_msg("event %d does not come", kind);
	return (struct ripc__event){0};
}

static struct ripc__event request(struct ripc__ep **ep)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	int len = OPS->address(b, addr, sizeof(addr));
	struct ripc__event ev;

	ck_assert_int_eq(OPS->connect(a, addr, (size_t)len, "hello", 5, ep, ep), 0);
	ev = await(b, RIPC__EV_REQUEST);
	ck_assert_uint_eq(ev.len, 5);
	ck_assert_mem_eq(ev.data, "hello", 5);
	return ev;
}

static void connect_one(unsigned i)
{
	struct ripc__event ev = request(&from[i]);

	ck_assert_int_eq(OPS->accept(b, ev.request, "welcome", 7, &to[i], &to[i]), 0);
	ev = await(b, RIPC__EV_ESTABLISHED);
	ck_assert_ptr_eq(ev.user, &to[i]);
	ck_assert_uint_eq(ev.len, 0);
	ev = await(a, RIPC__EV_ESTABLISHED);
	ck_assert_ptr_eq(ev.user, &from[i]);
	ck_assert_mem_eq(ev.data, "welcome", ev.len);
}

static int post(struct ripc__ep *ep, const void *head, size_t head_len, const void *p, size_t len)
{
	struct iovec item = {(void *)(uintptr_t)p, len};

	return OPS->post(ep, head, head_len, &item, 1, false);
}

START_TEST(connect__rejected)
{
	struct ripc__event ev;
	struct ripc__ep *ep;

	ev = request(&ep);
	OPS->reject(b, ev.request, "no", 2);
	ev = await(a, RIPC__EV_CLOSED);
	ck_assert(ev.reject);
	ck_assert_int_eq(ev.status, -ECONNREFUSED);
	ck_assert_uint_eq(ev.len, 2);
	ck_assert_mem_eq(ev.data, "no", 2);
	ck_assert_int_eq(post(ep, NULL, 0, "x", 1), -ENOTCONN);
	OPS->ep_close(ep);
	/* A peer that gives up before the answer. */
	ev = request(&ep);
	OPS->ep_close(ep);
	ck_assert_int_eq(OPS->accept(b, ev.request, "", 0, NULL, &ep), -ECONNRESET);
}
END_TEST

/* Every size, by progress() (_i 0) or poll_one() (_i 1), and the last ones after the end. */
START_TEST(post__every_size)
{
	static uint8_t head[RIPC__POST_HEADER_LEN], data[RIPC__RING_SEND_MAX];
	uint8_t room[256];
	struct ripc__event ev;
	uint64_t rng = test_seed();

	connect_one(0);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)test_random(&rng);
	for (size_t len = 0; len + sizeof(head) <= sizeof(data); len += len < 600 ? 1 : 499) {
		ck_assert_int_eq(post(from[0], head, sizeof(head), data, len), 0);
		if (!_i || !OPS->poll_one(b, room, sizeof(room), &ev))
			ev = await(b, RIPC__EV_RECV);
		ck_assert_ptr_eq(ev.ep, to[0]);
		ck_assert_uint_eq(ev.len, sizeof(head) + len);
		ck_assert(!memcmp(ev.data, head, sizeof(head)));
		ck_assert(!memcmp(ev.data + sizeof(head), data, len));
		if (ev.token)
			OPS->release(b, ev.token);
		poll_event(a);
	}
	ck_assert_int_eq(post(from[0], head, sizeof(head), data, sizeof(data)), -EMSGSIZE);
	ck_assert_int_eq(post(from[0], NULL, 0, "last", 4), 0);
	OPS->ep_close(from[0]);
	ev = await(b, RIPC__EV_RECV);
	ck_assert_mem_eq(ev.data, "last", 4);
	OPS->release(b, ev.token);
	ev = await(b, RIPC__EV_CLOSED);
	ck_assert_int_eq(ev.status, -ECONNRESET);
	ck_assert_int_eq(post(to[0], head, sizeof(head), data, 8), -ENOTCONN);
}
END_TEST

/* Messages that are not released keep their bytes, whatever their lengths. */
START_TEST(progress__held_messages)
{
	enum { N = 300 };
	static struct ripc__event held[N];
	uint8_t head[RIPC__POST_HEADER_LEN], data[N];

	connect_one(0);
	for (unsigned i = 0; i < N; i++) {
		memset(head, (int)(i + 1), sizeof(head));
		memset(data, (int)i, i);
		ck_assert_int_eq(post(from[0], head, sizeof(head), data, i), 0);
		held[i] = await(b, RIPC__EV_RECV);
		ck_assert_ptr_nonnull(held[i].token);
		poll_event(a);
	}
	for (unsigned i = 0; i < N; i++) {
		memset(head, (int)(i + 1), sizeof(head));
		memset(data, (int)i, i);
		ck_assert_uint_eq(held[i].len, sizeof(head) + i);
		ck_assert(!memcmp(held[i].data, head, sizeof(head)));
		ck_assert(!memcmp(held[i].data + sizeof(head), data, i));
		OPS->release(b, held[i].token);
	}
}
END_TEST

/* _i 0: through the ring, 1: directly. */
START_TEST(reg__read_and_write)
{
	static uint8_t remote[300000], local[300000];
	const unsigned both = RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE;
	const size_t len = sizeof(local);
	struct ripc__mr mr, own;
	struct ripc__event ev;
	struct ripc__ep *ep;

	heap_can_read = _i;
	ck_assert_int_eq(OPS->reg(b, NULL, remote, 1, RIPC__ACCESS_REMOTE_READ, &mr), -ENOTCONN);
	connect_one(0);
	ep = from[0];
	ck_assert_int_eq(OPS->reg(b, to[0], remote, len, both, &mr), 0);
	ck_assert_int_eq(OPS->reg(a, NULL, local, len, RIPC__ACCESS_LOCAL_WRITE, &own), 0);
	memset(local, 7, len);
	ck_assert_int_eq(test_write(OPS, ep, &own, local, len, mr.addr, mr.key, 1), 0);
	ck_assert_uint_eq(await(a, RIPC__EV_WRITE_DONE).wr_id, 1);
	memset(local, 0, len);
	ck_assert_int_eq(test_read(OPS, ep, &own, local, len, mr.addr, mr.key, 2), 0);
	ev = await(a, RIPC__EV_READ_DONE);
	ck_assert_uint_eq(ev.wr_id, 2);
	ck_assert_int_eq(ev.status, 0);
	ck_assert_uint_eq(local[0] + local[len - 1], 14);
	/* Memory that is exposed no more; and memory that outlives its connection. */
	OPS->dereg(b, &mr);
	ck_assert_int_eq(test_read(OPS, ep, &own, local, 10, mr.addr, 1u << 16, 3), 0);
	ck_assert_int_eq(await(a, RIPC__EV_READ_DONE).status, -EACCES);
	ck_assert_int_eq(OPS->reg(b, to[0], remote, 10, RIPC__ACCESS_REMOTE_READ, &mr), 0);
	OPS->ep_close(to[0]);
	OPS->dereg(b, &mr);
	OPS->dereg(a, &own);
	heap_can_read = false;
}
END_TEST

/* Whether a read of the last byte needs no pass of the side that exposes the memory. */
static bool is_read_directly(uint8_t *base, size_t len)
{
	struct ripc__mr mr, own;
	uint8_t byte;
	bool done;

	ck_assert_int_eq(OPS->reg(b, to[0], base, len, RIPC__ACCESS_REMOTE_READ, &mr), 0);
	ck_assert_int_eq(OPS->reg(a, NULL, &byte, 1, RIPC__ACCESS_LOCAL_WRITE, &own), 0);
	ck_assert_int_eq(test_read(OPS, from[0], &own, &byte, 1, mr.addr + len - 1, mr.key, 1), 0);
	done = poll_event(a).kind == RIPC__EV_READ_DONE;
	if (!done)
		ck_assert_int_eq(await(a, RIPC__EV_READ_DONE).status, 0);
	OPS->dereg(b, &mr);
	OPS->dereg(a, &own);
	return done;
}

/* A peer never touches memory with missing pages. One call of mincore() asks for 16 MiB at most. */
START_TEST(reg__missing_pages)
{
	const size_t page = (size_t)getpagesize(), len = 4097 * page;
	uint8_t *base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(base, MAP_FAILED);
	ck_assert_int_eq(madvise(base, len, MADV_NOHUGEPAGE), 0);
	heap_can_read = true;
	connect_one(0);
	memset(base, 1, len - page);
	ck_assert(is_read_directly(base, len - page));
	ck_assert(!is_read_directly(base, len));
	memset(base, 1, len);
	ck_assert(is_read_directly(base, len));
	ck_assert_int_eq(madvise(base, page, MADV_DONTNEED), 0);
	ck_assert(!is_read_directly(base, len));
	ck_assert(is_read_directly(base + len - 1, 1));
	munmap(base, len);
	heap_can_read = false;
}
END_TEST

/* One event per pass: each endpoint has its turn. */
START_TEST(progress__takes_turns)
{
	struct ripc__event ev;

	for (unsigned i = 0; i < PEERS; i++)
		connect_one(i);
	for (unsigned k = 0; k < 4; k++)
		for (unsigned i = 0; i < PEERS; i++)
			ck_assert_int_eq(post(from[i], NULL, 0, "x", 1), 0);
	for (unsigned k = 0; k < 4; k++) {
		unsigned seen = 0;

		for (unsigned i = 0; i < PEERS; i++) {
			ev = await(b, RIPC__EV_RECV);
			seen |= 1u << ((struct ripc__ep **)ev.user - to);
			OPS->release(b, ev.token);
		}
		ck_assert_uint_eq(seen, (1u << PEERS) - 1);
	}
}
END_TEST

/* A side that sleeps is woken by the next message, and only by that one. */
START_TEST(arm__kicks_once)
{
	struct pollfd p = {.events = POLLIN};
	struct ripc__event ev;

	connect_one(0);
	p.fd = test_fd(OPS, b);
	while (OPS->arm(b))
		poll_event(b);
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	ck_assert_int_eq(post(from[0], NULL, 0, "wake", 4), 0);
	ck_assert_int_eq(poll(&p, 1, 0), 1);
	ck_assert_int_eq(OPS->arm(b), 1);
	ev = await(b, RIPC__EV_RECV);
	OPS->release(b, ev.token);
	ck_assert_int_eq(post(from[0], NULL, 0, "x", 1), 0);
	ck_assert_int_eq(poll(&p, 1, 0), 0);
}
END_TEST

static unsigned set_state(unsigned before, unsigned after)
{
	struct ripc__transport t = {0};
	struct ripc__ep ep = {.t = &t, .state = (enum ripc__ep_state)before};

	t.neps[before] = 1;
	ripc__ring_ep_set_state(&ep, (enum ripc__ep_state)after);
	ck_assert_uint_eq(t.neps[before], 0);
	ck_assert_uint_eq(t.neps[after], 1);
	return ep.state;
}

/* The error is explained, for the log of the core. */
START_TEST(transfer__no_memory)
{
	struct ripc__transfer x = {.kind = _i ? RIPC__WRITE : RIPC__READ, .len = 100};

	connect_one(0);
	no_memory = true;
	ripc__fail(-EINVAL, "former failure");
	ck_assert_int_eq(OPS->transfer(from[0], &x), -ENOMEM);
	no_memory = false;
	ck_assert_str_eq(ripc_error_detail(), "out of memory");
	OPS->ep_close(from[0]);
	OPS->ep_close(to[0]);
}
END_TEST

START_TEST(set_state__transitions)
{
	static const unsigned allowed[RIPC__EP_STATES] = {
		[RIPC__EP_INCOMING] = 1u << RIPC__EP_REQUESTED,
		[RIPC__EP_REQUESTED] = 1u << RIPC__EP_OPEN,
		[RIPC__EP_CONNECTING] = 1u << RIPC__EP_OPEN | 1u << RIPC__EP_CLOSED,
		[RIPC__EP_OPEN] = 1u << RIPC__EP_CLOSED,
	};

	check_transitions(set_state, allowed);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/ring/endpoint");
	TCase *c = tcase_create("endpoint");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, connect__rejected);
	tcase_add_loop_test(c, post__every_size, 0, 2);
	tcase_add_test(c, progress__held_messages);
	tcase_add_loop_test(c, reg__read_and_write, 0, 2);
	tcase_add_test(c, reg__missing_pages);
	tcase_add_test(c, progress__takes_turns);
	tcase_add_test(c, arm__kicks_once);
	tcase_add_loop_test(c, transfer__no_memory, 0, 2);
	tcase_add_test(c, set_state__transitions);
	suite_add_tcase(s, c);
	return test_main("transport/ring/endpoint", s);
}
