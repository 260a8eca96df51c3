/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A long message, a long call and a long answer that fail: each function that sends one or returns
 * its result reports the same errno, with a reason that names the service.
 */
#include "core/rendezvous/ack.h"
#include "core/call/call.h"
#include "core/rig.h"

#define LEN 100000

static struct rig rig;
static uint8_t data[LEN];
static struct ripc__transport_ops ops;
static struct ripc_message *question; /* of context 1, at context 0 */
static struct ripc_request *asked;
static int fault; /* the errno */

/* ---- what goes wrong ---- */

static int no_registration(struct ripc__transport *t, struct ripc__ep *ep, void *base, size_t len,
			   unsigned access, struct ripc__mr *mr)
{
	(void)t;
	(void)ep;
	(void)access;
	(void)mr;
	return ripc__fail(fault, "%zu bytes at %p cannot be registered", len, base);
}

static int no_post(struct ripc__ep *ep, const void *head, size_t head_len,
		   const struct iovec *items, unsigned n, bool more)
{
	struct ripc__header h;
	const char *why;

	/* The items of short messages are the library's copies. */
	if (!ripc__header_decode(&h, head, head_len, &why) && h.kind == RIPC__LONG)
		return fault;
	return ripc__transport_sim.post(ep, head, head_len, items, n, more);
}

static void fail_registration(void)
{
	ops.reg = no_registration;
}

static void fail_post(void)
{
	ops.post = no_post;
}

/* The receiver refuses what was sent. It reads on, as the answer is made up here. */
static void refuse(void *arg)
{
	struct ripc_request *r, *tmp;

	(void)arg;
	ripc__list_for_each_entry_safe (r, tmp, &rig.ctx[0]->requests, ctx_link)
		if (r->state == RIPC__REQUEST_SENT)
			ripc__request_acked(r->lane, r->id, fault == -EIO ? -EINVAL : fault, false);
}

static void fail_receiver(void)
{
	OK(ripc__sim_hostile(rig.net, rig_instance(&rig, 1)));
	OK(ripc__sim_actor(rig.net, refuse, NULL));
}

/* The receiver falls silent. */
static void fail_peer(void)
{
	OK(ripc__sim_hold(rig.net, rig_instance(&rig, 1), true));
}

static const struct {
	int rc;
	void (*begin)(void);
	const char *cause;
} faults[] = {
	{-ENOMEM, fail_registration, "cannot be registered"},
	{-EPERM, fail_registration, "cannot be registered"},
	{-EFAULT, fail_post, "cannot be read"},
	{-ENOBUFS, fail_receiver, "no memory for it there"},
	{-EIO, fail_receiver, "could not fetch it"},
	{-EPIPE, fail_peer, ""},
};
#define FAULTS (int)(sizeof(faults) / sizeof(faults[0]))

/* ---- the functions ---- */

static const struct iovec item = {data, LEN};

static int by_send_long(void)
{
	return ripc_send_long(rig.s[0], RIG_ID(1), &item, 1, NULL, 60000);
}

static int by_send(void)
{
	return ripc_send(rig.s[0], RIG_ID(1), &item, 1, NULL, 60000);
}

/* A completion reports the request when it is done. */
static struct ripc_request *done(int rc)
{
	struct ripc_completion c = {.size = sizeof(c)};

	OK(rc);
	OK(ripc_completion_next(rig.ctx[0], &c, 60000));
	return c.request;
}

static struct ripc_request *done_async(void)
{
	struct ripc_request *r;

	return done(ripc_send_async(rig.s[0], RIG_ID(1), &item, 1, NULL, &r));
}

static int by_test(void)
{
	struct ripc_request *r = done_async();

	return ripc_request_test(&r);
}

static int by_wait(void)
{
	struct ripc_request *r = done_async();

	return ripc_request_wait(&r, 0);
}

static int by_cancel(void)
{
	struct ripc_request *r = done_async();

	return ripc_request_cancel(&r, 0);
}

static int by_call(void)
{
	struct ripc_message *m;
	int rc = ripc_call(rig.s[0], RIG_ID(1), &item, 1, NULL, &m, 60000);

	ck_assert_ptr_null(m);
	return rc;
}

static int by_call_wait(void)
{
	struct ripc_request *r;
	struct ripc_message *m;
	int rc;

	r = done(ripc_call_start(rig.s[0], RIG_ID(1), &item, 1, NULL, 60000, &r));
	rc = ripc_call_wait(&r, &m, 0);
	ck_assert_ptr_null(m);
	return rc;
}

static int by_reply(void)
{
	return ripc_reply(question, &item, 1, 60000);
}

static int by_reply_start(void)
{
	struct ripc_request *r;

	r = done(ripc_reply_start(question, &item, 1, NULL, &r));
	return ripc_request_wait(&r, 0);
}

static int (*const functions[])(void) = {by_send_long, by_send,   by_test,
					 by_wait,      by_cancel, by_call,
					 by_call_wait, by_reply,  by_reply_start};
#define FUNCTIONS (int)(sizeof(functions) / sizeof(functions[0]))

START_TEST(result__failed)
{
	int (*function)(void) = functions[_i / FAULTS];
	struct iovec one = {data, 8};
	struct ripc_request *answer;
	struct ripc_message *m;
	int rc;

	rig_start(&rig, 2, NULL);
	rig_connect(&rig, 0, 1);
	OK(ripc_call_start(rig.s[1], RIG_ID(0), &one, 1, NULL, -1, &asked));
	question = rig_take(&rig, 0);
	ops = ripc__transport_sim;
	for (unsigned i = 0; i < rig.ctx[0]->ntp; i++)
		if (rig.ctx[0]->tp[i].ops == &ripc__transport_sim)
			rig.ctx[0]->tp[i].ops = &ops;
	fault = faults[_i % FAULTS].rc;
	faults[_i % FAULTS].begin();
	rc = function();
	ck_assert_msg(rc == fault, "%d instead of %d: %s", rc, fault, ripc_error_detail());
	ck_assert_msg(strstr(ripc_error_detail(), "1001") &&
			      strstr(ripc_error_detail(), faults[_i % FAULTS].cause),
		      "%s", ripc_error_detail());
	if (function == by_reply || function == by_reply_start) {
		RC(-EALREADY, ripc_reply(question, &item, 1, 60000));
		RC(-EALREADY, ripc_reply_start(question, &item, 1, NULL, &answer));
		RC(-EALREADY, ripc_reply_error(question, EACCES));
	}
	/* It goes on. */
	ops = ripc__transport_sim;
	ripc__sim_actor_remove(rig.net, refuse, NULL);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	ripc_message_free(question);
	if (function == by_reply || function == by_reply_start)
		RC(-EPIPE, ripc_call_wait(&asked, NULL, 60000));
	while (!ripc_receive(rig.s[1], &m, 100))
		ripc_message_free(m);
	rig_exchange(&rig, 0, 1);
	rig_end(&rig);
}
END_TEST

static void slow(struct ripc__sim_config *config)
{
	config->bandwidth = 20 * MIB;
	config->read_depth = 1;
}

/* The time is up: the message is withdrawn, and the caller of a request learns that. */
START_TEST(result__timed_out)
{
	static uint8_t large[4 * MIB];
	struct iovec one = {data, 8}, reads = {large, sizeof(large)};
	int rc;

	rig_start(&rig, 2, slow);
	rig_connect(&rig, 0, 1);
	OK(ripc_call_start(rig.s[1], RIG_ID(0), &one, 1, NULL, -1, &asked));
	question = rig_take(&rig, 0);
	rc = _i == 0   ? ripc_send_long(rig.s[0], RIG_ID(1), &reads, 1, NULL, 50)
	     : _i == 1 ? ripc_send(rig.s[0], RIG_ID(1), &reads, 1, NULL, 50)
		       : ripc_reply(question, &reads, 1, 50);
	RC(-ETIMEDOUT, rc);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "service 1001: "));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "50 ms"));
	if (_i == 2)
		RC(-EPIPE, ripc_call_wait(&asked, NULL, 60000));
	ripc_message_free(question);
	rig_end(&rig);
}
END_TEST

/* The caller has given up. */
START_TEST(reply__nobody_waits)
{
	struct iovec one = {data, 8};
	struct ripc_request *r = NULL;

	rig_start(&rig, 2, NULL);
	OK(ripc_call_start(rig.s[1], RIG_ID(0), &one, 1, NULL, -1, &asked));
	question = rig_take(&rig, 0);
	RC(0, ripc_message_cancelled(question));
	RC(-ETIME, ripc_request_cancel(&asked, 5000));
	RC(1, ripc_message_cancelled(question));
	RC(-ECANCELED, ripc_reply(question, &one, 1, 5000));
	RC(-ECANCELED, ripc_reply(question, &item, 1, 5000));
	RC(-ECANCELED, ripc_reply_error(question, EACCES));
	RC(-ECANCELED, ripc_reply_start(question, &item, 1, NULL, &r));
	ck_assert_ptr_null(r);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "does not wait for the answer"));
	ripc_message_free(question);
	/* The answer to a call that the service refuses, or frees. */
	OK(ripc_call_start(rig.s[1], RIG_ID(0), &one, 1, NULL, -1, &asked));
	question = rig_take(&rig, 0);
	if (_i)
		OK(ripc_reply_error(question, EACCES));
	ripc_message_free(question);
	RC(_i ? -EACCES : -ECANCELED, ripc_call_wait(&asked, NULL, 5000));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "service 1000 "));
	rig_end(&rig);
}
END_TEST

/* ---- short or long ---- */

static unsigned longs; /* received */

/* Makes room at the receiver. */
static void receive_all(void *arg)
{
	struct ripc_message *m;

	(void)arg;
	while (!ripc_receive(rig.s[1], &m, 0)) {
		longs += m->is_long;
		ripc_message_free(m);
	}
}

/* The lane is lost, and the next one is of a transport whose sends are shorter. */
static void lose_lane(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < rig.ctx[1]->ntp; i++)
		rig.ctx[1]->tp[i].limits.send_max = 4096;
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	OK(ripc__sim_actor(rig.net, receive_all, NULL));
}

/*
 * While ripc_send() waits for credit, the lane is replaced by one that takes less than the message
 * has in one send: the message goes as a long one.
 */
START_TEST(send__long_on_the_next_lane)
{
	struct iovec large = {data, 5000};
	struct ripc_send_options o = {.size = sizeof(o), .flags = _i ? RIPC_RELIABLE : 0};

	longs = 0;
	rig_start(&rig, 2, NULL);
	rig_connect(&rig, 0, 1);
	while (!ripc_send_short(rig.s[0], RIG_ID(1), &large, 1, NULL, 0))
		;
	RC(-ETIMEDOUT, ripc_send(rig.s[0], RIG_ID(1), &large, 1, &o, 20));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "service 1001 at peer "));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "over sim: out of credit"));
	ripc__sim_at_event(rig.net, 2, lose_lane, NULL);
	OK(ripc_send(rig.s[0], RIG_ID(1), &large, 1, &o, 5000));
	rig_run(&rig, 10);
	ck_assert_uint_eq(rig_lane(&rig, 0, 1)->send_max, 4096);
	ck_assert_uint_eq(longs, 1);
	RC(-EMSGSIZE, ripc_send_short(rig.s[0], RIG_ID(1), &large, 1, &o, 5000));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "1001"));
	ripc__sim_actor_remove(rig.net, receive_all, NULL);
	rig_end(&rig);
}
END_TEST

/* Nobody polls the context but ripc_request_test(). */
START_TEST(test__makes_progress)
{
	struct ripc_request *r;
	unsigned polls = 0;
	int rc;

	rig_start(&rig, 2, NULL);
	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, LEN);
	while ((rc = ripc_request_test(&r)) == -EINPROGRESS && polls++ < 1000) {
		ripc__poll(rig.ctx[1]);
		ripc__sim_step(rig.net, ripc__sim_now(rig.net) + RIPC__MS);
	}
	ck_assert_int_eq(rc, 0);
	ck_assert_ptr_null(r);
	ripc_message_free(rig_take(&rig, 1));
	rig_end(&rig);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/message/request");
	TCase *tc = tcase_create("request");

	test_seed();
	tcase_add_loop_test(tc, result__failed, 0, FAULTS * FUNCTIONS);
	tcase_add_loop_test(tc, result__timed_out, 0, 3);
	tcase_add_loop_test(tc, reply__nobody_waits, 0, 2);
	tcase_add_loop_test(tc, send__long_on_the_next_lane, 0, 2);
	tcase_add_test(tc, test__makes_progress);
	suite_add_tcase(suite, tc);
	return test_main("core/message/request", suite);
}
