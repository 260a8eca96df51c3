/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* UDP multicast of groups: addresses, reception, and delivery to members, over IPv4 and IPv6. */
#define _GNU_SOURCE
#include "harness.h"
#include "ripc.h"
#include "transport/net/mcast.h"

#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_MS 20000

static struct ripc__options opt;
static char options[120]; /* a separate port: other tests may run on this host */
static struct ripc__mcast one, two;

static void load(const char *interface)
{
	uint64_t rng = test_seed() + (uint64_t)getpid();
	char why[200];

	snprintf(options, sizeof(options), "transports=iwarp/soft interfaces=%s port=%u", interface,
		 20000 + (unsigned)(test_random(&rng) % 12000));
	ck_assert_msg(!ripc__options_load(&opt, options, why, sizeof(why)), "%s", why);
	ripc__mcast_init(&one, "one", &opt);
	ripc__mcast_init(&two, "two", &opt);
}

static void setup(void)
{
	load("lo");
}

static void teardown(void)
{
	ripc__mcast_fini(&one);
	ripc__mcast_fini(&two);
}

static void both_open(void)
{
	ck_assert_msg(!ripc__mcast_open(&one), "%s", ripc_error_detail());
	ck_assert_msg(!ripc__mcast_open(&two), "%s", ripc_error_detail());
}

static int send_text(const struct ripc__mcast *m, uint64_t group, const char *text)
{
	struct iovec iov[2] = {{(void *)text, 1}, {(void *)(text + 1), strlen(text)}};

	return ripc__mcast_send(m, group, iov, 2);
}

/* The next datagram on the loopback, at any socket. Return: that of receive(). */
static int listen_to(const struct ripc__mcast *m, char buf[RIPC__MCAST_MAX], int wait_ms)
{
	struct pollfd p[2] = {{m->rx_fd[0], POLLIN, 0}, {m->rx_fd[1], POLLIN, 0}};
	int rc;

	if (poll(p, 2, wait_ms) <= 0)
		return -EAGAIN;
	rc = p[0].revents ? ripc__mcast_receive(m, p[0].fd, buf) : -EAGAIN;
	return rc == -EAGAIN && p[1].revents ? ripc__mcast_receive(m, p[1].fd, buf) : rc;
}

static void mcast_ports(const struct ripc__mcast *m, const char *text)
{
	char buf[RIPC__MCAST_MAX];

	ck_assert_int_eq(listen_to(m, buf, PATIENCE_MS), (int)strlen(text) + 1);
	ck_assert_str_eq(buf, text);
}

static void expect_nothing(const struct ripc__mcast *m)
{
	char buf[RIPC__MCAST_MAX];

	ck_assert_int_eq(listen_to(m, buf, 20), -EAGAIN);
}

START_TEST(address__of_a_group)
{
	union ripc__sockaddr a, b;

	ripc__mcast_address(UINT64_C(0x0123456789abcdef), AF_INET6, 7476, &a);
	ck_assert_int_eq(memcmp(a.in6.sin6_addr.s6_addr,
				"\xff\x02\0\0RIGR\x01\x23\x45\x67\x89\xab\xcd\xef", 16),
			 0);
	ck_assert_uint_eq(ripc__sockaddr_port(&a), 7476);
	for (uint64_t group = 1; group < 1000; group++) {
		ripc__mcast_address(group << group % 50, AF_INET, 1, &a);
		ck_assert_uint_eq(ntohl(a.in.sin_addr.s_addr) >> 18, 0xefc00000u >> 18);
	}
	/* Adjacent ids have different addresses. */
	ripc__mcast_address(1, AF_INET, 1, &a);
	ripc__mcast_address(2, AF_INET, 1, &b);
	ck_assert(!ripc__sockaddr_same_ip(&a, &b));
}
END_TEST

/* Whether a group's datagrams arrive with this port of the resolver, and at which port. */
static void check_port(unsigned resolver, unsigned want)
{
	char why[200];
	union ripc__sockaddr bound;
	socklen_t len = sizeof(bound);

	snprintf(options, sizeof(options), "interfaces=lo port=%u", resolver);
	ck_assert_msg(!ripc__options_load(&opt, options, why, sizeof(why)), "%s", why);
	ck_assert_uint_eq(ripc__mcast_port(&opt), want);
	/* A port below 1024 needs a privilege. */
	if (ripc__mcast_open(&two) && want < 1024) {
		test_skip("address__port_beside_the_resolvers: port below 1024");
		return;
	}
	both_open();
	ck_assert_int_eq(getsockname(two.rx_fd[RIPC__MCAST_4], &bound.sa, &len), 0);
	ck_assert_uint_eq(ripc__sockaddr_port(&bound), want);
	ck_assert_int_eq(ripc__mcast_join(&two, 5), 0);
	ck_assert_int_eq(send_text(&one, 5, "for it"), 0);
	mcast_ports(&two, "for it");
	teardown();
}

START_TEST(address__port_beside_the_resolvers)
{
	check_port(65534, 65535);
	check_port(65535, 65534);
	check_port(1, 2);
}
END_TEST

START_TEST(join__receives_its_groups_only)
{
	both_open();
	ck_assert_int_eq(ripc__mcast_join(&two, 5), 0);
	ck_assert_int_eq(send_text(&one, 6, "not for it"), 0);
	ck_assert_int_eq(send_text(&one, 5, "for it"), 0);
	mcast_ports(&two, "for it");
	expect_nothing(&two);
	expect_nothing(&one);
	ck_assert_int_eq(ripc__mcast_join(&one, 5), 0);
	ck_assert_int_eq(ripc__mcast_join(&two, 6), 0);
	ck_assert_int_eq(send_text(&one, 5, "for both"), 0);
	mcast_ports(&two, "for both");
	mcast_ports(&one, "for both");
	ripc__mcast_leave(&two, 5);
	ck_assert_int_eq(send_text(&one, 5, "left"), 0);
	mcast_ports(&one, "left");
	expect_nothing(&two);
	ck_assert_int_eq(send_text(&one, 6, "stayed"), 0);
	mcast_ports(&two, "stayed");
}
END_TEST

START_TEST(leave__another_group_at_the_same_address)
{
	union ripc__sockaddr a, b;
	uint64_t other = 1;

	ripc__mcast_address(1, AF_INET, 1, &a);
	do
		ripc__mcast_address(++other, AF_INET, 1, &b);
	while (!ripc__sockaddr_same_ip(&a, &b));
	both_open();
	ck_assert_int_eq(ripc__mcast_join(&two, 1), 0);
	ck_assert_int_eq(ripc__mcast_join(&two, other), 0);
	ripc__mcast_leave(&two, other);
	ck_assert_int_eq(send_text(&one, 1, "still here"), 0);
	mcast_ports(&two, "still here");
	ripc__mcast_leave(&two, 1);
	ck_assert_int_eq(send_text(&one, 1, "gone"), 0);
	expect_nothing(&two);
}
END_TEST

START_TEST(receive__what_came_to_no_group_is_dropped)
{
	uint16_t port = ripc__mcast_port(&opt);
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	static char buf[RIPC__MCAST_MAX + 1];
	struct iovec iov = {buf, sizeof(buf)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	both_open();
	ck_assert_int_eq(ripc__mcast_send(&one, 5, &iov, 1), -EMSGSIZE);
	ripc__mcast_fini(&one);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	/*
	 * Several sockets share the port; one gets the unicast datagram. Other processes may as
	 * well.
	 */
	ck_assert_int_eq(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)), 1);
	ck_assert(listen_to(&two, buf, 20) < 0);
	ck_assert_int_eq(ripc__mcast_join(&two, 5), 0);
	ck_assert_int_eq(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF,
				    &(struct ip_mreqn){.imr_ifindex = (int)if_nametoindex("lo")},
				    sizeof(struct ip_mreqn)),
			 0);
	{
		union ripc__sockaddr group;

		ripc__mcast_address(5, AF_INET, ripc__mcast_port(&opt), &group);
		ck_assert_int_eq(sendto(fd, buf, sizeof(buf), 0, &group.sa, sizeof(group.in)),
				 (int)sizeof(buf));
	}
	ck_assert_int_eq(listen_to(&two, buf, PATIENCE_MS), -EMSGSIZE);
	close(fd);
}
END_TEST

/* ---- between contexts ---- */

struct world {
	struct ripc *ctx[3];
	struct ripc_service *s[3];
};

static int failing_fd = -1, failing_errno;

ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (fd < 0 || fd != failing_fd)
		return __real_sendmsg(fd, msg, flags);
	errno = failing_errno;
	return -1;
}

/*
 * One of two interfaces does not send: if it is full, its hosts miss the message, and the caller
 * uses lanes. Another error means that it has no hosts.
 */
START_TEST(send__one_interface_fails)
{
	both_open();
	ck_assert_uint_eq(one.n, 1);
	one.interfaces[1] = one.interfaces[0];
	one.interfaces[1].tx_fd = dup(one.interfaces[0].tx_fd);
	ck_assert_int_ge(one.interfaces[1].tx_fd, 0);
	one.n = 2;
	for (unsigned i = 0; i < 2; i++) {
		failing_fd = one.interfaces[i].tx_fd;
		failing_errno = EAGAIN;
		ck_assert_int_eq(send_text(&one, 7, "full"), -EAGAIN);
		failing_errno = ENOBUFS;
		ck_assert_int_eq(send_text(&one, 7, "full"), -EAGAIN);
		failing_errno = ENETDOWN;
		ck_assert_int_eq(send_text(&one, 7, "down"), 0);
	}
	failing_fd = -1;
	ck_assert_int_eq(send_text(&one, 7, "both"), 0);
}
END_TEST

static void rc_is(int want, int rc, const char *what)
{
	ck_assert_msg(rc == want, "%s: %d: %s", what, rc, ripc_error_detail());
}

/* One sender, two members. */
static void start(struct world *w, uint64_t group, const char *more)
{
	char text[200];
	struct ripc_group_stats stats = {.size = sizeof(stats)};

	snprintf(text, sizeof(text), "%s %s", options, more);
	for (unsigned i = 0; i < 3; i++) {
		rc_is(0, ripc_open(&w->ctx[i], text), "open");
		rc_is(0, ripc_service_register(w->ctx[i], RIPC_ANY_ID, 0, &w->s[i]), "register");
		if (i)
			rc_is(0, ripc_group_join(w->s[i], group, PATIENCE_MS), "join");
	}
	rc_is(0, ripc_group_send(w->s[0], group, &(struct iovec){"first", 5}, 1, NULL, PATIENCE_MS),
	      "send");
	AWAIT(!ripc_group_stats(w->ctx[0], group, NULL, &stats) && stats.members == 2);
}

static void end(struct world *w)
{
	for (unsigned i = 0; i < 3; i++)
		rc_is(0, ripc_close(w->ctx[i]), "close");
}

/* Both members get the number once. */
static void round_of(struct world *w, uint64_t group, uint32_t number)
{
	rc_is(0, ripc_group_send(w->s[0], group, &(struct iovec){&number, 4}, 1, NULL, PATIENCE_MS),
	      "send");
	for (unsigned i = 1; i < 3; i++) {
		struct ripc_message *m;

		do {
			rc_is(0, ripc_receive(w->s[i], &m, PATIENCE_MS), "receive");
			ck_assert_uint_eq(m->group, group);
			if (m->items[0].iov_len == 5)
				ripc_message_free(m);
			else
				break;
		} while (1);
		ck_assert_int_eq(memcmp(m->items[0].iov_base, &number, 4), 0);
		ripc_message_free(m);
	}
}

static struct ripc_group_stats group_stats(struct ripc *ctx, uint64_t group)
{
	struct ripc_group_stats stats = {.size = sizeof(stats)};

	rc_is(0, ripc_group_stats(ctx, group, NULL, &stats), "stats");
	return stats;
}

/* After both confirmed, lanes carry no second copy. */
static void multicast_takes_over(void)
{
	uint64_t group = test_ids(), before, now = UINT64_MAX, limit = 0;
	struct world w;
	uint32_t n = 0;

	start(&w, group, "");
	do {
		before = now;
		for (unsigned k = 0; k < 5; k++)
			round_of(&w, group, n++);
		/* The second copy of a message may still be under way. */
		ck_assert_msg(test_pause(&limit, PATIENCE_MS),
			      "both copies of every message came, to the last");
		now = group_stats(w.ctx[1], group).duplicates +
		      group_stats(w.ctx[2], group).duplicates;
	} while (now != before);
	ck_assert_uint_gt(group_stats(w.ctx[0], group).multicasts, 0);
	for (unsigned i = 1; i < 3; i++)
		ck_assert_uint_eq(group_stats(w.ctx[i], group).lost, 0);
	end(&w);
}

START_TEST(group__multicast_takes_over)
{
	multicast_takes_over();
}
END_TEST

START_TEST(group__switched_off)
{
	struct world w;

	start(&w, test_ids() + 1, "multicast=off");
	for (uint32_t n = 0; n < 20; n++)
		round_of(&w, test_ids() + 1, n);
	ck_assert_uint_eq(group_stats(w.ctx[0], test_ids() + 1).multicasts, 0);
	ck_assert_uint_eq(group_stats(w.ctx[1], test_ids() + 1).duplicates, 0);
	end(&w);
}
END_TEST

/* A network namespace with an interface without IPv4. Return: whether that is possible. */
static bool only_ipv6(void)
{
	return (!unshare(CLONE_NEWNET) || !unshare(CLONE_NEWUSER | CLONE_NEWNET)) &&
	       !system("PATH=$PATH:/sbin:/usr/sbin; ip link add six type veth peer name seven && "
		       "ip link set lo up && ip link set seven up && ip link set six up && "
		       "ip -6 addr add fd00::1/64 dev six nodad") &&
	       if_nametoindex("six");
}

START_TEST(group__ipv6_alone)
{
	if (!only_ipv6()) {
		test_skip("group__ipv6_alone: no network namespace of our own with IPv6 here");
		return;
	}
	load("six");
	both_open();
	ck_assert_int_lt(one.rx_fd[RIPC__MCAST_4], 0);
	ck_assert_int_eq(ripc__mcast_join(&two, 5), 0);
	ck_assert_int_eq(send_text(&one, 5, "six"), 0);
	mcast_ports(&two, "six");
	teardown();
	multicast_takes_over();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/iwarp/soft/mcast");
	TCase *tc = tcase_create("mcast");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, address__of_a_group);
	tcase_add_test(tc, address__port_beside_the_resolvers);
	tcase_add_test(tc, join__receives_its_groups_only);
	tcase_add_test(tc, leave__another_group_at_the_same_address);
	tcase_add_test(tc, receive__what_came_to_no_group_is_dropped);
	tcase_add_test(tc, send__one_interface_fails);
	tcase_add_test(tc, group__multicast_takes_over);
	tcase_add_test(tc, group__switched_off);
	tcase_add_test(tc, group__ipv6_alone);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/mcast", suite);
}
