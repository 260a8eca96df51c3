/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * For tests of shm: transports of this process, two connected ones, and raw sockets of other
 * processes.
 */
#ifndef RIPC_TESTS_TRANSPORT_SHM_SHM_PAIR_H
#define RIPC_TESTS_TRANSPORT_SHM_SHM_PAIR_H

#include "harness.h"
#include "ripc.h"
#include "transport/shm/shm.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define OPS (&ripc__transport_shm)

static struct ripc__options options;

static inline struct ripc__transport *tr_of(struct shm *t)
{
	return &t->r;
}

static inline struct shm *open_shm(void)
{
	static const uint8_t instance[16];
	struct ripc__transport_env env = {.opt = &options, .instance = instance};
	struct ripc__transport *t = NULL;

	ck_assert_int_eq(OPS->open(&t, &env), 0);
	return (struct shm *)t;
}

static inline void close_shm(struct shm *t)
{
	OPS->close(tr_of(t));
}

/* One pass, for one event. */
static inline struct ripc__event progress(struct shm *t)
{
	struct ripc__event ev = {.kind = RIPC__EV_NONE};
	static uint64_t now = 1;
	uint64_t deadline = UINT64_MAX;

	/* Long enough after the last pass that the sockets are polled. */
	now += 1000000;
	OPS->progress(tr_of(t), &ev, 1, now, &deadline);
	return ev;
}

static inline struct ripc__event await(struct shm *t, enum ripc__ev_kind kind)
{
	for (int i = 0; i < 1000; i++) {
		struct ripc__event ev = progress(t);

		if (ev.kind == kind)
			return ev;
		ck_assert_int_eq(ev.kind, RIPC__EV_NONE);
	}
	ck_abort_msg("event %d does not come", kind);
	return (struct ripc__event){0};
}

struct two {
	struct shm *a, *b;
	struct ripc__ep *ea, *eb;
};

static inline void connect_two(struct two *w)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct ripc__event ev;
	int len;

	len = OPS->address(tr_of(w->b), addr, sizeof(addr));
	ck_assert_int_gt(len, 0);
	ck_assert_int_eq(OPS->connect(tr_of(w->a), addr, (size_t)len, "hello", 5, w, &w->ea), 0);
	ev = await(w->b, RIPC__EV_REQUEST);
	ck_assert_uint_eq(ev.len, 5);
	ck_assert(!memcmp(ev.data, "hello", 5));
	ck_assert_int_eq(OPS->accept(tr_of(w->b), ev.request, "welcome", 7, w, &w->eb), 0);
	await(w->b, RIPC__EV_ESTABLISHED);
	ev = await(w->a, RIPC__EV_ESTABLISHED);
	ck_assert_uint_eq(ev.len, 7);
	ck_assert(!memcmp(ev.data, "welcome", 7));
}

static inline void join(struct two *w)
{
	w->a = open_shm();
	w->b = open_shm();
	connect_two(w);
}

static inline void part(struct two *w)
{
	close_shm(w->a);
	close_shm(w->b);
}

static inline int raw_connect(struct shm *t)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	ripc__shm_address_name(&t->address, un.sun_path + 1);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&un,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 38)),
			 0);
	return fd;
}

/* pass: a descriptor for the other side; < 0: none */
static inline void raw_send(int fd, const void *p, size_t len, int pass)
{
	struct iovec iov = {(void *)(uintptr_t)p, len};

	ck_assert_int_eq(ripc__shm_send(fd, &iov, 1, pass), 0);
}

#endif
