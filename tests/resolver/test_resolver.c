/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The resolver with its back ends on real sockets: in a network namespace of its own if that is
 * permitted, otherwise on the loopback with a port and services drawn at random.
 */
#define _GNU_SOURCE
#include "live.h"
#include "resolver/core.h"

#include "transport/sim/sim.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- open and close --- */

START_TEST(open__failure_leaks_nothing)
{
	static const char *const options[] = {"", "resolver=local", "resolver=udp",
					      "resolver=udp,local"};
	unsigned before = test_descriptors();

	for (unsigned i = 0; i < 4; i++) {
		struct ctx c;

		open_ctx(&c, options[i]);
		register_service(&c, service + i);
		ripc__resolver_close(c.r);
		open_ctx(&c, options[i]);
		ripc__resolver_kill(c.r);
		ck_assert_uint_eq(test_descriptors(), before);
	}
}
END_TEST

START_TEST(open__port_taken)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), fd6 = socket(AF_INET6, SOCK_DGRAM, 0), one = 1;
	char text[512];
	struct ctx c;

	ck_assert_int_eq(setsockopt(fd6, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)), 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	ck_assert_int_eq(bind(fd6, (struct sockaddr *)&in6, sizeof(in6)), 0);
	ck_assert_int_eq(try_open(&c, "resolver=udp"), -EADDRINUSE);
	snprintf(text, sizeof(text), "port %u", port);
	check_contains(ripc_error_detail(), text);
	open_ctx(&c, "");
	describe_entries(c.r, text, sizeof(text));
	check_contains(text, "local: ");
	check_contains(text, "udp: no UDP socket on port");
	register_service(&c, service);
	ripc__resolver_close(c.r);
	close(fd);
	close(fd6);
}
END_TEST

/*
 * The lowest number that the next descriptor may get; what a parent left open may lie anywhere
 * above it.
 */
static unsigned next_descriptor(void)
{
	int fd = dup(STDERR_FILENO);

	ck_assert_int_ge(fd, 0);
	close(fd);
	return (unsigned)fd;
}

START_TEST(open__out_of_descriptors)
{
	unsigned before = test_descriptors(), next = next_descriptor(), refused = 0;
	struct rlimit old, limit;
	struct ctx c;
	int rc = -EMFILE;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	load(&c, "");
	/* Each number of descriptors too few, until there are enough. */
	for (rlim_t more = 0; rc && more < 100; more++) {
		limit = old;
		limit.rlim_cur = next + more;
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
		rc = open_loaded(&c);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
		ck_assert(rc == 0 || rc == -EMFILE);
		if (!rc)
			ripc__resolver_close(c.r);
		else
			refused++;
		ck_assert(!rc || ripc_error_detail()[0]);
		ck_assert_uint_eq(test_descriptors(), before);
	}
	ck_assert_int_eq(rc, 0);
	ck_assert_uint_ge(refused, 3);
}
END_TEST

START_TEST(close__sends_gone)
{
	struct ctx c[2];

	open_ctx(&c[0], "resolver=udp");
	open_ctx(&c[1], "resolver=udp");
	register_service(&c[1], service);
	lookup(&c[0], service);
	await(c, 2, RIPC__RESOLVED, service);
	ripc__resolver_close(c[1].r);
	await(c, 1, RIPC__GONE, service);
	ck_assert_ptr_null(ripc__resolver_peek(c[0].r, service));
	ripc__resolver_close(c[0].r);
}
END_TEST

/* --- register --- */

START_TEST(register__immediate_on_one_host)
{
	struct ctx c;

	open_ctx(&c, _i ? "resolver=local" : "");
	ck_assert_int_eq(
		ripc__resolver_register(c.r, service, NULL, RIPC__REGISTER, ripc__clock_ns()), 0);
	progress(&c);
	ck_assert_ptr_nonnull(find_event(&c, RIPC__REGISTERED, service));
	ck_assert_int_eq(
		ripc__resolver_register(c.r, service, NULL, RIPC__REGISTER, ripc__clock_ns()),
		-EADDRINUSE);
	check_contains(ripc_error_detail(), "this context");
	ripc__resolver_unregister(c.r, service, ripc__clock_ns());
	ck_assert_int_eq(
		ripc__resolver_register(c.r, service, NULL, RIPC__REGISTER, ripc__clock_ns()), 0);
	ripc__resolver_close(c.r);
}
END_TEST

/* A process that holds the service until it is killed. */
static pid_t holder_process(const char *options)
{
	int ready[2];
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		struct ctx c;

		rng ^= (uint64_t)getpid() << 32;
		open_ctx(&c, options);
		register_service(&c, service);
		if (write(ready[1], "x", 1) == 1)
			for (;;) {
				c.nevents = 0;
				progress(&c);
				pause_all(&c, 1);
			}
		_exit(1);
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void kill_process(pid_t pid)
{
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* Asks the holder who it is, and waits for that at most @ms. */
static void ask_holder(struct ctx *c, int ms)
{
	int fd = ripc__resolver_ask_holder(c->r, service);
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(poll(&pfd, 1, ms), ms > 0);
	ck_assert_int_eq(ripc__resolver_holder_answer(c->r, fd, service, NULL), -EADDRINUSE);
}

START_TEST(register__held_on_this_host_names_the_holder)
{
	pid_t pid = holder_process("");
	char text[64];
	struct ctx c;

	open_ctx(&c, "");
	ck_assert_int_eq(
		ripc__resolver_register(c.r, service, NULL, RIPC__REGISTER, ripc__clock_ns()),
		-EADDRINUSE);
	check_contains(ripc_error_detail(), "another process of this host");
	ask_holder(&c, 60000);
	snprintf(text, sizeof(text), "service %" PRIu64 " is held by instance ", service);
	check_contains(ripc_error_detail(), text);
	snprintf(text, sizeof(text), "on test5 somewhere, pid %d", (int)pid);
	check_contains(ripc_error_detail(), text);
	/* SIGKILL leaves nothing behind. */
	kill_process(pid);
	register_service(&c, service);
	ripc__resolver_close(c.r);
}
END_TEST

START_TEST(register__holder_does_not_answer)
{
	struct ctx c[2];

	open_ctx(&c[0], "resolver=local");
	open_ctx(&c[1], "resolver=local");
	register_service(&c[0], service);
	ck_assert_int_eq(
		ripc__resolver_register(c[1].r, service, NULL, RIPC__REGISTER, ripc__clock_ns()),
		-EADDRINUSE);
	check_contains(ripc_error_detail(), "another process of this host");
	/* Registering did not wait for it. */
	ask_holder(&c[1], 0);
	check_contains(ripc_error_detail(), "another process of this host");
	ck_assert_int_eq(ripc__resolver_ask_holder(c[0].r, service + 1), -ECONNREFUSED);
	ripc__resolver_close(c[0].r);
	ripc__resolver_close(c[1].r);
}
END_TEST

START_TEST(register__held_elsewhere_by_udp)
{
	struct ctx c[2];
	const struct ripc__resolver_event *ev;

	open_ctx(&c[0], "resolver=udp");
	open_ctx(&c[1], "resolver=udp");
	register_service(&c[1], service);
	ck_assert_int_eq(
		ripc__resolver_register(c[0].r, service, NULL, RIPC__REGISTER, ripc__clock_ns()),
		0);
	ev = await(c, 2, RIPC__CONFLICT, service);
	check_contains(ev->text, "is held by instance");
	check_contains(ev->text, "on test5 somewhere");
	ck_assert_mem_eq(ev->record.instance, c[1].instance, 16);
	ripc__resolver_close(c[0].r);
	ripc__resolver_close(c[1].r);
}
END_TEST

START_TEST(register__out_of_descriptors)
{
	struct rlimit old, limit;
	struct ctx c;

	open_ctx(&c, "");
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	limit = old;
	limit.rlim_cur = 3;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(
		ripc__resolver_register(c.r, service, NULL, RIPC__REGISTER, ripc__clock_ns()),
		-EMFILE);
	check_contains(ripc_error_detail(), "socket");
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	register_service(&c, service);
	ripc__resolver_close(c.r);
}
END_TEST

/* --- lookup-up --- */

static char logged[1024];

static void log_hook(void *arg, enum ripc_log_level level, const char *line)
{
	snprintf(logged, sizeof(logged), "%s", line);
}

/*
 * The former holder is stopped and never releases its name on this host. The test advances the
 * clock.
 */
START_TEST(takeover__ends_with_resolve_timeout)
{
	uint64_t now, start, deadline = 0;
	struct ctx c[2];

	open_ctx(&c[0], "resolver=local");
	open_ctx(&c[1], "resolver=local resolve_timeout_ms=100");
	register_service(&c[0], service);
	now = start = ripc__clock_ns();
	ck_assert_int_eq(
		ripc__resolver_register(c[1].r, service, "camera/left", RIPC__REGISTER_TAKE, now),
		0);
	ripc_log_set(log_hook, NULL, RIPC_LOG_WARN);
	for (unsigned i = 0; i < 10000 && !find_event(&c[1], RIPC__REGISTERED, service); i++) {
		c[1].nevents = ripc__resolver_progress(c[1].r, true, c[1].events, EVENTS_MAX, now,
						       &deadline);
		now = deadline > now ? deadline : now;
		deadline = RIPC__NEVER;
	}
	ripc_log_set(NULL, NULL, RIPC_LOG_ERROR);
	check_contains(logged, " (\"camera/left\") was taken over, but its former holder does not");
	ck_assert_ptr_nonnull(find_event(&c[1], RIPC__REGISTERED, service));
	ck_assert_uint_le(now, start + (100 + RIPC__PROBE_INTERVAL_MS) * RIPC__MS);
	/* When the holder runs again, it releases the name, and this host finds the service. */
	ahead_ns = now - start + 1000 * RIPC__MS;
	await(c, 2, RIPC__CONFLICT, service);
	progress(&c[1]);
	ripc__resolver_close(c[0].r);
	open_ctx(&c[0], "resolver=local");
	lookup(&c[0], service);
	await(c, 2, RIPC__RESOLVED, service);
	ripc__resolver_close(c[0].r);
	ripc__resolver_close(c[1].r);
}
END_TEST

START_TEST(lookup__finds_the_holder)
{
	static const char *const options[] = {"resolver=local", "resolver=udp", ""};
	const struct ripc__resolver_event *ev;
	struct ctx c[2];

	open_ctx(&c[0], options[_i]);
	open_ctx(&c[1], options[_i]);
	register_service(&c[1], service);
	lookup(&c[0], service);
	ev = await(c, 2, RIPC__RESOLVED, service);
	ck_assert_mem_eq(ev->record.instance, c[1].instance, 16);
	ck_assert_uint_eq(ev->record.naddrs, 1);
	ck_assert_mem_eq(ev->record.addrs[0].addr, "somewhere", 9);
	ck_assert_mem_eq(ripc__resolver_peek(c[0].r, service)->instance, c[1].instance, 16);
	ripc__resolver_invalidate(c[0].r, service, c[1].instance);
	ck_assert_ptr_null(ripc__resolver_peek(c[0].r, service));
	ripc__resolver_close(c[0].r);
	ripc__resolver_close(c[1].r);
}
END_TEST

START_TEST(lookup__error_names_backends)
{
	struct ctx c[2];
	char text[128];

	open_ctx(&c[0], "resolve_timeout_ms=60");
	lookup(&c[0], service);
	snprintf(text, sizeof(text), "on lo (IPv4), port %u): no answer in 60 ms", port);
	check_contains(await(c, 1, RIPC__UNRESOLVED, service)->text,
		       "asked local (no holder on this host) and udp (");
	check_contains(find_event(&c[0], RIPC__UNRESOLVED, service)->text, " requests ");
	check_contains(find_event(&c[0], RIPC__UNRESOLVED, service)->text, text);
	ripc__resolver_close(c[0].r);
	/* There is one, but it is stuck. */
	open_ctx(&c[0], "resolver=local resolve_timeout_ms=60");
	open_ctx(&c[1], "resolver=local");
	register_service(&c[1], service);
	lookup(&c[0], service);
	check_contains(await(c, 1, RIPC__UNRESOLVED, service)->text,
		       "its holder on this host does not answer");
	ripc__resolver_close(c[0].r);
	ripc__resolver_close(c[1].r);
}
END_TEST

START_TEST(lookup__before_the_holder_is_there)
{
	struct ctx c[2];

	open_ctx(&c[0], "resolver=local");
	lookup(&c[0], service);
	progress(&c[0]);
	open_ctx(&c[1], "resolver=local");
	register_service(&c[1], service);
	await(c, 2, RIPC__RESOLVED, service);
	ripc__resolver_close(c[0].r);
	ripc__resolver_close(c[1].r);
}
END_TEST

START_TEST(lookup__full_receive_buffer_of_the_holder)
{
	struct ctx c[2], crowd[20];

	open_ctx(&c[0], "resolver=local");
	open_ctx(&c[1], "resolver=local");
	register_service(&c[1], service);
	for (unsigned i = 0; i < 20; i++) {
		open_ctx(&crowd[i], "resolver=local");
		lookup(&crowd[i], service);
	}
	lookup(&c[0], service);
	await(c, 2, RIPC__RESOLVED, service);
	for (unsigned i = 0; i < 20; i++)
		ripc__resolver_kill(crowd[i].r);
	ripc__resolver_close(c[0].r);
	ripc__resolver_close(c[1].r);
}
END_TEST

START_TEST(lookup__holder_killed_and_started_again)
{
	pid_t pid = holder_process("resolver=local");
	uint8_t first[16];
	struct ctx c;

	open_ctx(&c, "resolver=local resolve_timeout_ms=5000");
	lookup(&c, service);
	memcpy(first, await(&c, 1, RIPC__RESOLVED, service)->record.instance, 16);
	kill_process(pid);
	ripc__resolver_invalidate(c.r, service, first);
	lookup(&c, service);
	await(&c, 1, RIPC__UNRESOLVED, service);
	pid = holder_process("resolver=local");
	c.nevents = 0;
	lookup(&c, service);
	ck_assert_mem_ne(await(&c, 1, RIPC__RESOLVED, service)->record.instance, first, 16);
	kill_process(pid);
	ripc__resolver_close(c.r);
}
END_TEST

START_TEST(lookup__many_instances_on_one_host)
{
	enum { N = 30 };
	static struct ctx c[N];

	for (unsigned i = 0; i < N; i++) {
		open_ctx(&c[i], _i ? "resolver=local" : "resolver=udp");
		ck_assert_int_eq(ripc__resolver_register(c[i].r, service + i, NULL, RIPC__REGISTER,
							 ripc__clock_ns()),
				 0);
	}
	for (unsigned i = 0; i < N; i++)
		await(c, N, RIPC__REGISTERED, service); /* all of them progress */
	for (unsigned i = 0; i < N; i++)
		lookup(&c[0], service + i);
	for (unsigned i = 0; i < N; i++)
		ck_assert_mem_eq(await(c, N, RIPC__RESOLVED, service + i)->record.instance,
				 c[i].instance, 16);
	for (unsigned i = 0; i < N; i++)
		ripc__resolver_close(c[i].r);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/resolver");
	TCase *tc = tcase_create("resolver");

	test_seed();
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, open__failure_leaks_nothing);
	tcase_add_test(tc, open__port_taken);
	tcase_add_test(tc, open__out_of_descriptors);
	tcase_add_test(tc, close__sends_gone);
	tcase_add_loop_test(tc, register__immediate_on_one_host, 0, 2);
	tcase_add_test(tc, register__held_on_this_host_names_the_holder);
	tcase_add_test(tc, register__holder_does_not_answer);
	tcase_add_test(tc, register__held_elsewhere_by_udp);
	tcase_add_test(tc, register__out_of_descriptors);
	tcase_add_test(tc, takeover__ends_with_resolve_timeout);
	tcase_add_loop_test(tc, lookup__finds_the_holder, 0, 3);
	tcase_add_test(tc, lookup__error_names_backends);
	tcase_add_test(tc, lookup__before_the_holder_is_there);
	tcase_add_test(tc, lookup__full_receive_buffer_of_the_holder);
	tcase_add_test(tc, lookup__holder_killed_and_started_again);
	tcase_add_loop_test(tc, lookup__many_instances_on_one_host, 0, 2);
	suite_add_tcase(suite, tc);
	return test_main("resolver/resolver", suite);
}
