/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Connection requests that a context refuses, or cannot accept; the side that is refused. */
#include "core/rig.h"

#include "core/peer/attempt.h"
#include "core/peer/connect.h"
#include "core/peer/endpoint.h"

static struct rig rig;

/* The answer to the request that context 0 got. */
static struct {
	unsigned n, refusal;
	uint8_t target[16];
} refused;

static void note_refusal(struct ripc__transport *t, void *request, const void *priv, size_t privlen)
{
	struct ripc__hello h;
	const char *why;

	(void)t;
	(void)request;
	OK(ripc__hello_decode(&h, priv, privlen, &why));
	ck_assert_mem_eq(h.instance, rig_instance(&rig, 0), 16);
	refused.n++;
	refused.refusal = h.refusal;
	memcpy(refused.target, h.target, 16);
}

static unsigned accepted;

static void setup(void)
{
	memset(&refused, 0, sizeof(refused));
	accepted = 0;
	rig_start(&rig, 2, NULL);
	rig_connect(&rig, 0, 1);
}

static void teardown(void)
{
	rig_end(&rig);
}

enum { NOT_A_HELLO, OTHER_VERSION, REFUSAL, OTHER_TARGET, OUR_INSTANCE, CLOSING, FAULTS };

static const struct {
	unsigned refusal, bad_peers;
	bool anonymous; /* the refusal is to nobody */
} faults[FAULTS] = {
	[NOT_A_HELLO] = {RIPC__REFUSE_STALE, 1, true},
	[OTHER_VERSION] = {RIPC__REFUSE_VERSION, 1, true},
	[REFUSAL] = {RIPC__REFUSE_STALE, 1, true},
	[OTHER_TARGET] = {RIPC__REFUSE_STALE, 0, false},
	[OUR_INSTANCE] = {RIPC__REFUSE_STALE, 0, false},
	[CLOSING] = {RIPC__REFUSE_CLOSING, 0, false},
};

/* Each fault of a request, and the reason that its sender gets. */
START_TEST(request__refused)
{
	static const uint8_t nobody[16];
	struct ripc *ctx = rig.ctx[0];
	struct ripc__tp *tp = &ctx->tp[rig_lane(&rig, 0, 1)->tp];
	const struct ripc__transport_ops *real = tp->ops;
	struct ripc__transport_ops ops = *real;
	struct ripc__hello h = {
		.instance = {9}, .send_max = 8192, .recv_depth = 64, .service_window = 4096};
	uint8_t bytes[RIPC__HELLO_LEN];
	struct ripc__event ev = {
		.kind = RIPC__EV_REQUEST, .data = bytes, .len = sizeof(bytes), .text = "a test"};

	memcpy(h.target, ctx->instance, 16);
	if (_i == REFUSAL)
		h.refusal = RIPC__REFUSE_CROSSED;
	if (_i == OTHER_TARGET)
		h.target[0] ^= 1;
	if (_i == OUR_INSTANCE)
		memcpy(h.instance, ctx->instance, 16);
	ripc__hello_encode(&h, bytes);
	if (_i == NOT_A_HELLO)
		ev.len--;
	if (_i == OTHER_VERSION)
		bytes[4]++;
	ctx->closing = _i == CLOSING;
	ops.reject = note_refusal;
	tp->ops = &ops;
	ripc__lock(ctx);
	ripc__lane_on_request(ctx, (unsigned)(tp - ctx->tp), &ev);
	ripc__unlock(ctx);
	tp->ops = real;
	ctx->closing = false;
	ck_assert_uint_eq(refused.n, 1);
	ck_assert_uint_eq(refused.refusal, faults[_i].refusal);
	ck_assert_mem_eq(refused.target, faults[_i].anonymous ? nobody : h.instance, 16);
	ck_assert_uint_eq(ctx->stats.bad_peers, faults[_i].bad_peers);
	ck_assert_uint_eq(ctx->stats.peers, 1);
	rig_exchange(&rig, 0, 1);
}
END_TEST

static int note_acceptance(struct ripc__transport *t, void *request, const void *priv,
			   size_t privlen, void *user, struct ripc__ep **ep)
{
	(void)t;
	(void)request;
	(void)priv;
	(void)privlen;
	(void)user;
	(void)ep;
	accepted++;
	return -ECONNRESET;
}

/*
 * A request comes from a peer whose lane is up: it waits until the lane has shown whether it is
 * alive. If so it crossed with the lane and is refused, else it takes the lane's place. A new
 * lane has more time: its peer may only lack a processor.
 */
START_TEST(request__while_lane_is_up)
{
	bool alive = _i % 2, old = _i / 2;
	uint64_t limit = old ? 250 * RIPC__MS : 1000 * RIPC__MS;
	struct ripc *ctx = rig.ctx[0];
	struct ripc__peer *p = rig_peer(&rig, 0, 1);
	struct ripc__lane *lane = p->lane;
	struct ripc__tp *tp = &ctx->tp[lane->tp];
	struct ripc__transport_ops ops = *tp->ops;
	struct ripc__hello h = {.send_max = 8192, .recv_depth = 64, .service_window = 4096};
	uint8_t bytes[RIPC__HELLO_LEN];
	struct ripc__event ev = {
		.kind = RIPC__EV_REQUEST, .data = bytes, .len = sizeof(bytes), .text = "a test"};
	uint64_t begin;

	memcpy(h.instance, p->instance, 16);
	memcpy(h.target, ctx->instance, 16);
	ripc__hello_encode(&h, bytes);
	ops.reject = note_refusal;
	ops.accept = note_acceptance;
	tp->ops = &ops;
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	if (old)
		rig_run(&rig, 1000);
	ripc__lock(ctx);
	ripc__lane_on_request(ctx, (unsigned)(tp - ctx->tp), &ev);
	ck_assert_ptr_nonnull(p->pending_conn);
	/* Only the last one of several waits. */
	ripc__lane_on_request(ctx, (unsigned)(tp - ctx->tp), &ev);
	ripc__unlock(ctx);
	ck_assert_ptr_nonnull(p->pending_conn);
	ck_assert_uint_eq(refused.n, 1);
	ck_assert_uint_eq(refused.refusal, RIPC__REFUSE_CROSSED);
	begin = ripc__now(ctx);
	rig_run(&rig, old ? 200 : 800);
	ck_assert_ptr_eq(p->lane, lane);
	ck_assert_ptr_nonnull(p->pending_conn);
	if (alive)
		ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	while (p->pending_conn)
		ripc__sim_run(rig.net, 100000);
	ck_assert_uint_eq(refused.n, alive ? 2 : 1);
	ck_assert_uint_eq(refused.refusal, RIPC__REFUSE_CROSSED);
	ck_assert_uint_eq(accepted, !alive);
	ck_assert_int_eq(p->lane == lane, alive);
	if (!alive)
		ck_assert_uint_ge(ripc__now(ctx) - begin, limit - 10 * RIPC__MS);
	ck_assert_uint_le(ripc__now(ctx) - begin, limit + 10 * RIPC__MS);
	tp->ops = &ripc__transport_sim;
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	rig_run(&rig, 3000);
	rig_exchange(&rig, 0, 1);
}
END_TEST

static const int accept_errors[] = {-EMFILE, -ENFILE, -ENOMEM, -ENOBUFS, -ECONNRESET};

#define ACCEPT_ERRORS (int)(sizeof(accept_errors) / sizeof(accept_errors[0]))

static int accept_error;

static int fail_accept(struct ripc__transport *t, void *request, const void *priv, size_t privlen,
		       void *user, struct ripc__ep **ep)
{
	(void)t;
	(void)request;
	(void)priv;
	(void)privlen;
	(void)user;
	(void)ep;
	return ripc__fail(accept_error, "not accepted, as the test wants it");
}

/* A request cannot be accepted: no lane is left of it. A lack of resources is remembered. */
START_TEST(accept__fails)
{
	struct ripc *ctx = rig.ctx[0];
	struct ripc__tp *tp = &ctx->tp[rig_lane(&rig, 0, 1)->tp];
	struct ripc__transport_ops ops = *tp->ops;
	struct ripc__conn_request r = {
		.tp = (unsigned)(tp - ctx->tp),
		.source = 7,
		.hello = {.instance = {9},
			  .send_max = 8192,
			  .recv_depth = 64,
			  .service_window = 4096},
	};
	unsigned nlanes = tp->nlanes;
	struct ripc__peer *p;

	memcpy(r.hello.target, ctx->instance, 16);
	accept_error = accept_errors[_i];
	ops.accept = fail_accept;
	tp->ops = &ops;
	ripc__lock(ctx);
	p = ripc__peer_admit(ctx, r.hello.instance, 7);
	ck_assert_ptr_nonnull(p);
	RC(accept_error, ripc__lane_accept(ctx, p, &r));
	ripc__dead_lanes_free(ctx);
	ck_assert_uint_eq(p->nlanes, 0);
	ck_assert_uint_eq(p->source, 7);
	ck_assert_uint_eq(tp->nlanes, nlanes);
	ck_assert_ptr_eq(ripc__list_first(&ctx->lanes), &rig_lane(&rig, 0, 1)->link);
	ck_assert_ptr_eq(ctx->lanes.prev, &rig_lane(&rig, 0, 1)->link);
	ck_assert_int_eq(ctx->evict_cause, accept_error == -ECONNRESET ? 0 : accept_error);
	ctx->evict_cause = 0;
	ripc__unlock(ctx);
	tp->ops = &ripc__transport_sim;
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* ---- the side that is refused ---- */

/* Context 1 refuses so many requests like this. */
static struct {
	unsigned n;
	int refusal; /* -1: with private data that is no hello */
} refuses;

static int refuse_or_accept(struct ripc__transport *t, void *request, const void *priv,
			    size_t privlen, void *user, struct ripc__ep **ep)
{
	uint8_t hello[RIPC__HELLO_LEN];
	struct ripc__hello h;
	const char *why;

	if (!refuses.n)
		return ripc__transport_sim.accept(t, request, priv, privlen, user, ep);
	refuses.n--;
	OK(ripc__hello_decode(&h, priv, privlen, &why));
	h.refusal = refuses.refusal < 0 ? RIPC__REFUSE_MEMORY : (uint8_t)refuses.refusal;
	ripc__hello_encode(&h, hello);
	ripc__transport_sim.reject(t, request, hello, refuses.refusal < 0 ? 7 : sizeof(hello));
	return -ECONNREFUSED;
}

static const struct {
	int refusal;
	const char *text;
	enum ripc__connect_round round;
} refusals[] = {
	{-1, "sim: ", RIPC__ROUND_REFUSED}, /* the transport adds no cause */
	{RIPC__REFUSE_STALE, "sim: that instance is gone", RIPC__ROUND_REFUSED},
	{RIPC__REFUSE_CLOSING, "sim: it is closing", RIPC__ROUND_REFUSED},
	{RIPC__REFUSE_VERSION, "sim: it has another version of the protocol", RIPC__ROUND_REFUSED},
	{RIPC__REFUSE_MEMORY, "sim: it is out of memory", RIPC__ROUND_REFUSED},
	{RIPC__REFUSE_CROSSED, NULL, RIPC__ROUND_CROSSED},
};

#define REFUSALS (int)(sizeof(refusals) / sizeof(refusals[0]))

/* Each reason of a refusal: what it means for the peer, and the cause that is reported. */
START_TEST(refusal__reason)
{
	struct ripc__tp *tp = &rig.ctx[1]->tp[rig_lane(&rig, 1, 0)->tp];
	struct ripc__transport_ops ops = *tp->ops;
	struct ripc__peer *p = rig_peer(&rig, 0, 1);
	char text[RIPC__DETAIL_MAX];

	rig_fail_lane(&rig, 0, 1);
	rig_run(&rig, 10);
	ck_assert_ptr_null(rig_lane(&rig, 0, 1));
	ops.accept = refuse_or_accept;
	tp->ops = &ops;
	refuses.refusal = refusals[_i].refusal;
	refuses.n = 1;
	ripc__lock(rig.ctx[0]);
	ripc__peer_connect(rig.ctx[0], p);
	ripc__unlock(rig.ctx[0]);
	ck_assert_ptr_nonnull(p->out);
	while (p->out)
		ripc__sim_run(rig.net, 1000);
	ck_assert_uint_eq(refuses.n, 0);
	ck_assert_ptr_null(p->lane);
	ck_assert_int_eq(p->round, refusals[_i].round);
	if (refusals[_i].text) {
		ripc__attempts_text(rig.ctx[0], p, text, sizeof(text));
		ck_assert_str_eq(text, refusals[_i].text);
	}
	/* A peer whose connection is on its way is waited for; the others are looked up again. */
	ck_assert_int_eq(rig_dest(&rig, 0, 1)->state == RIPC__DEST_KNOWN,
			 refusals[_i].round != RIPC__ROUND_REFUSED);
	ck_assert_int_eq(p->retry_ns > ripc__now(rig.ctx[0]),
			 refusals[_i].round != RIPC__ROUND_REFUSED);
	OK(rig_short(&rig, 0, 1, 10, 1, 5000));
	rig_expect(&rig, 1, 10, 1);
	tp->ops = &ripc__transport_sim;
}
END_TEST

/* A lane whose hello stated a former epoch is closed at once: the next one states the new epoch. */
START_TEST(lane_up__former_epoch)
{
	static uint8_t data[MIB];
	struct ripc__peer *p = rig_peer(&rig, 0, 1);
	struct ripc_request *r;

	rig_fail_lane(&rig, 0, 1);
	rig_run(&rig, 3000);
	r = rig_begin(&rig, 0, 1, data, MIB);
	for (unsigned i = 0; i < 1000 && !p->nlanes; i++)
		rig_run(&rig, 1);
	ck_assert_ptr_null(p->lane);
	ripc__lock(rig.ctx[0]);
	ripc__peer_new_epoch(rig.ctx[0], p);
	ripc__unlock(rig.ctx[0]);
	OK(ripc_request_wait(&r, 50));
	ck_assert_uint_eq(rig_peer(&rig, 1, 0)->remote_epoch, p->epoch);
	ripc_message_free(rig_take(&rig, 1));
}
END_TEST

/* A call makes the planned attempt before the timers do: no further one is planned. */
START_TEST(connect__planned_attempt)
{
	struct ripc__peer *p = rig_peer(&rig, 0, 1);

	rig_fail_lane(&rig, 0, 1);
	rig_run(&rig, 1000);
	ripc__lock(rig.ctx[0]);
	p->retry_ns = ripc__now(rig.ctx[0]);
	ripc__peer_connect(rig.ctx[0], p);
	ck_assert_ptr_nonnull(p->out);
	ck_assert_uint_eq(p->retry_ns, 0);
	ripc__unlock(rig.ctx[0]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/peer/connect");
	TCase *tc = tcase_create("connect");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, request__refused, 0, FAULTS);
	tcase_add_loop_test(tc, request__while_lane_is_up, 0, 4);
	tcase_add_loop_test(tc, accept__fails, 0, ACCEPT_ERRORS);
	tcase_add_loop_test(tc, refusal__reason, 0, REFUSALS);
	tcase_add_test(tc, lane_up__former_epoch);
	tcase_add_test(tc, connect__planned_attempt);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/connect", suite);
}
