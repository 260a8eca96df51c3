/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Progress of a resolver: with readable descriptors, with garbage, beside a forked child, and in
 * virtual time.
 */
#define _GNU_SOURCE
#include "live.h"

#include "resolver/sim.h"
#include "transport/sim/sim.h"

#include <poll.h>
#include <stddef.h>
#include <sys/un.h>
#include <sys/wait.h>

START_TEST(progress__reads_only_what_is_readable)
{
	struct ripc__resolver_event ev;
	uint64_t deadline = RIPC__NEVER;
	struct pollfd pfd;
	struct ctx c[2];
	unsigned n;

	open_ctx(&c[0], "resolver=local resolve_timeout_ms=5000");
	open_ctx(&c[1], "resolver=local");
	register_service(&c[1], service);
	progress(&c[0]);
	progress(&c[1]);
	pfd = (struct pollfd){.fd = ripc__resolver_fd(c[0].r), .events = POLLIN};
	ck_assert_int_eq(poll(&pfd, 1, 0), 0);
	lookup(&c[0], service);
	progress(&c[1]);
	ck_assert_int_eq(poll(&pfd, 1, 1000), 1);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_uint_eq(
			ripc__resolver_progress(c[0].r, false, &ev, 1, ripc__clock_ns(), &deadline),
			0);
	ck_assert_uint_ne(deadline, RIPC__NEVER);
	n = ripc__resolver_progress(c[0].r, true, &ev, 1, ripc__clock_ns(), &deadline);
	ck_assert_uint_eq(n, 1);
	ck_assert_int_eq(ev.kind, RIPC__RESOLVED);
	ck_assert_int_eq(poll(&pfd, 1, 0), 0);
	ripc__resolver_close(c[0].r);
	ripc__resolver_close(c[1].r);
}
END_TEST

START_TEST(progress__garbage_is_counted_and_logged_once)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int udp = socket(AF_INET, SOCK_DGRAM, 0), local = socket(AF_UNIX, SOCK_DGRAM, 0), one = 1,
	    len;
	uint8_t junk[3000] = {1};
	socklen_t sunlen;
	struct ctx c[2];

	in.sin_addr.s_addr = htonl(0x7fffffff);
	open_ctx(&c[0], "");
	register_service(&c[0], service);
	ck_assert_int_eq(setsockopt(udp, SOL_SOCKET, SO_BROADCAST, &one, sizeof(one)), 0);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_int_gt(sendto(udp, junk, i * 300, 0, (struct sockaddr *)&in, sizeof(in)),
				 -1);
	/* From a socket without a name, so that the resolver cannot reply. */
	len = snprintf(sun.sun_path + 1, sizeof(sun.sun_path) - 1, "ripc/svc/%016llx",
		       (unsigned long long)service);
	sunlen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_eq(sendto(local, junk, 100, 0, (struct sockaddr *)&sun, sunlen), 100);
	for (uint64_t end = 0; ripc__resolver_bad_messages(c[0].r) < 15;) {
		ck_assert(test_pause(&end, TEST_PATIENCE_MS));
		progress(&c[0]);
	}
	ck_assert_uint_eq(ripc__resolver_bad_messages(c[0].r), 15);
	open_ctx(&c[1], "");
	lookup(&c[1], service);
	ck_assert_ptr_null(find_event(&c[1], RIPC__RESOLVED, service));
	while (!find_event(&c[1], RIPC__RESOLVED, service)) {
		progress(&c[0]);
		progress(&c[1]);
	}
	ripc__resolver_close(c[0].r);
	ripc__resolver_close(c[1].r);
	close(udp);
	close(local);
}
END_TEST

START_TEST(fork__child_releases_names)
{
	struct ctx c;
	int go[2], ready[2];
	char byte;
	pid_t pid;

	open_ctx(&c, "");
	register_service(&c, service);
	ck_assert_int_eq(pipe(go), 0);
	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		close(go[1]);
		ripc__resolver_atfork_child(c.r);
		_exit(write(ready[1], "", 1) == 1 && read(go[0], &byte, 1) == 0 ? 0 : 1);
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	ripc__resolver_close(c.r);
	/* The child lives, and holds none of it. */
	open_ctx(&c, "");
	register_service(&c, service);
	close(go[1]);
	close(ready[0]);
	close(ready[1]);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ripc__resolver_close(c.r);
}
END_TEST

static void sim_failed(void *arg, const char *text)
{
	ck_abort_msg("%s", text);
}

START_TEST(sim__two_contexts)
{
	struct ripc__sim *net = ripc__sim_create(test_seed(), NULL, sim_failed, NULL);
	struct ctx c[2];

	ck_assert_ptr_nonnull(net);
	for (unsigned i = 0; i < 2; i++) {
		struct ripc__resolver_env env = {.backend = &ripc__backend_sim, .sim = net};
		char why[256];

		memset(&c[i], 0, sizeof(c[i]));
		env.opt = &c[i].opt;
		env.instance = c[i].instance;
		env.host = c[i].host;
		ck_assert_int_eq(ripc__options_load(&c[i].opt, NULL, why, sizeof(why)), 0);
		c[i].instance[0] = (uint8_t)(i + 1);
		ck_assert_int_eq(ripc__resolver_open(&c[i].r, &env), 0);
	}
	ck_assert_int_eq(
		ripc__resolver_register(c[0].r, service, NULL, RIPC__REGISTER, ripc__sim_now(net)),
		0);
	for (unsigned i = 0; i < 20000 && !find_event(&c[1], RIPC__RESOLVED, service); i++) {
		ripc__sim_step(net, ripc__sim_now(net) + RIPC__MS);
		for (unsigned k = 0; k < 2; k++)
			c[k].nevents +=
				ripc__resolver_progress(c[k].r, false, c[k].events + c[k].nevents,
							4, ripc__sim_now(net), &c[k].deadline_ns);
		if (find_event(&c[0], RIPC__REGISTERED, service) && !c[1].nevents)
			ck_assert_int_eq(ripc__resolver_lookup(c[1].r, service, ripc__sim_now(net)),
					 0);
	}
	ck_assert_ptr_nonnull(find_event(&c[1], RIPC__RESOLVED, service));
	ripc__resolver_close(c[0].r);
	ripc__resolver_kill(c[1].r);
	ripc__sim_destroy(net);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/progress");
	TCase *tc = tcase_create("progress");

	test_seed();
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, progress__reads_only_what_is_readable);
	tcase_add_test(tc, progress__garbage_is_counted_and_logged_once);
	tcase_add_test(tc, fork__child_releases_names);
	tcase_add_test(tc, sim__two_contexts);
	suite_add_tcase(suite, tc);
	return test_main("resolver/progress", suite);
}
