/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Long messages to a service that moves: each holder receives them in the order in which they were
 * started, and what the next holder receives comes after what the former one has received.
 */
#include "core/requests.h"
#include "core/service/service.h"

#define MOVED     UINT64_C(500) /* the service that moves */
#define MAX_SENDS 4000
#define HOLDERS   3 /* contexts 1 to 3 */

static struct ripc_service *held[HOLDERS + 1];
static struct ripc_request *sends[MAX_SENDS];
static unsigned nsends, nreceived, holder;
static uint64_t sent_ns, interval_ns;
static uint64_t last[HOLDERS + 1]; /* received by a holder; 0: by any */
static uint8_t *items[MAX_SENDS];
static bool lanes_break;

static void far(struct ripc__sim_config *config)
{
	config->delay_min_ns = 30 * RIPC__MS;
	config->delay_max_ns = 50 * RIPC__MS;
}

static void far_no_read(struct ripc__sim_config *config)
{
	far(config);
	config->caps_off = RIPC__CAP_READ;
}

static void (*const networks[])(struct ripc__sim_config *config) = {NULL, slow, far, far_no_read};

/* Starts a message now and then. It begins with its number. */
static void trickle(void *arg)
{
	uint64_t number = nsends + 1;
	struct iovec item;

	(void)arg;
	if (ripc__sim_now(rig.net) - sent_ns < interval_ns || nsends == MAX_SENDS)
		return;
	sent_ns = ripc__sim_now(rig.net);
	item.iov_len = ripc__sim_random(rig.net) & 1 ? 100 : 30000;
	item.iov_base = items[nsends] = calloc(1, item.iov_len);
	memcpy(item.iov_base, &number, sizeof(number));
	OK(ripc_send_async(rig.s[0], MOVED, &item, 1, NULL, &sends[nsends]));
	nsends++;
}

/* Receives what has arrived at a holder. Return: whether more may come. */
static bool drain(unsigned i)
{
	struct ripc_message *m;
	uint64_t number;
	int rc;

	if (!held[i])
		return false;
	while (!(rc = ripc_receive(held[i], &m, 0))) {
		memcpy(&number, m->items[0].iov_base, sizeof(number));
		for (unsigned k = 0; k <= i; k += i)
			ck_assert_msg(number > last[k] || (!k && lanes_break),
				      "context %u: %llu after %llu", i, (unsigned long long)number,
				      (unsigned long long)last[k]);
		last[0] = last[i] = number;
		nreceived++;
		ripc_message_free(m);
	}
	return rc != -ESHUTDOWN;
}

/* The present holder comes last. */
static void drain_all(void)
{
	for (unsigned k = 1; k <= HOLDERS; k++)
		drain(1 + (holder + k - 1) % HOLDERS);
}

static void begin(unsigned network)
{
	restart(1 + HOLDERS, networks[network]);
	memset(held, 0, sizeof(held));
	nsends = nreceived = 0;
	memset(last, 0, sizeof(last));
	sent_ns = 0;
	holder = 1;
	interval_ns = (network < 2 ? 1 : 10) * RIPC__MS;
	OK(ripc_service_register(rig.ctx[1], MOVED, 0, &held[1]));
	OK(ripc_route_lookup(rig.ctx[0], MOVED, NULL, 5000));
	OK(ripc__sim_actor(rig.net, trickle, NULL));
}

static unsigned below(unsigned n)
{
	return (unsigned)(ripc__sim_random(rig.net) % n);
}

/* Everything arrives but what was in the queue of a service that was closed. */
static void end(bool all)
{
	unsigned delivered = 0;

	ripc__sim_actor_remove(rig.net, trickle, NULL);
	for (unsigned i = 0; i < nsends; i++) {
		int rc = ripc_request_wait(&sends[i], 20000);

		ck_assert_msg(!rc || (!all && rc == -EPIPE), "message %u: %d", i + 1, rc);
		delivered += !rc;
		free(items[i]);
		drain_all();
	}
	ck_assert_uint_gt(delivered, 50);
	if (all)
		ck_assert_uint_eq(nreceived, nsends);
	for (unsigned k = 1; k <= HOLDERS; k++)
		if (held[k])
			OK(ripc_service_unregister(held[k]));
}

static void run(unsigned ms)
{
	for (unsigned i = 0; i < ms; i++) {
		rig_run(&rig, 1);
		drain_all();
	}
}

/* A context gives the service up, and takes it back before its senders know. */
START_TEST(taken_back__keeps_order)
{
	begin((unsigned)_i);
	for (unsigned k = 0; k < 10; k++) {
		run(below(200));
		OK(ripc_service_unregister(held[1]));
		held[1] = NULL;
		OK(ripc_service_register(rig.ctx[1], MOVED, 0, &held[1]));
	}
	run(500);
	end(false);
}
END_TEST

START_TEST(taken_over__keeps_order)
{
	begin((unsigned)_i);
	for (unsigned k = 0; k < 10; k++) {
		unsigned next = 1 + holder % HOLDERS;

		run(below(200));
		while (drain(next))
			run(1);
		if (held[next])
			OK(ripc_service_unregister(held[next]));
		held[next] = NULL;
		OK(ripc_service_register(rig.ctx[next], MOVED, RIPC_TAKEOVER, &held[next]));
		holder = next;
	}
	run(500);
	end(true);
}
END_TEST

/*
 * Lanes break as well. Messages that a former holder may have received are not sent to the next
 * one. A former holder may receive complete messages later, when it learns that no earlier one
 * follows.
 */
START_TEST(lanes_lost__keeps_order)
{
	begin((unsigned)_i);
	lanes_break = true;
	for (unsigned k = 0; k < 30; k++) {
		unsigned next = 1 + below(HOLDERS);

		if (held[next]) {
			OK(ripc_service_unregister(held[next]));
			held[next] = NULL;
		}
		if (below(2))
			ripc__sim_break_at(rig.net, rig_instance(&rig, 0),
					   rig_instance(&rig, 1 + below(HOLDERS)), below(50));
		OK(ripc_service_register(rig.ctx[next], MOVED, RIPC_TAKEOVER, &held[next]));
		holder = next;
		run(below(200));
	}
	end(false);
}
END_TEST

/* The former holder receives nothing any more: messages that have no room there go to the next. */
START_TEST(taken_over__without_room)
{
	enum { N = 6 };
	size_t len = RIPC__UNREAD_MAX / 4;
	uint8_t *large = calloc(1, len);
	struct ripc_request *r[N];
	struct ripc_message *m;
	unsigned n = 0;

	restart(3, NULL);
	OK(ripc_service_register(rig.ctx[1], MOVED, 0, &held[1]));
	for (unsigned i = 0; i < N; i++) {
		struct iovec item = {large, len - i};

		OK(ripc_send_async(rig.s[0], MOVED, &item, 1, NULL, &r[i]));
	}
	rig_run(&rig, 500);
	ck_assert_uint_gt(rig_waiting(held[1], RIPC__RNDV_WAITING), 0);
	OK(ripc_service_register(rig.ctx[2], MOVED, RIPC_TAKEOVER, &held[2]));
	for (unsigned k = 2; k > 0; k--) {
		unsigned from = k == 2 ? 4 : 0;
		unsigned to = k == 2 ? N : 4;

		for (n = from; n < to; n++) {
			OK(ripc_receive(held[k], &m, 5000));
			ck_assert_uint_eq(m->items[0].iov_len, len - n);
			ripc_message_free(m);
		}
	}
	for (unsigned i = 0; i < N; i++)
		OK(ripc_request_wait(&r[i], 5000));
	free(large);
}
END_TEST

/*
 * A message waits for room, and a short one behind it is complete, when the service is taken over:
 * the former holder receives both.
 */
START_TEST(taken_over__waits_before_complete)
{
	enum { N = 5 };
	size_t len = RIPC__UNREAD_MAX / 4;
	uint8_t *large = calloc(1, len);
	struct ripc_request *r[N + 2];
	struct ripc_message *m;

	restart(3, NULL);
	OK(ripc_service_register(rig.ctx[1], MOVED, 0, &held[1]));
	for (unsigned i = 0; i < N + 2; i++) {
		struct iovec item = {large, i == N ? 100 : len - i};

		OK(ripc_send_async(rig.s[0], MOVED, &item, 1, NULL, &r[i]));
	}
	rig_run(&rig, 500);
	ck_assert_uint_eq(rig_waiting(held[1], RIPC__RNDV_WAITING), 2);
	ck_assert_uint_eq(rig_waiting(held[1], RIPC__RNDV_READY), 1);
	OK(ripc_service_register(rig.ctx[2], MOVED, RIPC_TAKEOVER, &held[2]));
	rig_run(&rig, 500);
	ck_assert_uint_eq(held[2]->queued, 0);
	for (unsigned i = 0; i < N + 2; i++) {
		OK(ripc_receive(held[i == N + 1 ? 2 : 1], &m, 5000));
		ck_assert_uint_eq(m->items[0].iov_len, i == N ? 100 : len - i);
		ripc_message_free(m);
		OK(ripc_request_wait(&r[i], 5000));
	}
	free(large);
}
END_TEST

/* A message to the next holder waits for the ACK of the message before, and no longer. */
START_TEST(taken_over__held_until_ack)
{
	struct iovec large = {data, LARGE}, small = {data, 1000};
	struct ripc_request *r[2];

	restart(3, slow);
	OK(ripc_service_register(rig.ctx[1], MOVED, 0, &held[1]));
	OK(ripc_route_lookup(rig.ctx[0], MOVED, NULL, 5000));
	OK(ripc_send_async(rig.s[0], MOVED, &large, 1, NULL, &r[0]));
	rig_run(&rig, 5);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(ripc_service_register(rig.ctx[2], MOVED, RIPC_TAKEOVER, &held[2]));
	rig_run(&rig, 100);
	OK(ripc_send_async(rig.s[0], MOVED, &small, 1, NULL, &r[1]));
	rig_run(&rig, 100);
	ck_assert(ripc__dest_find(rig.ctx[0], MOVED)->long_held);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	for (unsigned i = 0; i < 500 && r[0]->state != RIPC__REQUEST_DONE; i++) {
		ck_assert_uint_eq(held[2]->queued, 0);
		rig_run(&rig, 1);
	}
	OK(ripc_request_test(&r[0]));
	rig_run(&rig, 3);
	ck_assert_uint_eq(held[2]->queued, 1);
	OK(ripc_request_wait(&r[1], 5000));
}
END_TEST

/*
 * The loss of a lane has cut a message short, behind which another one is complete, and the service
 * was taken over when the first one is repeated: the former holder receives both.
 */
START_TEST(taken_over__cut_short)
{
	static const size_t lens[] = {LARGE, 1000};
	struct ripc_request *r[2];
	struct ripc_message *m;

	restart(3, slow);
	OK(ripc_service_register(rig.ctx[1], MOVED, 0, &held[1]));
	OK(ripc_route_lookup(rig.ctx[0], MOVED, NULL, 5000));
	for (unsigned i = 0; i < 2; i++) {
		struct iovec item = {data, lens[i]};

		OK(ripc_send_async(rig.s[0], MOVED, &item, 1, NULL, &r[i]));
	}
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig_waiting(held[1], RIPC__RNDV_READY), 1);
	/* The sender does not learn of the next holder. */
	for (unsigned i = 1; i < 3; i++)
		ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, i), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	OK(ripc_service_register(rig.ctx[2], MOVED, RIPC_TAKEOVER, &held[2]));
	rig_run(&rig, 10);
	ck_assert_int_eq(held[1]->state, RIPC__SERVICE_TAKEN_OVER);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	for (unsigned i = 0; i < 2; i++) {
		OK(ripc_receive(held[1], &m, 5000));
		ck_assert_uint_eq(m->items[0].iov_len, lens[i]);
		ripc_message_free(m);
		OK(ripc_request_wait(&r[i], 5000));
	}
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 2), false);
}
END_TEST

/*
 * Two messages were refused, and get new numbers at the same holder, above that of a third one. All
 * of them are cut short, behind them is a complete one.
 */
START_TEST(taken_back__cut_short)
{
	static const size_t lens[] = {LARGE, LARGE - 1, LARGE - 2, 1000};
	struct ripc_request *r[4];
	struct ripc_message *m;

	restart(2, slow_no_credits);
	OK(ripc_service_register(rig.ctx[1], MOVED, 0, &held[1]));
	OK(ripc_route_lookup(rig.ctx[0], MOVED, NULL, 5000));
	for (unsigned i = 0; i < 4; i++) {
		struct iovec item = {data, lens[i]};

		OK(ripc_send_async(rig.s[0], MOVED, &item, 1, NULL, &r[i]));
	}
	ck_assert_int_eq(r[1]->state, RIPC__REQUEST_SENT);
	ck_assert_int_eq(r[2]->state, RIPC__REQUEST_WRITING);
	OK(ripc_service_unregister(held[1]));
	OK(ripc_service_register(rig.ctx[1], MOVED, 0, &held[1]));
	for (unsigned i = 0; i < 500 && !rig_waiting(held[1], RIPC__RNDV_READY); i++)
		rig_run(&rig, 1);
	ck_assert_uint_eq(rig_waiting(held[1], RIPC__RNDV_READY), 1);
	ck_assert_uint_gt(r[1]->id, r[2]->id);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	for (unsigned i = 0; i < 4; i++) {
		OK(ripc_receive(held[1], &m, 5000));
		ck_assert_uint_eq(m->items[0].iov_len, lens[i]);
		ripc_message_free(m);
		OK(ripc_request_wait(&r[i], 5000));
	}
}
END_TEST

/* The former holder sends to its own service, without credit: the rest goes to the next one. */
START_TEST(taken_over__own_messages)
{
	enum { N = 100 };
	static uint8_t bytes[8000];
	struct iovec item = {bytes, sizeof(bytes)};
	struct ripc_request *r[N];
	struct ripc_message *m;
	unsigned received = 0;

	OK(ripc_service_register(rig.ctx[0], MOVED, 0, &held[1]));
	for (unsigned i = 0; i < N; i++)
		OK(ripc_send_async(rig.s[0], MOVED, &item, 1, NULL, &r[i]));
	rig_run(&rig, 100);
	ck_assert_int_eq(r[N - 1]->state, RIPC__REQUEST_PENDING);
	OK(ripc_service_register(rig.ctx[1], MOVED, RIPC_TAKEOVER, &held[2]));
	for (unsigned i = 0; i < N; i++) {
		OK(ripc_request_wait(&r[i], 5000));
		while (!ripc_receive(held[2], &m, 0)) {
			received++;
			ripc_message_free(m);
		}
	}
	ck_assert_uint_gt(received, 0);
}
END_TEST

/*
 * The ACK that refuses a message arrives before its write is complete, and the service is back at
 * once: a later message does not overtake it.
 */
START_TEST(refused__write_incomplete)
{
	struct ripc__event done = {.kind = RIPC__EV_WRITE_DONE};
	struct iovec item = {data, 1000};
	struct ripc_request *r[2];
	struct ripc_message *m;

	OK(ripc_service_register(rig.ctx[1], MOVED, 0, &held[1]));
	OK(ripc_route_lookup(rig.ctx[0], MOVED, NULL, 5000));
	OK(ripc_service_unregister(held[1]));
	OK(ripc_send_async(rig.s[0], MOVED, &item, 1, NULL, &r[0]));
	ck_assert_int_eq(r[0]->state, RIPC__REQUEST_SENT);
	r[0]->writes++;
	OK(ripc_service_register(rig.ctx[1], MOVED, 0, &held[1]));
	rig_run(&rig, 1);
	ck_assert(r[0]->acked);
	item.iov_len = 999;
	OK(ripc_send_async(rig.s[0], MOVED, &item, 1, NULL, &r[1]));
	rig_run(&rig, 10);
	done.wr_id = (uint64_t)(uintptr_t)r[0];
	ripc__lock(rig.ctx[0]);
	ripc__request_write_done(&done);
	ripc__unlock(rig.ctx[0]);
	for (unsigned i = 0; i < 2; i++) {
		OK(ripc_receive(held[1], &m, 5000));
		ck_assert_uint_eq(m->items[0].iov_len, 1000 - i);
		ripc_message_free(m);
		OK(ripc_request_wait(&r[i], 5000));
	}
}
END_TEST

/* No message arrives long before the next one. */
static void same_delay(struct ripc__sim_config *config)
{
	config->delay_max_ns = config->delay_min_ns;
}

/*
 * The receiver has no memory for a message, and its ACK is lost with the lane. The next message has
 * been delivered, so the first one is not received when it is repeated.
 */
START_TEST(no_memory__ack_lost)
{
	static const size_t lens[] = {30000, 100};
	uint64_t host_bytes;
	struct ripc_request *r[2];
	struct ripc_message *m;

	restart(1 + HOLDERS, same_delay);
	host_bytes = rig.ctx[1]->host_bytes;
	OK(ripc_service_register(rig.ctx[1], MOVED, 0, &held[1]));
	OK(ripc_route_lookup(rig.ctx[0], MOVED, NULL, 5000));
	rig.ctx[1]->host_bytes = 1000;
	for (unsigned i = 0; i < 2; i++) {
		struct iovec item = {data, lens[i]};

		OK(ripc_send_async(rig.s[0], MOVED, &item, 1, NULL, &r[i]));
	}
	while (!held[1]->queued)
		ripc__sim_run(rig.net, 1000);
	ck_assert(!r[0]->acked);
	ck_assert_uint_eq(rig_stats(&rig, 1).dropped_no_memory, 1);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig.ctx[1]->host_bytes = host_bytes;
	RC(-ENOBUFS, ripc_request_wait(&r[0], 5000));
	OK(ripc_request_wait(&r[1], 5000));
	OK(ripc_receive(held[1], &m, 5000));
	ck_assert_uint_eq(m->items[0].iov_len, 100);
	ripc_message_free(m);
	RC(-ETIMEDOUT, ripc_receive(held[1], &m, 50));
}
END_TEST

/*
 * A message is cut short, and its sender gives the receiver up and forgets it, while the receiver
 * waits for longer: the complete message behind is delivered when they are connected again.
 */
START_TEST(cut_short__sender_forgot)
{
	static const size_t lens[] = {LARGE, 1000};
	struct ripc_request *r[2];
	struct ripc_message *m;

	rig_end(&rig);
	rig_init(&rig, slow);
	rig_open(&rig, NULL);
	rig_open(&rig, "peer_timeout_ms=300000");
	rig_connect(&rig, 1, 0);
	OK(ripc_service_register(rig.ctx[1], MOVED, 0, &held[1]));
	OK(ripc_route_lookup(rig.ctx[0], MOVED, NULL, 5000));
	for (unsigned i = 0; i < 2; i++) {
		struct iovec item = {data, lens[i]};

		OK(ripc_send_async(rig.s[0], MOVED, &item, 1, NULL, &r[i]));
	}
	while (r[1]->state != RIPC__REQUEST_DONE)
		rig_run(&rig, 1);
	ck_assert_uint_eq(rig_waiting(held[1], RIPC__RNDV_READY), 1);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	OK(ripc_request_wait(&r[1], 0));
	RC(-EPIPE, ripc_request_wait(&r[0], 10000));
	for (unsigned i = 0; i < 100 && rig_peer(&rig, 0, 1); i++)
		rig_run(&rig, 1000);
	ck_assert_ptr_null(rig_peer(&rig, 0, 1));
	ck_assert_uint_eq(held[1]->queued, 0);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	OK(ripc_receive(held[1], &m, 20000));
	ck_assert_uint_eq(m->items[0].iov_len, 1000);
	ripc_message_free(m);
	ck_assert(ripc__list_empty(&held[1]->rndvs_in));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/rendezvous/order");
	TCase *tc = tcase_create("order");

	test_seed();
	tcase_add_checked_fixture(tc, requests_setup, requests_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, taken_back__keeps_order, 0, 4);
	tcase_add_loop_test(tc, taken_over__keeps_order, 0, 4);
	tcase_add_loop_test(tc, lanes_lost__keeps_order, 0, 4);
	tcase_add_test(tc, taken_over__without_room);
	tcase_add_test(tc, taken_over__waits_before_complete);
	tcase_add_test(tc, taken_over__held_until_ack);
	tcase_add_test(tc, taken_over__cut_short);
	tcase_add_test(tc, taken_back__cut_short);
	tcase_add_test(tc, taken_over__own_messages);
	tcase_add_test(tc, refused__write_incomplete);
	tcase_add_test(tc, no_memory__ack_lost);
	tcase_add_test(tc, cut_short__sender_forgot);
	suite_add_tcase(suite, tc);
	return test_main("core/rendezvous/order", suite);
}
