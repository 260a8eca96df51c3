/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "harness.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/*
 * Test cases run in child processes: what they count must be shared. How many were skipped, and
 * whether a network was refused.
 */
static unsigned *shared;

/*
 * check's own limit, 4 s, is too short for a busy machine. Each test case takes the limit over when
 * it is made.
 */
__attribute__((constructor)) static void set_limit(void)
{
	setenv("CK_DEFAULT_TIMEOUT", "60", 0);
}

static uint64_t ids;

int test_main(const char *name, Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int run, failed;

	setvbuf(stdout, NULL, _IOLBF, 0);
	test_ids();
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return EXIT_FAILURE;
	srunner_run(runner, NULL, getenv("RIPC_TEST_CASE"), CK_NORMAL);
	run = srunner_ntests_run(runner);
	failed = srunner_ntests_failed(runner);
	printf("%s: %d passed, %d failed, %u skipped\n", name, run - failed - (int)shared[0],
	       failed, shared[0]);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

void test_skip(const char *fmt, ...)
{
	va_list ap;

	__atomic_add_fetch(shared, 1, __ATOMIC_RELAXED);
	printf("SKIP: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

uint64_t test_seed(void)
{
	static uint64_t seed;
	const char *text = getenv("RIPC_TEST_SEED");

	if (seed)
		return seed;
	if (text)
		seed = strtoull(text, NULL, 0);
	else if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = 1;
	printf("seed: RIPC_TEST_SEED=0x%llx\n", (unsigned long long)seed);
	return seed;
}

uint64_t test_ids(void)
{
	/* Those above are for RIPC_ANY_ID or no groups, and 0 is no id. */
	while (!ids && getrandom(&ids, sizeof(ids), 0) == sizeof(ids))
		ids &= 0x1fffffffffffff00;
	return ids;
}

bool test_refuse(long call, int first, int err)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | (first < 0 ? BPF_JGE : BPF_JEQ) | BPF_K,
			 first < 0 ? 0 : (uint32_t)first, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

bool test_own_network(void)
{
	struct ifreq ifr = {.ifr_name = "lo"};
	int fd;

	if (unshare(CLONE_NEWNET)) {
		if (!__atomic_exchange_n(&shared[1], 1, __ATOMIC_RELAXED))
			printf("no network of its own (%s): ids and ports may be others' too\n",
			       strerror(errno));
		return false;
	}
	ifr.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
	/* Any family will do, and this one every kernel has. */
	fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ioctl(fd, SIOCSIFFLAGS, &ifr), 0);
	close(fd);
	return true;
}

const char *test_iwarp_interfaces(void)
{
	static char name[IF_NAMESIZE];
	const char *address = getenv("RIPC_LAB_IWARP_ADDRESS"),
		   *named = getenv("RIPC_TEST_INTERFACES");
	struct ifaddrs *all;
	struct in_addr ip;

	if (named || !address || inet_pton(AF_INET, address, &ip) != 1 || getifaddrs(&all))
		return named;
	for (struct ifaddrs *i = all; i; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
		    ((struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr == ip.s_addr)
			snprintf(name, sizeof(name), "%s", i->ifa_name);
	freeifaddrs(all);
	return name[0] ? name : NULL;
}

uint64_t test_number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

unsigned test_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	/* Without the one that we look with, and the two directories that every directory has. */
	return n - 3;
}

bool test_sleeps(int tid)
{
	char path[64], text[512] = "";
	const char *state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (!fgets(text, sizeof(text), f))
		text[0] = 0;
	fclose(f);
	state = strrchr(text, ')');
	return state && state[1] == ' ' && state[2] == 'S';
}

bool test_pause(uint64_t *end_ns, unsigned limit_ms)
{
	const struct timespec ms = {.tv_nsec = 1000000};
	struct timespec ts;
	uint64_t now;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	if (!*end_ns)
		*end_ns = now + (uint64_t)limit_ms * 1000000;
	if (now >= *end_ns)
		return false;
	nanosleep(&ms, NULL);
	return true;
}

uint64_t test_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}
