/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Long messages to a service that moves: each holder receives them in the order in which they were
 * started, and what the next holder receives comes after what the former one has received.
 */
#include "core/requests.h"

#define MOVED     UINT64_C(500) /* the service that moves */
#define MAX_SENDS 4000
#define HOLDERS   3 /* contexts 1 to 3 */

static struct ripc_service *held[HOLDERS + 1];
static struct ripc_request *sends[MAX_SENDS];
static unsigned nsends, nreceived, holder;
static uint64_t sent_ns, interval_ns;
static uint64_t last[HOLDERS + 1]; /* received by a holder; 0: by any */
static uint8_t *items[MAX_SENDS];

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
			ck_assert_msg(number > last[k], "context %u: %llu after %llu", i,
				      (unsigned long long)number, (unsigned long long)last[k]);
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

int main(void)
{
	Suite *suite = suite_create("core/rendezvous/order");
	TCase *tc = tcase_create("order");

	test_seed();
	tcase_add_checked_fixture(tc, requests_setup, requests_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, taken_back__keeps_order, 0, 4);
	suite_add_tcase(suite, tc);
	return test_main("core/rendezvous/order", suite);
}
