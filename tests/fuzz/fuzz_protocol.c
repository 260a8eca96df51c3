/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A context in a simulated network receives arbitrary input from a peer that is properly connected
 * to it. It exchanges messages with two honest contexts at the same time: these must not be
 * disturbed, and its memory stays bounded.
 *
 * The input is a list of steps, a byte that selects the step and its arguments: see enum step.
 */
#include "hostile_peer.h"
#include "base/clock.h"
#include "core/memory/buffer.h"
#include "core/sim/world.h"
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#define STEPS_MAX 100
#define LEN_MAX   1000
#define CALLS     4
#define GROUP     UINT64_C(5)

/* With its arguments; those of the peer are in hostile_peer.h. */
enum step {
	MESSAGE, /* of the peer */
	RAW,     /* of the peer */
	RUN,     /* u8: time passes, up to 25 ms */
	WAIT,    /* u8: the same, up to 2.5 s */
	RECEIVE, /* the victim takes its messages */
	/*
	 * u8: the victim sends a message to the peer, short or long, with or without a return
	 * buffer
	 */
	ANSWER,
	WITHDRAW, /* the victim frees its return buffer or cancels its request */
	CLOSE,    /* the lane is closed, and comes up again */
	REGISTER, /* the victim gives its second service up, or takes it again */
	WINDOW,   /* the victim sets a window aside */
	WRITE,    /* of the peer */
	HELLO,    /* of the peer */
	ELIDED,   /* of the peer */
	CALL,     /* u8: the victim calls the peer, looks for the answer, or cancels the call */
	WATCH,    /* u8: the victim watches the peer's service, or does not any more */
	DATAGRAM, /* of the peer */
	MEMBER,   /* u8: the victim joins or leaves a group, or sends to it */
	STEPS,
};

struct run {
	struct hostile_peer peer;
	struct ripc__sim *net;
	struct ripc *ctx[3]; /* 0 is the victim */
	struct ripc_service *s[3];
	struct ripc_service *second;  /* another one of the victim, or NULL */
	void *return_buf;             /* a return buffer of the victim */
	struct ripc_request *request; /* of the victim to the peer */
	struct ripc_request *calls[CALLS];
	unsigned nrequests; /* requests of calls that the victim received */
	uint8_t sent[30000];
};

static void is_idle(void *arg, const char *text)
{
	abort();
}

/* ---- the victim ---- */

/* Answers, refuses or ignores the request of a call. */
static void reply(struct run *r, struct ripc_message *m)
{
	struct iovec item = {r->sent, 50};

	switch (r->nrequests++ % 4) {
	case 0:
		ripc_reply(m, &item, 1, 0);
		break;
	case 1:
		ripc_reply_error(m, EACCES);
		break;
	case 2:
		item.iov_len = 20000;
		ripc_reply(m, &item, 1, 5);
		break;
	default:
		ripc_message_cancelled(m);
		break;
	}
}

static void receive_all(struct run *r, struct ripc_service *s)
{
	struct ripc_message *m;

	while (s && !ripc_receive(s, &m, 0)) {
		volatile uint8_t sum = 0;

		/* A peer may send items of gigabytes: not every byte of them. */
		for (unsigned i = 0; i < m->nitems; i++)
			for (size_t k = 0; k < m->items[i].iov_len;
			     k += 1 + m->items[i].iov_len / 65536)
				sum = (uint8_t)(sum + ((const uint8_t *)m->items[i].iov_base)[k]);
		if (m->call)
			reply(r, m);
		ripc_message_free(m);
	}
}

static void call(struct run *r)
{
	uint8_t how = take(&r->peer.in);
	struct ripc_request **c = &r->calls[how % CALLS];
	struct ripc_call_options options = {.size = sizeof(options),
					    .flags = how & 16 ? RIPC_IDEMPOTENT : 0};
	struct iovec item = {r->sent, how & 8 ? 20000 : 50};
	struct ripc_completion done = {.size = sizeof(done)};
	struct ripc_message *m = NULL;

	if (!*c) {
		ripc_call_start(r->s[0], PEER_ID, &item, 1, &options, how & 32 ? 20 : 2000, c);
		return;
	}
	ripc_completion_next(r->ctx[0], &done, 0);
	if (how & 4)
		ripc_request_cancel(c, 10);
	else
		ripc_call_wait(c, &m, 0);
	if (m)
		ripc_message_free(m);
}

static void cancel(struct run *r)
{
	if (r->request)
		ripc_request_cancel(&r->request, 10);
	if (r->return_buf)
		check(!ripc_buf_free(r->ctx[0], r->return_buf));
	r->return_buf = NULL;
}

static void answer(struct run *r)
{
	uint8_t how = take(&r->peer.in);
	struct iovec item = {r->sent, how & 1 ? 20000 : 50}, back;
	struct ripc_send_options options = {.size = sizeof(options), .return_buffers = &back};

	if (how & 2 && !r->return_buf) {
		r->return_buf = ripc_buf_alloc(r->ctx[0], 5000);
		back = (struct iovec){r->return_buf, 5000};
		options.nreturn_buffers = r->return_buf ? 1 : 0;
	}
	if (!(how & 4))
		ripc_send_short(r->s[0], PEER_ID, &item, 1, &options, 5);
	else if (!r->request)
		ripc_send_async(r->s[0], PEER_ID, &item, 1, &options, &r->request);
}

static void window(struct run *r)
{
	void *p;

	if (r->ctx[0]->memory->nrecv_windows > 4)
		return;
	p = ripc_buf_alloc(r->ctx[0], 3000);
	if (p)
		ripc_window_add(r->ctx[0], NULL, p, 3000);
}

static void member(struct run *r)
{
	struct iovec item = {r->sent, 50};

	switch (take(&r->peer.in) % 3) {
	case 0:
		ripc_group_join(r->s[0], GROUP, 500);
		break;
	case 1:
		ripc_group_leave(r->s[0], GROUP);
		break;
	default:
		ripc_group_send(r->s[0], GROUP, &item, 1, NULL, 5);
		break;
	}
}

static void do_register(struct run *r)
{
	if (r->second)
		check(!ripc_service_unregister(r->second));
	else if (!ripc_service_register(r->ctx[0], ID(3), 0, &r->second))
		return;
	r->second = NULL;
}

/* ---- the honest ---- */

static void exchange(struct run *r, unsigned i, unsigned k)
{
	struct iovec item = {r->sent, 100};
	struct ripc_message *m;

	receive_all(r, r->s[k]);
	check(!ripc_send_short(r->s[i], ID(k), &item, 1, NULL, 5000));
	do
		check(!ripc_receive(r->s[k], &m, 5000));
	while (m->source != ID(i) && (ripc_message_free(m), true));
	check(m->nitems == 1 && m->items[0].iov_len == 100 &&
	      !memcmp(m->items[0].iov_base, r->sent, 100));
	ripc_message_free(m);
	item.iov_len = 20000;
	check(!ripc_send_long(r->s[i], ID(k), &item, 1, NULL, 5000));
	do
		check(!ripc_receive(r->s[k], &m, 5000));
	while (m->source != ID(i) && (ripc_message_free(m), true));
	check(m->nitems == 1 && m->items[0].iov_len == 20000 &&
	      !memcmp(m->items[0].iov_base, r->sent, 20000));
	ripc_message_free(m);
}

static void begin(struct run *r)
{
	struct ripc__sim_config config;
	struct ripc__hooks hooks;

	ripc__sim_defaults(&config);
	config.datagram = config.multicast = true;
	r->net = ripc__sim_create(1, &config, is_idle, NULL);
	check(r->net != NULL);
	ripc__sim_hooks(r->net, &hooks);
	for (size_t i = 0; i < sizeof(r->sent); i++)
		r->sent[i] = (uint8_t)(i * 7 + i / 256);
	for (unsigned i = 0; i < 3; i++) {
		check(!ripc__open_hooked(&r->ctx[i], "pool_bytes=1000000", &hooks));
		check(!ripc__sim_attach(r->net, r->ctx[i]));
		check(!ripc_service_register(r->ctx[i], ID(i), 0, &r->s[i]));
	}
	peer_open(&r->peer, r->net, r->ctx[0]);
	exchange(r, 1, 2);
	exchange(r, 1, 0);
	peer_up(&r->peer);
}

static void end(struct run *r)
{
	struct ripc__sim_counters counters;

	/* Nothing of what was done to the victim is anybody else's business. */
	exchange(r, 2, 1);
	exchange(r, 1, 0);
	exchange(r, 0, 2);
	cancel(r);
	for (unsigned i = 0; i < CALLS; i++)
		if (r->calls[i])
			ripc_request_cancel(&r->calls[i], 10);
	peer_close(&r->peer);
	for (unsigned i = 0; i < 3; i++) {
		receive_all(r, r->s[i]);
		check(!ripc_close(r->ctx[i]));
		ripc__sim_detach(r->net, r->ctx[i]);
	}
	while (ripc__sim_step(r->net, RIPC__NEVER))
		;
	ripc__sim_counters(r->net, &counters);
	check(!counters.endpoints && !counters.regions && !counters.packets);
	ripc__sim_destroy(r->net);
}

static void step(struct run *r)
{
	switch (take(&r->peer.in) % STEPS) {
	case MESSAGE:
		peer_message(&r->peer);
		break;
	case RAW:
		peer_raw(&r->peer);
		break;
	case RUN:
		ripc__sim_run(r->net, take(&r->peer.in) * UINT64_C(100000) + 1);
		break;
	case WAIT:
		ripc__sim_run(r->net, take(&r->peer.in) * UINT64_C(10000000) + 1);
		break;
	case RECEIVE:
		receive_all(r, r->s[0]);
		receive_all(r, r->second);
		break;
	case ANSWER:
		answer(r);
		break;
	case WITHDRAW:
		cancel(r);
		break;
	case CLOSE:
		peer_down(&r->peer);
		break;
	case REGISTER:
		do_register(r);
		break;
	case WINDOW:
		window(r);
		break;
	case WRITE:
		peer_write(&r->peer);
		break;
	case HELLO:
		peer_request(&r->peer);
		break;
	case ELIDED:
		peer_elided(&r->peer);
		break;
	case CALL:
		call(r);
		break;
	case WATCH:
		if (take(&r->peer.in) & 1)
			ripc_unwatch(r->s[0], PEER_ID);
		else
			ripc_watch(r->s[0], PEER_ID);
		break;
	case DATAGRAM:
		peer_datagram(&r->peer);
		break;
	case MEMBER:
		member(r);
		break;
	default:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run *r = calloc(1, sizeof(*r));

	if (!r)
		return 0;
	r->peer.in = (struct input){.data = data, .size = size < LEN_MAX ? size : LEN_MAX};
	begin(r);
	for (unsigned i = 0; i < STEPS_MAX && r->peer.in.at < r->peer.in.size; i++) {
		step(r);
		/* Its limit at the victim: a few messages. */
		check(r->ctx[0]->stats.lanes <= 4 && r->ctx[0]->stats.peers <= 4 + PEER_OTHERS);
		if (i % 32 == 31)
			exchange(r, 1, 2);
	}
	end(r);
	free(r);
	return 0;
}
