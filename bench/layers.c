/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Round trips of short messages between two contexts of one process, in one thread, for counting
 * instructions: no poll is in vain, because each message has arrived when it is received.
 * bench/layers.sh runs it under callgrind, or perf. It prints the nanoseconds of processor time of
 * each round trip.
 *
 *     layers COUNT [BYTES [OPTIONS]]     OPTIONS as for ripc_open()
 */
#include <ripc.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BYTES_MAX  1024
#define TIMEOUT_MS 60000

static int fail(int err, const char *what)
{
	fprintf(stderr, "layers: %s: %s: %s\n", what, ripc_strerror(err), ripc_error_detail());
	return 1;
}

static double used_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* One way. */
static int send_one(struct ripc_service *from, struct ripc_service *to, const struct iovec *item,
		    struct ripc_message **m)
{
	int err = ripc_send_short(from, ripc_service_id(to), item, 1, NULL, TIMEOUT_MS);

	return err ? err : ripc_receive(to, m, TIMEOUT_MS);
}

static int round_trip(struct ripc_service *a, struct ripc_service *b, const struct iovec *item)
{
	struct ripc_message *m;
	int err = send_one(a, b, item, &m);

	if (err)
		return err;
	ripc_message_free(m);
	err = send_one(b, a, item, &m);
	if (!err)
		ripc_message_free(m);
	return err;
}

int main(int argc, char **argv)
{
	unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 64;
	char text[BYTES_MAX] = {0};
	struct iovec item = {.iov_base = text, .iov_len = bytes};
	struct ripc_service *a, *b;
	struct ripc *one, *two;
	double begin_ns;
	int err;

	if (!count || bytes > BYTES_MAX) {
		fprintf(stderr, "usage: layers COUNT [BYTES [OPTIONS]]\n");
		return 2;
	}
	err = ripc_open(&one, argc > 3 ? argv[3] : NULL);
	if (!err)
		err = ripc_open(&two, argc > 3 ? argv[3] : NULL);
	if (!err)
		err = ripc_service_register(one, RIPC_ANY_ID, 0, &a);
	if (!err)
		err = ripc_service_register(two, RIPC_ANY_ID, 0, &b);
	/* Both find each other first. */
	for (unsigned long i = 0; i < 100 && !err; i++)
		err = round_trip(a, b, &item);
	begin_ns = used_ns();
	for (unsigned long i = 0; i < count && !err; i++)
		err = round_trip(a, b, &item);
	if (!err)
		printf("%.1f\n", (used_ns() - begin_ns) / (double)count);
	if (err)
		return fail(err, "round trip");
	ripc_close(one);
	ripc_close(two);
	return 0;
}
