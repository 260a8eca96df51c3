/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Other processes: killed at any moment, restarted, forked. */
#define _GNU_SOURCE
#include "conf.h"

#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 100000

/* ---- The other process: this program again, with "--child" ---- */

/* Takes everything; a long message is answered by one with the same contents. */
static int serve(struct ripc_service *service)
{
	struct ripc_message *m;

	while (!ripc_receive(service, &m, 60000)) {
		if (m->is_long)
			ripc_send_long(service, m->source, m->items, m->nitems, NULL, 5000);
		ripc_message_free(m);
	}
	return 0;
}

/* Receives everything; writes a byte to the parent for each short message. */
static int pipe_notify(struct ripc_service *service)
{
	struct ripc_message *m;

	while (!ripc_receive(service, &m, 60000)) {
		if (!m->is_long && write(1, "s", 1) != 1)
			return 5;
		ripc_message_free(m);
	}
	return 0;
}

/* Sends long messages one after the other; the first 8 bytes are the number. */
static int send_until_dead(struct ripc *ctx, struct ripc_service *service, uint64_t dest)
{
	uint8_t *buf = ripc_buf_alloc(ctx, SIZE);

	for (uint64_t i = 0; buf && i < 1000000; i++) {
		struct iovec item = {buf, SIZE};

		conf_fill(buf, SIZE, i);
		if (ripc_send_long(service, dest, &item, 1, NULL, 60000))
			return 1;
	}
	return 0;
}

int conf_child(int argc, char **argv)
{
	struct ripc_service *service;
	struct ripc *ctx;
	uint64_t id, dest;

	if (argc != 6)
		return 2;
	id = strtoull(argv[4], NULL, 0);
	dest = strtoull(argv[5], NULL, 0);
	if (ripc_open(&ctx, argv[3]) || ripc_service_register(ctx, id, 0, &service)) {
		fprintf(stderr, "child: %s\n", ripc_error_detail());
		return 3;
	}
	if (write(1, "+", 1) != 1)
		return 4;
	if (!strcmp(argv[2], "notify"))
		return pipe_notify(service);
	return strcmp(argv[2], "serve") ? send_until_dead(ctx, service, dest) : serve(service);
}

/* ---- Its parent ---- */

/* out: where its output can be read from. */
static pid_t spawn_and_wait(struct conf *c, const char *role, uint64_t id, uint64_t dest, int *out)
{
	char ids[2][32], answer;
	int fd[2];
	pid_t pid;

	snprintf(ids[0], sizeof(ids[0]), "%llu", (unsigned long long)id);
	snprintf(ids[1], sizeof(ids[1]), "%llu", (unsigned long long)dest);
	EXPECT_EQ(0, pipe2(fd, O_CLOEXEC));
	pid = fork();
	CHECK(pid >= 0, "fork");
	if (!pid) {
		dup2(fd[1], 1);
		execl("/proc/self/exe", "conf_child", "--child", role, c->options, ids[0], ids[1],
		      (char *)NULL);
		_exit(9);
	}
	close(fd[1]);
	CHECK(read(fd[0], &answer, 1) == 1, "the child did not get that far");
	*out = fd[0];
	return pid;
}

static pid_t spawn(struct conf *c, const char *role, uint64_t id, uint64_t dest)
{
	int out;
	pid_t pid = spawn_and_wait(c, role, id, dest, &out);

	close(out);
	return pid;
}

static void send_until_killed(pid_t pid)
{
	int status;

	EXPECT_EQ(0, kill(pid, SIGKILL));
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	CHECK(WIFSIGNALED(status), "the child had ended by itself: %x", (unsigned)status);
}

/* Returns when no thread of the child runs any more. */
static void stop(pid_t pid)
{
	int status;

	EXPECT_EQ(0, kill(pid, SIGSTOP));
	EXPECT_EQ(pid, waitpid(pid, &status, WUNTRACED));
	CHECK(WIFSTOPPED(status), "%x", (unsigned)status);
}

/* Sends a short message to a child that reports it. Return: whether it was reported. */
static bool pipe_wait(struct conf *c, struct ripc_service *s, uint64_t id, uint64_t tag, int out)
{
	struct pollfd p = {.fd = out, .events = POLLIN};
	char pipe_wait[256];

	return !conf_send_short(c, s, id, 100, tag, c->patience_ms) &&
	       poll(&p, 1, c->silence_ms) == 1 && read(out, pipe_wait, sizeof(pipe_wait)) > 0;
}

/*
 * A child that stands still is given up and forgotten. It goes on, and has forgotten nothing: it
 * takes our messages again, however many it had before.
 */
static void stop_receiver(struct conf *c)
{
	uint8_t data[1000] = {0};
	struct iovec item = {data, sizeof(data)};
	struct ripc_request *request;
	struct ripc_service *s;
	unsigned taken = 0;
	uint64_t id;
	/* It waits less long for a peer than others do. */
	struct ripc *ctx = conf_open_with(c, "peer_timeout_ms=2000");
	pid_t pid;
	int out;

	s = conf_register(c, ctx, conf_id(c));
	id = conf_id(c);
	pid = spawn_and_wait(c, "notify", id, 0, &out);
	for (unsigned i = 0; i < 1000; i++)
		taken += pipe_wait(c, s, id, i, out);
	CHECK(taken > 500, "%u", taken);
	/* Datagrams need no lane. Without one the request is not sent, and cannot fail. */
	EXPECT_OK(ripc_route_lookup(ctx, id, NULL, c->patience_ms));
	stop(pid);
	EXPECT_OK(ripc_send_async(s, id, &item, 1, NULL, &request));
	EXPECT_RC(-EPIPE, ripc_request_wait(&request, c->patience_ms));
	AWAIT_STAT(c, ctx, peers, 0);
	EXPECT_EQ(0, kill(pid, SIGCONT));
	taken = 0;
	for (unsigned i = 0; i < 10; i++)
		taken += pipe_wait(c, s, id, i, out);
	CHECK(taken > 5, "%u of 10 arrived", taken);
	close(out);
	send_until_killed(pid);
}

/* A stopped receiver confirms neither a message nor that it is withdrawn. */
static void stop_and_withdraw(struct conf *c)
{
	struct ripc *ctx = conf_open(c);
	struct iovec item = {"x", 1};
	uint64_t id = conf_id(c);
	struct ripc_service *s = conf_register(c, ctx, conf_id(c));
	char name[40];
	pid_t pid;
	int out;

	pid = spawn_and_wait(c, "notify", id, 0, &out);
	EXPECT_OK(ripc_route_lookup(ctx, id, NULL, c->patience_ms));
	stop(pid);
	EXPECT_ERROR(-EPIPE, ripc_send_long(s, id, &item, 1, NULL, 50));
	snprintf(name, sizeof(name), "service %llu: ", (unsigned long long)id);
	CHECK(strstr(ripc_error_detail(), name) && strstr(ripc_error_detail(), "withdrawal"), "%s",
	      ripc_error_detail());
	EXPECT_EQ(0, kill(pid, SIGCONT));
	close(out);
	send_until_killed(pid);
}

/* a talks to b in this process all the time, and to a child that is shot at some moment. */
static void kill_receiver(struct conf *c)
{
	struct conf_plan plan;
	struct conf_pair p;
	uint64_t id;

	conf_pair(c, &p);
	conf_exchange(c, &p);
	id = conf_id(c);
	for (int round = 0; round < 4; round++) {
		pid_t pid = spawn(c, "serve", id, 0);
		struct ripc_request *request[8];
		struct ripc_message *m;
		struct iovec item[8];

		/* It is found, though one with this id died before. */
		EXPECT_OK(conf_send_long(c, p.sa, id, 1000, 1, c->patience_ms));
		m = conf_receive(c, p.sa);
		EXPECT_EQ(id, m->source);
		EXPECT_EQ(1000, m->items[0].iov_len);
		ripc_message_free(m);
		for (unsigned i = 0; i < 8; i++) {
			plan = conf_plan_one(i % 2 ? SIZE : 3000000, i);
			conf_build(c, p.a, i % 3 ? CONF_ALLOCATED : CONF_UNREGISTERED, &plan,
				   &item[i]);
			EXPECT_OK(ripc_send_async(p.sa, id, &item[i], 1, NULL, &request[i]));
		}
		usleep((useconds_t)conf_random(c, round ? 8000 : 1));
		send_until_killed(pid);
		conf_exchange(c, &(struct conf_pair){p.b, p.b, p.sb, p.sb, p.idb, p.idb});
		for (unsigned i = 0; i < 8; i++) {
			/* Where a death is not reported the timeout detects it: once is enough. */
			int rc = ripc_request_wait(&request[i], i || round ? 100 : 5000);

			if (rc == -ETIMEDOUT)
				rc = ripc_request_cancel(&request[i], c->patience_ms);
			CHECK(rc == 0 || rc == -EPIPE || rc == -EHOSTUNREACH || rc == -ECANCELED,
			      "%d: %s", rc, ripc_error_detail());
			memset(item[i].iov_base, 0x5a, item[i].iov_len);
			if (i % 3)
				EXPECT_OK(ripc_buf_free(p.a, item[i].iov_base));
			else
				free(item[i].iov_base);
		}
		while (!ripc_receive(p.sa, &m, 20))
			ripc_message_free(m);
		conf_expect_gone(c, p.sa, id);
		conf_exchange(c, &p);
	}
}

static void kill_sender(struct conf *c)
{
	struct conf_pair p;
	uint64_t id;

	conf_pair(c, &p);
	id = conf_id(c);
	for (int round = 0; round < 3; round++) {
		pid_t pid = spawn(c, "feed", id, p.ida);
		uint64_t n = 0, some = 1 + conf_random(c, 60);
		struct ripc_message *m;

		while (!ripc_receive(p.sa, &m, n < some ? c->patience_ms : 1000)) {
			/* Whole, and in order. */
			EXPECT_EQ(id, m->source);
			EXPECT_EQ(SIZE, m->items[0].iov_len);
			conf_verify(m->items[0].iov_base, SIZE, n, "from the child");
			ripc_message_free(m);
			if (++n == some)
				send_until_killed(pid);
		}
		CHECK(n >= some, "%llu came", (unsigned long long)n);
		conf_exchange(c, &p);
	}
	AWAIT_STAT(c, p.a, lanes, 1);
}

/* The event of a killed process follows all that came from it. */
static void watch_killed(struct conf *c)
{
	struct ripc_message *m;
	struct conf_pair p;
	uint64_t id, n = 0, some = 1 + conf_random(c, 60);
	pid_t pid;

	conf_pair(c, &p);
	id = conf_id(c);
	pid = spawn(c, "feed", id, p.ida);
	EXPECT_OK(ripc_watch(p.sa, id));
	for (;;) {
		EXPECT_OK(ripc_receive(p.sa, &m, c->patience_ms));
		EXPECT_EQ(id, m->source);
		if (m->event)
			break;
		conf_verify(m->items[0].iov_base, SIZE, n, "from the child");
		ripc_message_free(m);
		if (++n == some)
			send_until_killed(pid);
	}
	EXPECT_EQ(RIPC_EVENT_DIED, m->event);
	CHECK(n >= some, "%llu came before the event", (unsigned long long)n);
	ripc_message_free(m);
	conf_expect_none(c, p.sa);
}

/* A child of fork() may not use what is its parent's; the parent goes on. */
static void forked(struct conf *c)
{
	struct ripc_message *m = NULL, *kept;
	struct ripc_service *none = NULL;
	struct ripc_request *request;
	struct ripc_limits limits = {.size = sizeof(limits)};
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct ripc_route route = {.size = sizeof(route)};
	uint8_t data[100] = {0};
	struct iovec item = {data, sizeof(data)};
	struct conf_pair p;
	void *buf;
	int status;
	pid_t pid;

	conf_pair(c, &p);
	conf_exchange(c, &p);
	buf = ripc_buf_alloc(p.a, 1000);
	CHECK(buf, "%s", ripc_error_detail());
	EXPECT_OK(conf_send_long(c, p.sb, p.ida, 100, 1, c->patience_ms));
	kept = conf_receive(c, p.sa);
	EXPECT_OK(ripc_send_async(p.sa, conf_id(c), &item, 1, NULL, &request));
	pid = fork();
	CHECK(pid >= 0, "fork");
	if (!pid) {
		unsigned bad = 0;
		struct ripc *ctx;

#define DEAD(call) (bad = bad * 2 + ((call) != -EOWNERDEAD))
		DEAD(ripc_send_short(p.sa, p.idb, &item, 1, NULL, 1000));
		DEAD(ripc_send_long(p.sa, p.idb, &item, 1, NULL, 1000));
		DEAD(ripc_receive(p.sa, &m, 0));
		DEAD(ripc_service_register(p.a, RIPC_ANY_ID, 0, &none));
		DEAD(ripc_route_lookup(p.a, p.idb, NULL, 1000));
		DEAD(ripc_route_get(p.a, p.idb, &route));
		DEAD(ripc_route_limits(p.a, p.idb, &limits));
		DEAD(ripc_context_stats(p.a, &stats));
		DEAD(ripc_buf_free(p.a, buf));
		DEAD(ripc_window_add(p.a, p.sa, buf, 100));
		DEAD(ripc_request_test(&request));
		DEAD(ripc_service_fd(p.sa));
		if (bad)
			_exit(1);
		errno = 0;
		if (ripc_buf_alloc(p.a, 100) || errno != EOWNERDEAD)
			_exit(2);
		errno = 0;
		if (ripc_message_detach(kept, 0) || errno != EOWNERDEAD)
			_exit(8);
		/* It forgets the context, and may have one of its own. */
		if (ripc_close(p.a))
			_exit(3);
		if (ripc_open(&ctx, c->options))
			_exit(4);
		if (ripc_service_register(ctx, RIPC_ANY_ID, 0, &none))
			_exit(5);
		if (ripc_send_long(none, p.idb, &item, 1, NULL, 10000))
			_exit(6);
		if (ripc_close(ctx))
			_exit(7);
		_exit(0);
	}
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	CHECK(WIFEXITED(status), "the child crashed: %x", (unsigned)status);
	EXPECT_EQ(0, WEXITSTATUS(status));
	m = conf_receive(c, p.sb);
	CHECK(m->source >= RIPC_ID_LIMIT, "from the child");
	ripc_message_free(m);
	EXPECT_RC(-ECANCELED, ripc_request_cancel(&request, c->patience_ms));
	ripc_message_free(kept);
	EXPECT_OK(ripc_buf_free(p.a, buf));
	conf_exchange(c, &p);
}

/* The default context: NULL. */
static void default_context(struct conf *c)
{
	struct ripc_service *service;
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct conf_plan plan;
	uint64_t id = conf_id(c);
	void *buf;

	EXPECT_RC(-EINVAL, ripc_close(NULL));
	EXPECT_OK(ripc_service_register(NULL, id, 0, &service));
	plan = conf_plan_one(1000, 1);
	EXPECT_OK(conf_send_long(c, service, id, 1000, 1, c->patience_ms));
	conf_expect(c, service, &plan, id, true);
	buf = ripc_buf_alloc(NULL, 100);
	CHECK(buf, "%s", ripc_error_detail());
	EXPECT_OK(ripc_context_stats(NULL, &stats));
	EXPECT_EQ(1, stats.long_received);
	EXPECT_OK(ripc_buf_free(NULL, buf));
	EXPECT_OK(ripc_close(NULL));
	EXPECT_RC(-EINVAL, ripc_close(NULL));
}

const struct conf_case conf_process[] = {
	{"kill_receiver", kill_receiver, CONF_REAL | CONF_TWO_CONTEXTS | CONF_PEER_DEATH},
	{"stop_receiver", stop_receiver, CONF_REAL | CONF_TWO_CONTEXTS | CONF_PEER_DEATH},
	{"stop_and_withdraw", stop_and_withdraw, CONF_REAL | CONF_TWO_CONTEXTS},
	{"kill_sender", kill_sender, CONF_REAL | CONF_TWO_CONTEXTS | CONF_PEER_DEATH},
	{"watch_killed", watch_killed, CONF_REAL | CONF_TWO_CONTEXTS | CONF_PEER_DEATH},
	{"forked", forked, CONF_REAL | CONF_TWO_CONTEXTS},
	{"default_context", default_context, CONF_REAL},
	{0},
};
