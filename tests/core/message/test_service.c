/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Public calls of services over the back ends of one host: registration where the kernel already
 * has the name, services with names, the list of services.
 */
#define _GNU_SOURCE
#include "core/message/service.h"
#include "core/peer/dest.h"
#include "core/peer/peer.h"
#include "core/progress/context.h"
#include "core/rendezvous/request.h"
#include "core/service/service.h"
#include "harness.h"
#include "ripc.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct ripc *ctx;
static unsigned polls;

static void *other_thread(void *arg)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	ck_assert_int_eq(ripc_context_stats(ctx, &stats), 0);
	return NULL;
}

int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);

/*
 * The call waits for the holder here: another thread is in the same context meanwhile, and leaves
 * it.
 */
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	pthread_t thread;

	if (!ctx)
		return __real_poll(fds, n, timeout_ms);
	ck_assert_int_le(timeout_ms, 500);
	polls++;
	ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	return 0;
}

START_TEST(register__unlocked_holder_query)
{
	uint64_t id = test_ids();
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int len = snprintf(sun.sun_path + 1, sizeof(sun.sun_path) - 1, "ripc/svc/%016llx",
			   (unsigned long long)id);
	struct ripc_service *s;
	int rc;

	/* A holder that never answers. */
	rc = bind(fd, (struct sockaddr *)&sun,
		  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len));
	ck_assert_int_eq(rc, 0);
	ck_assert_int_eq(ripc_open(&ctx, "resolver=local interfaces=lo"), 0);
	ck_assert_int_eq(ripc_service_register(ctx, id, 0, &s), -EADDRINUSE);
	ck_assert_uint_eq(polls, 1);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "held by another process of this host"));
	close(fd);
	ck_assert_int_eq(ripc_service_register(ctx, id, 0, &s), 0);
	/* Of a service of its own nobody needs to be asked. */
	ck_assert_int_eq(ripc_service_register(ctx, id, 0, &s), -EADDRINUSE);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "this context itself"));
	ck_assert_uint_eq(polls, 1);
	ck_assert_int_eq(ripc_close(ctx), 0);
}
END_TEST

/* ---- without memory ---- */

/* Of this thread: the progress thread allocates, too. */
static __thread struct {
	bool armed;
	unsigned count, nth; /* allocations since it was armed; the one that fails */
} shim;

void *__real_malloc(size_t len);
void *__real_calloc(size_t n, size_t len);
void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t n, size_t len);

static bool fails(void)
{
	return shim.armed && ++shim.count == shim.nth;
}

void *__wrap_malloc(size_t len)
{
	return fails() ? NULL : __real_malloc(len);
}

void *__wrap_calloc(size_t n, size_t len)
{
	return fails() ? NULL : __real_calloc(n, len);
}

/* ---- a context that is closed meanwhile, in virtual time ---- */

static uint64_t now_ns = 1000 * RIPC__MS;
static unsigned idle_calls;
static bool closes = true;

static uint64_t now(void *arg)
{
	(void)arg;
	return now_ns;
}

/* The ids of contexts differ from those of the same test in another process of this host. */
static uint64_t random_number(void *arg)
{
	static uint64_t rng;

	rng = rng ? rng : test_ids();
	return test_random(&rng);
}

/* Another thread closes the context in the first pause of the call. */
static void close_in_pause(void *arg, uint64_t deadline_ns)
{
	(void)arg;
	now_ns += 10 * RIPC__MS;
	if (now_ns > deadline_ns)
		now_ns = deadline_ns;
	ripc__lock(ctx);
	ctx->closing = closes;
	ripc__unlock(ctx);
	ripc__poll(ctx);
	if (++idle_calls > 100000)
		ck_abort_msg("the call waits for ever");
}

static void open_in_virtual_time(void)
{
	static const struct ripc__hooks hooks = {
		.now = now, .idle = close_in_pause, .random = random_number};

	ck_assert_int_eq(ripc__open_hooked(&ctx,
					   "transports=iwarp/soft resolver=udp interfaces=lo "
					   "resolve_timeout_ms=5000",
					   &hooks),
			 0);
}

START_TEST(register__closed_meanwhile)
{
	struct ripc_service *s;
	uint64_t id = test_ids();

	open_in_virtual_time();
	ck_assert_int_eq(ripc_service_register(ctx, id, 0, &s), -ESHUTDOWN);
	ck_assert_uint_eq(idle_calls, 1);
	ck_assert_ptr_null(ctx->services);
	/* Nothing is left of it: had the context stayed open, the id could be registered. */
	ctx->closing = closes = false;
	ck_assert_msg(!ripc_service_register(ctx, id, 0, &s), "%s", ripc_error_detail());
	ck_assert_uint_gt(idle_calls, 1);
	ck_assert_uint_eq(ripc_service_id(s), id);
	ck_assert_int_eq(ripc_close(ctx), 0);
}
END_TEST

/* ---- a message that comes before the call has returned ---- */

static struct ripc *sender;
static struct ripc_request *first; /* until it is sent, the receiver's clock waits for it */

static void poll_both(void *arg, uint64_t deadline_ns)
{
	(void)arg;
	usleep(100);
	now_ns += RIPC__MS;
	if (now_ns > deadline_ns)
		now_ns = deadline_ns;
	ripc__poll(ctx);
	ripc__poll(sender);
}

/* The receiver reads the clock between the announcement and its next pass. */
static uint64_t now_of_receiver(void *arg)
{
	for (unsigned i = 0; i < 50 && first && first->state == RIPC__REQUEST_PENDING; i++) {
		usleep(100);
		ripc__poll(sender);
	}
	return now(arg);
}

static void send_byte(struct ripc_service *s, uint64_t dest, char *byte, struct ripc_request **r)
{
	struct iovec item = {byte, 1};

	ck_assert_int_eq(ripc_send_async(s, dest, &item, 1, NULL, r), 0);
}

START_TEST(register__keeps_order)
{
	static const struct ripc__hooks at_sender = {
		.now = now, .idle = poll_both, .random = random_number};
	static const struct ripc__hooks at_receiver = {
		.now = now_of_receiver, .idle = poll_both, .random = random_number};
	static const char options[] = "transports=iwarp/soft resolver=local,udp interfaces=lo";
	struct ripc_service *from, *to, *other;
	uint64_t id = test_ids();
	struct ripc_request *r[3];
	struct ripc_message *m;
	char bytes[] = "012";

	ck_assert_int_eq(ripc__open_hooked(&ctx, options, &at_receiver), 0);
	ck_assert_int_eq(ripc__open_hooked(&sender, options, &at_sender), 0);
	ck_assert_int_eq(ripc_service_register(sender, id, 0, &from), 0);
	ck_assert_int_eq(ripc_service_register(ctx, id + 1, 0, &other), 0);
	send_byte(from, id + 1, &bytes[0], &r[0]);
	ck_assert_int_eq(ripc_request_wait(&r[0], 5000), 0);
	send_byte(from, id + 2, &bytes[1], &r[1]);
	ck_assert_int_eq(r[1]->state, RIPC__REQUEST_PENDING);
	first = r[1];
	ck_assert_int_eq(ripc_service_register(ctx, id + 2, 0, &to), 0);
	ck_assert_int_ne(r[1]->state, RIPC__REQUEST_PENDING);
	first = NULL;
	send_byte(from, id + 2, &bytes[2], &r[2]);
	for (unsigned i = 1; i < 3; i++) {
		ck_assert_int_eq(ripc_receive(to, &m, 5000), 0);
		ck_assert_int_eq(*(char *)m->items[0].iov_base, bytes[i]);
		ripc_message_free(m);
		ck_assert_int_eq(ripc_request_wait(&r[i], 5000), 0);
	}
	ck_assert_int_eq(ripc_close(sender), 0);
	ck_assert_int_eq(ripc_close(ctx), 0);
}
END_TEST

/* ---- the same while the former holder has not yet released its name on this host ---- */

static struct ripc *holder;
static struct ripc_service *early_from;
static struct ripc_request *early; /* started when the sender has learned of the takeover */
static char early_byte = '1';

/* Until the registration is complete, the sender does not run after that. */
static void poll_three(void *arg, uint64_t deadline_ns)
{
	uint64_t id = early_from ? ripc_service_id(early_from) + 2 : 0;
	const struct ripc__dest *d;

	(void)arg;
	usleep(100);
	now_ns += RIPC__MS / 4;
	if (now_ns > deadline_ns)
		now_ns = deadline_ns;
	ripc__poll(ctx);
	ripc__poll(holder);
	if (early && id)
		return;
	ripc__poll(sender);
	d = id ? ripc__dest_find(sender, id) : NULL;
	if (d && d->peer && !memcmp(d->peer->instance, ctx->instance, 16)) {
		ck_assert(ripc__service_any(ctx, id)->registering);
		send_byte(early_from, id, &early_byte, &early);
	}
}

START_TEST(register__takeover_keeps_order)
{
	static const struct ripc__hooks hooks = {
		.now = now, .idle = poll_three, .random = random_number};
	static const char options[] = "transports=iwarp/soft resolver=local,udp interfaces=lo";
	struct ripc_service *from, *to, *other, *former;
	uint64_t id = test_ids();
	struct ripc_request *r;
	struct ripc_message *m;
	char bytes[] = "012";

	ck_assert_int_eq(ripc__open_hooked(&ctx, options, &hooks), 0);
	ck_assert_int_eq(ripc__open_hooked(&sender, options, &hooks), 0);
	ck_assert_int_eq(ripc__open_hooked(&holder, options, &hooks), 0);
	ck_assert_int_eq(ripc_service_register(sender, id, 0, &from), 0);
	ck_assert_int_eq(ripc_service_register(ctx, id + 1, 0, &other), 0);
	ck_assert_int_eq(ripc_service_register(holder, id + 2, 0, &former), 0);
	for (unsigned i = 1; i < 3; i++) {
		send_byte(from, id + i, &bytes[0], &r);
		ck_assert_int_eq(ripc_request_wait(&r, 5000), 0);
	}
	early_from = from;
	ck_assert_int_eq(ripc_service_register(ctx, id + 2, RIPC_TAKEOVER, &to), 0);
	early_from = NULL;
	ck_assert_ptr_nonnull(early);
	send_byte(from, id + 2, &bytes[2], &r);
	for (unsigned i = 1; i < 3; i++) {
		ck_assert_int_eq(ripc_receive(to, &m, 5000), 0);
		ck_assert_int_eq(*(char *)m->items[0].iov_base, bytes[i]);
		ripc_message_free(m);
	}
	ck_assert_int_eq(ripc_request_wait(&early, 5000), 0);
	ck_assert_int_eq(ripc_request_wait(&r, 5000), 0);
	ck_assert_int_eq(ripc_close(sender), 0);
	ck_assert_int_eq(ripc_close(holder), 0);
	ck_assert_int_eq(ripc_close(ctx), 0);
}
END_TEST

/* Each allocation of a registration fails once: nothing is left of it. */
START_TEST(register__out_of_memory)
{
	struct ripc_service *s;
	uint64_t id = test_ids();
	unsigned failed = 0;
	int rc;

	closes = false;
	open_in_virtual_time();
	do {
		shim.nth++;
		shim.count = 0;
		shim.armed = true;
		rc = ripc_service_register(ctx, id, 0, &s);
		shim.armed = false;
		ck_assert_msg(!rc || rc == -ENOMEM, "allocation %u fails: %d: %s", shim.nth, rc,
			      ripc_error_detail());
		failed += rc != 0;
		ck_assert_int_eq(ctx->services == NULL, rc != 0);
		if (!rc)
			ck_assert_int_eq(ripc_service_unregister(s), 0);
		ck_assert_ptr_null(ctx->services);
	} while (shim.count >= shim.nth);
	/* The service's place in the table of the context, and that of the resolver. */
	ck_assert_uint_ge(failed, 3);
	ck_assert_int_eq(ripc_close(ctx), 0);
}
END_TEST

/* Each registration needs a descriptor: without one nothing is left of it. */
START_TEST(register__out_of_descriptors)
{
	struct rlimit old, none;
	struct ripc_service *s;
	uint64_t id = test_ids();
	struct ripc *own;
	int rc;

	ck_assert_int_eq(ripc_open(&own, "resolver=local transports=self"), 0);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = old;
	none.rlim_cur = 3;
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
		rc = i ? ripc_register_name(own, "test/descriptors", 0, &s)
		       : ripc_service_register(own, id, 0, &s);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
		ck_assert_msg(rc == -EMFILE, "%d: %s", rc, ripc_error_detail());
		ck_assert_ptr_nonnull(strstr(ripc_error_detail(), strerror(EMFILE)));
		ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "service "));
		ck_assert_ptr_null(own->services);
	}
	ck_assert_int_eq(ripc_service_register(own, id, 0, &s), 0);
	ck_assert_int_eq(ripc_close(own), 0);
}
END_TEST

/* ---- services with names ---- */

static const char *const chains[] = {"resolver=local", "resolver=udp", "resolver=local,udp"};

static struct ripc *a, *b;
static char left[64], right[64];

static void setup_names(void)
{
	/* Other tests of this host have names of their own. */
	snprintf(left, sizeof(left), "test/%d/left", (int)getpid());
	snprintf(right, sizeof(right), "test/%d/right", (int)getpid());
}

static void open_both(const char *chain)
{
	ck_assert_int_eq(ripc_open(&a, chain), 0);
	ck_assert_int_eq(ripc_open(&b, chain), 0);
}

static void close_both(void)
{
	ck_assert_int_eq(ripc_close(a), 0);
	ck_assert_int_eq(ripc_close(b), 0);
}

static void expect_in_detail(const char *text)
{
	ck_assert_msg(strstr(ripc_error_detail(), text) != NULL, "%s is not in: %s", text,
		      ripc_error_detail());
}

/* Fails, because another service has the id. Repeated while its holder is too busy to name it. */
static void expect_in_use(struct ripc *c, const char *name, unsigned flags)
{
	struct ripc_service *none;
	unsigned tries = 0;

	do
		ck_assert_int_eq(ripc__service_register(c, ripc_id(left), name, flags, &none),
				 -EADDRINUSE);
	while (strstr(ripc_error_detail(), "another process of this host") && ++tries < 20);
	expect_in_detail(left);
	expect_in_detail(name);
}

START_TEST(register__same_name)
{
	struct ripc_service *s, *t;

	open_both(chains[_i]);
	ck_assert_int_eq(ripc_register_name(a, left, 0, &s), 0);
	ck_assert_uint_eq(ripc_service_id(s), ripc_id(left));
	expect_in_use(b, left, 0);
	expect_in_use(a, left, RIPC_TAKEOVER);
	expect_in_detail("by this context itself");
	ck_assert_int_eq(ripc_register_name(b, left, RIPC_TAKEOVER, &t), 0);
	ck_assert_uint_eq(ripc_service_id(t), ripc_id(left));
	close_both();
}
END_TEST

/* Two names with one id, which only chance or an attacker finds: the id is given here. */
START_TEST(register__two_names_with_one_id)
{
	struct ripc_service *s;

	open_both(chains[_i]);
	ck_assert_int_eq(ripc_register_name(a, left, 0, &s), 0);
	for (unsigned takeover = 0; takeover < 2; takeover++) {
		expect_in_use(b, right, takeover ? RIPC_TAKEOVER : 0);
		expect_in_use(a, right, takeover ? RIPC_TAKEOVER : 0);
		expect_in_detail("by this context itself");
	}
	ck_assert_uint_eq(ripc_service_id(s), ripc_id(left));
	close_both();
}
END_TEST

START_TEST(register__id_and_name_are_one_service)
{
	struct ripc_route route = {.size = sizeof(route)};
	struct ripc_service *s, *t, *none = NULL;

	open_both(chains[_i]);
	ck_assert_int_eq(ripc_service_register(a, ripc_id(left), 0, &s), 0);
	ck_assert_int_eq(ripc_register_name(b, left, 0, &none), -EADDRINUSE);
	ck_assert_int_eq(ripc_route_lookup(b, ripc_id(left), &route, 5000), 0);
	ck_assert_str_eq(route.name, "");
	ck_assert_int_eq(ripc_register_name(b, left, RIPC_TAKEOVER, &t), 0);
	ck_assert_int_eq(ripc_route_lookup(b, ripc_id(left), &route, 5000), 0);
	ck_assert_str_eq(route.name, left);
	close_both();
}
END_TEST

struct found {
	const char *name;
	unsigned n, own;
};

static void find(void *arg, const struct ripc_service_info *info)
{
	struct found *f = arg;

	if (strcmp(info->name, f->name) != 0)
		return;
	ck_assert_uint_eq(info->service, ripc_id(f->name));
	ck_assert_uint_eq(info->same_host, 1);
	ck_assert_uint_ne(info->addresses[0], 0);
	f->n++;
	f->own += info->own;
}

START_TEST(list__finds_own_and_others)
{
	struct found l = {.name = left}, r = {.name = right};
	struct ripc_service *s, *t;

	open_both(chains[_i]);
	ck_assert_int_eq(ripc_register_name(a, left, 0, &s), 0);
	ck_assert_int_eq(ripc_register_name(b, right, 0, &t), 0);
	for (unsigned i = 0; i < 10 && !l.n; i++)
		ck_assert_int_ge(ripc_service_list(b, find, &l, 500), 1);
	ck_assert_uint_eq(l.n, 1);
	ck_assert_uint_eq(l.own, 0);
	ck_assert_int_ge(ripc_service_list(b, find, &r, 1), 1);
	ck_assert_uint_eq(r.n, 1);
	ck_assert_uint_eq(r.own, 1);
	close_both();
}
END_TEST

/* ---- unregister ---- */

struct flush {
	struct ripc_service *s;
	uint64_t dest;
	int rc;
};

static void *flush_thread(void *arg)
{
	struct flush *f = arg;

	f->rc = ripc_flush(f->s, f->dest, -1);
	return NULL;
}

static bool call_waits(void)
{
	bool waits;

	ripc__lock(ctx);
	waits = ctx->waiting;
	ripc__unlock(ctx);
	return waits;
}

/*
 * A thread waits for the acknowledgement of a reliable message, which a busy peer does not send:
 * its call ends with its service, and not with the peer.
 */
START_TEST(unregister__ends_flush)
{
	static const struct ripc_send_options reliable = {.size = sizeof(reliable),
							  .flags = RIPC_RELIABLE};
	struct iovec item = {(void *)"x", 1};
	struct flush f = {.dest = test_ids()};
	struct ripc_service *receiver;
	struct timespec begin, end;
	struct ripc *peer;
	pthread_t thread;

	ck_assert_int_eq(ripc_open(&ctx, "peer_timeout_ms=10000"), 0);
	ck_assert_int_eq(ripc_open(&peer, NULL), 0);
	ck_assert_int_eq(ripc_service_register(ctx, RIPC_ANY_ID, 0, &f.s), 0);
	ck_assert_int_eq(ripc_service_register(peer, f.dest, 0, &receiver), 0);
	ck_assert_int_eq(ripc_send_short(f.s, f.dest, &item, 1, &reliable, 5000), 0);
	ck_assert_int_eq(ripc_flush(f.s, f.dest, 5000), 0);
	ripc__lock(peer);
	ck_assert_int_eq(ripc_send_short(f.s, f.dest, &item, 1, &reliable, 5000), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, flush_thread, &f), 0);
	AWAIT(call_waits());
	clock_gettime(CLOCK_MONOTONIC, &begin);
	ck_assert_int_eq(ripc_service_unregister(f.s), 0);
	clock_gettime(CLOCK_MONOTONIC, &end);
	ripc__unlock(peer);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(f.rc, -ESHUTDOWN);
	ck_assert_int_lt(end.tv_sec - begin.tv_sec, 5);
	ck_assert_int_eq(ripc_close(peer), 0);
	ck_assert_int_eq(ripc_close(ctx), 0);
	ctx = NULL;
}
END_TEST

int main(void)
{
	const int n = sizeof(chains) / sizeof(chains[0]);
	Suite *suite = suite_create("core/message/service");
	TCase *tc = tcase_create("register");

	tcase_add_test(tc, register__unlocked_holder_query);
	tcase_add_test(tc, register__closed_meanwhile);
	tcase_add_test(tc, register__keeps_order);
	tcase_add_test(tc, register__takeover_keeps_order);
	tcase_add_test(tc, register__out_of_memory);
	tcase_add_test(tc, register__out_of_descriptors);
	suite_add_tcase(suite, tc);
	tc = tcase_create("name");
	tcase_add_checked_fixture(tc, setup_names, NULL);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, register__same_name, 0, n);
	tcase_add_loop_test(tc, register__two_names_with_one_id, 0, n);
	tcase_add_loop_test(tc, register__id_and_name_are_one_service, 0, n);
	tcase_add_loop_test(tc, list__finds_own_and_others, 0, n);
	suite_add_tcase(suite, tc);
	tc = tcase_create("unregister");
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, unregister__ends_flush);
	suite_add_tcase(suite, tc);
	return test_main("core/message/service", suite);
}
