/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Connections over shm that cannot be made on this side: the reason names the cause. */
#define _GNU_SOURCE
#include "shm_pair.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static struct shm *t, *peer;

/* Connects to the peer. Return: the event of its failure. */
static struct ripc__event failed(rlim_t descriptors)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	int rc, len = OPS->address(tr_of(peer), addr, sizeof(addr));
	struct rlimit limit, all;
	struct ripc__ep *ep;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &all), 0);
	limit = all;
	if (descriptors)
		limit.rlim_cur = descriptors;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	rc = OPS->connect(tr_of(t), addr, (size_t)len, "", 0, NULL, &ep);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &all), 0);
	ck_assert_int_eq(rc, 0);
	return await(t, RIPC__EV_CLOSED);
}

/* _i: the step that finds no descriptor: the socket, the shared memory. */
START_TEST(connect__no_descriptor)
{
	static const char *const texts[] = {"", "cannot make shared memory: "};
	struct ripc__event ev;
	char text[160];
	int fd;

	t = open_shm();
	peer = open_shm();
	fd = dup(STDIN_FILENO);
	close(fd);
	ev = failed((rlim_t)fd + (rlim_t)_i);
	ck_assert_int_eq(ev.status, -EMFILE);
	snprintf(text, sizeof(text), "%s%s", texts[_i], ripc_strerror(EMFILE));
	ck_assert_str_eq(ev.text, text);
	OPS->ep_close(ev.ep);
	close_shm(peer);
	close_shm(t);
}
END_TEST

START_TEST(connect__another_user)
{
	struct ripc__event ev;

	if (seteuid(65534)) {
		test_skip("only root can become another user");
		return;
	}
	peer = open_shm();
	ck_assert_int_eq(seteuid(0), 0);
	t = open_shm();
	ev = failed(0);
	ck_assert_int_eq(ev.status, -EACCES);
	ck_assert_str_eq(ev.text, "the peer runs as user 65534, and this process as user 0");
	OPS->ep_close(ev.ep);
	close_shm(peer);
	close_shm(t);
}
END_TEST

static char logged[256];

static void on_log(void *arg, enum ripc_log_level level, const char *line)
{
	snprintf(logged, sizeof(logged), "%s", line);
}

/* _i: this process has no descriptor, or no memory, for the segment of a peer. */
START_TEST(accept__short_of)
{
	static const int resources[] = {RLIMIT_NOFILE, RLIMIT_AS};
	static const char *const texts[] = {"no descriptor is left for its memory (ulimit -n)",
					    "no memory to map its memory (ulimit -v)"};
	struct rlimit all, limit;
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct ripc__ep *ep;
	char text[160];
	int len, fd;

	t = open_shm();
	peer = open_shm();
	len = OPS->address(tr_of(t), addr, sizeof(addr));
	ck_assert_int_eq(OPS->connect(tr_of(peer), addr, (size_t)len, "", 0, NULL, &ep), 0);
	fd = dup(STDIN_FILENO);
	close(fd);
	ripc_log_set(on_log, NULL, RIPC_LOG_WARN);
	ck_assert_int_eq(getrlimit(resources[_i], &all), 0);
	limit = all;
	limit.rlim_cur = _i ? 1 : (rlim_t)fd + 1;
	ck_assert_int_eq(setrlimit(resources[_i], &limit), 0);
	for (int i = 0; i < 10; i++)
		ck_assert_int_ne(progress(t).kind, RIPC__EV_BAD_INPUT);
	ck_assert_int_eq(setrlimit(resources[_i], &all), 0);
	ripc_log_set(NULL, NULL, RIPC_LOG_ERROR);
	snprintf(text, sizeof(text), "shm: cannot connect to process %d: %s", (int)getpid(),
		 texts[_i]);
	ck_assert_str_eq(logged, text);
	ck_assert(ripc__list_empty(&t->r.eps));
	await(peer, RIPC__EV_CLOSED);
	OPS->ep_close(ep);
	close_shm(peer);
	close_shm(t);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/shm/connect_failed");
	TCase *c = tcase_create("connect");

	tcase_add_loop_test(c, connect__no_descriptor, 0, 2);
	tcase_add_test(c, connect__another_user);
	tcase_add_loop_test(c, accept__short_of, 0, 2);
	suite_add_tcase(s, c);
	return test_main("transport/shm/connect_failed", s);
}
