/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Cached address handles: their states, and workers that cannot start. No device is used. */
#include "base/clock.h"
#include "ripc.h"
#include "transport/ib/ib.h"
#include "transitions.h"

#include <errno.h>

static struct ripc__transport t;
static struct ib_device device;
static struct ib_port *port = &t.ports[0];
static struct ripc__ib_port_addr peer = {.link = RIPC__IB_LINK_IB, .lid = 5, .qpn = 17};

/* ---- worker ---- */

static int start_result; /* of the next start */
static struct ripc__verbs_job *started;

int __wrap_ripc__verbs_job_start(struct ripc__verbs_jobs *jobs, struct ripc__verbs_job *job);

int __wrap_ripc__verbs_job_start(struct ripc__verbs_jobs *jobs, struct ripc__verbs_job *job)
{
	(void)jobs;
	started = start_result ? NULL : job;
	return start_result;
}

static void finish(int result)
{
	ck_assert_ptr_nonnull(started);
	started->done(started, result);
	started = NULL;
}

static void setup(void)
{
	port->t = &t;
	port->d = &device;
	t.now_ns = 1;
}

static void teardown(void)
{
	ripc__ib_ah_cache_close(&t);
}

/* ---- states ---- */

#define TO(state) (1u << IB_AH_##state)

DEFINE_SET_STATE(struct ib_ah_entry, ripc__ib_ah_set_state)

START_TEST(set_state__transitions)
{
	static const unsigned allowed[IB_AH_STATES] = {
		[IB_AH_NEW] = TO(RESOLVING),
		[IB_AH_RESOLVING] = TO(READY) | TO(FAILED),
		[IB_AH_READY] = TO(FAILED),
		[IB_AH_FAILED] = TO(RESOLVING),
	};

	check_transitions(set_state, allowed);
}
END_TEST

/* Without a worker there is no entry. */
START_TEST(get__no_worker)
{
	start_result = -EAGAIN;
	ck_assert_ptr_null(ripc__ib_ah_get(&t, port, &peer));
	ck_assert_ptr_null(ripc__ib_ah_find(&t, port, &peer));
	ck_assert_uint_eq(HASH_COUNT(t.ah_cache), 0);
	ck_assert_uint_eq(t.nresolving, 0);
	start_result = 0;
	ck_assert_ptr_nonnull(ripc__ib_ah_get(&t, port, &peer));
	ck_assert_uint_eq(t.nresolving, 1);
	finish(0);
	ck_assert_uint_eq(t.nresolving, 0);
}
END_TEST

/* A failed entry that cannot be resolved again for lack of a worker is resolved again later. */
START_TEST(get__no_worker_for_failed_entry)
{
	struct ib_ah_entry *r = ripc__ib_ah_get(&t, port, &peer);

	finish(-EHOSTUNREACH);
	ck_assert_int_eq(r->state, IB_AH_FAILED);
	ck_assert_int_eq(r->error, -EHOSTUNREACH);
	/* Not for a second. */
	ck_assert_ptr_eq(ripc__ib_ah_get(&t, port, &peer), r);
	ck_assert_ptr_null(started);
	t.now_ns += 2000 * RIPC__MS;
	start_result = -EAGAIN;
	ck_assert_ptr_eq(ripc__ib_ah_get(&t, port, &peer), r);
	ck_assert_int_eq(r->state, IB_AH_FAILED);
	/* No thread uses the entry, so its device may be released. */
	ck_assert(ripc__ib_ah_cache_invalidate(port));
	start_result = 0;
	ck_assert_ptr_eq(ripc__ib_ah_get(&t, port, &peer), r);
	ck_assert_int_eq(r->state, IB_AH_RESOLVING);
	ck_assert(!ripc__ib_ah_cache_invalidate(port));
	finish(0);
	ck_assert_int_eq(r->state, IB_AH_READY);
	device.v.gone = true;
	ck_assert(ripc__ib_ah_cache_invalidate(port));
	device.v.gone = false;
	ck_assert_int_eq(r->state, IB_AH_FAILED);
	ck_assert_int_eq(r->error, -ENODEV);
}
END_TEST

static struct ib_ah_entry *resolved(const struct ripc__ib_port_addr *to)
{
	struct ib_ah_entry *r = ripc__ib_ah_get(&t, port, to);

	if (started)
		finish(0);
	return r;
}

static bool has_grh(const struct ripc__ib_port_addr *to)
{
	struct ibv_ah_attr attr;

	ripc__ib_ah_attr(port, to, &attr);
	ck_assert_mem_eq(attr.grh.dgid.raw, to->gid, 16);
	ck_assert_uint_eq(attr.dlid, to->lid);
	return attr.is_global;
}

/* The addresses of one port have changed: only its entries are resolved again, and at once. */
START_TEST(invalidate__one_port)
{
	struct ib_port *second = &t.ports[1];
	struct ib_ah_entry *a, *b;

	*second = (struct ib_port){.t = &t, .d = &device};
	t.now_ns = 2000 * RIPC__MS;
	a = resolved(&peer);
	b = ripc__ib_ah_get(&t, second, &peer);
	ck_assert_ptr_ne(a, b);
	/* A thread uses the addresses of the second port. */
	ck_assert(!ripc__ib_ah_cache_invalidate(second));
	ck_assert(ripc__ib_ah_cache_invalidate(port));
	ck_assert_int_eq(a->state, IB_AH_FAILED);
	ck_assert_int_eq(a->error, -EADDRNOTAVAIL);
	finish(0);
	ck_assert_ptr_eq(ripc__ib_ah_get(&t, port, &peer), a);
	ck_assert_int_eq(a->state, IB_AH_RESOLVING);
	ck_assert_int_eq(b->state, IB_AH_READY);
	finish(0);
}
END_TEST

/* The GID counts if it has a part in the path: on RoCE, and in another subnet of InfiniBand. */
START_TEST(get__gids)
{
	struct ripc__ib_port_addr other = peer;

	memset(port->port_addr.gid, 1, 16);
	ck_assert(!has_grh(&other));
	memset(other.gid, 1, 16);
	other.gid[15] = 2;
	ck_assert(!has_grh(&other));
	ck_assert_ptr_eq(resolved(&other), resolved(&peer));
	other.gid[7] = 2;
	ck_assert(has_grh(&other));
	ck_assert_ptr_ne(resolved(&other), resolved(&peer));
	other = (struct ripc__ib_port_addr){.link = RIPC__IB_LINK_V2, .qpn = 17};
	ck_assert(has_grh(&other));
	resolved(&other);
	other.gid[15] = 1;
	ck_assert_ptr_null(ripc__ib_ah_find(&t, port, &other));
	resolved(&other);
	ck_assert_uint_eq(HASH_COUNT(t.ah_cache), 4);
}
END_TEST

/* Each of these has a thread. */
START_TEST(get__resolving_limit)
{
	struct ripc__ib_port_addr to = peer;
	struct ripc__verbs_job *first = NULL;

	for (to.qpn = 20; ripc__ib_ah_get(&t, port, &to); to.qpn++)
		if (!first)
			first = started;
	ck_assert_uint_eq(t.nresolving, to.qpn - 20);
	ck_assert_uint_eq(HASH_COUNT(t.ah_cache), t.nresolving);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "are being resolved"));
	started = first;
	finish(0);
	ck_assert_uint_eq(t.next_timer_ns, 0);
	ck_assert_ptr_nonnull(ripc__ib_ah_get(&t, port, &to));
	t.nresolving = 0;
}
END_TEST

/* An entry makes room if it has no connection and was not used since the last eviction. */
START_TEST(get__full)
{
	struct ripc__ib_port_addr to = peer;
	struct ib_ah_entry *r, *last = NULL;

	for (to.qpn = 20; (r = resolved(&to)); to.qpn++) {
		last = r;
		r->eps = 1;
	}
	ck_assert_uint_eq(HASH_COUNT(t.ah_cache), IB_AH_CACHE_MAX);
	ck_assert_uint_eq(to.qpn, 20 + IB_AH_CACHE_MAX);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "cache full"));
	last->eps = 0;
	ck_assert_ptr_nonnull(resolved(&to));
	ck_assert_uint_eq(HASH_COUNT(t.ah_cache), IB_AH_CACHE_MAX);
	to.qpn--;
	ck_assert_ptr_null(ripc__ib_ah_find(&t, port, &to));
}
END_TEST

/* A work request may still refer to an address handle: ibv_post_send(3) forbids to destroy it. */
START_TEST(get__full_and_in_flight)
{
	struct ripc__ib_port_addr to = peer;
	struct ib_ah_entry *first;

	ck_assert_int_eq(ripc__verbs_sendq_init(&port->sendq, 16, 0, port), 0);
	first = resolved(&to);
	for (unsigned i = 1; i < IB_AH_CACHE_MAX; i++) {
		to.qpn++;
		resolved(&to);
	}
	ripc__verbs_sendq_alloc(&port->sendq, false);
	first->sent = true;
	first->sent_upto = port->sendq.tail;
	to.qpn++;
	resolved(&to);
	ck_assert_ptr_eq(ripc__ib_ah_find(&t, port, &peer), first);
	/* All others had no send outstanding. */
	ck_assert_uint_eq(HASH_COUNT(t.ah_cache), 2);
	ck_assert_ptr_nonnull(ripc__verbs_sendq_retire(&port->sendq, &port->sendq.slots[0]));
	for (unsigned i = 2; i <= IB_AH_CACHE_MAX; i++) {
		to.qpn++;
		resolved(&to);
	}
	ck_assert_ptr_null(ripc__ib_ah_find(&t, port, &peer));
	ripc__verbs_sendq_fini(&port->sendq);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/ib/ah_cache");
	TCase *tc = tcase_create("ah_cache");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, set_state__transitions);
	tcase_add_test(tc, get__no_worker);
	tcase_add_test(tc, get__no_worker_for_failed_entry);
	tcase_add_test(tc, invalidate__one_port);
	tcase_add_test(tc, get__gids);
	tcase_add_test(tc, get__resolving_limit);
	tcase_add_test(tc, get__full);
	tcase_add_test(tc, get__full_and_in_flight);
	suite_add_tcase(suite, tc);
	return test_main("transport/ib/ah_cache", suite);
}
