/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* shm as a transport, once connected: reads, memory objects, and hostile peers. */
#define _GNU_SOURCE
#include "shm_pair.h"
#include "transport/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

static const unsigned readable = RIPC__ACCESS_REMOTE_READ;

START_TEST(read__direct)
{
	size_t len = 3u << 20;
	uint8_t *from = malloc(len), *to = malloc(len);
	struct ripc__mr remote, local;
	struct ripc__event ev;
	struct two w;

	join(&w);
	ck_assert(shm_ep(w.ea)->can_read_peer && shm_ep(w.eb)->can_read_peer);
	for (size_t i = 0; i < len; i++)
		from[i] = (uint8_t)(i * 7 + (i >> 9));
	ck_assert_int_eq(OPS->reg(tr_of(w.b), w.eb, from, len, readable, &remote), 0);
	ck_assert_int_eq(OPS->reg(tr_of(w.a), NULL, to, len, RIPC__ACCESS_LOCAL_WRITE, &local), 0);
	ck_assert_int_eq(test_read(OPS, w.ea, &local, to, len, remote.addr, remote.key, 2), 0);
	ev = await(w.a, RIPC__EV_READ_DONE);
	ck_assert_int_eq(ev.status, 0);
	ck_assert_uint_eq(ev.wr_id, 2);
	ck_assert(!memcmp(from, to, len));
	/* An address that is not mapped is an error, not a signal. */
	ck_assert_int_eq(test_read(OPS, w.ea, &local, to, len, 4096, remote.key, 3), 0);
	ev = await(w.a, RIPC__EV_READ_DONE);
	ck_assert_int_eq(ev.status, -EFAULT);
	OPS->dereg(tr_of(w.b), &remote);
	OPS->dereg(tr_of(w.a), &local);
	/* A registration may be ended after its endpoint. */
	ck_assert_int_eq(OPS->reg(tr_of(w.b), w.eb, from, len, readable, &remote), 0);
	OPS->ep_close(w.eb);
	ck_assert_int_eq(test_read(OPS, w.ea, &local, to, len, remote.addr, remote.key, 4), 0);
	for (int i = 0; i < 100; i++) {
		ev = progress(w.a);
		if (ev.kind == RIPC__EV_READ_DONE)
			ck_assert_int_ne(ev.status, 0);
		if (ev.kind == RIPC__EV_CLOSED)
			break;
	}
	ck_assert_int_eq(ev.kind, RIPC__EV_CLOSED);
	OPS->dereg(tr_of(w.b), &remote);
	part(&w);
	free(from);
	free(to);
}
END_TEST

/*
 * The peer's process has ended, or runs another program: what is at the address is not its memory.
 * Kicks of it that were not read do not hide that.
 */
START_TEST(read__ended_peer_with_kicks)
{
	uint8_t from[3000], to[3000] = {0};
	struct ripc__mr remote, local;
	struct ripc__event ev;
	struct two w;

	join(&w);
	memset(from, 1, sizeof(from));
	ck_assert_int_eq(OPS->reg(tr_of(w.b), w.eb, from, sizeof(from), readable, &remote), 0);
	ck_assert_int_eq(
		OPS->reg(tr_of(w.a), NULL, to, sizeof(to), RIPC__ACCESS_LOCAL_WRITE, &local), 0);
	ck_assert_int_eq(test_read(OPS, w.ea, &local, to, 3000, remote.addr, remote.key, 1), 0);
	for (int i = 0; i < 3; i++)
		raw_send(shm_ep(w.eb)->fd, "", 1, -1);
	ck_assert_int_eq(shutdown(shm_ep(w.eb)->fd, SHUT_RDWR), 0);
	ev = await(w.a, RIPC__EV_READ_DONE);
	ck_assert_int_eq(ev.status, -ECONNRESET);
	ev = await(w.a, RIPC__EV_CLOSED);
	ck_assert_int_eq(ev.status, -ECONNRESET);
	OPS->dereg(tr_of(w.b), &remote);
	OPS->dereg(tr_of(w.a), &local);
	part(&w);
}
END_TEST

/*
 * One pass of a peer that sleeps whenever it may: then it does nothing until its descriptor is
 * readable.
 */
static void sleep_then_poll(struct shm *t, bool *asleep)
{
	struct pollfd p = {.fd = test_fd(OPS, tr_of(t)), .events = POLLIN};
	static uint64_t now = UINT64_C(1) << 40;
	uint64_t deadline = UINT64_MAX;
	struct ripc__event ev;

	if (*asleep && poll(&p, 1, 0) == 0)
		return;
	now += 1000000;
	*asleep = !OPS->progress(tr_of(t), &ev, 1, now, &deadline) && deadline == UINT64_MAX &&
		  !OPS->arm(tr_of(t));
}

/*
 * Memory that cannot be read directly is served by its owner, also if that sleeps whenever it may.
 */
START_TEST(read__served_by_sleeping_peer)
{
	uint8_t from[3000], to[3000] = {0};
	struct ripc__mr remote, local;
	struct ripc__event ev = {.kind = RIPC__EV_NONE};
	bool asleep = false;
	struct two w;

	join(&w);
	w.ea->ring.be.ops = &ripc__shm_unreadable_ops;
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 7);
	ck_assert_int_eq(OPS->reg(tr_of(w.b), w.eb, from, sizeof(from), readable, &remote), 0);
	ck_assert_int_eq(
		OPS->reg(tr_of(w.a), NULL, to, sizeof(to), RIPC__ACCESS_LOCAL_WRITE, &local), 0);
	for (int i = 0; i < 100 && !asleep; i++)
		sleep_then_poll(w.b, &asleep);
	ck_assert(asleep);
	ck_assert_int_eq(test_read(OPS, w.ea, &local, to, 3000, remote.addr, remote.key, 1), 0);
	for (int i = 0; i < 100 && ev.kind == RIPC__EV_NONE; i++) {
		sleep_then_poll(w.b, &asleep);
		ev = progress(w.a);
	}
	ck_assert_int_eq(ev.kind, RIPC__EV_READ_DONE);
	ck_assert_int_eq(ev.status, 0);
	ck_assert_mem_eq(from, to, sizeof(from));
	OPS->dereg(tr_of(w.b), &remote);
	OPS->dereg(tr_of(w.a), &local);
	part(&w);
}
END_TEST

/* A hostile peer writes at random into all its memory, during traffic. _i seeds. */
START_TEST(hostile__corrupts_segment)
{
	uint64_t rng = test_seed() + (uint64_t)_i;
	static uint8_t bytes[3000];
	struct iovec iov = {bytes, 0};
	struct ripc__mr mr;
	struct two w;

	join(&w);
	ck_assert_int_eq(OPS->reg(tr_of(w.a), w.ea, bytes, sizeof(bytes),
				  RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE, &mr),
			 0);
	for (int i = 0; i < 20000 && w.ea->state == RIPC__EP_OPEN; i++) {
		struct ripc__event ev[8] = {{0}};
		uint64_t r = test_random(&rng), deadline = UINT64_MAX;
		size_t at =
			r % 3 ? r / 8 % 8192
			      : r / 8 % (ripc__ring_segment_len(&shm_ep(w.eb)->ep.ring.layout) / 8);
		unsigned n;

		iov.iov_len = r >> 32 & 2047;
		OPS->post(r & 4 ? w.ea : w.eb, NULL, 0, &iov, 1, false);
		if (r % 7 == 0) {
			r = test_random(&rng);
			if (r & 1)
				r &= 0xff0f00ff00ffffff;
			memcpy(w.eb->ring.be.map + 8 * at, &r, 8);
		}
		n = OPS->progress(tr_of(w.a), ev, 8, 1, &deadline);
		for (unsigned k = 0; k < n; k++)
			if (ev[k].kind == RIPC__EV_RECV && ev[k].token)
				OPS->release(tr_of(w.a), ev[k].token);
		n = OPS->progress(tr_of(w.b), ev, 8, 1, &deadline);
		for (unsigned k = 0; k < n; k++)
			if (ev[k].kind == RIPC__EV_RECV && ev[k].token)
				OPS->release(tr_of(w.b), ev[k].token);
	}
	OPS->dereg(tr_of(w.a), &mr);
	part(&w);
}
END_TEST

/* Its kicks, and descriptors in them, cost it nothing but its own socket. */
START_TEST(hostile__kicks)
{
	unsigned before;
	struct two w;

	join(&w);
	before = test_descriptors();
	for (int i = 0; i < 50; i++) {
		raw_send(shm_ep(w.eb)->fd, "kick me", 7, 0);
		progress(w.a);
	}
	for (int i = 0; i < 50; i++)
		progress(w.a);
	ck_assert_uint_eq(test_descriptors(), before);
	ck_assert_int_eq(w.ea->state, RIPC__EP_OPEN);
	/* An empty packet counts as end of file, and its descriptor is closed. */
	raw_send(shm_ep(w.eb)->fd, "", 0, 0);
	await(w.a, RIPC__EV_CLOSED);
	ck_assert_uint_eq(test_descriptors(), before);
	part(&w);
}
END_TEST

/* After progress() has found the endpoint: short messages go into the room, others into slabs. */
START_TEST(poll_one__follows_last_rx)
{
	static uint8_t head[RIPC__POST_HEADER_LEN], data[3000], room[224];
	struct iovec item = {data, 64};
	struct ripc__event ev;
	struct two w;

	join(&w);
	/* Allocates the slab to receive into. */
	ck_assert_int_eq(OPS->post(w.ea, head, sizeof(head), &item, 1, false), 0);
	ev = await(w.b, RIPC__EV_RECV);
	ck_assert_uint_eq(ev.len, 100);
	OPS->release(tr_of(w.b), ev.token);
	ck_assert(!OPS->poll_one(tr_of(w.b), room, sizeof(room), &ev));
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7);
	for (size_t len = 0; len <= sizeof(data); len += 50) {
		head[0] = (uint8_t)len;
		item.iov_len = len;
		ck_assert_int_eq(OPS->post(w.ea, head, sizeof(head), &item, 1, false), 0);
		ck_assert(OPS->poll_one(tr_of(w.b), room, sizeof(room), &ev));
		ck_assert_int_eq(ev.kind, RIPC__EV_RECV);
		ck_assert_ptr_eq(ev.ep, w.eb);
		ck_assert_ptr_eq(ev.user, &w);
		ck_assert_uint_eq(ev.len, RIPC__POST_HEADER_LEN + len);
		ck_assert((ev.data == room) == !ev.token);
		ck_assert((ev.data == room) == (RIPC__POST_HEADER_LEN + len <= sizeof(room)));
		ck_assert(!memcmp(ev.data, head, RIPC__POST_HEADER_LEN));
		ck_assert(!memcmp(ev.data + RIPC__POST_HEADER_LEN, data, len));
		if (ev.token)
			OPS->release(tr_of(w.b), ev.token);
	}
	OPS->ep_close(w.eb);
	ck_assert(!OPS->poll_one(tr_of(w.b), room, sizeof(room), &ev));
	part(&w);
}
END_TEST

/* A memory object of len bytes with these seals, the first bytes of it written. */
static int object(off_t len, size_t filled, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	static const uint8_t page[4096];

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, len), 0);
	for (size_t at = 0; at < filled; at += sizeof(page))
		ck_assert_int_eq((int)pwrite(fd, page, sizeof(page), (off_t)at), (int)sizeof(page));
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

START_TEST(export__only_sealed_memory)
{
	const int good = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
	unsigned before = test_descriptors();
	struct ripc__event ev;
	struct two w;
	int bad[7], fd;

	bad[0] = object(65536, 65536, F_SEAL_GROW | F_SEAL_FUTURE_WRITE); /* could be shortened */
	/* could get holes */
	bad[1] = object(65536, 65536, F_SEAL_SHRINK | F_SEAL_GROW);
	bad[2] = object(32768, 32768, good); /* shorter than announced */
	bad[3] = object(65536, 61440, good); /* with a hole */
	bad[4] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	bad[5] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	bad[6] = open("/", O_RDONLY | O_CLOEXEC);
	fd = object(65536, 65536, good);
	join(&w);
	for (unsigned i = 0; i < 7; i++)
		ck_assert_int_eq(ripc__shm_export(w.ea, bad[i], 65536, i), 0);
	ck_assert_int_eq(ripc__shm_export(w.ea, fd, 0, 7), 0);
	ck_assert_int_eq(ripc__shm_export(w.ea, fd, SIZE_MAX, 8), -EMSGSIZE);
	ck_assert_int_eq(ripc__shm_export(w.ea, fd, 65537, 8), 0);
	/* Packets of other kinds, with a descriptor or without. */
	raw_send(shm_ep(w.ea)->fd, "ripchnd1", 8, fd);
	raw_send(shm_ep(w.ea)->fd, "ripchnd1ripchnd1ripchnd2", 24, -1);
	raw_send(shm_ep(w.ea)->fd, "ripchnd2ripchnd1ripchnd1", 24, fd);
	raw_send(shm_ep(w.ea)->fd, "ripchnd1ripchnd1ripchnd1andmore", 31, fd);
	/* None of them is reported; the valid one after them is. */
	ck_assert_int_eq(ripc__shm_export(w.ea, fd, 65536, 9), 0);
	ev = await(w.b, RIPC__EV_IMPORTED);
	ck_assert_uint_eq(ev.wr_id, 9);
	ck_assert_uint_eq(ev.size, 65536);
	ck_assert_ptr_eq(ev.user, &w);
	ck_assert_int_lt(mprotect((void *)(uintptr_t)ev.data, ev.size, PROT_READ | PROT_WRITE), 0);
	munmap((void *)(uintptr_t)ev.data, ev.size);
	close(ev.status);
	for (unsigned i = 0; i < 7; i++)
		close(bad[i]);
	close(fd);
	part(&w);
	ck_assert_uint_eq(test_descriptors(), before);
}
END_TEST

START_TEST(export__not_supported_by_peer)
{
	int fd = object(65536, 65536, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
	struct two w;

	join(&w);
	w.b->zero_copy = false;
	ck_assert_int_eq(ripc__shm_export(w.ea, fd, 65536, 1), 0);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_eq(progress(w.b).kind, RIPC__EV_NONE);
	close(fd);
	part(&w);
}
END_TEST

/*
 * A message that wakes a sleeper is received before its kick, which the next pass reads; traffic
 * delays it no longer.
 */
START_TEST(progress__message_before_kick)
{
	struct iovec iov = {"message", 7};
	struct ripc__event ev;
	struct pollfd p;
	struct two w;

	join(&w);
	p = (struct pollfd){.fd = test_fd(OPS, tr_of(w.a)), .events = POLLIN};
	for (int i = 0; i < 2; i++) {
		while (OPS->arm(tr_of(w.a)))
			progress(w.a);
		ck_assert_int_eq(poll(&p, 1, 0), 0);
		ck_assert_int_eq(OPS->post(w.eb, NULL, 0, &iov, 1, false), 0);
		ck_assert_int_eq(poll(&p, 1, 10000), 1);
		ev = progress(w.a);
		ck_assert_int_eq(ev.kind, RIPC__EV_RECV);
		OPS->release(tr_of(w.a), ev.token);
		/* It must not sleep now: the kick would wake it at once. */
		ck_assert_int_eq(poll(&p, 1, 0), 1);
		ck_assert_int_eq(OPS->arm(tr_of(w.a)), 1);
		if (i)
			ck_assert_int_eq(OPS->post(w.eb, NULL, 0, &iov, 1, false), 0);
		ev = progress(w.a);
		ck_assert_int_eq(ev.kind, i ? RIPC__EV_RECV : RIPC__EV_NONE);
		if (i)
			OPS->release(tr_of(w.a), ev.token);
		ck_assert_int_eq(poll(&p, 1, 0), 0);
	}
	part(&w);
}
END_TEST

/* Unreleased messages do not stop later ones. */
START_TEST(progress__no_slabs)
{
	struct iovec iov = {"message", 7};
	struct ripc__event ev;
	unsigned held = 0;
	void *token = NULL;
	struct two w;

	join(&w);
	w.a->r.pool.max = RIPC__SLAB_BYTES;
	/* All slabs are in use, and messages still arrive. */
	for (int i = 0, without = 0; without < 100; i++) {
		ck_assert_int_lt(i, 10000);
		ck_assert_int_eq(OPS->post(w.eb, NULL, 0, &iov, 1, false), 0);
		ev = await(w.a, RIPC__EV_RECV);
		ck_assert(!memcmp(ev.data, "message", 7));
		without += !ev.token;
		if (ev.token) {
			token = ev.token;
			held++;
		}
	}
	ck_assert_uint_gt(held, 1000);
	while (held--)
		OPS->release(tr_of(w.a), token);
	ck_assert_int_eq(OPS->post(w.eb, NULL, 0, &iov, 1, false), 0);
	ev = await(w.a, RIPC__EV_RECV);
	ck_assert_ptr_nonnull(ev.token);
	OPS->release(tr_of(w.a), ev.token);
	part(&w);
}
END_TEST

/*
 * A process that was just forked or spawned still has the socket of a connection that is closed
 * meanwhile. The freed endpoint has no event when the peer closes its end.
 */
START_TEST(close__socket_open_in_a_child)
{
	struct epoll_event ev;
	struct two w;
	int child;

	join(&w);
	child = dup(shm_ep(w.eb)->fd);
	ck_assert_int_ge(child, 0);
	OPS->ep_close(w.eb);
	OPS->ep_close(w.ea);
	ck_assert_int_eq(epoll_wait(w.b->r.fd, &ev, 1, 0), 0);
	ck_assert_int_eq(progress(w.b).kind, RIPC__EV_NONE);
	close(child);
	part(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/shm/shm");
	TCase *c = tcase_create("shm");

	test_seed();
	tcase_set_timeout(c, 120);
	tcase_add_test(c, read__direct);
	tcase_add_test(c, read__ended_peer_with_kicks);
	tcase_add_test(c, read__served_by_sleeping_peer);
	tcase_add_loop_test(c, hostile__corrupts_segment, 0, 30);
	tcase_add_test(c, hostile__kicks);
	tcase_add_test(c, poll_one__follows_last_rx);
	tcase_add_test(c, export__only_sealed_memory);
	tcase_add_test(c, export__not_supported_by_peer);
	tcase_add_test(c, progress__message_before_kick);
	tcase_add_test(c, progress__no_slabs);
	tcase_add_test(c, close__socket_open_in_a_child);
	suite_add_tcase(s, c);
	return test_main("transport/shm/shm", s);
}
