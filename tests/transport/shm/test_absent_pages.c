/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A sender's memory with missing pages: those of a userfaultfd whose handler does not answer, as
 * FUSE daemons and file servers may be. The thread that touches it blocks, and that must be the
 * sender's.
 */
#define _GNU_SOURCE
#include "core/message/service.h"
#include "zero_copy_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int commands[2], reports[2]; /* pipes to the sender, and from it */
static uint8_t contents[LEN];

static int absent_open(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		return -1;
	}
	return fd;
}

struct absent {
	int fd;
	uint8_t *base;
};

/* Provides the pages on command. */
static void *send_absent(void *arg)
{
	struct absent *m = arg;
	struct uffdio_copy copy = {
		.dst = (uintptr_t)m->base,
		.src = (uintptr_t)contents,
		.len = LEN,
	};
	char command;

	if (read(commands[0], &command, 1) == 1)
		ioctl(m->fd, UFFDIO_COPY, &copy);
	return NULL;
}

/* The sender, a process of its own. Its exit code is 0 if the message was delivered. */
static int sender(uint64_t id, uint64_t dest)
{
	struct absent m = {.fd = absent_open()};
	struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	struct ripc_service *service;
	struct ripc_request *request;
	struct iovec item;
	struct ripc *ctx;
	pthread_t thread;

	m.base = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	reg.range = (struct uffdio_range){(uintptr_t)m.base, LEN};
	item = (struct iovec){m.base, LEN};
	if (m.base == MAP_FAILED || ioctl(m.fd, UFFDIO_REGISTER, &reg) ||
	    pthread_create(&thread, NULL, send_absent, &m) ||
	    ripc_open(&ctx, "transports=shm resolver=local peer_timeout_ms=20000") ||
	    ripc_service_register(ctx, id, 0, &service) ||
	    ripc_send_async(service, dest, &item, 1, NULL, &request))
		return 1;
	if (write(reports[1], "s", 1) != 1)
		return 2;
	/* Longer than the test may take: the end of this process ends the wait for its pages. */
	return ripc_request_wait(&request, 300000) ? 3 : 0;
}

/* Whether a long message has begun to arrive. */
static bool arriving(struct ripc_service *s)
{
	bool any;

	ripc__lock(s->ctx);
	any = !ripc__list_empty(&s->rndvs_in);
	ripc__unlock(s->ctx);
	return any;
}

/* The context still receives messages of another context of this process. */
static void others_are_received(struct ripc_service *from, struct ripc_service *to)
{
	struct iovec item = {"x", 1};
	struct ripc_message *m;
	int rc;

	for (unsigned i = 0; i < 10; i++) {
		rc = ripc_send_short(from, ripc_service_id(to), &item, 1, NULL, PATIENCE_MS);
		ck_assert_msg(!rc, "%s", ripc_error_detail());
		m = receive(to);
		ck_assert_uint_eq(m->source, ripc_service_id(from));
		ripc_message_free(m);
	}
}

/* _i: 0 the pages are provided late, 1 never. */
START_TEST(receive__skips_missing_pages)
{
	int fd = absent_open(), status;
	struct ripc *ctx, *other;
	struct ripc_service *to, *from;
	struct ripc_message *m;
	struct ripc_stats stats = {.size = sizeof(stats)};
	char report;
	pid_t child;

	if (fd < 0) {
		test_skip("no userfaultfd here: %s", strerror(errno));
		return;
	}
	close(fd);
	fill(contents, LEN, 5);
	ck_assert_int_eq(pipe2(commands, O_CLOEXEC) | pipe2(reports, O_CLOEXEC), 0);
	child = fork();
	if (!child) {
		close(commands[1]);
		/* The receiver has registered its service. */
		if (read(commands[0], &report, 1) != 1)
			_exit(4);
		_exit(sender(test_ids() + 2, test_ids()));
	}
	ck_assert_int_gt(child, 0);
	close(reports[1]);
	/* The larger of both values applies. */
	ctx = open_one(_i ? "peer_timeout_ms=500" : "");
	other = open_one("");
	to = serve(ctx, test_ids());
	from = serve(other, test_ids() + 1);
	others_are_received(from, to);
	ck_assert_int_eq(write(commands[1], "g", 1), 1);
	ck_assert_int_eq(read(reports[0], &report, 1), 1);
	AWAIT(arriving(to));
	others_are_received(from, to);
	if (_i) {
		/* The peer is silent as if it were dead, and is given up. */
		AWAIT(!ripc_context_stats(ctx, &stats) && stats.lanes_lost);
		ck_assert_uint_eq(stats.lanes_lost, 1);
		others_are_received(from, to);
		kill(child, SIGKILL);
	} else {
		ck_assert_int_eq(write(commands[1], "b", 1), 1);
		m = receive(to);
		ck_assert_uint_eq(m->items[0].iov_len, LEN);
		ck_assert(holds(m->items[0].iov_base, LEN, 5));
		ripc_message_free(m);
	}
	ck_assert_int_eq(ripc_close(ctx), 0);
	ck_assert_int_eq(ripc_close(other), 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(_i ? WIFSIGNALED(status) : WIFEXITED(status) && !WEXITSTATUS(status));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/shm/absent_pages");
	TCase *tc = tcase_create("absent");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, receive__skips_missing_pages, 0, 2);
	suite_add_tcase(suite, tc);
	return test_main("transport/shm/absent_pages", suite);
}
