/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * NNG: req and rep. A context of a req socket has one call at a time, so each outstanding call has
 * a context with an asynchronous operation of its own. NNG matches requests and answers.
 */
#include "rpc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<nng/nng.h>)
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>

struct slot {
	nng_ctx ctx;
	nng_aio *aio;
	bool answering; /* the operation is the receipt of the answer, not the send */
};

static nng_socket sock;
static struct slot *slots;
static unsigned depth;
static const void *request;
static size_t request_len;

/* The lock protects the counts of the run. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_ended = PTHREAD_COND_INITIALIZER;
static uint64_t to_begin, active;
static int failed;

static void step(void *slot);

static int fail(const char *what, int rc)
{
	return rpc_fail(what, nng_strerror(rc));
}

static int set_up(const char *url, bool server)
{
	int rc = server ? nng_rep0_open(&sock) : nng_req0_open(&sock);

	if (!rc)
		rc = nng_socket_set_int(sock, NNG_OPT_SENDBUF, 1024);
	if (!rc)
		rc = nng_socket_set_int(sock, NNG_OPT_RECVBUF, 1024);
	/* Sockets of ipc do not have this option. */
	nng_socket_set_bool(sock, NNG_OPT_TCP_NODELAY, true);
	if (!rc)
		rc = server ? nng_listen(sock, url, NULL, 0)
			    : nng_dial(sock, url, NULL, NNG_FLAG_NONBLOCK);
	return rc ? fail(url, rc) : 0;
}

static int serve(const char *url)
{
	nng_msg *m;
	int rc = set_up(url, true);

	while (!rc) {
		rc = nng_recvmsg(sock, &m, 0);
		if (!rc)
			rc = nng_sendmsg(sock, m, 0);
	}
	return rc < 0 ? rc : fail("serve", rc);
}

static int connect_to(const char *url, unsigned outstanding)
{
	int rc = set_up(url, false);

	slots = calloc(outstanding, sizeof(*slots));
	depth = outstanding;
	if (!slots)
		return rpc_fail("connect", "out of memory");
	for (unsigned i = 0; !rc && i < outstanding; i++) {
		rc = nng_ctx_open(&slots[i].ctx, sock);
		if (!rc)
			rc = nng_aio_alloc(&slots[i].aio, step, &slots[i]);
		if (rc)
			fail("context", rc);
	}
	return rc;
}

static int message(nng_msg **m, const void *bytes, size_t len)
{
	int rc = nng_msg_alloc(m, len);

	if (!rc)
		memcpy(nng_msg_body(*m), bytes, len);
	return rc;
}

static int begin(struct slot *slot)
{
	nng_msg *m;
	int rc = message(&m, request, request_len);

	if (rc)
		return rc;
	slot->answering = false;
	nng_aio_set_msg(slot->aio, m);
	nng_ctx_send(slot->ctx, slot->aio);
	return 0;
}

/* Begins the slot's next call, or ends the slot if none is left or @rc is an error. */
static void begin_or_end(struct slot *slot, int rc)
{
	bool more;

	pthread_mutex_lock(&lock);
	failed = failed ? failed : rc;
	more = to_begin && !failed;
	to_begin -= more;
	pthread_mutex_unlock(&lock);
	rc = more ? begin(slot) : 0;
	if (more && !rc)
		return;
	pthread_mutex_lock(&lock);
	failed = failed ? failed : rc;
	if (!--active)
		pthread_cond_signal(&all_ended);
	pthread_mutex_unlock(&lock);
}

/* The operation of a slot has ended; runs in a thread of NNG. */
static void step(void *arg)
{
	struct slot *slot = arg;
	int rc = nng_aio_result(slot->aio);

	if (rc && !slot->answering)
		nng_msg_free(nng_aio_get_msg(slot->aio));
	if (!rc && !slot->answering) {
		slot->answering = true;
		nng_ctx_recv(slot->ctx, slot->aio);
		return;
	}
	if (!rc) {
		nng_msg *m = nng_aio_get_msg(slot->aio);

		rc = nng_msg_len(m) == request_len ? 0 : NNG_EPROTO;
		nng_msg_free(m);
	}
	begin_or_end(slot, rc);
}

static int calls(const void *bytes, size_t len, uint64_t count)
{
	request = bytes;
	request_len = len;
	pthread_mutex_lock(&lock);
	to_begin = count;
	active = depth;
	pthread_mutex_unlock(&lock);
	for (unsigned i = 0; i < depth; i++)
		begin_or_end(&slots[i], 0);
	pthread_mutex_lock(&lock);
	while (active)
		pthread_cond_wait(&all_ended, &lock);
	pthread_mutex_unlock(&lock);
	return failed ? fail("call", failed) : 0;
}

static int call(const void *bytes, size_t len)
{
	nng_msg *m;
	int rc = message(&m, bytes, len);

	if (rc)
		return fail("message", rc);
	rc = nng_sendmsg(sock, m, 0);
	if (rc) {
		nng_msg_free(m);
		return fail("send", rc);
	}
	rc = nng_recvmsg(sock, &m, 0);
	if (rc)
		return fail("receive", rc);
	rc = nng_msg_len(m) == len ? 0 : rpc_fail("receive", "not the answer to this call");
	nng_msg_free(m);
	return rc;
}

const struct rpc rpc = {.name = "nng",
			.version = nng_version,
			.serve = serve,
			.connect = connect_to,
			.call = call,
			.calls = calls,
			.unix_url = "ipc://%s",
			.tcp_url = "tcp://127.0.0.1:%s"};
#endif
