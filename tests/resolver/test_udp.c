/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The UDP sockets of the resolver: what one datagram costs, networks with several addresses, and a
 * lack of watches of epoll.
 */
#define _GNU_SOURCE
#include "live.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define DATAGRAMS 100u

/* Calls by the resolver. Each look-up of a name takes three system calls, a scan many. */
static struct {
	unsigned received, names, scans;
} calls;

ssize_t __real_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);
char *__real_if_indextoname(unsigned ifindex, char *name);
char *__wrap_if_indextoname(unsigned ifindex, char *name);
unsigned __real_if_nametoindex(const char *name);
unsigned __wrap_if_nametoindex(const char *name);
int __real_getifaddrs(struct ifaddrs **all);
int __wrap_getifaddrs(struct ifaddrs **all);

ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t n = __real_recvmsg(fd, msg, flags);

	calls.received += n >= 0;
	return n;
}

char *__wrap_if_indextoname(unsigned ifindex, char *name)
{
	calls.names++;
	return __real_if_indextoname(ifindex, name);
}

/* An interface that goes and comes back with another index. */
#define GUEST       "guest0"
#define GUEST_INDEX 1000
static unsigned guest; /* how often it has come; 0: there is none */
static bool joined[64];

unsigned __wrap_if_nametoindex(const char *name)
{
	calls.names++;
	if (guest && !strcmp(name, GUEST))
		return GUEST_INDEX + guest;
	return __real_if_nametoindex(name);
}

int __real_setsockopt(int fd, int level, int option, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t len);

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
	bool join = option == IPV6_JOIN_GROUP;
	struct ipv6_mreq group;

	if (level != IPPROTO_IPV6 || (!join && option != IPV6_LEAVE_GROUP))
		return __real_setsockopt(fd, level, option, value, len);
	memcpy(&group, value, sizeof(group));
	if (group.ipv6mr_interface < GUEST_INDEX)
		return __real_setsockopt(fd, level, option, value, len);
	if (joined[group.ipv6mr_interface - GUEST_INDEX] == join) {
		errno = join ? EADDRINUSE : EADDRNOTAVAIL;
		return -1;
	}
	joined[group.ipv6mr_interface - GUEST_INDEX] = join;
	return 0;
}

static void add_guest(struct ifaddrs *last)
{
	static struct sockaddr_in6 addr = {.sin6_family = AF_INET6};
	static struct ifaddrs entry = {
		.ifa_name = GUEST,
		.ifa_flags = IFF_UP | IFF_MULTICAST,
		.ifa_addr = (struct sockaddr *)&addr,
	};

	last->ifa_next = &entry;
}

/* A host with many networks. */
#define NETWORKS 70
static bool many;
static struct ifaddrs networks[NETWORKS];
static struct sockaddr_in addrs[NETWORKS], masks[NETWORKS];

static void add_networks(struct ifaddrs *last)
{
	for (unsigned i = 0; i < NETWORKS; i++) {
		addrs[i].sin_family = masks[i].sin_family = AF_INET;
		addrs[i].sin_addr.s_addr = htonl(0x7f010001 | i << 8);
		masks[i].sin_addr.s_addr = htonl(0xffffff00);
		networks[i] = (struct ifaddrs){
			.ifa_name = "lo",
			.ifa_flags = IFF_UP | IFF_LOOPBACK,
			.ifa_addr = (struct sockaddr *)&addrs[i],
			.ifa_netmask = (struct sockaddr *)&masks[i],
		};
		last->ifa_next = &networks[i];
		last = &networks[i];
	}
}

/* Each address of each interface twice, as of an interface with two addresses in one network. */
static bool doubled;
static struct ifaddrs copies[64];

int __wrap_getifaddrs(struct ifaddrs **all)
{
	int rc = __real_getifaddrs(all);
	struct ifaddrs *last = rc ? NULL : *all;
	unsigned n = 0;

	calls.scans++;
	while ((many || guest) && last && last->ifa_next)
		last = last->ifa_next;
	if (many && last)
		add_networks(last);
	if (guest && last)
		add_guest(last);
	if (!doubled || !last)
		return rc;
	for (struct ifaddrs *ifa = *all; ifa && n < 64; ifa = ifa->ifa_next) {
		last = ifa;
		copies[n++] = *ifa;
	}
	for (unsigned i = 0; i < n; i++)
		copies[i].ifa_next = i + 1 < n ? &copies[i + 1] : NULL;
	/* freeifaddrs() frees the first entry alone: all are in its memory. */
	last->ifa_next = copies;
	return 0;
}

int __real_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);

static bool watches_used_up;

int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	if (!watches_used_up)
		return __real_epoll_ctl(epfd, op, fd, event);
	errno = ENOSPC;
	return -1;
}

static void send_datagrams(int family, unsigned n)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	const struct sockaddr *to =
		family == AF_INET ? (struct sockaddr *)&in : (struct sockaddr *)&in6;
	socklen_t len = family == AF_INET ? sizeof(in) : sizeof(in6);
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in6.sin6_addr = in6addr_loopback;
	ck_assert_int_ge(fd, 0);
	while (n--)
		ck_assert_int_eq(sendto(fd, "no message", 10, 0, to, len), 10);
	close(fd);
}

/* With interfaces= the interface of each datagram is checked. */
START_TEST(receive__one_name_lookup)
{
	const int family = _i ? AF_INET6 : AF_INET;
	uint64_t end = ripc__clock_ns() + 40000 * RIPC__MS;
	struct ctx c;

	if (family == AF_INET6 && access("/proc/net/if_inet6", F_OK))
		return;
	open_ctx(&c, "resolver=udp");
	memset(&calls, 0, sizeof(calls));
	/* Few at a time, so that none is dropped. */
	for (unsigned sent = 0; sent < DATAGRAMS; sent += 10) {
		send_datagrams(family, 10);
		while (calls.received < sent + 10 && ripc__clock_ns() < end) {
			progress(&c);
			pause_all(&c, 1);
		}
	}
	ck_assert_uint_ge(calls.received, DATAGRAMS);
	/* After a scan there is another look-up of the name. */
	ck_assert_uint_le(calls.names, 1 + calls.scans);
	ck_assert_uint_le(calls.scans, DATAGRAMS / 10);
	ripc__resolver_close(c.r);
}
END_TEST

/* A request goes once to each network, however many addresses the interface has there. */
START_TEST(open__one_target_per_network)
{
	char text[512], *first;
	struct ctx c;

	doubled = true;
	open_ctx(&c, "resolver=udp");
	doubled = false;
	describe_entries(c.r, text, sizeof(text));
	first = strstr(text, "127.255.255.255");
	ck_assert_msg(first && !strstr(first + 1, "127.255.255.255"), "%s", text);
	first = strstr(text, "%lo");
	ck_assert_msg(!first || !strstr(first + 1, "%lo"), "%s", text);
	ripc__resolver_close(c.r);
}
END_TEST

static unsigned warnings;
static char logged[400];

static void log_hook(void *arg, enum ripc_log_level level, const char *line)
{
	warnings++;
	snprintf(logged, sizeof(logged), "%s", line);
}

/* Networks that are left out are logged, once. */
START_TEST(open__too_many_networks)
{
	struct ctx c;

	many = true;
	ripc_log_set(log_hook, NULL, RIPC_LOG_WARN);
	open_ctx(&c, "resolver=udp");
	ripc_log_set(NULL, NULL, RIPC_LOG_ERROR);
	many = false;
	ck_assert_uint_eq(warnings, 1);
	check_contains(logged, "only 64 networks are used");
	ripc__resolver_close(c.r);
}
END_TEST

/* The kernel reports that the loopback has gone down and up. */
static void flap(void)
{
	struct ifreq ifr = {.ifr_name = "lo"};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	for (unsigned up = 0; up < 2; up++) {
		ifr.ifr_flags = (short)(IFF_LOOPBACK | (up ? IFF_UP | IFF_RUNNING : 0));
		ck_assert_int_eq(ioctl(fd, SIOCSIFFLAGS, &ifr), 0);
	}
	close(fd);
}

/* A socket keeps the memberships of interfaces that are gone, and may have a few hundred. */
START_TEST(changes__memberships_end)
{
	unsigned n = 0;
	struct ctx c;

	if (!test_own_network() || access("/proc/net/if_inet6", F_OK))
		return;
	guest = 1;
	load(&c, "resolver=udp");
	strcpy(c.opt.interfaces, "lo," GUEST);
	ck_assert_int_eq(open_loaded(&c), 0);
	ck_assert(joined[1]);
	while (++guest < 20) {
		uint64_t limit = 0;

		calls.scans = 0;
		flap();
		while (!calls.scans) {
			progress(&c);
			ck_assert(calls.scans || test_pause(&limit, TEST_PATIENCE_MS));
		}
	}
	ck_assert(joined[19]);
	for (unsigned i = 0; i < 64; i++)
		n += joined[i];
	ck_assert_uint_eq(n, 1);
	ripc__resolver_close(c.r);
}
END_TEST

START_TEST(open__names_the_limit_of_epoll)
{
	static const char *const chains[] = {"resolver=local", "resolver=udp",
					     "resolver=local,udp"};
	struct ctx c;

	watches_used_up = true;
	ck_assert_int_eq(try_open(&c, chains[_i]), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "fs.epoll.max_user_watches"));
	watches_used_up = false;
}
END_TEST

START_TEST(register__names_the_limit_of_epoll)
{
	struct ctx c;

	open_ctx(&c, "resolver=local");
	watches_used_up = true;
	ck_assert_int_eq(ripc__resolver_register(c.r, service, NULL, RIPC__REGISTER, 1), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "fs.epoll.max_user_watches"));
	watches_used_up = false;
	ripc__resolver_close(c.r);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/udp");
	TCase *tc = tcase_create("udp");

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, receive__one_name_lookup, 0, 2);
	tcase_add_test(tc, open__one_target_per_network);
	tcase_add_test(tc, open__too_many_networks);
	tcase_add_test(tc, changes__memberships_end);
	tcase_add_loop_test(tc, open__names_the_limit_of_epoll, 0, 3);
	tcase_add_test(tc, register__names_the_limit_of_epoll);
	suite_add_tcase(suite, tc);
	return test_main("resolver/udp", suite);
}
