/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lanes that are being set up with a cluster key, and by a process that does not have it. */
#include "auth/keys.h"
#include "core/rig.h"

#include "auth/handshake.h"

static struct rig rig;
/* The next messages of these bytes from this context are changed. */
static size_t tampered_len;
static unsigned tampered, tampered_from;
/* The requests of context 0: the first, and the last. */
static uint8_t requests[2][RIPC__HANDSHAKE_LEN];
static unsigned nrequests;
static bool replay; /* the first one takes the place of the next */

static void tamper(void *arg, const uint8_t from[16], const uint8_t to[16], uint8_t *data,
		   size_t *len)
{
	(void)arg;
	(void)to;
	if (*len == RIPC__HANDSHAKE_LEN && !memcmp(from, rig_instance(&rig, 0), 16)) {
		memcpy(requests[nrequests++ > 0], data, *len);
		if (replay)
			memcpy(data, requests[0], *len);
		replay = false;
	}
	if (!tampered || *len != tampered_len ||
	    memcmp(from, rig_instance(&rig, tampered_from), 16))
		return;
	tampered--;
	data[*len - 1] ^= 1;
}

static void break_lane(void)
{
	rig_fail_lane(&rig, 0, 1);
	rig_run(&rig, 10);
}

static void setup(void)
{
	char options[128];

	nrequests = 0;
	keys_setup();
	keys_write(KEY_A);
	snprintf(options, sizeof(options), "key_file=%s", key_path);
	rig_start_with(&rig, 2, NULL, options);
	ripc__sim_tamper(rig.net, tamper, NULL);
}

static void teardown(void)
{
	rig_end(&rig);
	keys_teardown();
}

/*
 * The next message of len bytes from context `from` is changed. The connection attempt fails, and a
 * message arrives after the next one.
 */
static void connect_tampered(unsigned from, size_t len)
{
	tampered_from = from;
	tampered_len = len;
	tampered = 1;
	OK(rig_long(&rig, 0, 1, 100, 1, 5000));
	rig_expect(&rig, 1, 100, 1);
	ck_assert_uint_eq(tampered, 0);
}

/* The confirmation of the connecting process is wrong: its lane ends, and it connects again. */
START_TEST(confirm__wrong)
{
	connect_tampered(0, RIPC__CONFIRM_LEN);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_peers, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).unauthenticated, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).lanes, 1);
}
END_TEST

/* The request has no proof of the key: it is refused and counted, and the next one is accepted. */
START_TEST(request__without_proof)
{
	connect_tampered(0, RIPC__HANDSHAKE_LEN);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_peers, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).unauthenticated, 1);
	ck_assert_uint_eq(rig_stats(&rig, 0).unauthenticated, 0);
	ck_assert_uint_eq(rig_stats(&rig, 1).lanes_opened, 1);
	/* A context without keys does not even have a peer of it. */
	ck_assert_uint_eq(rig_stats(&rig, 1).peers, 1);
}
END_TEST

/* The reply has no proof of the key: the connecting side does not use the lane. */
START_TEST(reply__without_proof)
{
	connect_tampered(1, RIPC__HANDSHAKE_LEN);
	ck_assert_uint_eq(rig_stats(&rig, 0).unauthenticated, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).unauthenticated, 0);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_opened, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).lanes, 1);
}
END_TEST

/* A copy of an earlier request has a proof, but is refused. */
START_TEST(request__replayed)
{
	rig_connect(&rig, 0, 1);
	ck_assert_uint_eq(nrequests, 1);
	break_lane();
	replay = true;
	OK(rig_long(&rig, 0, 1, 100, 1, 5000));
	rig_expect(&rig, 1, 100, 1);
	ck_assert_uint_ge(nrequests, 3);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_peers, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).unauthenticated, 0);
	ck_assert_uint_eq(rig_stats(&rig, 1).lanes_opened, 2);
}
END_TEST

/* Each request has a nonce of its own, and all parts of it are drawn. */
START_TEST(request__new_nonce)
{
	const size_t at = RIPC__HELLO_LEN + RIPC__KEY_ID;

	rig_connect(&rig, 0, 1);
	break_lane();
	rig_connect(&rig, 0, 1);
	ck_assert_uint_ge(nrequests, 2);
	for (size_t i = 0; i < RIPC__NONCE; i += 8)
		ck_assert_mem_ne(requests[0] + at + i, requests[1] + at + i, 8);
	ck_assert_mem_ne(requests[0] + at, requests[0] + at + 8, 8);
}
END_TEST

static struct ripc__transport_ops failing_ops;

static int connect_fails(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			 const void *priv, size_t privlen, void *user, struct ripc__ep **ep)
{
	(void)t;
	(void)addr;
	(void)addrlen;
	(void)priv;
	(void)privlen;
	(void)user;
	(void)ep;
	return ripc__fail(-ENOMEM, "no memory for a connection");
}

/*
 * A context accepts a connection, whose other end proves its key late, and gives the peer up in
 * between: the peer learns that its call was dropped.
 */
START_TEST(confirm__after_peer_was_given_up)
{
	struct iovec item = {(void *)"x", 1};
	struct ripc_request *call;
	struct ripc_message *m;
	struct ripc__peer *p;
	struct ripc__lane *lane = NULL;
	unsigned tp;

	OK(ripc_call_start(rig.s[1], RIG_ID(0), &item, 1, NULL, -1, &call));
	m = rig_take(&rig, 0);
	rig_connect(&rig, 0, 1);
	p = rig_peer(&rig, 0, 1);
	tp = p->lane->tp;
	failing_ops = ripc__transport_sim;
	failing_ops.connect = connect_fails;
	rig.ctx[0]->tp[tp].ops = &failing_ops;
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	for (unsigned k = 0; k < 100000 && !lane; k++) {
		struct ripc__lane *l;

		ripc__sim_run(rig.net, 1000);
		ripc__list_for_each_entry (l, &rig.ctx[0]->lanes, link)
			if (l->state == RIPC__LANE_ACCEPTING)
				lane = l;
	}
	ck_assert_ptr_nonnull(lane);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	rig_run(&rig, 2200);
	ck_assert_int_eq(p->contact, RIPC__CONTACT_NORMAL);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	RC(-EPIPE, ripc_call_wait(&call, NULL, 10000));
	rig.ctx[0]->tp[tp].ops = &ripc__transport_sim;
	ripc_message_free(m);
	rig_exchange(&rig, 0, 1);
}
END_TEST

bool __real_ripc__handshake_confirm(const struct ripc__auth *a, const struct ripc__handshake *s,
				    uint8_t buf[RIPC__CONFIRM_LEN]);
bool __wrap_ripc__handshake_confirm(const struct ripc__auth *a, const struct ripc__handshake *s,
				    uint8_t buf[RIPC__CONFIRM_LEN]);

static unsigned keyless; /* so many confirmations find that the key was removed */

bool __wrap_ripc__handshake_confirm(const struct ripc__auth *a, const struct ripc__handshake *s,
				    uint8_t buf[RIPC__CONFIRM_LEN])
{
	return keyless && keyless-- ? false : __real_ripc__handshake_confirm(a, s, buf);
}

void *__real_calloc(size_t n, size_t len);
void *__wrap_calloc(size_t n, size_t len);

static unsigned shakes_to_fail; /* so many handshakes find no memory */

void *__wrap_calloc(size_t n, size_t len)
{
	if (len == sizeof(struct ripc__handshake) && shakes_to_fail) {
		shakes_to_fail--;
		return NULL;
	}
	return __real_calloc(n, len);
}

/* There is no memory for the handshake, on one side or the other: it connects again. */
START_TEST(request__out_of_memory)
{
	shakes_to_fail = 1 + (unsigned)_i;
	OK(rig_long(&rig, 0, 1, 100, 1, 5000));
	rig_expect(&rig, 1, 100, 1);
	ck_assert_uint_eq(shakes_to_fail, 0);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(rig_stats(&rig, i).lanes, 1);
}
END_TEST

static unsigned posts_to_fail;

static int post_or_fail(struct ripc__ep *ep, const void *head, size_t head_len,
			const struct iovec *items, unsigned n, bool more)
{
	if (!posts_to_fail)
		return ripc__transport_sim.post(ep, head, head_len, items, n, more);
	posts_to_fail--;
	return -ENOTCONN;
}

/*
 * The connecting side cannot confirm: the key was removed by then, or the lane is gone. It does not
 * use that lane, and connects again.
 */
START_TEST(confirm__not_possible)
{
	struct ripc *ctx = rig.ctx[0];
	struct ripc__transport_ops ops = ripc__transport_sim;
	struct ripc__tp *tp = NULL;

	for (unsigned i = 0; i < ctx->ntp; i++)
		if (ctx->tp[i].ops == &ripc__transport_sim)
			tp = &ctx->tp[i];
	ck_assert_ptr_nonnull(tp);
	ops.post = post_or_fail;
	tp->ops = &ops;
	keyless = _i;
	posts_to_fail = !_i;
	OK(rig_long(&rig, 0, 1, 100, 1, 5000));
	rig_expect(&rig, 1, 100, 1);
	ck_assert_uint_eq(keyless + posts_to_fail, 0);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_opened, 1);
	ck_assert_uint_eq(rig_stats(&rig, 0).unauthenticated, 0);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_peers, 0);
	tp->ops = &ripc__transport_sim;
}
END_TEST

/* The receive buffer of the confirmation goes back to the peer as credit, as any other. */
START_TEST(confirm__credit)
{
	struct ripc__lane *lanes[2];
	uint32_t depth;

	rig_connect(&rig, 0, 1);
	rig_run(&rig, 50);
	for (unsigned i = 0; i < 2; i++)
		lanes[i] = rig_lane(&rig, i, !i);
	depth = lanes[0]->rx_depth;
	ck_assert_uint_gt(depth, 0);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(lanes[i]->tx_credits + lanes[!i]->rx_credits_due, depth);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/peer/connect_keys");
	TCase *tc = tcase_create("connect_keys");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, confirm__wrong);
	tcase_add_loop_test(tc, request__out_of_memory, 0, 2);
	tcase_add_test(tc, confirm__after_peer_was_given_up);
	tcase_add_loop_test(tc, confirm__not_possible, 0, 2);
	tcase_add_test(tc, confirm__credit);
	tcase_add_test(tc, request__without_proof);
	tcase_add_test(tc, reply__without_proof);
	tcase_add_test(tc, request__replayed);
	tcase_add_test(tc, request__new_nonce);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/connect_keys", suite);
}
