/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The back end for clusters, with an ensemble whose reports this test makes. */
#include "base/options.h"
#include "ensemble_wrap.h"
#include "harness.h"
#include "resolver/zookeeper.h"
#include "ripc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SERVICE 42
#define SESSION 7

/* ---- ensemble ---- */

static int ensemble_fd = -1;
static unsigned nclaims, nwatches, nreleases; /* requests of the back end */
static bool claim_force;                      /* of the last one */
static bool renewed;                          /* the last report ended all records */
static struct ripc__ensemble_report *pending; /* a report, or NULL */
static struct ripc__list reports;             /* messages of the back end */

int __wrap_ripc__ensemble_open(struct ripc__ensemble **e, const struct ripc__ensemble_env *env,
			       char *why, size_t whylen)
{
	(void)env, (void)why, (void)whylen;
	ensemble_fd = eventfd(0, EFD_CLOEXEC);
	ripc__list_init(&reports);
	*e = NULL;
	return 0;
}

void __wrap_ripc__ensemble_close(struct ripc__ensemble *e)
{
	(void)e;
	ripc__list_free(&reports, struct ripc__ensemble_report, link);
	close(ensemble_fd);
}

int __wrap_ripc__ensemble_fd(const struct ripc__ensemble *e)
{
	(void)e;
	return ensemble_fd;
}

void __wrap_ripc__ensemble_report_node(struct ripc__ensemble *e, enum ripc__ensemble_kind kind,
				       uint64_t service, bool ours, int32_t version,
				       const void *bytes, size_t len)
{
	(void)e;
	ripc__list_add(&reports, &report_new(kind, service, ours, version, bytes, len)->link);
}

int __wrap_ripc__ensemble_submit(struct ripc__ensemble *e, enum ripc__ensemble_command command,
				 uint64_t service, const uint8_t *bytes, size_t len,
				 const struct ripc__ensemble_report *found)
{
	(void)e, (void)bytes, (void)len, (void)found;
	ck_assert_uint_eq(service, SERVICE);
	if (command == RIPC__CALL_WATCH) {
		nwatches++;
	} else if (command == RIPC__CALL_RELEASE) {
		nreleases++;
	} else {
		ck_assert(command == RIPC__CALL_CLAIM || command == RIPC__CALL_CLAIM_FORCE);
		claim_force = command == RIPC__CALL_CLAIM_FORCE;
		nclaims++;
	}
	return 0;
}

struct ripc__ensemble_report *__wrap_ripc__ensemble_next(struct ripc__ensemble *e, bool *lost)
{
	struct ripc__ensemble_report *report = pending;
	struct ripc__list *l = report ? NULL : ripc__list_take(&reports);

	(void)e;
	*lost = false;
	pending = NULL;
	return l ? ripc__list_entry(l, struct ripc__ensemble_report, link) : report;
}

/* ---- back end ---- */

static struct ripc__backend *backend;
static struct ripc__zk *z;
static int epoll_fd;

static void setup(void)
{
	static const uint8_t id[16] = {1};
	static const struct ripc__options options;
	struct ripc__backend_env env = {
		.opt = &options, .instance = id, .host = id, .arg = "", .secret = ""};
	char why[200];

	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	env.epoll_fd = epoll_fd;
	backend = calloc(1, ripc__backend_zookeeper.size);
	ck_assert_ptr_nonnull(backend);
	backend->ops = &ripc__backend_zookeeper;
	ck_assert_int_eq(ripc__backend_zookeeper.open(backend, &env, why, sizeof(why)), 0);
	z = (struct ripc__zk *)backend;
}

static void teardown(void)
{
	ripc__backend_zookeeper.close(backend);
	free(backend);
	close(epoll_fd);
}

/* The ensemble reports something, and the back end handles it. */
static void report(enum ripc__ensemble_kind kind, bool new_session)
{
	struct ripc__backend_addr from = {0};
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	int n;

	pending = report_new(kind,
			     kind == RIPC__ENS_UP     ? SESSION
			     : kind == RIPC__ENS_LOST ? 0
						      : SERVICE,
			     false, 0, "", new_session);
	renewed = false;
	while ((n = ripc__backend_zookeeper.recv(backend, ensemble_fd, &from, buf, sizeof(buf))) !=
	       -EAGAIN)
		renewed |= n == -ESTALE;
	ck_assert_ptr_null(pending);
}

/* The core sends a message about its service. */
static void send_own(enum ripc__resolver_kind kind, uint64_t generation, uint64_t nonce,
		     const struct ripc__backend_addr *to)
{
	struct ripc__resolver_msg msg = {
		.kind = kind,
		.service = SERVICE,
		.nonce = nonce,
		.record = {.service = SERVICE, .generation = generation, .ttl_ms = 1000},
	};
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	int len;

	msg.record.instance[0] = 1;
	len = ripc__resolver_msg_encode(&msg, buf, sizeof(buf));
	ck_assert_int_gt(len, 0);
	ripc__backend_zookeeper.send(backend, to, SERVICE, buf, (size_t)len);
}

static enum ripc__zk_held_state state(void)
{
	return ripc__zk_held_find(z, SERVICE)->state;
}

/* The number of claims since the last call. */
static unsigned claims(void)
{
	unsigned n = nclaims;

	nclaims = 0;
	return n;
}

START_TEST(claim__registered)
{
	report(RIPC__ENS_UP, true);
	send_own(RIPC__RESOLVE_PROBE, 1, 7, NULL);
	ck_assert_uint_eq(claims(), 1);
	ck_assert_int_eq(state(), RIPC__ZK_CLAIMING);
	ck_assert(!ripc__zk_settled(backend, SERVICE));
	/* Repeated, as long as nothing was reported. */
	send_own(RIPC__RESOLVE_PROBE, 1, 7, NULL);
	ck_assert_uint_eq(claims(), 0);
	report(RIPC__ENS_CLAIMED, false);
	ck_assert_int_eq(state(), RIPC__ZK_CREATED);
	ck_assert(ripc__zk_settled(backend, SERVICE));
	send_own(RIPC__RESOLVE_REQUEST, 1, 9, NULL);
	ck_assert_uint_eq(claims(), 0);
}
END_TEST

/* A node that was made anew after its release is released again. */
START_TEST(claim__crosses_a_release)
{
	report(RIPC__ENS_UP, true);
	send_own(RIPC__RESOLVE_PROBE, 1, 7, NULL);
	ripc__zk_drop(backend, SERVICE);
	ck_assert_uint_eq(nreleases, 1);
	report(RIPC__ENS_CLAIMED, false);
	ck_assert_uint_eq(nreleases, 2);
}
END_TEST

/* The connection is lost and comes back, in the same session or in a new one (_i). */
START_TEST(up__claim_in_flight)
{
	report(RIPC__ENS_UP, true);
	send_own(RIPC__RESOLVE_PROBE, 1, 7, NULL);
	ck_assert_uint_eq(claims(), 1);
	report(RIPC__ENS_LOST, false);
	report(RIPC__ENS_UP, _i);
	ck_assert_uint_eq(claims(), 1);
	ck_assert_int_eq(state(), RIPC__ZK_CLAIMING);
	report(RIPC__ENS_CLAIMED, false);
	ck_assert(ripc__zk_settled(backend, SERVICE));
}
END_TEST

static char logged[400];

static void log_hook(void *arg, enum ripc_log_level level, const char *line)
{
	snprintf(logged, sizeof(logged), "%s", line);
}

/*
 * The ensemble is not there when the context starts. The first registration waits for it until its
 * time is up, which is logged; later ones do not wait. The node is made when the ensemble comes,
 * with the same generation.
 */
START_TEST(up__late)
{
	ripc_log_set(log_hook, NULL, RIPC_LOG_WARN);
	send_own(RIPC__RESOLVE_PROBE, 1, 7, NULL);
	ck_assert(!ripc__zk_settled(backend, SERVICE));
	ck_assert_str_eq(logged, "");
	send_own(RIPC__RESOLVE_REQUEST, 1, 9, NULL);
	ck_assert_ptr_nonnull(strstr(logged, "no connection to the ensemble"));
	ripc__zk_drop(backend, SERVICE);
	send_own(RIPC__RESOLVE_PROBE, 1, 11, NULL);
	ck_assert(ripc__zk_settled(backend, SERVICE));
	send_own(RIPC__RESOLVE_REQUEST, 1, 13, NULL);
	claims();
	report(RIPC__ENS_UP, true);
	ck_assert_ptr_nonnull(strstr(logged, "the ensemble is connected"));
	ck_assert(!renewed);
	ck_assert_uint_eq(claims(), 1);
	ripc_log_set(NULL, NULL, RIPC_LOG_ERROR);
}
END_TEST

START_TEST(up__created)
{
	static const struct ripc__backend_addr to = {.backend = 1};

	report(RIPC__ENS_UP, true);
	send_own(RIPC__RESOLVE_PROBE, 2, 7, NULL);
	ck_assert_uint_eq(claims(), 1);
	ck_assert(claim_force);
	report(RIPC__ENS_CLAIMED, false);
	report(RIPC__ENS_LOST, false);
	report(RIPC__ENS_UP, false);
	ck_assert_uint_eq(claims(), 0);
	ck_assert_uint_eq(nwatches, 1);
	ck_assert(!renewed);
	/* In a new session the node is gone, and another context may have it. */
	report(RIPC__ENS_LOST, false);
	report(RIPC__ENS_UP, true);
	ck_assert_int_eq(state(), RIPC__ZK_ENDED);
	ck_assert(!ripc__zk_settled(backend, SERVICE));
	ck_assert(renewed);
	report(RIPC__ENS_NONE, false);
	ck_assert_uint_eq(claims(), 0);
	send_own(RIPC__RESOLVE_REQUEST, 3, 9, &to);
	ck_assert_uint_eq(claims(), 1);
	ck_assert(!claim_force);
	report(RIPC__ENS_CLAIMED, false);
	ck_assert(ripc__zk_settled(backend, SERVICE));
}
END_TEST

/* The core did not hold the service yet, so it announces it with an unchanged record. */
START_TEST(up__created_and_not_yet_held)
{
	report(RIPC__ENS_UP, true);
	send_own(RIPC__RESOLVE_PROBE, 1, 7, NULL);
	report(RIPC__ENS_CLAIMED, false);
	ck_assert_uint_eq(claims(), 1);
	report(RIPC__ENS_LOST, false);
	report(RIPC__ENS_UP, true);
	ck_assert_uint_eq(claims(), 0);
	send_own(RIPC__RESOLVE_REQUEST, 1, 9, NULL);
	ck_assert_uint_eq(claims(), 1);
	report(RIPC__ENS_CLAIMED, false);
	ck_assert(ripc__zk_settled(backend, SERVICE));
}
END_TEST

/*
 * The node of another context, as read. Return: the kinds of the messages for the core, as decimal
 * digits.
 */
static unsigned find(uint8_t instance, uint64_t generation)
{
	struct ripc__record record = {.service = SERVICE,
				      .instance = {instance},
				      .generation = generation,
				      .ttl_ms = 1000};
	struct ripc__backend_addr from = {0};
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	unsigned kinds = 0;
	int len = ripc__record_encode(&record, buf, RIPC__NODE_MAX);

	ck_assert_int_gt(len, 0);
	pending = report_new(RIPC__ENS_FOUND, SERVICE, false, 0, buf, (size_t)len);
	while (ripc__backend_zookeeper.recv(backend, ensemble_fd, &from, buf, sizeof(buf)) >= 0)
		kinds = 10 * kinds + buf[5];
	return kinds;
}

/* The core ignores a claim of a lower generation, unless the former holder is gone. */
START_TEST(found__next_holder_of_a_lower_generation)
{
	struct ripc__resolver_msg msg = {.kind = RIPC__RESOLVE_REQUEST,
					 .service = SERVICE,
					 .nonce = 7,
					 .record = {.instance = {1}, .ttl_ms = 1000}};
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	int len = ripc__resolver_msg_encode(&msg, buf, sizeof(buf));

	report(RIPC__ENS_UP, true);
	ripc__backend_zookeeper.send(backend, NULL, SERVICE, buf, (size_t)len);
	ck_assert_uint_eq(find(2, 4), 2);
	ck_assert_uint_eq(find(2, 5), 1);
	ck_assert_uint_eq(find(3, 1), 41);
	ck_assert_uint_eq(find(3, 1), 0);
}
END_TEST

/* Another program writes into nodes. */
static void report_bytes(enum ripc__ensemble_kind kind, bool ours, const uint8_t *bytes, size_t len)
{
	struct ripc__backend_addr from = {0};
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];

	pending = calloc(1, sizeof(*pending) + len);
	ck_assert_ptr_nonnull(pending);
	pending->kind = kind;
	pending->service = SERVICE;
	pending->ours = ours;
	pending->len = len;
	memcpy(pending->bytes, bytes, len);
	while (ripc__backend_zookeeper.recv(backend, ensemble_fd, &from, buf, sizeof(buf)) >= 0)
		continue;
}

START_TEST(found__own_node_with_other_data)
{
	struct ripc__zk_held *h;

	report(RIPC__ENS_UP, true);
	send_own(RIPC__RESOLVE_PROBE, 1, 7, NULL);
	report(RIPC__ENS_CLAIMED, false);
	h = ripc__zk_held_find(z, SERVICE);
	report_bytes(RIPC__ENS_FOUND, true, h->bytes, h->len);
	ck_assert_uint_eq(claims(), 1);
	report_bytes(RIPC__ENS_FOUND, true, (const uint8_t *)"nonsense", 8);
	ck_assert_uint_eq(claims(), 1);
	report(RIPC__ENS_CLAIMED, false);
	report_bytes(RIPC__ENS_FOUND, true, h->bytes, h->len);
	ck_assert_uint_eq(claims(), 0);
}
END_TEST

/*
 * A context that has lost a service is not notified when the node of the other holder goes: it
 * keeps that record for a short time only.
 */
START_TEST(taken__record_is_short_lived)
{
	struct ripc__record record = {
		.service = SERVICE, .instance = {2}, .generation = 2, .ttl_ms = 60000};
	struct ripc__backend_addr from = {0};
	uint8_t buf[RIPC__RESOLVER_MSG_MAX], node[RIPC__NODE_MAX];
	struct ripc__resolver_msg msg;
	const char *why;
	int len = ripc__record_encode(&record, node, sizeof(node));

	ck_assert_int_gt(len, 0);
	report(RIPC__ENS_UP, true);
	send_own(RIPC__RESOLVE_REQUEST, 1, 9, NULL);
	pending = calloc(1, sizeof(*pending) + (size_t)len);
	ck_assert_ptr_nonnull(pending);
	pending->kind = RIPC__ENS_TAKEN;
	pending->service = SERVICE;
	pending->version = 1;
	pending->len = (size_t)len;
	memcpy(pending->bytes, node, pending->len);
	len = ripc__backend_zookeeper.recv(backend, ensemble_fd, &from, buf, sizeof(buf));
	ck_assert_int_gt(len, 0);
	ck_assert_int_eq(ripc__resolver_msg_decode(&msg, buf, (size_t)len, &why), 0);
	ck_assert_int_eq(msg.kind, RIPC__RESOLVE_REPLY);
	ck_assert_uint_eq(msg.record.instance[0], 2);
	ck_assert_uint_eq(msg.record.ttl_ms, RIPC__ZK_STALE_TTL_MS);
}
END_TEST

/* A node without a record: the service gets its own when that node goes. */
START_TEST(taken__by_a_node_without_a_record)
{
	report(RIPC__ENS_UP, true);
	send_own(RIPC__RESOLVE_PROBE, 1, 7, NULL);
	nwatches = 0;
	report_bytes(RIPC__ENS_TAKEN, false, (const uint8_t *)"nonsense", 8);
	ck_assert_uint_eq(nwatches, 1);
	send_own(RIPC__RESOLVE_REQUEST, 1, 9, NULL);
	report_bytes(RIPC__ENS_TAKEN, false, (const uint8_t *)"nonsense", 8);
	report_bytes(RIPC__ENS_FOUND, false, (const uint8_t *)"nonsense", 8);
	ck_assert_uint_eq(nwatches, 2);
	claims();
	report(RIPC__ENS_NONE, false);
	ck_assert_uint_eq(claims(), 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/zookeeper");
	TCase *tc = tcase_create("zookeeper");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, claim__registered);
	tcase_add_test(tc, claim__crosses_a_release);
	tcase_add_loop_test(tc, up__claim_in_flight, 0, 2);
	tcase_add_test(tc, up__late);
	tcase_add_test(tc, up__created);
	tcase_add_test(tc, up__created_and_not_yet_held);
	tcase_add_test(tc, found__next_holder_of_a_lower_generation);
	tcase_add_test(tc, found__own_node_with_other_data);
	tcase_add_test(tc, taken__record_is_short_lived);
	tcase_add_test(tc, taken__by_a_node_without_a_record);
	suite_add_tcase(suite, tc);
	return test_main("resolver/zookeeper", suite);
}
