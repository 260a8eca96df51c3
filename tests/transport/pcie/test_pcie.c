/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* pcie: the transport over a file, its interrupts, and hostile contexts. */
#define _GNU_SOURCE
#include "pcie_pair.h"
#include "wire/bytes.h"
#include "transport/transfer.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

/* The holes of the file cannot all be filled: open() fails, instead of a signal later. */
START_TEST(open__no_space_for_file)
{
	struct ripc__transport_env env = {.opt = &options};
	struct ripc__transport *t = NULL;
	int fd;

	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/dev/shm", "tmpfs", 0, "size=1m")) {
		test_skip("no mount namespace can be made here");
		return;
	}
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, BYTES), 0);
	close(fd);
	ck_assert_int_eq(OPS->open(&t, &env), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), path));
	unlink(path);
}
END_TEST

START_TEST(connect__and_close)
{
	struct two w;

	open_two(&w);
	/* The same blocks are used many times. */
	for (unsigned i = 0; i < 200; i++) {
		pass(&w, "there");
		OPS->ep_close(i % 2 ? w.ea : w.eb);
		await(i % 2 ? w.b : w.a, RIPC__EV_CLOSED);
		OPS->ep_close(i % 2 ? w.eb : w.ea);
		connect_two(&w);
	}
	close_pcie(w.a);
	await(w.b, RIPC__EV_CLOSED);
	close_pcie(w.b);
}
END_TEST

START_TEST(connect__refused)
{
	struct two w = {open_pcie(), open_pcie(), NULL, NULL};
	struct ripc__event ev;

	w.ea = call(w.a, w.b);
	ev = await(w.b, RIPC__EV_REQUEST);
	OPS->reject(tr_of(w.b), ev.request, "no", 2);
	ev = await(w.a, RIPC__EV_CLOSED);
	ck_assert_int_eq(ev.status, -ECONNREFUSED);
	ck_assert(ev.reject);
	ck_assert_uint_eq(ev.len, 2);
	ck_assert_mem_eq(ev.data, "no", 2);
	OPS->ep_close(w.ea);
	/* A peer may leave before it is answered. */
	OPS->ep_close(call(w.a, w.b));
	w.ea = call(w.a, w.b);
	ev = await(w.b, RIPC__EV_REQUEST);
	OPS->ep_close(w.ea);
	ck_assert_int_eq(OPS->accept(tr_of(w.b), ev.request, "", 0, NULL, &w.eb), -ECONNRESET);
	connect_two(&w);
	pass(&w, "still");
	close_pcie(w.a);
	close_pcie(w.b);
}
END_TEST

START_TEST(connect__unreachable_address)
{
	struct two w = {open_pcie(), open_pcie(), NULL, NULL};
	struct ripc__transport *a = tr_of(w.a);
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct ripc__ep *ep;
	char text[200];
	int len = OPS->address(tr_of(w.b), addr, sizeof(addr));

	OPS->describe(addr, (size_t)len, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "memory "));
	for (int i = 0; i < len; i++) {
		ck_assert_int_eq(OPS->connect(a, addr, (size_t)i, "", 0, NULL, &ep), -EINVAL);
		OPS->describe(addr, (size_t)i, text, sizeof(text));
	}
	addr[4] ^= 1;
	ck_assert_int_eq(OPS->connect(a, addr, (size_t)len, "", 0, NULL, &ep), -EHOSTUNREACH);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "another memory"));
	addr[4] ^= 1;
	/* Any entry and number. */
	for (unsigned i = 0; i < 256; i++) {
		addr[20] ^= (uint8_t)i;
		if (i)
			ck_assert_int_lt(OPS->connect(a, addr, (size_t)len, "", 0, NULL, &ep), 1);
		addr[20] ^= (uint8_t)i;
	}
	addr[22]++;
	ck_assert_int_eq(OPS->connect(a, addr, (size_t)len, "", 0, NULL, &ep), -ECONNREFUSED);
	addr[22]--;
	close_pcie(w.b);
	ck_assert_int_eq(OPS->connect(a, addr, (size_t)len, "", 0, NULL, &ep), -ECONNREFUSED);
	close_pcie(w.a);
}
END_TEST

START_TEST(connect__no_free_block)
{
	struct two w = {open_pcie(), open_pcie(), NULL, NULL};
	struct ripc__transport *a = tr_of(w.a);
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct ripc__ep *ep;
	int len = OPS->address(tr_of(w.b), addr, sizeof(addr)), rc;
	unsigned n = 0;

	while (!(rc = OPS->connect(a, addr, (size_t)len, "", 0, NULL, &ep)))
		n++;
	ck_assert_int_eq(rc, -ENOSPC);
	ck_assert_uint_eq(n, w.a->memory.nblocks);
	while ((ep = ripc__list_first_entry(&w.a->r.eps, struct ripc__ep, link)))
		OPS->ep_close(ep);
	for (struct ripc__event ev; (ev = progress(w.b)).kind != RIPC__EV_NONE;)
		OPS->reject(tr_of(w.b), ev.request, NULL, 0);
	connect_two(&w);
	pass(&w, "again");
	close_pcie(w.a);
	close_pcie(w.b);
}
END_TEST

/* Random contents of the memory cost nothing but connections. */
START_TEST(memory__corrupted)
{
	uint64_t rng = test_seed();

	for (unsigned round = 0; round < 300; round++) {
		struct two w;
		uint8_t *base;

		open_two(&w);
		base = w.a->memory.base;
		for (unsigned i = 0; i < 400; i++) {
			struct pcie *t = test_random(&rng) & 1 ? w.a : w.b;
			struct ripc__event ev = progress(t);
			uint64_t r = test_random(&rng);
			size_t at = r % 8 < 3   ? test_random(&rng) % 4096
				    : r % 8 < 7 ? test_random(&rng) % 65536
						: test_random(&rng) % BYTES;

			/* Often a small number, a bit, or another word of the memory. */
			at &= ~(size_t)7;
			if (round % 3 == 0)
				ripc__put_le64(base + at, test_random(&rng) >> (r >> 8 & 63));
			else if (round % 3 == 1)
				base[at + (r >> 8 & 7)] ^= (uint8_t)(1u << (r >> 11 & 7));
			else
				*(uint64_t *)(void *)(base + at) =
					*(uint64_t *)(void *)(base + (r >> 8) % 65536 / 8 * 8);
			if (ev.kind == RIPC__EV_REQUEST)
				OPS->reject(tr_of(t), ev.request, "", 0);
			else if (ev.kind == RIPC__EV_RECV && ev.token)
				OPS->release(tr_of(t), ev.token);
			if (w.ea->state == RIPC__EP_OPEN)
				post(w.ea, base, test_random(&rng) % 1000);
		}
		close_pcie(w.a);
		close_pcie(w.b);
		ck_assert_int_eq(truncate(path, 0), 0);
		ck_assert_int_eq(truncate(path, BYTES), 0);
	}
}
END_TEST

/* ---- interrupts: files replace the registers, and the test replaces the device ---- */

static void give_doorbell(struct pcie *t, uint16_t id)
{
	t->doorbell.device = memfd_create("registers", MFD_CLOEXEC);
	t->doorbell.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ck_assert_int_ge(t->doorbell.device, 0);
	ck_assert_int_ge(t->doorbell.event, 0);
	t->doorbell.id = id;
	ripc__pcie_set_doorbell(&t->memory, ripc__pcie_doorbell_word(&t->doorbell));
}

/* The receiver of the interrupt since the last call; -1: none. */
static int notified_by(const struct pcie *t)
{
	uint8_t bytes[4] = {0};
	ssize_t n = pread(t->doorbell.device, bytes, sizeof(bytes), 12);

	ck_assert_int_eq(ftruncate(t->doorbell.device, 0), 0);
	if (n <= 0)
		return -1;
	ck_assert_int_eq(n, 4);
	/* The vector. */
	ck_assert_uint_eq(bytes[0] | bytes[1] << 8, 0);
	return bytes[2] | bytes[3] << 8;
}

/* The longest sleep that progress() allows. */
static uint64_t sleep_ns_of(struct pcie *t)
{
	uint64_t deadline = UINT64_MAX;
	struct ripc__event ev;

	now += RIPC__PCIE_HEARTBEAT_NS;
	ck_assert_uint_eq(OPS->progress(tr_of(t), &ev, 1, now, &deadline), 0);
	return deadline - now;
}

static int arm(struct pcie *t)
{
	return OPS->arm(tr_of(t));
}

START_TEST(doorbell__bounds_sleep)
{
	struct two w;

	open_two(&w);
	ck_assert_int_eq(test_fd(OPS, tr_of(w.b)), -1);
	ck_assert_uint_le(sleep_ns_of(w.b), 10000000);
	/* It can receive, but the peer cannot send. */
	give_doorbell(w.b, 2);
	ck_assert_uint_le(sleep_ns_of(w.b), 10000000);
	sleep_ns_of(w.a);
	give_doorbell(w.a, 1);
	ck_assert_uint_eq(sleep_ns_of(w.b), RIPC__PCIE_HEARTBEAT_NS);
	sleep_ns_of(w.a);
	/* It cannot send any more. */
	ripc__pcie_set_doorbell(&w.a->memory, 0);
	ck_assert_uint_le(sleep_ns_of(w.b), 10000000);
	close_pcie(w.a);
	close_pcie(w.b);
}
END_TEST

START_TEST(doorbell__once_per_sleep)
{
	const uint64_t one = 1;
	struct two w;

	open_two(&w);
	give_doorbell(w.a, 1);
	give_doorbell(w.b, 700);
	sleep_ns_of(w.a);
	sleep_ns_of(w.b);
	ck_assert_int_eq(notified_by(w.a), -1);
	pass(&w, "awake");
	ck_assert_int_eq(notified_by(w.a), -1);
	for (unsigned i = 0; i < 10; i++) {
		struct pollfd fd = {.fd = w.b->doorbell.event, .events = POLLIN};

		ck_assert_int_eq(arm(w.b), 0);
		ck_assert_int_eq(post(w.ea, "wake", 4), 0);
		ck_assert_int_eq(notified_by(w.a), 700);
		ck_assert_int_eq(post(w.ea, "up", 2), 0);
		ck_assert_int_eq(notified_by(w.a), -1);
		/* A message has arrived: it must not sleep. */
		ck_assert_int_eq(arm(w.b), 1);
		ck_assert_int_eq(write(w.b->doorbell.event, &one, sizeof(one)), sizeof(one));
		for (unsigned k = 0; k < 2; k++) {
			struct ripc__event ev = await(w.b, RIPC__EV_RECV);

			if (ev.token)
				OPS->release(tr_of(w.b), ev.token);
		}
		ck_assert_int_eq(poll(&fd, 1, 0), 0);
	}
	close_pcie(w.a);
	close_pcie(w.b);
}
END_TEST

START_TEST(doorbell__on_connect)
{
	struct two w = {open_pcie(), open_pcie(), NULL, NULL};
	struct ripc__event ev;

	give_doorbell(w.a, 1);
	give_doorbell(w.b, 2);
	ck_assert_int_eq(arm(w.b), 0);
	w.ea = call(w.a, w.b);
	ck_assert_int_eq(notified_by(w.a), 2);
	ck_assert_int_eq(arm(w.b), 1);
	ev = await(w.b, RIPC__EV_REQUEST);
	OPS->reject(tr_of(w.b), ev.request, "", 0);
	ck_assert_int_eq(notified_by(w.b), 1);
	await(w.a, RIPC__EV_CLOSED);
	OPS->ep_close(w.ea);
	connect_two(&w);
	ck_assert_int_eq(notified_by(w.b), 1);
	/* Any word. */
	ripc__pcie_doorbell_ring(&w.a->doorbell, UINT64_MAX);
	ck_assert_int_eq(notified_by(w.a), UINT16_MAX);
	ripc__pcie_doorbell_ring(&w.a->doorbell, ~RIPC__PCIE_DOORBELL_RECV);
	ck_assert_int_eq(notified_by(w.a), -1);
	/* A child closes its descriptors. */
	OPS->forked(tr_of(w.b));
	ck_assert_int_eq(w.b->doorbell.event, -1);
	close_pcie(w.a);
	close_pcie(w.b);
}
END_TEST

/* A cleared interrupt of a lost entry must not keep it awake. */
START_TEST(doorbell__after_lost_entry)
{
	const uint64_t one = 1;
	struct pollfd fd = {.events = POLLIN};
	struct two w;

	open_two(&w);
	give_doorbell(w.b, 2);
	fd.fd = w.b->doorbell.event;
	ripc__pcie_entry_release(&(struct ripc__pcie_memory){
		.base = w.b->memory.base, .entry = w.b->memory.entry, .ref = w.b->memory.ref});
	now += RIPC__PCIE_HEARTBEAT_NS;
	ck_assert_int_eq(progress(w.b).kind, RIPC__EV_BAD_INPUT);
	await(w.b, RIPC__EV_CLOSED);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(arm(w.b), 0);
		ck_assert_int_eq(write(fd.fd, &one, sizeof(one)), sizeof(one));
		ck_assert_int_eq(poll(&fd, 1, 0), 1);
		ck_assert_int_eq(progress(w.b).kind, RIPC__EV_NONE);
		ck_assert_int_eq(poll(&fd, 1, 0), 0);
	}
	OPS->ep_close(w.eb);
	close_pcie(w.b);
	close_pcie(w.a);
}
END_TEST

START_TEST(doorbell__none_for_file)
{
	struct ripc__pcie_doorbell d;
	char why[100] = "";

	ripc__pcie_doorbell_init(&d);
	ck_assert_int_lt(ripc__pcie_doorbell_open(&d, path, why, sizeof(why)), 0);
	ck_assert(why[0]);
	ck_assert_int_lt(ripc__pcie_doorbell_open(&d, "/nowhere/resource2", why, sizeof(why)), 0);
	ck_assert_ptr_nonnull(strstr(why, "vfio-pci"));
	ck_assert_uint_eq(ripc__pcie_doorbell_word(&d), 0);
	ripc__pcie_doorbell_ring(&d, UINT64_MAX);
	ck_assert(!ripc__pcie_doorbell_clear(&d));
	ripc__pcie_doorbell_close(&d);
}
END_TEST

int main(void)
{
	const struct pcie_case cases[] = {
		{"open__no_space_for_file", open__no_space_for_file},
		{"connect__and_close", connect__and_close},
		{"connect__refused", connect__refused},
		{"connect__unreachable_address", connect__unreachable_address},
		{"connect__no_free_block", connect__no_free_block},
		{"memory__corrupted", memory__corrupted},
		{"doorbell__bounds_sleep", doorbell__bounds_sleep},
		{"doorbell__once_per_sleep", doorbell__once_per_sleep},
		{"doorbell__on_connect", doorbell__on_connect},
		{"doorbell__after_lost_entry", doorbell__after_lost_entry},
		{"doorbell__none_for_file", doorbell__none_for_file},
	};

	return pcie_main("transport/pcie/pcie", cases, sizeof(cases) / sizeof(cases[0]));
}
