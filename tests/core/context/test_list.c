/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ripc_service_list() with a context that announces a further page and does not send it, and while
 * the list is made already.
 */
#include "core/rig.h"

#include "base/options.h"
#include "wire/record.h"

#include <netinet/in.h>
#include <pthread.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* At the port of the resolver, which other sockets share, and at one of its own. */
static int shared_fd, own_fd;
static unsigned requests; /* for the second page */
static char warning[512];

static void on_log(void *arg, enum ripc_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	if (strstr(line, "list of services"))
		snprintf(warning, sizeof(warning), "%s", line);
}

static void send_first_page(const struct ripc__resolver_msg *list, const struct sockaddr_in *to)
{
	struct ripc__record listed = {.service = 42, .generation = 1};
	struct ripc__resolver_msg msg = {.kind = RIPC__RESOLVE_LISTED,
					 .flags = RIPC__RESOLVE_MORE,
					 .service = 1,
					 .nonce = list->nonce,
					 .record = {.instance = {1, 2, 3}, .generation = 1}};
	uint8_t entry[RIPC__LISTED_BYTES_MAX], buf[RIPC__RESOLVER_MSG_MAX];
	int len = ripc__listed_encode(&listed, entry, sizeof(entry));

	ck_assert_int_gt(len, 0);
	msg.listed = entry;
	msg.listed_len = (size_t)len;
	len = ripc__resolver_msg_encode(&msg, buf, sizeof(buf));
	ck_assert_int_gt(len, 0);
	ck_assert_int_eq(
		sendto(own_fd, buf, (size_t)len, 0, (const struct sockaddr *)to, sizeof(*to)), len);
}

/* Until a datagram of one byte arrives. */
static void *answer(void *arg)
{
	struct pollfd fds[2] = {{shared_fd, POLLIN, 0}, {own_fd, POLLIN, 0}};
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	struct ripc__resolver_msg msg;
	const char *why;

	for (;;) {
		struct sockaddr_in from;
		socklen_t fromlen = sizeof(from);
		ssize_t len;

		ck_assert_int_gt(poll(fds, 2, -1), 0);
		len = recvfrom(fds[0].revents ? shared_fd : own_fd, buf, sizeof(buf), 0,
			       (struct sockaddr *)&from, &fromlen);
		if (len == 1)
			return arg;
		if (len < 0 || ripc__resolver_msg_decode(&msg, buf, (size_t)len, &why) ||
		    msg.kind != RIPC__RESOLVE_LIST)
			continue;
		if (msg.service == 1)
			send_first_page(&msg, &from);
		else if (msg.service == 43)
			__atomic_add_fetch(&requests, 1, __ATOMIC_RELAXED);
	}
}

static void count(void *arg, const struct ripc_service_info *info)
{
	*(unsigned *)arg += info->service == 42;
}

START_TEST(list__lacks_an_announced_page)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	uint64_t rng = test_seed() + (uint64_t)getpid();
	socklen_t len = sizeof(in);
	unsigned found = 0;
	char options[200];
	struct ripc *ctx;
	pthread_t thread;
	int one = 1;

	test_own_network();
	in.sin_port = htons((uint16_t)(20000 + test_random(&rng) % 12000));
	shared_fd = socket(AF_INET, SOCK_DGRAM, 0);
	ck_assert_int_eq(setsockopt(shared_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	ck_assert_int_eq(bind(shared_fd, (struct sockaddr *)&in, len), 0);
	snprintf(options, sizeof(options), "resolver=udp transports=self interfaces=lo port=%u",
		 ntohs(in.sin_port));
	in.sin_port = 0;
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	own_fd = socket(AF_INET, SOCK_DGRAM, 0);
	ck_assert_int_eq(bind(own_fd, (struct sockaddr *)&in, len), 0);
	ck_assert_int_eq(getsockname(own_fd, (struct sockaddr *)&in, &len), 0);
	OK(ripc_open(&ctx, options));
	ripc_log_set(on_log, NULL, RIPC_LOG_WARN);
	/* Nobody answers. */
	RC(0, ripc_service_list(ctx, count, &found, 50));
	ck_assert_str_eq(warning, "");
	ck_assert_int_eq(pthread_create(&thread, NULL, answer, NULL), 0);
	while (!found)
		ck_assert_int_ge(ripc_service_list(ctx, count, &found, 500), 0);
	ck_assert_uint_eq(found, 1);
	ck_assert_ptr_nonnull(strstr(warning, "lacks some"));
	ck_assert_uint_ge(__atomic_load_n(&requests, __ATOMIC_RELAXED), 2);
	ripc_log_set(NULL, NULL, RIPC_LOG_ERROR);
	OK(ripc_close(ctx));
	ck_assert_int_eq(sendto(own_fd, "", 1, 0, (struct sockaddr *)&in, len), 1);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	close(shared_fd);
	close(own_fd);
}
END_TEST

static struct rig rig;
static int meanwhile_rc;

static void list_meanwhile(void *arg)
{
	unsigned found = 0;

	if (arg) {
		rig.ctx[0]->closing = true;
		return;
	}
	meanwhile_rc = ripc_service_list(rig.ctx[0], count, &found, 100);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "another thread"));
}

/* One list at a time; the end of the context ends it. */
START_TEST(list__meanwhile)
{
	unsigned found = 0;

	rig_start(&rig, 2, NULL);
	ripc__sim_at_event(rig.net, 1, list_meanwhile, NULL);
	RC(2, ripc_service_list(rig.ctx[0], count, &found, 100));
	ck_assert_int_eq(meanwhile_rc, -EBUSY);
	ripc__sim_at_event(rig.net, 1, list_meanwhile, &rig);
	RC(-ESHUTDOWN, ripc_service_list(rig.ctx[0], count, &found, 100));
	rig.ctx[0]->closing = false;
	RC(2, ripc_service_list(rig.ctx[0], count, &found, 100));
	rig_end(&rig);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/context/list");
	TCase *tc = tcase_create("list");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, list__lacks_an_announced_page);
	tcase_add_test(tc, list__meanwhile);
	suite_add_tcase(suite, tc);
	return test_main("core/context/list", suite);
}
