/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* pcie: contexts that are killed, or stopped until others take their entry. */
#define _GNU_SOURCE
#include "pcie_pair.h"

/* The peer seems to be killed: it does nothing any more. */
START_TEST(peer__dies)
{
	struct two w;
	struct ripc__event ev;

	open_two(&w);
	pass(&w, "alive");
	ck_assert_int_eq(post(w.eb, "last words", 10), 0);
	ev = await(w.a, RIPC__EV_RECV);
	if (ev.token)
		OPS->release(tr_of(w.a), ev.token);
	ev = await(w.a, RIPC__EV_CLOSED);
	ck_assert_int_eq(ev.status, -ECONNRESET);
	ck_assert_ptr_nonnull(strstr(ev.text, "no sign of life"));
	ck_assert_int_eq(post(w.ea, "", 0), -ENOTCONN);
	OPS->ep_close(w.ea);
	close_pcie(w.a);
	close_pcie(w.b);
}
END_TEST

/* A context that stood still until another one got its entry writes nothing any more. */
START_TEST(entry__lost)
{
	struct two w;
	struct ripc__event ev;
	uint8_t *before = malloc(BYTES);

	open_two(&w);
	ripc__pcie_entry_release(&(struct ripc__pcie_memory){
		.base = w.b->memory.base, .entry = w.b->memory.entry, .ref = w.b->memory.ref});
	now += RIPC__PCIE_HEARTBEAT_NS;
	ev = progress(w.b);
	ck_assert_int_eq(ev.kind, RIPC__EV_BAD_INPUT);
	memcpy(before, w.a->memory.base, BYTES);
	ck_assert_int_le(post(w.eb, "lost", 4), 0);
	ev = await(w.b, RIPC__EV_CLOSED);
	ck_assert_int_eq(ev.status, -ECONNRESET);
	OPS->ep_close(w.eb);
	close_pcie(w.b);
	ck_assert(!memcmp(before, w.a->memory.base, BYTES));
	await(w.a, RIPC__EV_CLOSED);
	close_pcie(w.a);
	free(before);
}
END_TEST

/* b goes on alone until the silent context a has lost its entry, and closes its connection. */
static void outlive(struct two *w)
{
	bool closed = false;

	for (unsigned i = 0; i < 310; i++) {
		now += RIPC__PCIE_HEARTBEAT_NS;
		if (progress(w->b).kind != RIPC__EV_CLOSED)
			continue;
		OPS->ep_close(w->eb);
		closed = true;
	}
	ck_assert(closed);
	ck_assert(!ripc__pcie_alive(&w->b->memory, w->a->memory.ref, UINT64_MAX));
}

/*
 * A context was stopped until its entry was taken away, and goes on with this call: it writes
 * nothing. Its clock may have been stopped as well.
 */
static void stop_and_continue(unsigned then)
{
	struct two w, other;
	struct ripc__event ev;
	uint8_t *before = malloc(BYTES);
	uint64_t stopped_ns;

	open_two(&w);
	pass(&w, "before");
	stopped_ns = now;
	outlive(&w);
	other = (struct two){open_pcie(), w.b, NULL, NULL};
	connect_two(&other);
	/* It may have been stopped while it was copying into this block. */
	ck_assert_uint_ne(pcie_ep(other.ea)->in, pcie_ep(w.ea)->out);
	ck_assert_uint_ne(pcie_ep(other.eb)->in, pcie_ep(w.ea)->out);
	memcpy(before, w.b->memory.base, BYTES);
	now = stopped_ns;
	if (then == 0)
		ck_assert_int_eq(post(w.ea, "late", 4), -ENOTCONN);
	if (then == 1)
		OPS->arm(tr_of(w.a));
	if (then == 2) {
		OPS->ep_close(w.ea);
	} else if (then < 4) {
		ev = await(w.a, RIPC__EV_BAD_INPUT);
		ck_assert_ptr_nonnull(strstr(ev.text, "entry"));
		await(w.a, RIPC__EV_CLOSED);
		OPS->ep_close(w.ea);
	}
	close_pcie(w.a);
	ck_assert(!memcmp(before, w.b->memory.base, BYTES));
	now = stopped_ns + 100 * RIPC__PCIE_EVICT_NS;
	pass(&other, "after");
	close_pcie(other.a);
	close_pcie(other.b);
	free(before);
}

START_TEST(peer__stopped_and_continued)
{
	for (unsigned then = 0; then <= 4; then++)
		stop_and_continue(then);
}
END_TEST

/*
 * A context lost its entry while it was stopped. When its connections are closed, it gets another
 * one, reports its new address, and can be reached and connect again.
 */
START_TEST(peer__rejoins)
{
	uint8_t before[RIPC__ADDRESS_MAX], after[RIPC__ADDRESS_MAX];
	struct two w, back;
	int len;

	open_two(&w);
	len = OPS->address(tr_of(w.a), before, sizeof(before));
	outlive(&w);
	ck_assert_int_eq(OPS->address(tr_of(w.a), after, sizeof(after)), -ENODEV);
	await(w.a, RIPC__EV_BAD_INPUT);
	await(w.a, RIPC__EV_CLOSED);
	for (unsigned i = 0; i < 3; i++) {
		now += RIPC__PCIE_HEARTBEAT_NS;
		ck_assert_int_eq(progress(w.a).kind, RIPC__EV_NONE);
	}
	OPS->ep_close(w.ea);
	await(w.a, RIPC__EV_ADDRESS);
	ck_assert_int_eq(OPS->address(tr_of(w.a), after, sizeof(after)), len);
	ck_assert_mem_ne(before, after, (size_t)len);
	/* Its old blocks are free again. */
	for (unsigned i = 0; i < 2 * w.a->memory.nblocks; i++) {
		connect_two(&w);
		pass(&w, "again");
		back = (struct two){w.b, w.a, NULL, NULL};
		connect_two(&back);
		pass(&back, "back");
		OPS->ep_close(back.ea);
		await(w.a, RIPC__EV_CLOSED);
		OPS->ep_close(back.eb);
		OPS->ep_close(w.ea);
		await(w.b, RIPC__EV_CLOSED);
		OPS->ep_close(w.eb);
	}
	close_pcie(w.a);
	close_pcie(w.b);
}
END_TEST

/* Another device may have come in its place: the context stays out. */
START_TEST(peer__memory_replaced)
{
	struct two w;

	open_two(&w);
	outlive(&w);
	await(w.a, RIPC__EV_BAD_INPUT);
	await(w.a, RIPC__EV_CLOSED);
	OPS->ep_close(w.ea);
	w.a->memory.base[16] ^= 1;
	for (unsigned i = 0; i < 10; i++) {
		now += RIPC__PCIE_HEARTBEAT_NS;
		ck_assert_int_eq(progress(w.a).kind, RIPC__EV_NONE);
	}
	close_pcie(w.a);
	close_pcie(w.b);
}
END_TEST

int main(void)
{
	const struct pcie_case cases[] = {
		{"peer__dies", peer__dies},
		{"peer__stopped_and_continued", peer__stopped_and_continued},
		{"peer__rejoins", peer__rejoins},
		{"peer__memory_replaced", peer__memory_replaced},
		{"entry__lost", entry__lost},
	};

	return pcie_main("transport/pcie/stopped_peer", cases, sizeof(cases) / sizeof(cases[0]));
}
