/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* shm: kicks over an eventfd in place of the socket, and peers that pass something else. */
#define _GNU_SOURCE
#include "shm_pair.h"
#include "wire/bytes.h"
#include "transport/transfer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x3165626863706972)

static unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static bool readable(struct shm *t, int timeout_ms)
{
	struct pollfd p = {.fd = test_fd(OPS, tr_of(t)), .events = POLLIN};

	return poll(&p, 1, timeout_ms) == 1;
}

/* Bytes in the socket of an endpoint. */
static int in_socket(struct ripc__ep *ep)
{
	int n = -1;

	ck_assert_int_eq(ioctl(shm_ep(ep)->fd, FIONREAD, &n), 0);
	return n;
}

/* Context b sleeps, and a message of a wakes it. */
static void wake(struct two *w)
{
	struct iovec item = {"hello", 5};
	struct ripc__event ev;

	for (int i = 0; i < 100 && (OPS->arm(tr_of(w->b)) || readable(w->b, 0)); i++)
		ck_assert_int_eq(progress(w->b).kind, RIPC__EV_NONE);
	ck_assert(!readable(w->b, 0));
	ck_assert_int_eq(OPS->post(w->ea, NULL, 0, &item, 1, false), 0);
	ck_assert(readable(w->b, 10000));
	ev = await(w->b, RIPC__EV_RECV);
	ck_assert_ptr_eq(ev.ep, w->eb);
	OPS->release(tr_of(w->b), ev.token);
	/* Takes what b has sent to it. */
	ck_assert_int_eq(progress(w->a).kind, RIPC__EV_NONE);
}

static void make_doorbell(struct two *w)
{
	for (unsigned i = 0; i < SHM_DOORBELL_AFTER + 2; i++)
		wake(w);
	ck_assert_int_ge(shm_ep(w->eb)->doorbell, 0);
	ck_assert_int_ge(shm_ep(w->ea)->peer_doorbell, 0);
}

START_TEST(ring__wakes_without_socket)
{
	struct two w;

	join(&w);
	for (unsigned i = 0; i + 1 < SHM_DOORBELL_AFTER; i++)
		wake(&w);
	ck_assert_int_eq(shm_ep(w.ea)->peer_doorbell, -1);
	make_doorbell(&w);
	for (int i = 0; i < 100; i++) {
		wake(&w);
		ck_assert_int_eq(in_socket(w.eb), 0);
	}
	/* An idle endpoint becomes active. */
	for (int i = 0; i < 100 && !w.eb->idle; i++) {
		ck_assert_int_eq(progress(w.b).kind, RIPC__EV_NONE);
		OPS->arm(tr_of(w.b));
	}
	ck_assert(w.eb->idle);
	wake(&w);
	ck_assert(!w.eb->idle);
	part(&w);
}
END_TEST

/* A peer that fills the counter, and lets writes to it wait, stops nobody. */
START_TEST(ring__does_not_wait)
{
	uint64_t most = UINT64_MAX - 2;
	struct two w;
	int fd;

	join(&w);
	make_doorbell(&w);
	fd = shm_ep(w.eb)->doorbell;
	ck_assert_int_eq(write(fd, &most, sizeof(most)), sizeof(most));
	ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
	for (int i = 0; i < 10; i++)
		ripc__shm_doorbell_ring(shm_ep(w.ea));
	wake(&w);
	part(&w);
}
END_TEST

START_TEST(take__refuses_others)
{
	uint8_t packet[8];
	int fds[2], other, waits;
	unsigned nopen;
	struct two w;

	join(&w);
	ripc__put_le64(packet, MAGIC);
	ck_assert_int_eq(pipe(fds), 0);
	other = open("/dev/null", O_RDWR);
	waits = eventfd(1, 0);
	nopen = descriptors();
	raw_send(shm_ep(w.ea)->fd, packet, sizeof(packet), fds[1]);
	raw_send(shm_ep(w.ea)->fd, packet, sizeof(packet), other);
	raw_send(shm_ep(w.ea)->fd, packet, sizeof(packet), waits);
	raw_send(shm_ep(w.ea)->fd, packet, sizeof(packet), -1);
	raw_send(shm_ep(w.ea)->fd, packet, 7, waits);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(progress(w.b).kind, RIPC__EV_NONE);
	ck_assert_int_eq(in_socket(w.eb), 0);
	ck_assert_int_eq(shm_ep(w.eb)->peer_doorbell, -1);
	ck_assert_uint_eq(descriptors(), nopen);
	/* One is taken, a second one is not. */
	ck_assert_int_eq(fcntl(waits, F_SETFL, O_NONBLOCK), 0);
	for (int k = 0; k < 2; k++) {
		raw_send(shm_ep(w.ea)->fd, packet, sizeof(packet), waits);
		for (int i = 0; i < 10; i++)
			ck_assert_int_eq(progress(w.b).kind, RIPC__EV_NONE);
		ck_assert_int_ge(shm_ep(w.eb)->peer_doorbell, 0);
		ck_assert_uint_eq(descriptors(), nopen + 1);
	}
	part(&w);
	close(fds[0]);
	close(fds[1]);
	close(other);
	close(waits);
}
END_TEST

START_TEST(kicked__bounded)
{
	struct two w;

	join(&w);
	w.b->doorbells = SHM_DOORBELLS_MAX;
	for (unsigned i = 0; i < 3 * SHM_DOORBELL_AFTER; i++)
		wake(&w);
	ck_assert_int_eq(shm_ep(w.eb)->doorbell, -1);
	w.b->doorbells = 0;
	part(&w);
}
END_TEST

START_TEST(close__leaves_nothing)
{
	unsigned before = descriptors();
	struct two w;

	join(&w);
	make_doorbell(&w);
	/* The peer still has it open when the endpoint of b is freed: no event names it. */
	OPS->ep_close(w.eb);
	for (int i = 0; i < 10; i++) {
		ripc__shm_doorbell_ring(shm_ep(w.ea));
		ck_assert_int_eq(progress(w.b).kind, RIPC__EV_NONE);
	}
	ck_assert_uint_eq(w.b->doorbells, 0);
	OPS->ep_close(w.ea);
	progress(w.a);
	ck_assert_uint_eq(w.a->peer_doorbells, 0);
	part(&w);
	ck_assert_uint_eq(descriptors(), before);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/shm/doorbell");
	TCase *tc = tcase_create("doorbell");

	tcase_add_test(tc, ring__wakes_without_socket);
	tcase_add_test(tc, ring__does_not_wait);
	tcase_add_test(tc, take__refuses_others);
	tcase_add_test(tc, kicked__bounded);
	tcase_add_test(tc, close__leaves_nothing);
	suite_add_tcase(s, tc);
	return test_main("transport/shm/doorbell", s);
}
