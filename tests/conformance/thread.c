/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Many threads in one context and one service. */
#include "conf.h"

#include <poll.h>
#include <pthread.h>

#define SENDERS   4
#define RECEIVERS 3
#define EACH      300

/* check's assertions work in the main thread only: the others record the first failure. */
struct job {
	struct conf *c;
	struct ripc *ctx;
	struct ripc_service *service;
	uint64_t dest;
	unsigned index;
	unsigned count;
	int rc;
	char text[200];
	uint8_t *seen; /* SENDERS * EACH */
	pthread_t thread;
};

static void start(struct job *job, void *(*fn)(void *arg))
{
	EXPECT_EQ(0, pthread_create(&job->thread, NULL, fn, job));
}

static void finish(struct job *job)
{
	EXPECT_EQ(0, pthread_join(job->thread, NULL));
	CHECK(!job->text[0], "%s", job->text);
}

static void *send_many(void *arg)
{
	struct job *job = arg;

	for (unsigned i = 0; i < EACH; i++) {
		uint32_t data[100] = {job->index, i};
		struct iovec item = {data, i % 2 ? 8 : sizeof(data)};
		struct ripc_request *request;
		int rc;

		for (unsigned k = 2; k < 100; k++)
			data[k] = job->index * 1000 + i + k;
		if (i % 3 == 0) {
			rc = ripc_send_long(job->service, job->dest, &item, 1, NULL,
					    job->c->patience_ms);
		} else if (i % 3 == 1 && job->c->reliable) {
			rc = ripc_send_short(job->service, job->dest, &item, 1, NULL,
					     job->c->patience_ms);
		} else {
			rc = ripc_send_async(job->service, job->dest, &item, 1, NULL, &request);
			if (!rc)
				rc = ripc_request_wait(&request, job->c->patience_ms);
		}
		if (rc) {
			snprintf(job->text, sizeof(job->text), "send %u: %s: %.100s", i,
				 ripc_strerror(rc), ripc_error_detail());
			break;
		}
	}
	return NULL;
}

/* Until a message from nobody: one of 4 bytes. */
static void *receive_many(void *arg)
{
	struct job *job = arg;

	for (;;) {
		struct ripc_message *m;
		int rc = ripc_receive(job->service, &m, job->c->patience_ms);
		const uint32_t *data;
		uint32_t head[2];
		uint8_t *seen;

		if (rc) {
			snprintf(job->text, sizeof(job->text), "receive: %s", ripc_strerror(rc));
			return NULL;
		}
		if (m->items[0].iov_len == 4) {
			ripc_message_free(m);
			return NULL;
		}
		memcpy(head, m->items[0].iov_base, 8);
		data = m->items[0].iov_base;
		seen = head[0] < SENDERS ? job->seen + head[0] * EACH : NULL;
		if (head[0] >= SENDERS || head[1] >= EACH)
			snprintf(job->text, sizeof(job->text), "contents %u %u", head[0], head[1]);
		else if (__atomic_fetch_add(&seen[head[1]], 1, __ATOMIC_RELAXED))
			snprintf(job->text, sizeof(job->text), "%u of %u twice", head[1], head[0]);
		for (unsigned k = 2; k < m->items[0].iov_len / 4; k++) {
			uint32_t v;

			memcpy(&v, data + k, 4);
			if (v != head[0] * 1000 + head[1] + k)
				snprintf(job->text, sizeof(job->text), "word %u is %u", k, v);
		}
		job->count++;
		ripc_message_free(m);
	}
}

/* own_service: each sender has one; otherwise all share one. */
static void threads(struct conf *c, bool own_service)
{
	struct job sender[SENDERS], receiver[RECEIVERS];
	uint8_t *seen = calloc(SENDERS, EACH);
	unsigned received = 0;
	struct conf_pair p;

	CHECK(seen, "out of memory");
	conf_pair(c, &p);
	for (unsigned i = 0; i < RECEIVERS; i++) {
		receiver[i] = (struct job){.c = c, .service = p.sb, .seen = seen};
		start(&receiver[i], receive_many);
	}
	for (unsigned i = 0; i < SENDERS; i++) {
		sender[i] = (struct job){.c = c, .service = p.sa, .dest = p.idb, .index = i};
		if (own_service)
			sender[i].service = conf_register(c, p.a, conf_id(c));
		start(&sender[i], send_many);
	}
	for (unsigned i = 0; i < SENDERS; i++)
		finish(&sender[i]);
	for (unsigned i = 0; i < RECEIVERS; i++)
		EXPECT_OK(conf_send_long(c, p.sa, p.idb, 4, 0, c->patience_ms));
	for (unsigned i = 0; i < RECEIVERS; i++) {
		finish(&receiver[i]);
		received += receiver[i].count;
	}
	EXPECT_EQ(SENDERS * EACH, received);
	free(seen);
}

static void threads_one_service(struct conf *c)
{
	threads(c, false);
}

static void threads_own_services(struct conf *c)
{
	threads(c, true);
}

/* Both directions at once, with the same two services. */
static void threads_both_directions(struct conf *c)
{
	struct job sender[2], receiver[2];
	uint8_t *seen[2];
	struct conf_pair p;

	conf_pair(c, &p);
	for (unsigned i = 0; i < 2; i++) {
		seen[i] = calloc(SENDERS, EACH);
		CHECK(seen[i], "out of memory");
		receiver[i] = (struct job){.c = c, .service = i ? p.sa : p.sb, .seen = seen[i]};
		start(&receiver[i], receive_many);
		sender[i] = (struct job){
			.c = c, .service = i ? p.sb : p.sa, .dest = i ? p.ida : p.idb, .index = i};
		start(&sender[i], send_many);
	}
	for (unsigned i = 0; i < 2; i++)
		finish(&sender[i]);
	EXPECT_OK(conf_send_long(c, p.sa, p.idb, 4, 0, c->patience_ms));
	EXPECT_OK(conf_send_long(c, p.sb, p.ida, 4, 0, c->patience_ms));
	for (unsigned i = 0; i < 2; i++) {
		finish(&receiver[i]);
		EXPECT_EQ(EACH, receiver[i].count);
		free(seen[i]);
	}
}

/* ---- Threads that wait when what they wait on ends ---- */

static void *wait_receive(void *arg)
{
	struct job *job = arg;
	struct ripc_message *m;

	__atomic_store_n(&job->count, 1, __ATOMIC_RELEASE);
	job->rc = ripc_receive(job->service, &m, -1);
	return NULL;
}

/* One message. */
static void *wait_with_timeout(void *arg)
{
	struct job *job = arg;
	struct ripc_message *m;

	__atomic_store_n(&job->count, 1, __ATOMIC_RELEASE);
	job->rc = ripc_receive(job->service, &m, job->c->patience_ms);
	if (!job->rc)
		ripc_message_free(m);
	return NULL;
}

static void *wait_send_short(void *arg)
{
	struct job *job = arg;
	uint8_t byte = 0;
	struct iovec item = {&byte, 1};

	__atomic_store_n(&job->count, 1, __ATOMIC_RELEASE);
	job->rc = ripc_send_short(job->service, job->dest, &item, 1, NULL, -1);
	return NULL;
}

static void *wait_send_long(void *arg)
{
	struct job *job = arg;
	uint8_t byte = 0;
	struct iovec item = {&byte, 1};

	__atomic_store_n(&job->count, 1, __ATOMIC_RELEASE);
	job->rc = ripc_send_long(job->service, job->dest, &item, 1, NULL, -1);
	return NULL;
}

static void wait_for_waiters(struct conf *c, struct job *job, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		while (!__atomic_load_n(&job[i].count, __ATOMIC_ACQUIRE))
			conf_run(c, 1);
	/* Most probably they are inside by then; otherwise the call must be refused as well. */
	conf_run(c, (unsigned)conf_random(c, 30));
}

/* Fills a service until nothing goes any more. */
static void fill_up(struct conf *c, struct conf_pair *p)
{
	size_t len = 400;

	for (int i = 0; i < 200000; i++) {
		if (!conf_send_short(c, p->sa, p->idb, len, 1, c->silence_ms))
			continue;
		/* Large ones first, then small ones into what they left. */
		if (len == 1)
			return;
		len = 1;
	}
	FAIL("no end to what the receiver takes");
}

static void unregister_with_waiters(struct conf *c)
{
	struct job job[5];
	struct conf_pair p;

	conf_pair(c, &p);
	EXPECT_OK(ripc_route_lookup(p.a, p.idb, NULL, c->patience_ms));
	if (!c->datagram)
		fill_up(c, &p);
	for (unsigned i = 0; i < 5; i++) {
		job[i] = (struct job){.c = c, .service = p.sa, .dest = p.idb};
		start(&job[i], i < 3                    ? wait_receive
			       : i == 3 && !c->datagram ? wait_send_short
							: wait_receive);
	}
	wait_for_waiters(c, job, 5);
	EXPECT_OK(ripc_service_unregister(p.sa));
	for (unsigned i = 0; i < 5; i++) {
		finish(&job[i]);
		EXPECT_RC(-ESHUTDOWN, job[i].rc);
	}
	p.sa = conf_register(c, p.a, p.ida);
}

static void close_with_waiters(struct conf *c)
{
	struct job job[4];
	struct conf_pair p;

	conf_pair(c, &p);
	for (unsigned i = 0; i < 4; i++) {
		job[i] = (struct job){.c = c, .service = p.sa, .dest = conf_id(c)};
		start(&job[i], i < 2 ? wait_receive : i == 2 ? wait_send_short : wait_send_long);
	}
	wait_for_waiters(c, job, 4);
	/* -EHOSTUNREACH: the look-up for nobody may have ended before. */
	conf_close(c, p.a);
	for (unsigned i = 0; i < 4; i++) {
		finish(&job[i]);
		CHECK(job[i].rc == -ESHUTDOWN || (i > 1 && job[i].rc == -EHOSTUNREACH),
		      "waiter %u: %d", i, job[i].rc);
	}
}

static void *wait_poll(void *arg)
{
	struct job *job = arg;
	struct pollfd p = {.fd = ripc_service_fd(job->service), .events = POLLIN};

	__atomic_store_n(&job->count, 1, __ATOMIC_RELEASE);
	job->rc = poll(&p, 1, job->c->patience_ms);
	return NULL;
}

/* An event loop sleeps on the descriptor while nobody is in the library. */
static void service_fd_wakes(struct conf *c)
{
	struct ripc_message *m;
	struct conf_pair p;

	conf_pair(c, &p);
	for (unsigned i = 0; i < 10; i++) {
		struct job job = {.c = c, .service = p.sb};

		start(&job, wait_poll);
		wait_for_waiters(c, &job, 1);
		EXPECT_OK(conf_send_long(c, p.sa, p.idb, 1000, i, c->patience_ms));
		finish(&job);
		EXPECT_EQ(1, job.rc);
		EXPECT_OK(ripc_receive(p.sb, &m, 0));
		ripc_message_free(m);
	}
}

/* Contexts that come and go in several threads. */
static void *open_and_close(void *arg)
{
	struct job *job = arg;

	for (int i = 0; i < 5; i++) {
		struct ripc_service *service;
		struct ripc *ctx;
		int rc = ripc_open(&ctx, job->c->options);

		if (!rc) {
			rc = ripc_service_register(ctx, RIPC_ANY_ID, 0, &service);
			if (!rc)
				rc = ripc_route_lookup(ctx, job->dest, NULL, job->c->patience_ms);
			ripc_close(ctx);
		}
		if (rc) {
			snprintf(job->text, sizeof(job->text), "%s: %.100s", ripc_strerror(rc),
				 ripc_error_detail());
			break;
		}
	}
	return NULL;
}

static void threads_with_contexts(struct conf *c)
{
	struct job job[4];
	struct conf_pair p;

	conf_pair(c, &p);
	for (unsigned i = 0; i < 4; i++) {
		job[i] = (struct job){.c = c, .dest = p.idb};
		start(&job[i], open_and_close);
	}
	for (unsigned i = 0; i < 4; i++)
		finish(&job[i]);
	conf_exchange(c, &p);
}

/* How long a short message that may be lost is waited for before it is sent again. */
#define RETRY_MS 200

/* Sends a short message until it is received. */
static void has_received(struct conf *c, struct ripc_service *from, struct ripc_service *to,
			 unsigned tag)
{
	struct ripc_message *m;
	int rc = -EAGAIN;

	for (int waited = 0; rc && waited < c->patience_ms; waited += RETRY_MS) {
		EXPECT_OK(conf_send_short(c, from, ripc_service_id(to), 64, tag, c->patience_ms));
		rc = ripc_receive(to, &m, c->reliable ? c->patience_ms : RETRY_MS);
		if (c->reliable)
			break;
	}
	EXPECT_OK(rc);
	ripc_message_free(m);
}

/* A repeated message that arrived twice must not be taken for the next one. */
static void drop_job(struct conf *c, struct ripc_service *service)
{
	struct ripc_message *m;

	while (!c->reliable && !ripc_receive(service, &m, 50))
		ripc_message_free(m);
}

/* As wait_with_timeout(), and reports when it is over. */
static void *wait_until_received(void *arg)
{
	struct job *job = arg;

	wait_with_timeout(job);
	__atomic_store_n(&job->index, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* A polling receiver gets the next message even if it comes long after the previous ones. */
static void polling_through_a_pause(struct conf *c)
{
	struct conf_pair p = {.a = conf_open_with(c, "wait=poll")};
	struct job job;

	p.b = c->same ? p.a : conf_open_with(c, "wait=poll");
	p.ida = conf_id(c);
	p.idb = conf_id(c);
	p.sa = conf_register(c, p.a, p.ida);
	p.sb = conf_register(c, p.b, p.idb);
	conf_exchange(c, &p);
	for (unsigned i = 0; i < 400; i++) {
		has_received(c, p.sa, p.sb, i);
		has_received(c, p.sb, p.sa, i);
	}
	for (unsigned i = 0; i < 3; i++) {
		drop_job(c, p.sb);
		job = (struct job){.c = c, .service = p.sb};
		start(&job, wait_until_received);
		wait_for_waiters(c, &job, 1);
		conf_run(c, 100);
		do {
			EXPECT_OK(conf_send_short(c, p.sa, p.idb, 64, i, c->patience_ms));
			for (int waited = 0; waited < RETRY_MS && !c->reliable &&
					     !__atomic_load_n(&job.index, __ATOMIC_ACQUIRE);
			     waited++)
				conf_run(c, 1);
		} while (!c->reliable && !__atomic_load_n(&job.index, __ATOMIC_ACQUIRE));
		finish(&job);
		EXPECT_EQ(0, job.rc);
	}
}

const struct conf_case conf_thread[] = {
	{"threads_one_service", threads_one_service, CONF_REAL},
	{"threads_own_services", threads_own_services, CONF_REAL},
	{"threads_both_directions", threads_both_directions, CONF_REAL},
	{"unregister_with_waiters", unregister_with_waiters, CONF_REAL},
	{"close_with_waiters", close_with_waiters, CONF_REAL},
	{"service_fd_wakes", service_fd_wakes, CONF_REAL},
	{"polling_through_a_pause", polling_through_a_pause, CONF_REAL},
	{"threads_with_contexts", threads_with_contexts, CONF_REAL | CONF_TWO_CONTEXTS},
	{0},
};
