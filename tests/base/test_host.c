/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which host this is, and what is left of that without /proc. */
#define _GNU_SOURCE
#include "base/host.h"
#include "harness.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>

START_TEST(host_get__the_same_each_time)
{
	struct ripc__host a, b;

	ripc__host_get(&a);
	ripc__host_get(&b);
	if (!a.known) {
		test_skip("there is no boot id in /proc");
		return;
	}
	ck_assert(ripc__host_same(a.boot, b.boot));
	ck_assert(!ripc__host_differs(a.boot, b.boot));
	ck_assert_uint_ne(a.netns, 0);
	ck_assert_uint_eq(a.netns, b.netns);
}
END_TEST

START_TEST(host_get__another_network_namespace)
{
	struct ripc__host a, b;

	ripc__host_get(&a);
	if (!test_own_network()) {
		test_skip("no network namespace can be made here");
		return;
	}
	ripc__host_get(&b);
	ck_assert(!memcmp(a.boot, b.boot, sizeof(a.boot)));
	ck_assert_uint_ne(a.netns, b.netns);
}
END_TEST

START_TEST(host_get__without_proc)
{
	struct ripc__host a, b;

	ripc__host_get(&a);
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/proc", "tmpfs", 0, NULL)) {
		test_skip("/proc cannot be hidden from this process");
		return;
	}
	ripc__host_get(&b);
	/* At the end of the process a sanitizer looks there. */
	ck_assert_int_eq(umount2("/proc", MNT_DETACH), 0);
	ck_assert(!b.known);
	/* Not known is no host at all: neither the same as another, nor one that is not. */
	ck_assert(!ripc__host_same(b.boot, b.boot));
	ck_assert(!ripc__host_differs(a.boot, b.boot));
	ck_assert(!ripc__host_same(a.boot, b.boot));
	/* Cookies came with Linux 5.14. */
	ck_assert(b.netns == a.netns || !b.netns);
}
END_TEST

/* A sandbox without Unix sockets, or without any: a number of another kind would differ. */
START_TEST(host_get__without_unix_sockets)
{
	struct ripc__host a, b;

	ripc__host_get(&a);
	if (!test_refuse(SYS_socket, _i ? -1 : AF_UNIX, EAFNOSUPPORT)) {
		test_skip("no system call can be refused here: %s", strerror(errno));
		return;
	}
	ripc__host_get(&b);
	ck_assert_uint_eq(b.netns, _i ? 0 : a.netns);
}
END_TEST

START_TEST(host_same__known_ones_only)
{
	uint8_t none[16] = {0}, one[16] = {1}, two[16] = {2};

	ck_assert(ripc__host_same(one, one));
	ck_assert(!ripc__host_same(one, two));
	ck_assert(ripc__host_differs(one, two));
	ck_assert(!ripc__host_differs(one, none) && !ripc__host_differs(none, one));
	ck_assert(!ripc__host_same(none, none) && !ripc__host_differs(none, none));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/host");
	TCase *tc = tcase_create("host");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, host_get__the_same_each_time);
	tcase_add_test(tc, host_get__another_network_namespace);
	tcase_add_test(tc, host_get__without_proc);
	tcase_add_loop_test(tc, host_get__without_unix_sockets, 0, 2);
	tcase_add_test(tc, host_same__known_ones_only);
	suite_add_tcase(suite, tc);
	return test_main("base/host", suite);
}
