/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A service that moves between hosts, and its client, as processes, for test_takeover.sh:
 *
 *   move_tool serve ID OPTIONS    takes ID over, prints "holding", and "got N" for each message;
 *                                 ends when ID was taken over, or with SIGTERM
 *   move_tool stream ID OPTIONS   sends N = 0, 1, 2 ..., one after the other, large and small,
 *                                 until SIGTERM; a failed send is printed ("unsure N") and
 *                                 repeated. Prints "begun" first, and last "sent N, the longest
 *                                 pause M ms"
 */
#include "base/clock.h"
#include "ripc.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONG_BYTES      20000
#define SEND_TIMEOUT_MS 60000

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
	stopped = 1;
}

static int fail(const char *what)
{
	printf("error: %s: %s\n", what, ripc_error_detail());
	return 1;
}

static int serve(struct ripc *ctx, uint64_t id)
{
	struct ripc_service *s;
	struct ripc_message *m;
	uint32_t number;
	int rc;

	if (ripc_service_register(ctx, id, RIPC_TAKEOVER, &s))
		return fail("register");
	printf("holding\n");
	while (!stopped) {
		rc = ripc_receive(s, &m, 100);
		if (rc == -ETIMEDOUT)
			continue;
		if (rc == -ESHUTDOWN) {
			printf("moved\n");
			break;
		}
		if (rc)
			return fail("receive");
		memcpy(&number, m->items[0].iov_base, sizeof(number));
		printf("got %" PRIu32 "\n", number);
		ripc_message_free(m);
	}
	return ripc_service_unregister(s) ? fail("unregister") : 0;
}

static int stream(struct ripc *ctx, uint64_t id)
{
	static uint8_t bytes[LONG_BYTES];
	uint64_t last = 0, longest = 0, now;
	struct ripc_service *from;
	uint32_t number = 0;
	int rc;

	if (ripc_service_register(ctx, RIPC_ANY_ID, 0, &from))
		return fail("register");
	while (!stopped) {
		struct iovec item = {bytes, number % 2 ? sizeof(number) : LONG_BYTES};

		memcpy(bytes, &number, sizeof(number));
		rc = ripc_send_long(from, id, &item, 1, NULL, SEND_TIMEOUT_MS);
		if (rc) {
			printf("unsure %" PRIu32 ": %s\n", number, ripc_error_detail());
			usleep(1000);
			continue;
		}
		if (!number)
			printf("begun\n");
		now = ripc__clock_ns();
		if (number++ && now - last > longest)
			longest = now - last;
		last = now;
		usleep(500);
	}
	if (ripc_service_unregister(from))
		return fail("unregister");
	printf("sent %" PRIu32 ", the longest pause %" PRIu64 " ms\n", number, longest / RIPC__MS);
	return 0;
}

int main(int argc, char **argv)
{
	bool server = argc > 3 && !strcmp(argv[1], "serve");
	struct ripc *ctx;
	int rc;

	if (argc != 4 || (!server && strcmp(argv[1], "stream"))) {
		fprintf(stderr, "usage: %s serve|stream ID OPTIONS\n", argv[0]);
		return 64;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGTERM, stop);
	if (ripc_open(&ctx, argv[3]))
		return fail("open");
	rc = server ? serve(ctx, strtoull(argv[2], NULL, 0))
		    : stream(ctx, strtoull(argv[2], NULL, 0));
	ripc_close(ctx);
	return rc;
}
