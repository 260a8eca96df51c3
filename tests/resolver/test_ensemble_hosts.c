/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of an ensemble, with a name server, a hosts file and a network of the test's own. */
#define _GNU_SOURCE
#include "harness.h"

#include "resolver/ensemble_hosts.h"
#include "ripc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char addresses[RIPC__HOSTS_BYTES], why[320];
static atomic_bool stop;
static int server = -1; /* a name server that never answers */

/* In a mount namespace of its own, @path holds this text. Return: 0 or -1. */
static int replace_file(const char *path, const char *text)
{
	char name[] = "/tmp/ripc-hosts-XXXXXX";
	int fd = mkstemp(name), rc;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	fchmod(fd, 0644);
	close(fd);
	rc = mount(name, path, NULL, MS_BIND, NULL);
	unlink(name);
	return rc;
}

/* Return: false: not permitted here; the test is skipped. */
static bool private_names(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(53)};

	if (!test_own_network() || unshare(CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    replace_file("/etc/resolv.conf", "nameserver 127.0.0.1\n") ||
	    replace_file("/etc/hosts",
			 "127.0.0.1 zk1.test\n127.0.0.2 zk2.test\n127.0.0.3 zk2.test\n") ||
	    replace_file("/etc/nsswitch.conf", "hosts: files dns\n")) {
		test_skip("no name server of its own: %s", strerror(errno));
		return false;
	}
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(server, (struct sockaddr *)&sin, sizeof(sin)), 0);
	return true;
}

/* How many queries have come since the last call. */
static unsigned queries(void)
{
	unsigned n = 0;
	char buf[512];

	while (recv(server, buf, sizeof(buf), 0) >= 0)
		n++;
	return n;
}

START_TEST(resolve__numbers_need_no_name_server)
{
	ck_assert_uint_eq(ripc__hosts_resolve("127.0.0.1:2181,10.0.0.1:2182,[::1]:2183", &stop,
					      addresses, why, sizeof(why)),
			  3);
	ck_assert_str_eq(addresses, "127.0.0.1:2181,10.0.0.1:2182,::1:2183");
}
END_TEST

START_TEST(resolve__names_with_all_their_addresses)
{
	if (!private_names())
		return;
	ck_assert_uint_eq(ripc__hosts_resolve("zk1.test:2181,zk2.test:2182", &stop, addresses, why,
					      sizeof(why)),
			  3);
	ck_assert_str_eq(addresses, "127.0.0.1:2181,127.0.0.2:2182,127.0.0.3:2182");
	ck_assert_uint_eq(queries(), 0);
}
END_TEST

START_TEST(resolve__more_addresses_than_fit)
{
	char many[4 * RIPC__HOSTS_BYTES] = "";
	unsigned n, entries = 1;

	while (strlen(many) < sizeof(many) - 40)
		strcat(many, "127.0.0.1:2181,");
	n = ripc__hosts_resolve(many, &stop, addresses, why, sizeof(why));
	for (const char *at = addresses; (at = strchr(at, ',')); at++)
		entries++;
	ck_assert_uint_eq(n, entries);
	ck_assert_uint_eq(strlen(addresses), 15 * n - 1);
}
END_TEST

START_TEST(resolve__asks_a_silent_name_server_once)
{
	unsigned n;

	if (!private_names())
		return;
	n = ripc__hosts_resolve("zk3.test:2181", &stop, addresses, why, sizeof(why));
	ck_assert_uint_eq(n, 0);
	ck_assert_str_eq(addresses, "");
	ck_assert_ptr_nonnull(strstr(why, "cannot resolve host name zk3.test"));
	/* One for IPv4, one for IPv6; the resolver's default is two of each, 5 s apart. */
	ck_assert_uint_eq(queries(), 2);
	/* One that is known is used, whatever the others are. */
	ck_assert_uint_eq(ripc__hosts_resolve("zk3.test:2181,zk1.test:2181", &stop, addresses, why,
					      sizeof(why)),
			  1);
	ck_assert_str_eq(addresses, "127.0.0.1:2181");
}
END_TEST

START_TEST(resolve__ends_when_stopped)
{
	if (!private_names())
		return;
	stop = true;
	ck_assert_uint_eq(ripc__hosts_resolve("zk3.test:2181,zk4.test:2181", &stop, addresses, why,
					      sizeof(why)),
			  0);
	ck_assert_uint_eq(queries(), 0);
}
END_TEST

/*
 * ripc_close() joins the thread that resolves: it waits for one query, and not for all that
 * resolv.conf(5) allows.
 */
START_TEST(close__does_not_wait_for_a_silent_name_server)
{
	static const char options[] = "interfaces=lo resolver=local,zookeeper:zk3.test:2181";
	struct pollfd pfd;
	struct ripc *ctx;

	if (!private_names())
		return;
	ck_assert_int_eq(ripc_open(&ctx, options), 0);
	pfd = (struct pollfd){.fd = server, .events = POLLIN};
	ck_assert_int_eq(poll(&pfd, 1, 60000), 1);
	ck_assert_int_eq(ripc_close(ctx), 0);
	ck_assert_uint_le(queries(), 2);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/ensemble_hosts");
	TCase *tc = tcase_create("resolve");

	tcase_add_test(tc, resolve__numbers_need_no_name_server);
	tcase_add_test(tc, resolve__names_with_all_their_addresses);
	tcase_add_test(tc, resolve__more_addresses_than_fit);
	tcase_add_test(tc, resolve__asks_a_silent_name_server_once);
	tcase_add_test(tc, resolve__ends_when_stopped);
	suite_add_tcase(suite, tc);
	tc = tcase_create("close");
	tcase_add_test(tc, close__does_not_wait_for_a_silent_name_server);
	suite_add_tcase(suite, tc);
	return test_main("resolver/ensemble_hosts", suite);
}
