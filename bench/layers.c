/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Round trips of messages between two contexts of one process, in one thread, for counting
 * instructions: no poll is in vain, because each message has arrived when it is received.
 * bench/layers.sh runs it under callgrind, or perf. It prints the nanoseconds of processor time of
 * each round trip.
 *
 *     layers COUNT [BYTES [OPTIONS [KIND]]]
 *
 * OPTIONS: as for ripc_open(). KIND: short, reliable, call: a request and its answer, or mapped:
 * long messages out of buffers that the other context maps, which it frees before it answers.
 */
#include <ripc.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BYTES_MAX  1024
#define MAPPED_LEN (1u << 20)
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

/* Between services a and b of two contexts. */
struct pair {
	struct ripc_service *a, *b;
	const struct ripc_send_options *options;
	void *buffers[2];               /* mapped: of a and b */
	struct ripc_request *answering; /* mapped: b's last message */
};

/* One way. */
static int send_one(const struct pair *p, struct ripc_service *from, struct ripc_service *to,
		    const struct iovec *item, struct ripc_message **m)
{
	int err = ripc_send_short(from, ripc_service_id(to), item, 1, p->options, TIMEOUT_MS);

	return err ? err : ripc_receive(to, m, TIMEOUT_MS);
}

/* One way, received and freed; the request is under way. */
static int map_one(struct ripc_service *from, struct ripc_service *to, void *buffer,
		   struct ripc_request **request)
{
	struct iovec item = {buffer, MAPPED_LEN};
	struct ripc_message *m;
	int err = ripc_send_async(from, ripc_service_id(to), &item, 1, NULL, request);

	if (!err)
		err = ripc_receive(to, &m, TIMEOUT_MS);
	if (!err)
		ripc_message_free(m);
	return err;
}

static int mapped(struct pair *p, const struct iovec *item)
{
	struct ripc_request *asking;
	int err = map_one(p->a, p->b, p->buffers[0], &asking);

	(void)item;
	if (!err && p->answering)
		err = ripc_request_wait(&p->answering, TIMEOUT_MS);
	if (!err)
		err = map_one(p->b, p->a, p->buffers[1], &p->answering);
	return err ? err : ripc_request_wait(&asking, TIMEOUT_MS);
}

static int messages(struct pair *p, const struct iovec *item)
{
	struct ripc_message *m;
	int err = send_one(p, p->a, p->b, item, &m);

	if (err)
		return err;
	ripc_message_free(m);
	err = send_one(p, p->b, p->a, item, &m);
	if (!err)
		ripc_message_free(m);
	return err;
}

static int call(struct pair *p, const struct iovec *item)
{
	struct ripc_request *request;
	struct ripc_message *m;
	int err = ripc_call_start(p->a, ripc_service_id(p->b), item, 1, NULL, TIMEOUT_MS, &request);

	if (err)
		return err;
	err = ripc_receive(p->b, &m, TIMEOUT_MS);
	if (err)
		return err;
	err = ripc_reply(m, item, 1, 0);
	ripc_message_free(m);
	if (err)
		return err;
	err = ripc_call_wait(&request, &m, TIMEOUT_MS);
	if (!err)
		ripc_message_free(m);
	return err;
}

int main(int argc, char **argv)
{
	unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 64;
	const char *kind = argc > 4 ? argv[4] : "short";
	int (*round_trip)(struct pair *, const struct iovec *) = !strcmp(kind, "call") ? call
								 : !strcmp(kind, "mapped")
									 ? mapped
									 : messages;
	struct ripc_send_options reliable = {.size = sizeof(reliable), .flags = RIPC_RELIABLE};
	char text[BYTES_MAX] = {0};
	struct iovec item = {.iov_base = text, .iov_len = bytes};
	struct pair p = {.options = strcmp(kind, "reliable") ? NULL : &reliable};
	struct ripc *one, *two;
	double begin_ns;
	int err;

	if (!count || bytes > BYTES_MAX ||
	    (strcmp(kind, "short") && strcmp(kind, "reliable") && round_trip == messages)) {
		fprintf(stderr,
			"usage: layers COUNT [BYTES [OPTIONS [short|reliable|call|mapped]]]\n");
		return 2;
	}
	err = ripc_open(&one, argc > 3 ? argv[3] : NULL);
	if (!err)
		err = ripc_open(&two, argc > 3 ? argv[3] : NULL);
	if (!err)
		err = ripc_service_register(one, RIPC_ANY_ID, 0, &p.a);
	if (!err)
		err = ripc_service_register(two, RIPC_ANY_ID, 0, &p.b);
	if (!err && round_trip == mapped) {
		p.buffers[0] = ripc_buf_alloc(one, MAPPED_LEN);
		p.buffers[1] = ripc_buf_alloc(two, MAPPED_LEN);
		err = p.buffers[0] && p.buffers[1] ? 0 : -ENOMEM;
	}
	/* Both find each other first. */
	for (unsigned long i = 0; i < 100 && !err; i++)
		err = round_trip(&p, &item);
	begin_ns = used_ns();
	for (unsigned long i = 0; i < count && !err; i++)
		err = round_trip(&p, &item);
	if (!err)
		printf("%.1f\n", (used_ns() - begin_ns) / (double)count);
	if (err)
		return fail(err, "round trip");
	ripc_close(one);
	ripc_close(two);
	return 0;
}
