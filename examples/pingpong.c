/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Ping-pong: two processes find each other by service id, and throw one short message to and fro.
 *
 *     ./pingpong 42           waits for a player at service 42, plays one match, and ends
 *     ./pingpong 42 10000     plays 10000 rounds against it
 *
 * ripc-perf measures the same with more care.
 */
#include "service_arg.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define TIMEOUT_MS 5000 /* a partner that stays silent for so long is gone */

static int fail(int err, const char *what)
{
	fprintf(stderr, "pingpong: %s: %s: %s\n", what, ripc_strerror(err), ripc_error_detail());
	return 1;
}

/* The waiting side returns every ball; the empty message ends the match. */
static int wait_for_peer(const char *name)
{
	struct ripc_service *service;
	struct ripc_message *ball;
	unsigned long long rounds = 0;
	int err = service_arg_register(name, &service);

	if (err)
		return fail(err, "register");
	printf("service %s waits for a player\n", name);
	fflush(stdout);
	/* For the first ball it waits as long as it takes, then only as long as is decent. */
	for (;;) {
		size_t len;

		err = ripc_receive(service, &ball, rounds ? TIMEOUT_MS : -1);
		if (err)
			return fail(err, "receive");
		len = ball->items[0].iov_len;
		err = ripc_send_short(service, ball->source, ball->items, ball->nitems, NULL,
				      TIMEOUT_MS);
		ripc_message_free(ball);
		if (err)
			return fail(err, "return the ball");
		if (!len)
			break;
		rounds++;
	}
	printf("%llu rounds played\n", rounds);
	ripc_close(NULL);
	return 0;
}

static int ping(struct ripc_service *service, uint64_t id, const struct iovec *item)
{
	struct ripc_message *ball;
	int err = ripc_send_short(service, id, item, 1, NULL, TIMEOUT_MS);

	if (!err)
		err = ripc_receive(service, &ball, TIMEOUT_MS);
	if (!err)
		ripc_message_free(ball);
	return err;
}

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int play(uint64_t id, unsigned long long rounds)
{
	struct iovec ball = {.iov_base = "ping", .iov_len = 4},
		     end = {.iov_base = "", .iov_len = 0};
	struct ripc_service *service;
	struct ripc_route route = {.size = sizeof(route)};
	double begin_us;
	int err = ripc_service_register(NULL, RIPC_ANY_ID, 0, &service);

	/*
	 * Sending would look the service up by itself; this way the first round is as fast as the
	 * others, and we learn how it is reached.
	 */
	if (!err)
		err = ripc_route_lookup(NULL, id, &route, TIMEOUT_MS);
	if (err)
		return fail(err, "look up");
	printf("service %llu found, by %s at %s\n", (unsigned long long)id, route.transport,
	       route.address);
	fflush(stdout);
	begin_us = now_us();
	for (unsigned long long i = 0; i < rounds; i++) {
		err = ping(service, id, &ball);
		if (err)
			return fail(err, "round");
	}
	printf("%llu rounds, %.2f us each\n", rounds,
	       rounds ? (now_us() - begin_us) / (double)rounds : 0.0);
	err = ping(service, id, &end);
	if (err)
		return fail(err, "end");
	ripc_close(NULL);
	if (fflush(stdout)) {
		perror("pingpong: standard output");
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "42";
	unsigned long long rounds;

	if (argc < 3)
		return wait_for_peer(name);
	if (argc > 3 || !number_arg(argv[2], UINT64_MAX, &rounds)) {
		fprintf(stderr, "usage: pingpong [SERVICE [ROUNDS]]\n");
		return 2;
	}
	return play(service_arg(name), rounds);
}
