/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The server of ripc-perf and requests that no client of this version makes. */
#include "harness.h"
#include "../tools/perf_control.h"
#include "../tools/perf_socket.h"

#include <errno.h>
#include <pthread.h>

#define WAIT_MS  10000
#define SETTINGS "resolver=local transports=shm,iwarp/soft interfaces=lo"

static struct ripc *server_ctx, *ctx;
static struct ripc_service *service;
static struct perf_args args;
static pthread_t server;
static int server_rc;
static uint64_t token;

static void *serve(void *arg)
{
	(void)arg;
	server_rc = perf_serve(server_ctx, &args);
	return NULL;
}

/* Sends a request. *request gets the reply. Return: its type. */
static uint64_t ask(struct perf_control *request)
{
	struct ripc_message *m;
	bool good;

	request->token = ++token;
	ck_assert_int_eq(perf_control_send(service, args.service, request, WAIT_MS), 0);
	ck_assert_int_eq(ripc_receive(service, &m, WAIT_MS), 0);
	good = perf_control_read(m, request);
	ripc_message_free(m);
	ck_assert(good);
	ck_assert_uint_eq(request->token, token);
	return request->type;
}

static void setup(void)
{
	struct perf_control hello = {.type = PERF_HELLO};
	struct ripc_route route = {.size = sizeof(route)};

	args.service = test_ids();
	ck_assert_int_eq(ripc_open(&server_ctx, SETTINGS), 0);
	ck_assert_int_eq(ripc_open(&ctx, SETTINGS), 0);
	ck_assert_int_eq(ripc_service_register(ctx, RIPC_ANY_ID, 0, &service), 0);
	ck_assert_int_eq(pthread_create(&server, NULL, serve, NULL), 0);
	while (ripc_route_lookup(ctx, args.service, &route, WAIT_MS) == -EHOSTUNREACH)
		;
	ck_assert_uint_eq(ask(&hello), PERF_REPLY);
}

static bool quits(void)
{
	struct perf_control quit = {.type = PERF_QUIT};

	return ask(&quit) == PERF_REPLY;
}

static void teardown(void)
{
	/* A request of a client that has gone may have come last: the server waits for more. */
	AWAIT(quits());
	ck_assert_int_eq(pthread_join(server, NULL), 0);
	ck_assert_int_eq(server_rc, TOOL_OK);
	ck_assert_int_eq(ripc_close(ctx), 0);
	ck_assert_int_eq(ripc_close(server_ctx), 0);
}

/* A baseline over TCP whose bytes cannot be divided by the size, or counted. */
START_TEST(base_start__impossible_stream)
{
	struct perf_control open = {.type = PERF_BASE_OPEN,
				    .protocol = PERF_TCP,
				    .wait = PERF_BLOCK,
				    .text = "127.0.0.1"};
	struct perf_control empty = {.type = PERF_BASE_START, .test = PERF_RATE, .count = 10};
	struct perf_control huge = {.type = PERF_BASE_START,
				    .test = PERF_RATE,
				    .size = PERF_SIZE_LIMIT,
				    .count = PERF_PACED_MAX};
	struct perf_socket s = {.protocol = PERF_TCP, .wait = PERF_BLOCK, .patience_ms = WAIT_MS};

	ck_assert_uint_eq(ask(&open), PERF_REPLY);
	ck_assert_int_eq(perf_socket_connect(&s, "127.0.0.1", open.port), 0);
	ck_assert_uint_eq(ask(&empty), PERF_REFUSAL);
	ck_assert_uint_eq(ask(&huge), PERF_REFUSAL);
	perf_socket_close(&s);
}
END_TEST

/* Requests of clients that have gone: their replies are not waited for, one after the other. */
START_TEST(clients_gone__others_do_not_wait)
{
	struct perf_control open = {.type = PERF_BASE_OPEN,
				    .protocol = PERF_TCP,
				    .wait = PERF_BLOCK,
				    .text = "127.0.0.1"};
	struct perf_control start = {
		.type = PERF_BASE_START, .test = PERF_RATE, .size = 1, .count = 1};
	struct perf_socket s = {.protocol = PERF_TCP, .wait = PERF_BLOCK, .patience_ms = WAIT_MS};
	struct perf_control hello = {.type = PERF_HELLO}, bye = {.type = PERF_BYE};
	struct ripc *gone;
	struct ripc_service *from;
	uint64_t start_ns;

	/* The server waits for a byte of the stream meanwhile. */
	ck_assert_uint_eq(ask(&open), PERF_REPLY);
	ck_assert_int_eq(perf_socket_connect(&s, "127.0.0.1", open.port), 0);
	ck_assert_uint_eq(ask(&start), PERF_REPLY);
	ck_assert_int_eq(ripc_open(&gone, SETTINGS), 0);
	ck_assert_int_eq(ripc_service_register(gone, RIPC_ANY_ID, 0, &from), 0);
	for (unsigned i = 0; i < 20; i++) {
		hello.token = i + 1;
		ck_assert_int_eq(perf_control_send(from, args.service, &hello, WAIT_MS), 0);
	}
	ck_assert_int_eq(ripc_close(gone), 0);
	perf_socket_close(&s);
	start_ns = tool_now_ns();
	ck_assert_uint_eq(ask(&bye), PERF_REPLY);
	ck_assert_uint_lt(tool_now_ns() - start_ns, UINT64_C(4000000000));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tools/perf_server");
	TCase *tc = tcase_create("perf_server");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, base_start__impossible_stream);
	tcase_add_test(tc, clients_gone__others_do_not_wait);
	suite_add_tcase(suite, tc);
	return test_main("tools/perf_server", suite);
}
