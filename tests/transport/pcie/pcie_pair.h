/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the tests of pcie: contexts with one memory, which is a file. Virtual time. */
#ifndef RIPC_TESTS_TRANSPORT_PCIE_PCIE_PAIR_H
#define RIPC_TESTS_TRANSPORT_PCIE_PCIE_PAIR_H

#include "harness.h"
#include "ripc.h"
#include "transport/pcie/pcie.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPS   (&ripc__transport_pcie)
#define BYTES ((size_t)4 << 20)

static char path[64];
static struct ripc__options options;
static uint64_t now = 1;

/* Fixture: the file, without a context. */
static inline void setup(void)
{
	int fd;

	strcpy(path, "/dev/shm/ripc-test-pcie.XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, BYTES), 0);
	close(fd);
	strcpy(options.pcie_device, path);
	options.peer_timeout_ms = 2000;
}

static inline void teardown(void)
{
	unlink(path);
}

struct pcie_case {
	const char *name;
	const TTest *test;
};

/* Runs the cases, each with a file of its own. Return: of main(). */
static inline int pcie_main(const char *name, const struct pcie_case *cases, unsigned n)
{
	Suite *suite = suite_create(name);

	for (unsigned i = 0; i < n; i++) {
		TCase *tc = tcase_create(cases[i].name);

		tcase_set_timeout(tc, 300);
		tcase_add_checked_fixture(tc, setup, teardown);
		tcase_add_test(tc, cases[i].test);
		suite_add_tcase(suite, tc);
	}
	return test_main(name, suite);
}

static inline struct ripc__transport *tr_of(struct pcie *t)
{
	return &t->r;
}

static inline struct pcie *open_pcie(void)
{
	static const uint8_t instance[16];
	struct ripc__transport_env env = {.opt = &options, .instance = instance};
	struct ripc__transport *t = NULL;

	ck_assert_int_eq(OPS->open(&t, &env), 0);
	return (struct pcie *)t;
}

static inline void close_pcie(struct pcie *t)
{
	OPS->close(tr_of(t));
}

static inline struct ripc__event progress(struct pcie *t)
{
	struct ripc__event ev = {.kind = RIPC__EV_NONE};
	uint64_t deadline = UINT64_MAX;

	now += 1000000;
	OPS->progress(tr_of(t), &ev, 1, now, &deadline);
	/* Without interrupts, the deadline bounds each sleep. */
	ck_assert_uint_le(deadline, now + 10000000);
	return ev;
}

static inline struct ripc__event await(struct pcie *t, enum ripc__ev_kind kind)
{
	for (int i = 0; i < 100000; i++) {
		struct ripc__event ev = progress(t);

		if (ev.kind == kind)
			return ev;
		ck_assert_int_eq(ev.kind, RIPC__EV_NONE);
	}
	ck_abort_msg("event %d does not come", kind);
	return (struct ripc__event){0};
}

static inline struct ripc__ep *call(struct pcie *from, struct pcie *to)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	int len = OPS->address(tr_of(to), addr, sizeof(addr));
	struct ripc__ep *ep = NULL;

	ck_assert_int_gt(len, 0);
	ck_assert_int_eq(OPS->connect(tr_of(from), addr, (size_t)len, "hello", 5, NULL, &ep), 0);
	return ep;
}

struct two {
	struct pcie *a, *b;
	struct ripc__ep *ea, *eb;
};

static inline void connect_two(struct two *w)
{
	struct ripc__event ev;

	w->ea = call(w->a, w->b);
	ev = await(w->b, RIPC__EV_REQUEST);
	ck_assert_uint_eq(ev.len, 5);
	ck_assert_mem_eq(ev.data, "hello", 5);
	ck_assert_int_eq(OPS->accept(tr_of(w->b), ev.request, "welcome", 7, NULL, &w->eb), 0);
	await(w->b, RIPC__EV_ESTABLISHED);
	ev = await(w->a, RIPC__EV_ESTABLISHED);
	ck_assert_uint_eq(ev.len, 7);
	ck_assert_mem_eq(ev.data, "welcome", 7);
}

static inline void open_two(struct two *w)
{
	w->a = open_pcie();
	w->b = open_pcie();
	connect_two(w);
}

static inline int post(struct ripc__ep *ep, const void *bytes, size_t len)
{
	struct iovec iov = {(void *)(uintptr_t)bytes, len};

	return OPS->post(ep, NULL, 0, &iov, 1, false);
}

static inline void pass(struct two *w, const char *text)
{
	struct ripc__event ev;

	ck_assert_int_eq(post(w->ea, text, strlen(text)), 0);
	ev = await(w->b, RIPC__EV_RECV);
	ck_assert_ptr_eq(ev.ep, w->eb);
	ck_assert_uint_eq(ev.len, strlen(text));
	ck_assert_mem_eq(ev.data, text, ev.len);
	if (ev.token)
		OPS->release(tr_of(w->b), ev.token);
}

#endif
