/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An attacker in a process of its own: it opens connections to a context over iwarp/soft, with a
 * request of the test's choice, keeps them all and opens another one for each that ends. The
 * context has few descriptors, and has to serve a new client while the attack holds.
 */
#ifndef RIPC_TESTS_FLOOD_H
#define RIPC_TESTS_FLOOD_H

#include "harness.h"

#include "base/clock.h"
#include "core/memory/buffer.h"
#include "core/progress/context.h"
#include "core/progress/transports.h"
#include "transport/transport.h"
#include "wire/hello.h"
#include "transport/transfer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define FLOOD_LIMIT 128 /* descriptors of the context under attack */
#define FLOOD_LANES 300 /* connections that the attacker wants */
#define FLOOD_OPS   (&ripc__transport_soft)

struct flood {
	uint8_t addr[RIPC__ADDRESS_MAX], target[16];
	int addrlen;
	/* Writes request number i into priv. Return: its bytes. */
	size_t (*request)(struct flood *f, unsigned i, uint8_t *priv);
	void *arg;
	pid_t pid;
	int holds; /* readable when the attack holds */
};

/* Where a context is reached over iwarp/soft. */
static inline void flood_set_target(struct flood *f, struct ripc *ctx)
{
	memcpy(f->target, ctx->instance, 16);
	for (unsigned i = 0; i < ctx->ntp; i++)
		if (ctx->tp[i].t && ctx->tp[i].ops == FLOOD_OPS)
			f->addrlen = FLOOD_OPS->address(ctx->tp[i].t, f->addr, sizeof(f->addr));
	ck_assert_int_gt(f->addrlen, 0);
}

static inline void flood_run(struct flood *f, int done_fd)
{
	static const uint8_t instance[16] = "attacker";
	struct ripc__options opt;
	struct ripc__transport_env env = {.opt = &opt, .instance = instance};
	struct ripc__transport *t;
	unsigned open = 0, made = 0, answered = 0;
	char why[256];

	if (ripc__options_load(&opt, "interfaces=lo", why, sizeof(why)))
		_exit(2);
	if (FLOOD_OPS->open(&t, &env))
		_exit(2);
	for (;;) {
		struct ripc__event ev[16];
		uint64_t deadline = RIPC__NEVER;
		unsigned n;

		/*
		 * A few connections at a time: a new one displaces the oldest one without traffic.
		 */
		for (unsigned k = 0; k < 4 && open < FLOOD_LANES; k++) {
			uint8_t priv[RIPC__PRIVATE_MAX];
			size_t len = f->request(f, made++, priv);
			struct ripc__ep *ep;
			size_t addrlen = (size_t)f->addrlen;

			if (FLOOD_OPS->connect(t, f->addr, addrlen, priv, len, &open, &ep))
				break;
			open++;
		}
		n = FLOOD_OPS->progress(t, ev, 16, ripc__clock_ns(), &deadline);
		for (unsigned k = 0; k < n; k++) {
			if (ev[k].token)
				FLOOD_OPS->release(t, ev[k].token);
			answered +=
				ev[k].kind == RIPC__EV_ESTABLISHED || ev[k].kind == RIPC__EV_CLOSED;
			if (ev[k].kind == RIPC__EV_CLOSED) {
				FLOOD_OPS->ep_close(ev[k].ep);
				open--;
			}
			if (ev[k].kind == RIPC__EV_REQUEST)
				FLOOD_OPS->reject(t, ev[k].request, NULL, 0);
		}
		if (done_fd >= 0 && answered >= FLOOD_LIMIT - 40) {
			(void)!write(done_fd, "", 1);
			close(done_fd);
			done_fd = -1;
		}
		if (!n && !FLOOD_OPS->arm(t))
			poll(&(struct pollfd){test_fd(FLOOD_OPS, t), POLLIN, 0}, 1, 1);
	}
}

/* Returns when the attack holds. From then on this process has few descriptors. */
static inline void flood_begin(struct flood *f)
{
	struct rlimit tight;
	int p[2];
	char byte;

	ck_assert_int_eq(pipe(p), 0);
	f->pid = fork();
	if (!f->pid) {
		close(p[0]);
		flood_run(f, p[1]);
	}
	ck_assert_int_gt(f->pid, 0);
	close(p[1]);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &tight), 0);
	tight.rlim_cur = FLOOD_LIMIT;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
	ck_assert_int_eq(read(p[0], &byte, 1), 1);
	close(p[0]);
}

static inline void flood_end(struct flood *f)
{
	ck_assert_int_eq(kill(f->pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(f->pid, NULL, 0), f->pid);
}

/* A new context in a process of its own sends a message to the service. Return: its process. */
static inline pid_t flood_client(const char *options, uint64_t service)
{
	pid_t pid = fork();
	struct iovec item = {"hello", 5};
	struct ripc_service *s;
	struct ripc *ctx;

	if (pid)
		return pid;
	if (ripc_open(&ctx, options) || ripc_service_register(ctx, RIPC_ANY_ID, 0, &s))
		_exit(2);
	_exit(ripc_send_long(s, service, &item, 1, NULL, 20000) ? 1 : 0);
}

/* Some clients, one after the other, are served while the attack holds. */
static inline void flood_check(const char *options, uint64_t service, struct ripc_service *s)
{
	for (unsigned i = 0; i < 3; i++) {
		pid_t pid = flood_client(options, service);
		struct ripc_message *m;
		int status;

		ck_assert_msg(!ripc_receive(s, &m, 30000), "client %u was not served", i);
		ripc_message_free(m);
		/* The progress thread sends the acknowledgement. */
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert(WIFEXITED(status));
		ck_assert_int_eq(WEXITSTATUS(status), 0);
	}
}

#endif
