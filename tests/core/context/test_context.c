/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The state of a context after ripc_open(), and the locks of the process while it forks. */
#define _GNU_SOURCE
#include "base/host.h"
#include "base/memory_limit.h"
#include "core/context/context.h"
#include "core/progress/handle.h"
#include "core/rig.h"
#include "transport/transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif

/* Tables that the network fills are seeded from the kernel's random source. */
START_TEST(open__secret)
{
	struct ripc *ctx[2];

	for (unsigned i = 0; i < 2; i++)
		OK(ripc_open(&ctx[i], "transports=self resolver=local"));
	ck_assert_uint_ne(ctx[0]->secret, 0);
	ck_assert_uint_ne(ctx[0]->secret, ctx[1]->secret);
	for (unsigned i = 0; i < 2; i++)
		OK(ripc_close(ctx[i]));
}
END_TEST

/* A sandbox that refuses sysinfo(2) hides the size of the memory: its cgroup alone limits it. */
START_TEST(open__memory_of_host_not_known)
{
	struct ripc *ctx;

	if (!test_refuse(SYS_sysinfo, -1, EPERM)) {
		test_skip("no system call can be refused here: %s", strerror(errno));
		return;
	}
	OK(ripc_open(&ctx, "transports=self resolver=local"));
	ck_assert_uint_eq(ctx->host_bytes,
			  ripc__memory_limit(RIPC__CGROUP_OF_PROCESS, RIPC__CGROUP_ROOT));
	OK(ripc_close(ctx));
}
END_TEST

/* No buffer can be larger than the memory of the cgroup: the process would be killed. */
START_TEST(open__memory_of_cgroup)
{
	const uint64_t limit = 64 * MIB;
	struct ripc *ctx;
	FILE *f;

	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", RIPC__CGROUP_ROOT, "tmpfs", 0, NULL)) {
		test_skip("no cgroups can be made here: %s", strerror(errno));
		return;
	}
	f = fopen(RIPC__CGROUP_ROOT "/memory.max", "w");
	ck_assert_ptr_nonnull(f);
	fprintf(f, "%" PRIu64 "\n", limit);
	ck_assert_int_eq(fclose(f), 0);
	if (ripc__memory_limit(RIPC__CGROUP_OF_PROCESS, RIPC__CGROUP_ROOT) != limit) {
		test_skip("this kernel has no cgroups of version 2");
		return;
	}
	OK(ripc_open(&ctx, "transports=self resolver=local"));
	ck_assert_uint_eq(ctx->host_bytes, limit);
	ck_assert_ptr_null(ripc_buf_alloc(ctx, limit + 1));
	OK(ripc_close(ctx));
}
END_TEST

/* The kernel's boot id, and the network namespace in its last eight bytes. */
START_TEST(open__host_id)
{
	struct ripc__host host;
	struct ripc *ctx;
	uint8_t id[16];

	ripc__host_get(&host);
	memcpy(id, host.boot, 16);
	if (host.known)
		for (unsigned i = 0; i < 8; i++)
			id[8 + i] ^= (uint8_t)(host.netns >> 8 * i);
	OK(ripc_open(&ctx, "transports=self resolver=local"));
	ck_assert_mem_eq(ctx->host, id, 16);
	OK(ripc_close(ctx));
}
END_TEST

/* With hooks there is no thread, no descriptor and no random source but theirs. */
static unsigned next_descriptor(void)
{
	int fd = dup(STDERR_FILENO);

	ck_assert_int_ge(fd, 0);
	close(fd);
	return (unsigned)fd;
}

/* With any limit, the context is opened or the error names the limit, and nothing stays open. */
START_TEST(open__out_of_descriptors)
{
	unsigned first = next_descriptor(), failed = 0, n;
	struct rlimit old, limit;
	struct ripc *ctx;
	char text[64];
	int rc = -1;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	limit = old;
	for (n = 0; rc; n++) {
		ck_assert_uint_lt(n, 100);
		limit.rlim_cur = first + n;
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
		rc = ripc_open(&ctx, "interfaces=lo");
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
		if (!rc)
			break;
		failed++;
		ck_assert_ptr_nonnull(strstr(ripc_error_detail(), strerror(EMFILE)));
		ck_assert_uint_eq(next_descriptor(), first);
		ck_assert_int_eq(rc, -EMFILE);
		snprintf(text, sizeof(text), "RLIMIT_NOFILE of this process is %u,", first + n);
		ck_assert_msg(strstr(ripc_error_detail(), text), "%s", ripc_error_detail());
		ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "ulimit -n"));
	}
	ck_assert_uint_gt(failed, 4);
	OK(ripc_close(ctx));
	ck_assert_uint_eq(next_descriptor(), first);
}
END_TEST

/* Bytes of address space that this process has. */
static unsigned long long address_space(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long long pages;

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%llu", &pages), 1);
	fclose(f);
	return pages * (unsigned long long)sysconf(_SC_PAGESIZE);
}

/* With each size of address space that is too small, the error names the lack and the limit. */
START_TEST(open__out_of_address_space)
{
	unsigned long long first = address_space();
	bool no_context = false, no_stack = false;
	struct rlimit old, limit;
	struct ripc *ctx;
	char text[80];
	int rc = -1;

#ifdef SANITIZED
	test_skip("sanitizers need more address space than a limit would leave");
	return;
#endif
	ck_assert_int_eq(getrlimit(RLIMIT_AS, &old), 0);
	limit = old;
	for (unsigned n = 0; rc; n++) {
		const char *detail;

		ck_assert_uint_lt(n, 4000);
		limit.rlim_cur = first + n * 256 * KIB;
		ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
		rc = ripc_open(&ctx, "transports=self resolver=local");
		ck_assert_int_eq(setrlimit(RLIMIT_AS, &old), 0);
		if (!rc)
			break;
		RC(-ENOMEM, rc);
		detail = ripc_error_detail();
		snprintf(text, sizeof(text), "RLIMIT_AS of this process is %llu KiB",
			 (unsigned long long)limit.rlim_cur >> 10);
		ck_assert_msg(strstr(detail, text) && strstr(detail, "ulimit -v"), "%s", detail);
		no_context |= strstr(detail, "no memory for a context: 1024 KiB") != NULL;
		no_stack |= strstr(detail, "stack of the progress thread: ") != NULL;
	}
	ck_assert(no_context);
	ck_assert(no_stack);
	OK(ripc_close(ctx));
}
END_TEST

START_TEST(open__hooks)
{
	struct ripc__hooks hooks;
	struct rig rig;
	struct ripc *ctx;

	rig_start(&rig, 1, NULL);
	ripc__sim_hooks(rig.net, &hooks);
	ck_assert_mem_eq(&rig.ctx[0]->hooks, &hooks, sizeof(hooks));
	ck_assert_int_lt(rig.ctx[0]->progress.epfd, 0);
	rig_end(&rig);
	OK(ripc_open(&ctx, "transports=self resolver=local"));
	ck_assert_ptr_null(ctx->hooks.now);
	ck_assert_int_ge(ctx->progress.epfd, 0);
	OK(ripc_close(ctx));
}
END_TEST

/* ---- fork ---- */

/* A thread that takes a lock of the process. */
static struct {
	void *(*take)(void *arg);
	pthread_t thread;
	atomic_int tid; /* 0: not started yet */
	atomic_bool done;
	bool waits; /* while the process forks */
} locker;

static void *take_handles(void *arg)
{
	return ripc__handle_alloc(1) ? arg : NULL;
}

static void *take_contexts(void *arg)
{
	return ripc_close(NULL) == -EINVAL ? arg : NULL;
}

static void *locker_main(void *arg)
{
	void *rc;

	locker.tid = (int)syscall(SYS_gettid);
	rc = locker.take(arg);
	locker.done = true;
	return rc;
}

/* Called after the library has prepared for fork(), since this was registered earlier. */
static void prepared(void)
{
	if (!locker.take)
		return;
	if (pthread_create(&locker.thread, NULL, locker_main, &locker))
		return;
	AWAIT(locker.done || (locker.tid && test_sleeps(locker.tid)));
	locker.waits = !locker.done;
}

/*
 * No thread is in the midst of a change when the process forks, so the child finds all in order:
 * the address space of handles, and the list of contexts.
 */
START_TEST(fork__holds_locks)
{
	static void *(*const take[])(void *arg) = {take_handles, take_contexts};
	static bool registered;
	struct ripc *ctx;
	void *result;
	int status;
	pid_t pid;

	setenv("RIPC_TRANSPORTS", "self", 1);
	setenv("RIPC_RESOLVER", "local", 1);
	if (!registered)
		ck_assert_int_eq(pthread_atfork(prepared, NULL, NULL), 0);
	registered = true;
	OK(ripc_open(&ctx, NULL));
	locker.tid = 0;
	locker.done = false;
	locker.take = take[_i];
	pid = fork();
	if (!pid)
		_exit(take_handles(&locker) && take_contexts(&locker) ? 0 : 1);
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert(locker.waits);
	/* After the fork it goes on. */
	ck_assert_int_eq(pthread_join(locker.thread, &result), 0);
	locker.take = NULL;
	ck_assert_ptr_nonnull(result);
	OK(ripc_close(ctx));
}
END_TEST

/* A thread that has a descriptor which no list has yet, or any more. */
static struct {
	atomic_bool stops; /* there, until the process has forked or waits for this thread; or */
	bool stays;        /* until it has forked */
	atomic_bool there, forking, forked;
	struct ripc_service *service;
} holder;

static void stop_here(void)
{
	if (!atomic_exchange(&holder.stops, false))
		return;
	holder.there = true;
	AWAIT(holder.stays ? holder.forked : holder.forking && test_sleeps(getpid()));
}

int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);

/* Called by ripc_open(), when transports and resolver are open, and by ripc_service_fd(). */
int __wrap_eventfd(unsigned count, int flags)
{
	int fd = __real_eventfd(count, flags);

	stop_here();
	return fd;
}

void __real_ripc__resolver_close(struct ripc__resolver *r);
void __wrap_ripc__resolver_close(struct ripc__resolver *r);

void __wrap_ripc__resolver_close(struct ripc__resolver *r)
{
	stop_here();
	__real_ripc__resolver_close(r);
}

static void *hold_in_open(void *arg)
{
	return ripc_open(arg, NULL) ? NULL : arg;
}

static void *hold_in_service_fd(void *arg)
{
	return ripc_service_fd(holder.service) < 0 ? NULL : arg;
}

static void *hold_in_close(void *arg)
{
	return ripc_close(*(struct ripc **)arg) ? NULL : arg;
}

/*
 * The child of a process in which a thread opens or closes a context has no descriptor of it.
 * _i >= 3: a thread that cannot go on does not keep the process from forking.
 */
START_TEST(fork__waits_for_open_and_close)
{
	static void *(*const hold[])(void *arg) = {hold_in_open, hold_in_service_fd, hold_in_close,
						   hold_in_open, hold_in_service_fd};
	unsigned before = test_descriptors();
	struct ripc *ctx = NULL;
	pthread_t thread;
	void *result;
	int status;
	pid_t pid;

	setenv("RIPC_TRANSPORTS", "self", 1);
	setenv("RIPC_RESOLVER", "local", 1);
	if (_i % 3)
		OK(ripc_open(&ctx, NULL));
	if (_i % 3 == 1)
		OK(ripc_service_register(ctx, test_ids(), 0, &holder.service));
	holder.stops = true;
	holder.stays = _i >= 3;
	ck_assert_int_eq(pthread_create(&thread, NULL, hold[_i], &ctx), 0);
	AWAIT(holder.there);
	holder.forking = true;
	pid = fork();
	if (!pid)
		_exit(holder.stays ? 0 : (int)(test_descriptors() - before));
	holder.forked = true;
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	ck_assert_ptr_nonnull(result);
	if (_i != 2)
		OK(ripc_close(ctx));
}
END_TEST

static void *hold_the_lock(void *arg)
{
	ripc__lock(arg);
	holder.there = true;
	AWAIT(holder.forked);
	ripc__unlock(arg);
	return arg;
}

/* The same for memory objects, when the thread has the lock of the context, which fork() lacks. */
START_TEST(fork__without_lock)
{
	unsigned before = test_descriptors();
	struct ripc *ctx;
	pthread_t thread;
	int status;
	pid_t pid;

	setenv("RIPC_RESOLVER", "local", 1);
	OK(ripc_open(&ctx, "transports=shm"));
	for (unsigned i = 0; i < 3; i++)
		ck_assert_ptr_nonnull(ripc_buf_alloc(ctx, 100000));
	ck_assert_int_ge(ctx->memory->regions[0]->fd, 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, hold_the_lock, ctx), 0);
	AWAIT(holder.there);
	pid = fork();
	if (!pid)
		_exit((int)(test_descriptors() - before));
	holder.forked = true;
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	OK(ripc_close(ctx));
}
END_TEST

/* How many descriptors an epoll instance watches. */
static unsigned watched(int epfd)
{
	char path[64], line[256];
	unsigned n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epfd);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f))
		n += !strncmp(line, "tfd:", 4);
	fclose(f);
	return n;
}

static bool has_lanes(struct ripc *ctx)
{
	bool any;

	ripc__lock(ctx);
	any = !ripc__list_empty(&ctx->lanes);
	ripc__unlock(ctx);
	return any;
}

/*
 * A new process has all descriptors until it has closed them, or runs its program. A connection
 * that ends meanwhile is not watched any more, although closing its descriptor does not end it.
 */
START_TEST(fork__ends_watches)
{
	static const char *const options[] = {"transports=shm", "transports=iwarp/soft"};
	struct ripc_service *s[2];
	struct ripc *ctx[2];
	unsigned before;
	uint64_t end = 0;
	pid_t pid;
	int epfd;

	setenv("RIPC_INTERFACES", "lo", 1);
	for (unsigned i = 0; i < 2; i++) {
		OK(ripc_open(&ctx[i], options[_i]));
		OK(ripc_service_register(ctx[i], test_ids() + i, 0, &s[i]));
	}
	epfd = test_fd(ctx[0]->tp[1].ops, ctx[0]->tp[1].t);
	before = watched(epfd);
	OK(ripc_send_long(s[1], test_ids(), &(struct iovec){"x", 1}, 1, NULL, 10000));
	ck_assert_uint_gt(watched(epfd), before);
	/* Without the library's handler: its child would close them at once. */
	pid = _Fork();
	if (!pid)
		for (;;)
			pause();
	ck_assert_int_gt(pid, 0);
	OK(ripc_close(ctx[1]));
	AWAIT(!has_lanes(ctx[0]));
	/* iwarp/soft lingers. */
	while (watched(epfd) > before && test_pause(&end, 3000))
		;
	ck_assert_uint_eq(watched(epfd), before);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	OK(ripc_close(ctx[0]));
}
END_TEST

/* A file that a setting names: the error names the file, and nothing stays open. */
START_TEST(open__unusable_file)
{
	char public[] = "/tmp/ripc-test-XXXXXX";
	const struct {
		const char *setting, *file, *others;
		int rc;
	} cases[] = {
		{"key_file=", "/nonexistent/key", "", -ENOENT},
		{"key_file=", public, "", -EACCES},
		{"resolver=file:", "/nonexistent/hosts", " transports=self", -ENOENT},
		{"pcie_device=", "/nonexistent/memory", " transports=pcie", -ENOENT},
		{"pcie_device=", "/dev/null", " transports=pcie", -ENODEV},
		{"shm_dir=", "/nonexistent", " transports=shm", -ENOENT},
	};
	int fd = mkstemp(public);
	unsigned first = next_descriptor();
	struct ripc *ctx = NULL;
	char options[100];

	ck_assert_int_eq(fchmod(fd, 0644), 0);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(options, sizeof(options), "%s%s%s", cases[i].setting, cases[i].file,
			 cases[i].others);
		RC(cases[i].rc, ripc_open(&ctx, options));
		ck_assert_ptr_null(ctx);
		ck_assert_msg(strstr(ripc_error_detail(), cases[i].file) != NULL, "%s",
			      ripc_error_detail());
		ck_assert_uint_eq(next_descriptor(), first);
	}
	ck_assert_int_eq(unlink(public), 0);
	close(fd);
	RC(-EINVAL, ripc_open(NULL, NULL));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/context/context");
	TCase *tc = tcase_create("context");

	test_seed();
	/* First: with CK_FORK=no the library must not have registered its handler before. */
	tcase_add_loop_test(tc, fork__holds_locks, 0, 2);
	tcase_add_loop_test(tc, fork__waits_for_open_and_close, 0, 5);
	tcase_add_test(tc, fork__without_lock);
	tcase_add_loop_test(tc, fork__ends_watches, 0, 2);
	tcase_add_test(tc, open__secret);
	tcase_add_test(tc, open__memory_of_host_not_known);
	tcase_add_test(tc, open__memory_of_cgroup);
	tcase_add_test(tc, open__host_id);
	tcase_add_test(tc, open__out_of_descriptors);
	tcase_add_test(tc, open__out_of_address_space);
	tcase_add_test(tc, open__hooks);
	tcase_add_test(tc, open__unusable_file);
	suite_add_tcase(suite, tc);
	return test_main("core/context/context", suite);
}
