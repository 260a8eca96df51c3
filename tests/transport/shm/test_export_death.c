/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Mapped zero copy between processes, when one of them dies or forks. */
#define _GNU_SOURCE
#include "zero_copy_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

/* The other process: receives messages, and keeps the last. */
static void receiver_child(uint64_t id)
{
	struct ripc_message *m, *last = NULL;
	struct ripc *ctx = open_one("");
	struct ripc_service *s = serve(ctx, id);

	if (write(1, "+", 1) != 1)
		_exit(1);
	while (!ripc_receive(s, &m, PATIENCE_MS)) {
		ripc_message_free(last);
		last = m;
	}
	_exit(0);
}

/* The other process: sends for ever. Each message has one byte value all over. */
static void sender_child(uint64_t id, uint64_t dest)
{
	struct ripc *ctx = open_one("");
	struct ripc_service *s = serve(ctx, id);
	uint8_t *p = buffer(ctx, LEN, 0);

	for (unsigned i = 0;; i++) {
		struct iovec item = {p, LEN};

		memset(p, (int)(i & 255), LEN);
		if (ripc_send_long(s, dest, &item, 1, NULL, PATIENCE_MS))
			_exit(1);
	}
}

static pid_t child(void (*what)(uint64_t, uint64_t), uint64_t id, uint64_t dest, int *out)
{
	int fds[2];
	pid_t pid;

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		dup2(fds[1], 1);
		what(id, dest);
		_exit(1);
	}
	close(fds[1]);
	*out = fds[0];
	ck_assert_int_gt(pid, 0);
	return pid;
}

static void keep_messages(uint64_t id, uint64_t dest)
{
	(void)dest;
	receiver_child(id);
}

static void reap(pid_t pid, int out)
{
	int status;

	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
	close(out);
}

START_TEST(death__receiver)
{
	uint64_t rng = test_seed();

	for (unsigned round = 0; round < 6; round++) {
		unsigned before = test_descriptors();
		unsigned count = 1 + (unsigned)(test_random(&rng) % 40);
		struct two w = {.dest = test_ids() + 1};
		struct ripc_request *r;
		char byte;
		uint8_t *p;
		pid_t pid;
		int out, rc;

		/* Forked first: the child has no context of this process. */
		pid = child(keep_messages, w.dest, 0, &out);
		ck_assert_int_eq((int)read(out, &byte, 1), 1);
		w.a = open_one("");
		w.from = serve(w.a, test_ids());
		p = buffer(w.a, LEN, round);
		for (unsigned i = 0; i < count; i++)
			finish(start(&w, p, LEN));
		r = start(&w, p, LEN);
		usleep((useconds_t)(test_random(&rng) % 500));
		reap(pid, out);
		rc = ripc_request_wait(&r, PATIENCE_MS);
		if (rc == -ETIMEDOUT)
			ripc_request_cancel(&r, PATIENCE_MS);
		ck_assert(!rc || rc == -EPIPE || rc == -EHOSTUNREACH || rc == -ETIMEDOUT);
		ck_assert(holds(p, LEN, round));
		fill(p, LEN, round + 1);
		ck_assert_int_eq(ripc_buf_free(w.a, p), 0);
		ck_assert_int_eq(ripc_close(w.a), 0);
		ck_assert_uint_eq(mappings(), 0);
		ck_assert_uint_eq(test_descriptors(), before);
	}
}
END_TEST

START_TEST(death__sender)
{
	uint64_t rng = test_seed();

	for (unsigned round = 0; round < 6; round++) {
		unsigned before = test_descriptors();
		unsigned count = 1 + (unsigned)(test_random(&rng) % 60);
		struct ripc_message *m = NULL, *last = NULL;
		struct ripc_service *s;
		struct ripc *ctx;
		pid_t pid;
		int out;

		pid = child(sender_child, test_ids(), test_ids() + 1, &out);
		ctx = open_one("");
		s = serve(ctx, test_ids() + 1);
		for (unsigned i = 0; i < count; i++) {
			ripc_message_free(last);
			last = receive(s);
		}
		usleep((useconds_t)(test_random(&rng) % 500));
		reap(pid, out);
		/* Received messages do not change, and further ones are complete. */
		while (last) {
			const uint8_t *p = last->items[0].iov_base;

			ck_assert(!memcmp(p, p + 1, LEN - 1));
			ripc_message_free(last);
			last = ripc_receive(s, &m, 100) ? NULL : m;
		}
		ck_assert_int_eq(ripc_close(ctx), 0);
		ck_assert_uint_eq(mappings(), 0);
		ck_assert_uint_eq(test_descriptors(), before);
	}
}
END_TEST

/* The other process: passes on what it receives, in place. */
static void forwarder_child(uint64_t id, uint64_t dest)
{
	struct ripc_message *m;
	struct ripc *ctx = open_one("");
	struct ripc_service *s = serve(ctx, id);

	if (write(1, "+", 1) != 1)
		_exit(1);
	while (!ripc_receive(s, &m, PATIENCE_MS)) {
		if (ripc_send_long(s, dest, &m->items[0], 1, NULL, PATIENCE_MS))
			_exit(1);
		ripc_message_free(m);
	}
	_exit(0);
}

/* A fresh buffer with one byte value all over, sent and freed. */
static void send_fresh(struct two *w, uint8_t byte)
{
	uint8_t *p = ripc_buf_alloc(w->a, LEN);

	ck_assert_ptr_nonnull(p);
	memset(p, byte, LEN);
	finish(start(w, p, LEN));
	ck_assert_int_eq(ripc_buf_free(w->a, p), 0);
}

static bool all(const struct ripc_message *m, uint8_t byte)
{
	const uint8_t *p = m->items[0].iov_base;

	return *p == byte && !memcmp(p, p + 1, m->items[0].iov_len - 1);
}

/* Buffers that no peer holds are overwritten. */
static void overwrite_pool(struct ripc *ctx)
{
	uint8_t *p[16];

	for (unsigned i = 0; i < 16; i++) {
		p[i] = ripc_buf_alloc(ctx, LEN);
		ck_assert_ptr_nonnull(p[i]);
		memset(p[i], 0xee, LEN);
	}
	for (unsigned i = 0; i < 16; i++)
		ck_assert_int_eq(ripc_buf_free(ctx, p[i]), 0);
}

/* It dies between the owner and a receiver that still reads. */
START_TEST(death__forwarder)
{
	struct two w = {.dest = test_ids() + 1};
	struct ripc_message *m = NULL;
	struct ripc_service *third;
	unsigned before = test_descriptors();
	struct ripc *c;
	char byte;
	pid_t pid;
	int out;

	pid = child(forwarder_child, w.dest, test_ids() + 2, &out);
	ck_assert_int_eq((int)read(out, &byte, 1), 1);
	w.a = open_one("");
	w.from = serve(w.a, test_ids());
	c = open_one("");
	third = serve(c, test_ids() + 2);
	for (unsigned i = 0; i < MCAST_PROBES; i++) {
		send_fresh(&w, 7);
		m = receive(third);
		if (m->placement[0] == RIPC_IN_SENDER_MEMORY)
			break;
		ripc_message_free(m);
	}
	ck_assert_int_eq(m->placement[0], RIPC_IN_SENDER_MEMORY);
	reap(pid, out);
	AWAIT(ripc__list_empty(&w.a->lanes));
	overwrite_pool(w.a);
	ck_assert(all(m, 7));
	ripc_message_free(m);
	ck_assert_int_eq(ripc_close(w.a), 0);
	ck_assert_int_eq(ripc_close(c), 0);
	ck_assert_uint_eq(mappings(), 0);
	ck_assert_uint_eq(test_descriptors(), before);
}
END_TEST

/* A receiver dies with messages out of buffers that were freed: nothing of them stays. */
START_TEST(death__receiver_of_freed_buffers)
{
	struct two w = {.dest = test_ids() + 1};
	unsigned before = test_descriptors();
	char byte;
	pid_t pid;
	int out;

	pid = child(keep_messages, w.dest, 0, &out);
	ck_assert_int_eq((int)read(out, &byte, 1), 1);
	w.a = open_one("");
	w.from = serve(w.a, test_ids());
	for (unsigned i = 0; i < 40; i++)
		send_fresh(&w, (uint8_t)i);
	reap(pid, out);
	AWAIT(ripc__list_empty(&w.a->lanes));
	overwrite_pool(w.a);
	ck_assert_int_eq(ripc_close(w.a), 0);
	ck_assert_uint_eq(mappings(), 0);
	ck_assert_uint_eq(test_descriptors(), before);
}
END_TEST

#define KEPT      16 /* messages that the receiver below keeps */
#define IN_FLIGHT 8

/*
 * The other process: keeps the last messages, and writes a byte when it reads the first one in the
 * sender's memory. The bytes of each are the same.
 */
static void receiver_of_copies(uint64_t id, uint64_t dest)
{
	struct ripc_message *kept[KEPT] = {NULL}, *m;
	struct ripc *ctx = open_one("");
	struct ripc_service *s = serve(ctx, id);
	bool in_place = false;

	(void)dest;
	if (write(1, "+", 1) != 1)
		_exit(1);
	for (unsigned i = 0; !ripc_receive(s, &m, PATIENCE_MS); i++) {
		if (!all(m, *(const uint8_t *)m->items[0].iov_base))
			_exit(2);
		if (m->placement[0] == RIPC_IN_SENDER_MEMORY && !in_place && write(1, "m", 1) != 1)
			_exit(3);
		in_place |= m->placement[0] == RIPC_IN_SENDER_MEMORY;
		ripc_message_free(kept[i % KEPT]);
		kept[i % KEPT] = m;
	}
	_exit(0);
}

/* Whether all buffers of the pool are in its cache. */
static bool pool_is_unused(struct ripc *ctx)
{
	bool unused;

	ripc__lock(ctx);
	unused = ctx->memory->cached_bytes == ctx->stats.pool_bytes;
	ripc__unlock(ctx);
	return unused;
}

/*
 * A receiver dies, again and again, while it reads copies of plain memory and others are on their
 * way: requests end, no buffer stays in use, and its successor gets copies, too.
 */
START_TEST(death__receiver_of_mapped_copies)
{
	unsigned before = test_descriptors();
	struct two w = {.dest = test_ids() + 1};
	uint64_t rng = test_seed();
	uint8_t *p[IN_FLIGHT];
	char byte;

	w.a = NULL;
	for (unsigned i = 0; i < IN_FLIGHT; i++) {
		p[i] = malloc(LEN);
		ck_assert_ptr_nonnull(p[i]);
		memset(p[i], (int)i, LEN);
	}
	for (unsigned round = 0; round < 6; round++) {
		struct ripc_request *r[IN_FLIGHT];
		struct pollfd first_copy = {.events = POLLIN};
		pid_t pid = child(receiver_of_copies, w.dest, 0, &first_copy.fd);
		unsigned extra = (unsigned)(test_random(&rng) % KEPT), n = 0;

		ck_assert_int_eq((int)read(first_copy.fd, &byte, 1), 1);
		if (!w.a) {
			w.a = open_one("");
			w.from = serve(w.a, test_ids());
		}
		/* The first item of each peer is left to it, and buffers have to be mapped. */
		for (; !poll(&first_copy, 1, 0); n++) {
			ck_assert_uint_lt(n, 1000);
			finish(start(&w, p[n % IN_FLIGHT], LEN));
		}
		for (unsigned i = 0; i < extra; i++)
			finish(start(&w, p[i % IN_FLIGHT], LEN));
		for (unsigned i = 0; i < IN_FLIGHT; i++)
			r[i] = start(&w, p[i], LEN);
		usleep((useconds_t)(test_random(&rng) % 500));
		reap(pid, first_copy.fd);
		AWAIT(ripc__list_empty(&w.a->lanes));
		for (unsigned i = 0; i < IN_FLIGHT; i++) {
			int rc = ripc_request_wait(&r[i], 0);

			/* One that was not sent waits for the next holder of the service. */
			if (rc == -ETIMEDOUT)
				rc = ripc_request_cancel(&r[i], PATIENCE_MS);
			ck_assert_msg(!rc || rc == -EPIPE || rc == -ECANCELED, "%s",
				      ripc_strerror(rc));
		}
		AWAIT(pool_is_unused(w.a));
		ck_assert_uint_le(w.a->stats.pool_bytes, 2 * (KEPT + IN_FLIGHT) * LEN);
	}
	for (unsigned i = 0; i < IN_FLIGHT; i++)
		free(p[i]);
	ck_assert_int_eq(ripc_close(w.a), 0);
	ck_assert_uint_eq(mappings(), 0);
	ck_assert_uint_eq(test_descriptors(), before);
}
END_TEST

START_TEST(death__lane_while_exported)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	p = buffer(w.a, LEN, 16);
	m = in_place(&w, p, LEN, &r);
	/* The sender's context and buffer end; the mapped message stays. */
	ck_assert_int_eq(ripc_close(w.a), 0);
	ck_assert(holds(m->items[0].iov_base, LEN, 16));
	ripc_message_free(m);
	ck_assert_int_eq(ripc_close(w.b), 0);
	ck_assert_uint_eq(mappings(), 0);
}
END_TEST

START_TEST(fork__child_has_no_fds)
{
	struct two w;
	int status;
	pid_t pid;
	uint8_t *p;

	open_two(&w, "", "");
	p = buffer(w.a, LEN, 17);
	pid = fork();
	if (!pid)
		_exit(fcntl(ripc__memory_find(w.a, p, 1)->fd, F_GETFD) >= 0 ? 1
		      : holds(p, LEN, 17)                                   ? 0
									    : 2);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	close_two(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/shm/export_death");
	TCase *t = tcase_create("heirs");

	test_seed();
	tcase_set_timeout(t, 120);
	tcase_add_test(t, death__receiver);
	tcase_add_test(t, death__sender);
	tcase_add_test(t, death__forwarder);
	tcase_add_test(t, death__receiver_of_freed_buffers);
	tcase_add_test(t, death__receiver_of_mapped_copies);
	tcase_add_test(t, death__lane_while_exported);
	tcase_add_test(t, fork__child_has_no_fds);
	suite_add_tcase(s, t);
	return test_main("transport/shm/export_death", s);
}
