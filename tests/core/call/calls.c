/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/call/calls.h"

struct rig rig;
struct server servers[3];
unsigned nservers;

uint64_t number_of(const struct ripc_message *m)
{
	uint64_t n;

	ck_assert_uint_ge(m->items[0].iov_len, sizeof(n));
	memcpy(&n, m->items[0].iov_base, sizeof(n));
	return n;
}

static void serve(struct server *sv)
{
	struct ripc_message *m;

	for (unsigned i = 0; i < 8; i++) {
		if (!sv->answer[i] || ripc_request_test(&sv->answer[i]) == -EINPROGRESS)
			continue;
		ripc_message_free(sv->answered[i]);
	}
	while (sv->s && !ripc_receive(sv->s, &m, 0)) {
		struct iovec item = {m->items[0].iov_base, m->items[0].iov_len};
		uint64_t n = number_of(m);
		int rc;

		ck_assert_uint_ne(m->call, 0);
		ck_assert_uint_lt(n, EXECUTED_MAX);
		sv->executed[n]++;
		if (sv->keep && sv->nkept < 64) {
			sv->kept[sv->nkept++] = m;
			continue;
		}
		if (sv->reply) {
			memcpy(sv->reply, &n, sizeof(n));
			item = (struct iovec){sv->reply, sv->reply_len};
		}
		rc = ripc_reply(m, &item, 1, 0);
		for (unsigned i = 0; i < 8 && rc == -EAGAIN; i++) {
			if (sv->answer[i])
				continue;
			rc = ripc_reply_start(m, &item, 1, NULL, &sv->answer[i]);
			sv->answered[i] = rc ? NULL : m;
			m = rc ? m : NULL;
		}
		ck_assert_msg(!rc || rc == -ECANCELED, "%d: %s", rc, ripc_error_detail());
		ripc_message_free(m);
	}
}

void serve_all(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < nservers; i++)
		serve(&servers[i]);
}

void calls_setup_with(void (*change)(struct ripc__sim_config *config))
{
	memset(servers, 0, sizeof(servers));
	rig_start(&rig, 2, change);
	servers[0].s = rig.s[1];
	nservers = 1;
	OK(ripc__sim_actor(rig.net, serve_all, NULL));
}

void calls_setup(void)
{
	calls_setup_with(NULL);
}

void calls_teardown(void)
{
	ripc__sim_actor_remove(rig.net, serve_all, NULL);
	for (unsigned i = 0; i < nservers; i++)
		for (unsigned k = 0; k < servers[i].nkept; k++)
			ripc_message_free(servers[i].kept[k]);
	rig_end(&rig);
}

int start(uint64_t dest, uint64_t n, size_t len, const struct ripc_call_options *o, int timeout_ms,
	  struct ripc_request **r)
{
	static uint8_t request[300000];
	static uint8_t bytes[64][8];
	uint8_t *p = len <= 8 ? bytes[n % 64] : len <= 20000 ? request + n % 10 * 20000 : request;
	struct iovec item = {p, len};

	memcpy(p, &n, sizeof(n));
	return ripc_call_start(rig.s[0], dest, &item, 1, o, timeout_ms, r);
}

int result(struct ripc_request **r, uint64_t n)
{
	struct ripc_message *m;
	int rc = ripc_call_wait(r, &m, 60000);

	ck_assert_int_ne(rc, -EINPROGRESS);
	ck_assert_ptr_null(*r);
	if (!rc) {
		ck_assert_ptr_nonnull(m);
		ck_assert_uint_eq(number_of(m), n);
		ck_assert_uint_eq(m->call, 0);
	}
	ripc_message_free(m);
	return rc;
}

int call(uint64_t n, size_t len, int timeout_ms)
{
	struct ripc_request *r;

	OK(start(RIG_ID(1), n, len, NULL, timeout_ms, &r));
	return result(&r, n);
}

void await_kept(unsigned n)
{
	while (servers[0].nkept < n)
		rig_run(&rig, 1);
}

int reply_kept(unsigned i)
{
	struct ripc_message *m = servers[0].kept[i];

	return ripc_reply(m, &m->items[0], 1, 0);
}

void open_second_holder(void)
{
	unsigned i = rig_open(&rig, NULL);

	OK(ripc_service_unregister(rig.s[i]));
	OK(ripc_service_register(rig.ctx[i], RIG_ID(1), RIPC_TAKEOVER, &rig.s[i]));
	servers[1].s = rig.s[i];
	nservers = 2;
}
