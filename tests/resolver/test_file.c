/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The file back end: lists of hosts, asked one by one; and the contexts of a host that pass
 * requests on.
 */
#define _GNU_SOURCE
#include "live.h"
#include "resolver/core.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

static char dir[64], path[96];
static char logged[4096];

static void make_dir(void)
{
	setup();
	strcpy(dir, "/tmp/ripc-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/hosts", dir);
}

static void remove_dir(void)
{
	unlink(path);
	ck_assert_int_eq(rmdir(dir), 0);
}

static void write_list(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void write_list(const char *fmt, ...)
{
	FILE *file = fopen(path, "w");
	va_list ap;

	ck_assert_ptr_nonnull(file);
	va_start(ap, fmt);
	vfprintf(file, fmt, ap);
	va_end(ap);
	fclose(file);
}

static void log_hook(void *arg, enum ripc_log_level level, const char *line)
{
	size_t at = strlen(logged);

	snprintf(logged + at, sizeof(logged) - at, "%s\n", line);
}

/* A resolver of its own port that knows nothing but the list. */
static int try_client(struct ctx *c)
{
	char options[160];

	snprintf(options, sizeof(options), "resolver=file:%s port=%d resolve_timeout_ms=3000", path,
		 port + 1);
	return try_open(c, options);
}

static void open_client(struct ctx *c)
{
	ck_assert_msg(!try_client(c), "%s", ripc_error_detail());
}

static void check_found(struct ctx *all, unsigned n, uint64_t id, const struct ctx *holder)
{
	const struct ripc__resolver_event *ev;

	lookup(&all[0], id);
	ev = await(all, n, RIPC__RESOLVED, id);
	ck_assert_mem_eq(ev->record.instance, holder->instance, 16);
}

START_TEST(file__asks_the_hosts_of_the_list)
{
	struct ctx c[2];

	write_list("%s%llu 127.0.0.1:%u\n", _i == 1 ? "* 127.0.0.1\n" : "",
		   (unsigned long long)service, port);
	open_client(&c[0]);
	open_ctx(&c[1], "resolver=local,udp");
	register_service(&c[1], service);
	check_found(c, 2, service, &c[1]);
	/* The answer names a context: one that is gone is not found any more. */
	ripc__resolver_close(c[1].r);
	ripc__resolver_invalidate(c[0].r, service, c[1].instance);
	c[0].nevents = 0;
	lookup(&c[0], service);
	check_contains(await(c, 1, RIPC__UNRESOLVED, service)->text, "1 host of");
	ripc__resolver_close(c[0].r);
}
END_TEST

START_TEST(file__any_service)
{
	struct ctx c[2];

	write_list("# everything\n\n * [::1]:%u 127.0.0.1:%u # there\n", port, port);
	open_client(&c[0]);
	open_ctx(&c[1], "resolver=local,udp");
	register_service(&c[1], service);
	check_found(c, 2, service, &c[1]);
	ripc__resolver_close(c[0].r);
	ripc__resolver_close(c[1].r);
}
END_TEST

/* Nothing but the list, and all of them behind one port. */
START_TEST(file__alone_on_one_host)
{
	enum { N = 6 };
	struct ctx c[N];
	char options[160];

	write_list("* 127.0.0.1:%u\n", port + 1);
	snprintf(options, sizeof(options), "resolver=file:%s port=%d resolve_timeout_ms=8000", path,
		 port + 1);
	for (unsigned i = 0; i < N; i++) {
		open_ctx(&c[i], options);
		register_service(&c[i], service + i);
	}
	for (unsigned i = 1; i < N; i++) {
		const struct ripc__resolver_event *ev;

		lookup(&c[0], service + i);
		ev = await(c, N, RIPC__RESOLVED, service + i);
		ck_assert_mem_eq(ev->record.instance, c[i].instance, 16);
	}
	for (unsigned i = 0; i < N; i++)
		ripc__resolver_close(c[i].r);
}
END_TEST

/*
 * Only one of those that share the port reads a request: it is passed on to the one that is meant.
 */
START_TEST(file__several_contexts_of_a_host)
{
	enum { N = 6 };
	struct ctx c[N + 1];

	write_list("* 127.0.0.1:%u\n", port);
	open_client(&c[0]);
	/* The last contexts receive the update through their own file back end. */
	for (unsigned i = 1; i <= N; i++) {
		char options[160];

		snprintf(options, sizeof(options), "resolver=local,file:%s", path);
		open_ctx(&c[i], i <= N / 2 ? "resolver=local,udp" : options);
		ck_assert_int_eq(ripc__resolver_register(c[i].r, service + i, NULL, RIPC__REGISTER,
							 ripc__clock_ns()),
				 0);
	}
	for (unsigned i = 1; i <= N; i++)
		await_at(c, N + 1, &c[i], RIPC__REGISTERED, service + i);
	for (unsigned i = 1; i <= N; i++)
		check_found(c, N + 1, service + i, &c[i]);
	for (unsigned i = 0; i <= N; i++)
		ripc__resolver_close(c[i].r);
}
END_TEST

/*
 * Other contexts of the host are stopped. The kernel may give requests to them, but not all of
 * those that a look-up repeats.
 */
START_TEST(file__stopped_contexts)
{
	struct ctx c[2], stopped[2];
	char options[160];

	write_list("* 127.0.0.1:%u\n", port);
	snprintf(options, sizeof(options), "resolver=file:%s port=%d resolve_timeout_ms=40000",
		 path, port + 1);
	open_ctx(&stopped[0], "resolver=local,udp");
	open_ctx(&c[1], "resolver=local,udp");
	open_ctx(&stopped[1], "resolver=local,udp");
	register_service(&c[1], service);
	/* The port that a client sends from also matters. */
	for (unsigned i = 0; i < 10; i++) {
		open_ctx(&c[0], options);
		check_found(c, 2, service, &c[1]);
		ripc__resolver_close(c[0].r);
	}
	ripc__resolver_close(c[1].r);
	ripc__resolver_close(stopped[0].r);
	ripc__resolver_close(stopped[1].r);
}
END_TEST

START_TEST(file__a_second_holder_is_refused)
{
	struct ctx c[2];

	write_list("* 127.0.0.1:%u\n", port);
	open_client(&c[0]);
	open_ctx(&c[1], "resolver=udp");
	ck_assert_int_eq(
		ripc__resolver_register(c[1].r, service, NULL, RIPC__REGISTER, ripc__clock_ns()),
		0);
	await_at(c, 2, &c[1], RIPC__REGISTERED, service);
	ck_assert_int_eq(
		ripc__resolver_register(c[0].r, service, NULL, RIPC__REGISTER, ripc__clock_ns()),
		0);
	check_contains(await(c, 2, RIPC__CONFLICT, service)->text, "is held by instance");
	ripc__resolver_close(c[0].r);
	ripc__resolver_close(c[1].r);
}
END_TEST

/*
 * The known holder of a service was killed. On this host its name is free, which proves that; on
 * another host (1) it may be busy.
 */
START_TEST(file__known_holder_died)
{
	struct ctx c[2];
	char options[128];

	write_list("* 127.0.0.1:%u\n", port);
	snprintf(options, sizeof(options), "resolver=local,file:%s", path);
	for (unsigned i = 0; i < 2; i++) {
		load(&c[i], options);
		c[i].host[0] = (uint8_t)(1 + i * (unsigned)_i);
		ck_assert_int_eq(open_loaded(&c[i]), 0);
	}
	register_service(&c[1], service);
	check_found(c, 2, service, &c[1]);
	ripc__resolver_kill(c[1].r);
	ripc__resolver_lookup_cancel(c[0].r, service);
	ck_assert_int_eq(
		ripc__resolver_register(c[0].r, service, NULL, RIPC__REGISTER, resolver_now()), 0);
	for (unsigned i = 0; i < RIPC__PROBES; i++) {
		ahead_ns += RIPC__PROBE_INTERVAL_MS * RIPC__MS;
		progress(&c[0]);
	}
	ck_assert_int_eq(!find_event(&c[0], RIPC__REGISTERED, service), _i);
	ripc__resolver_close(c[0].r);
}
END_TEST

/*
 * The kernel decides which context of the host reads the probes of a takeover. If it is the one
 * that takes the service over, it forwards them to the holder.
 */
START_TEST(file__takeover_on_one_host)
{
	enum { N = 8 };
	struct ctx c[2];
	char options[160];

	write_list("* 127.0.0.1:%u\n", port + 1);
	snprintf(options, sizeof(options), "resolver=file:%s port=%d", path, port + 1);
	open_ctx(&c[1], options);
	for (unsigned i = 0; i < N; i++) {
		register_service(&c[1], service + i);
		open_ctx(&c[0], options);
		ck_assert_int_eq(ripc__resolver_register(c[0].r, service + i, NULL,
							 RIPC__REGISTER_TAKE, resolver_now()),
				 0);
		await(c, 2, RIPC__REGISTERED, service + i);
		ck_assert_ptr_nonnull(find_event(&c[1], RIPC__CONFLICT, service + i));
		ripc__resolver_close(c[0].r);
	}
	ripc__resolver_close(c[1].r);
}
END_TEST

START_TEST(file__is_read_again_when_it_changes)
{
	struct ctx c[2];
	char text[512];

	write_list("# nothing yet\n");
	open_client(&c[0]);
	open_ctx(&c[1], "resolver=local,udp");
	register_service(&c[1], service);
	lookup(&c[0], service);
	check_contains(await(c, 2, RIPC__UNRESOLVED, service)->text, "0 hosts of");
	write_list("* 127.0.0.1:%u\n", port);
	/* The file is checked once a second; before that, a negative answer has to expire. */
	for (uint64_t limit = 0; !find_event(&c[0], RIPC__RESOLVED, service);) {
		c[0].nevents = 0;
		ahead_ns += 110 * RIPC__MS;
		progress(&c[0]);
		lookup(&c[0], service);
		progress(&c[0]);
		ck_assert(test_pause(&limit, TEST_PATIENCE_MS));
		progress(&c[1]);
		progress(&c[0]);
	}
	/* Without the file the list stays unchanged, and the resolver logs that. */
	unlink(path);
	ripc__resolver_invalidate(c[0].r, service, c[1].instance);
	ahead_ns += 1000 * RIPC__MS;
	c[0].nevents = 0;
	check_found(c, 2, service, &c[1]);
	describe_entries(c[0].r, text, sizeof(text));
	check_contains(text, "cannot be read: No such file");
	/* So it is with an empty file, which is being written, or a full disk has cut off. */
	write_list("%s", "");
	ripc__resolver_invalidate(c[0].r, service, c[1].instance);
	ahead_ns += 1000 * RIPC__MS;
	c[0].nevents = 0;
	check_found(c, 2, service, &c[1]);
	describe_entries(c[0].r, text, sizeof(text));
	check_contains(text, "cannot be read: it is empty");
	ripc__resolver_close(c[0].r);
	ripc__resolver_close(c[1].r);
}
END_TEST

unsigned __real_if_nametoindex(const char *name);
unsigned __wrap_if_nametoindex(const char *name);

static unsigned index_lookups;

unsigned __wrap_if_nametoindex(const char *name)
{
	index_lookups++;
	return __real_if_nametoindex(name);
}

/* With interfaces named, their indices are not looked up for each datagram. */
START_TEST(file__index_of_interface)
{
	char hosts[4096] = "";
	struct ctx c[2];

	for (unsigned i = 1; i <= 100; i++)
		snprintf(hosts + strlen(hosts), sizeof(hosts) - strlen(hosts), "* 127.0.1.%u:%u\n",
			 i, (unsigned)port + 1);
	write_list("%s* 127.0.0.1:%u\n", hosts, port);
	open_ctx(&c[1], "resolver=local,udp");
	register_service(&c[1], service);
	open_client(&c[0]);
	index_lookups = 0;
	check_found(c, 2, service, &c[1]);
	ck_assert_uint_le(index_lookups, 20);
	ripc__resolver_close(c[0].r);
	ripc__resolver_close(c[1].r);
}
END_TEST

START_TEST(file__bad_lines_are_named)
{
	static const char *const bad[] = {"x 127.0.0.1",
					  "0 127.0.0.1",
					  "42",
					  "42 localhost",
					  "42 127.0.0.1:0",
					  "42 127.0.0.1:65536",
					  "42 127.0.0.1:7x",
					  "42 [::1",
					  "42 0.0.0.0",
					  "42 ff02::1",
					  "42 fe80::1",
					  "18446744073709551615 127.0.0.1",
					  "-1 127.0.0.1",
					  "42 127.0.0.1 127.0.0.1:99999",
					  "18446744073709551616 127.0.0.1"};
	struct ctx c;
	char text[512];

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char position[160];

		logged[0] = 0;
		ripc_log_set(log_hook, NULL, RIPC_LOG_WARN);
		write_list("# comment\n%s\n7 127.0.0.1\n", bad[i]);
		open_client(&c);
		ripc_log_set(NULL, NULL, RIPC_LOG_ERROR);
		snprintf(position, sizeof(position), "%s:2: ", path);
		ck_assert_msg(strstr(logged, position) != NULL, "%s: %s", bad[i], logged);
		describe_entries(c.r, text, sizeof(text));
		check_contains(text, "1 host of services, 1 bad line, the first is ");
		ripc__resolver_close(c.r);
	}
}
END_TEST

START_TEST(file__many_bad_lines_are_counted)
{
	struct ctx c;
	char text[512];
	FILE *file = fopen(path, "w");

	for (unsigned i = 0; i < 1000; i++)
		fputs("nonsense\n", file);
	fwrite("1 127.0.0.1\0hidden\n", 1, 19, file);
	fclose(file);
	logged[0] = 0;
	ripc_log_set(log_hook, NULL, RIPC_LOG_WARN);
	open_client(&c);
	ripc_log_set(NULL, NULL, RIPC_LOG_ERROR);
	check_contains(logged, "1001 bad lines in all");
	describe_entries(c.r, text, sizeof(text));
	check_contains(text, "0 hosts of services, 1001 bad lines");
	ripc__resolver_close(c.r);
}
END_TEST

START_TEST(file__that_cannot_be_read)
{
	struct ctx c;

	ck_assert_int_eq(try_client(&c), -ENOENT);
	check_contains(ripc_error_detail(), path);
	check_contains(ripc_error_detail(), "No such file");
	strcpy(path, dir);
	ck_assert_int_eq(try_client(&c), -EINVAL);
	check_contains(ripc_error_detail(), "cannot be read");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/file");
	TCase *tc = tcase_create("file");

	tcase_add_checked_fixture(tc, make_dir, remove_dir);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, file__asks_the_hosts_of_the_list, 0, 1);
	tcase_add_test(tc, file__any_service);
	tcase_add_test(tc, file__alone_on_one_host);
	tcase_add_test(tc, file__several_contexts_of_a_host);
	tcase_add_test(tc, file__stopped_contexts);
	tcase_add_test(tc, file__a_second_holder_is_refused);
	tcase_add_loop_test(tc, file__known_holder_died, 0, 2);
	tcase_add_test(tc, file__takeover_on_one_host);
	tcase_add_test(tc, file__is_read_again_when_it_changes);
	tcase_add_test(tc, file__index_of_interface);
	tcase_add_test(tc, file__bad_lines_are_named);
	tcase_add_test(tc, file__many_bad_lines_are_counted);
	tcase_add_test(tc, file__that_cannot_be_read);
	suite_add_tcase(suite, tc);
	return test_main("resolver/file", suite);
}
