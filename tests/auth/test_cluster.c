/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Contexts with keys, and unauthenticated peers: on the loopback, with a port drawn at random. */
#define _GNU_SOURCE
#include "keys.h"
#include "core/progress/context.h"
#include "wire/record.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define OTHER_UID 12345u /* a user id */

static uint64_t service;
static unsigned port;
static char others[128];

static void setup(void)
{
	uint64_t rng = test_seed() + (uint64_t)getpid();

	keys_setup();
	service = test_random(&rng) >> 1 | 1;
	port = (unsigned)(20000 + test_random(&rng) % 12000);
	snprintf(others, sizeof(others), "%s-others", key_path);
}

static void teardown(void)
{
	unlink(others);
	keys_teardown();
}

static struct ripc *open_with(const char *path, const char *more)
{
	char options[512];
	struct ripc *ctx = NULL;

	snprintf(options, sizeof(options), "interfaces=lo port=%u %s%s %s", port,
		 path ? "key_file=" : "", path ? path : "", more);
	ck_assert_msg(!ripc_open(&ctx, options), "%s", ripc_error_detail());
	return ctx;
}

/* One short message there and one back. */
static void check_exchange(struct ripc *a, struct ripc *b)
{
	struct ripc_service *from, *to;
	struct iovec item = {(void *)"hello", 6};
	struct ripc_message *m;
	uint64_t answer_to;

	ck_assert_msg(!ripc_service_register(b, service, 0, &to), "%s", ripc_error_detail());
	ck_assert_int_eq(ripc_service_register(a, RIPC_ANY_ID, 0, &from), 0);
	ck_assert_msg(!ripc_send(from, service, &item, 1, NULL, 10000), "%s", ripc_error_detail());
	ck_assert_int_eq(ripc_receive(to, &m, 10000), 0);
	answer_to = m->source;
	ripc_message_free(m);
	ck_assert_msg(!ripc_send_long(to, answer_to, &item, 1, NULL, 10000), "%s",
		      ripc_error_detail());
	ck_assert_int_eq(ripc_receive(from, &m, 10000), 0);
	ripc_message_free(m);
	ripc_service_unregister(from);
	ripc_service_unregister(to);
}

START_TEST(cluster__of_one_key)
{
	struct ripc *a, *b;

	keys_write(KEY_A);
	a = open_with(key_path, _i ? "resolver=udp" : "");
	b = open_with(key_path, _i ? "resolver=udp" : "");
	check_exchange(a, b);
	check_exchange(b, a);
	ripc_close(a);
	ripc_close(b);
}
END_TEST

START_TEST(cluster__with_both_keys)
{
	struct ripc *a, *b;

	keys_write(KEY_A);
	a = open_with(key_path, "");
	keys_write(KEY_B KEY_A);
	b = open_with(key_path, "");
	check_exchange(a, b);
	ripc_close(a);
	ripc_close(b);
}
END_TEST

/* While keys are exchanged: a context that only holds services reads the changed file, too. */
START_TEST(cluster__holder_reads_new_keys)
{
	struct iovec item = {(void *)"hello", 6};
	struct ripc_service *from, *to;
	struct ripc_message *m;
	struct ripc *a, *b;

	keys_write(KEY_A);
	a = open_with(key_path, _i ? "resolver=udp" : "");
	ck_assert_int_eq(ripc_service_register(a, service, 0, &to), 0);
	keys_write(KEY_B KEY_A);
	b = open_with(key_path, _i ? "resolver=udp" : "");
	ck_assert_int_eq(ripc_service_register(b, RIPC_ANY_ID, 0, &from), 0);
	ck_assert_msg(!ripc_send(from, service, &item, 1, NULL, 10000), "%s", ripc_error_detail());
	ck_assert_int_eq(ripc_receive(to, &m, 10000), 0);
	ripc_message_free(m);
	ripc_close(a);
	ripc_close(b);
}
END_TEST

static uint64_t unauthenticated(struct ripc *ctx)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	ck_assert_int_eq(ripc_context_stats(ctx, &stats), 0);
	return stats.unauthenticated;
}

/* Neither does one without a key find services of those that have one, nor the other way round. */
START_TEST(cluster__unauthenticated_ignored)
{
	struct ripc *inside, *outside;
	struct ripc_service *s;

	keys_write(KEY_B);
	ck_assert_int_eq(rename(key_path, others), 0);
	keys_write(KEY_A);
	inside = open_with(key_path, "");
	outside = open_with(_i & 1 ? others : NULL, "");
	if (_i & 2) {
		struct ripc *swap = inside;

		inside = outside;
		outside = swap;
	}
	ck_assert_int_eq(ripc_service_register(inside, service, 0, &s), 0);
	ck_assert_int_eq(ripc_route_lookup(outside, service, NULL, 1000), -EHOSTUNREACH);
	/* The one that was asked counts the requests, also if it has no key itself. */
	AWAIT(unauthenticated(inside) > 0);
	ripc_close(inside);
	ripc_close(outside);
}
END_TEST

/*
 * A process without the key sends a context what this context had sent before, to others and about
 * another holder of a service that it holds now.
 */
START_TEST(cluster__own_message_replayed)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct ripc__resolver_msg msg = {.kind = RIPC__RESOLVE_REPLY, .service = service};
	uint8_t content[1024], sealed[1024];
	struct ripc_service *s;
	struct ripc *ctx;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), len;

	keys_write(KEY_A);
	ctx = open_with(key_path, "");
	msg.record = (struct ripc__record){
		.service = service, .generation = 7, .ttl_ms = 60000, .since_ms = 1000000};
	memset(msg.record.instance, 0x66, 16);
	ripc__lock(ctx);
	len = ripc__resolver_msg_encode(&msg, content, sizeof(content));
	len = ripc__auth_seal(ctx->auth, content, (size_t)len, sealed, sizeof(sealed));
	ripc__unlock(ctx);
	ck_assert_int_gt(len, 0);
	ck_assert_int_eq(ripc_service_register(ctx, service, 0, &s), 0);
	to.sin_port = htons((uint16_t)port);
	/* The second one is counted, after the first was read. */
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(
			sendto(fd, sealed, (size_t)len - i, 0, (struct sockaddr *)&to, sizeof(to)),
			len - (int)i);
	}
	AWAIT(unauthenticated(ctx) > 0);
	ck_assert_int_eq(ripc_context_stats(ctx, &stats), 0);
	ck_assert_uint_eq(stats.services_lost, 0);
	ck_assert_uint_eq(stats.service_conflicts, 0);
	close(fd);
	ripc_close(ctx);
}
END_TEST

/* The key files of two contexts of which one asks for a service of the other. */
struct pair_of_keys {
	const char *holder, *asker; /* NULL: none */
	bool found;
	const char *why; /* not found: part of the error text */
};

/* A list of hosts with this one. */
static void write_list(char *list, size_t len)
{
	FILE *file;

	snprintf(list, len, "%s-hosts", key_path);
	file = fopen(list, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_gt(fprintf(file, "* 127.0.0.1\n"), 0);
	ck_assert_int_eq(fclose(file), 0);
}

/*
 * Over a list of hosts; an unauthenticated peer is not answered, and reports the key of its
 * request.
 */
START_TEST(cluster__file_back_end)
{
	static const struct pair_of_keys pairs[] = {
		{KEY_A, KEY_A, true, NULL},
		{KEY_A, KEY_B, false, "only peers with key "},
		{KEY_A, NULL, false, "require its key"},
		{NULL, KEY_A, false, "only peers with key "},
		{KEY_A, KEY_A KEY_B, true, NULL},
		{KEY_A KEY_B, KEY_B KEY_A, true, NULL},
		{KEY_B KEY_A, KEY_A, false, "only peers with key "},
	};
	const struct pair_of_keys *p = &pairs[_i];
	char list[128], more[256];
	struct ripc *holder, *asker;
	struct ripc_service *s;

	write_list(list, sizeof(list));
	snprintf(more, sizeof(more), "resolver=file:%s resolve_timeout_ms=%u", list,
		 p->found ? 10000u : 300u);
	if (p->holder) {
		/* A file of its own: what is written into one is taken by all who have it. */
		keys_write(p->holder);
		ck_assert_int_eq(rename(key_path, others), 0);
	}
	holder = open_with(p->holder ? others : NULL, more);
	if (p->asker)
		keys_write(p->asker);
	asker = open_with(p->asker ? key_path : NULL, more);
	ck_assert_msg(!ripc_service_register(holder, service, 0, &s), "%s", ripc_error_detail());
	if (p->found) {
		int rc = ripc_route_lookup(asker, service, NULL, 20000);

		ck_assert_msg(!rc, "%d: %s", rc, ripc_error_detail());
	} else {
		/* Until the host was asked, and that has had its time. */
		for (unsigned i = 0; i < 20; i++) {
			int rc = ripc_route_lookup(asker, service, NULL, 1000);

			ck_assert_int_eq(rc, -EHOSTUNREACH);
			if (strstr(ripc_error_detail(), p->why))
				break;
		}
		ck_assert_msg(strstr(ripc_error_detail(), "1 host of ") &&
				      strstr(ripc_error_detail(), p->why),
			      "%s", ripc_error_detail());
	}
	ripc_close(asker);
	ripc_close(holder);
	ck_assert_int_eq(unlink(list), 0);
}
END_TEST

/*
 * Two clusters share the port of a host. A request may reach a context of the other one, which
 * drops it; not all of a look-up do.
 */
START_TEST(cluster__two_on_one_host)
{
	char list[128], more[256];
	struct ripc *holder, *other[2];
	struct ripc_service *s;

	write_list(list, sizeof(list));
	snprintf(more, sizeof(more), "resolver=file:%s resolve_timeout_ms=10000", list);
	keys_write(KEY_B);
	ck_assert_int_eq(rename(key_path, others), 0);
	keys_write(KEY_A);
	other[0] = open_with(others, more);
	holder = open_with(key_path, more);
	other[1] = open_with(others, more);
	ck_assert_msg(!ripc_service_register(holder, service, 0, &s), "%s", ripc_error_detail());
	/* Which of them a request reaches may depend on the port of the asker. */
	for (unsigned i = 0; i < 6; i++) {
		struct ripc *asker = open_with(key_path, more);

		ck_assert_msg(!ripc_route_lookup(asker, service, NULL, 20000), "%s",
			      ripc_error_detail());
		ripc_close(asker);
	}
	ripc_close(holder);
	for (unsigned i = 0; i < 2; i++)
		ripc_close(other[i]);
	ck_assert_int_eq(unlink(list), 0);
}
END_TEST

/*
 * Another user has bound the socket of the service. Return: its process, 0: this one may not become
 * another.
 */
static pid_t bind_name(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int p[2], len = snprintf(sun.sun_path + 1, sizeof(sun.sun_path) - 1, "ripc/svc/%016llx",
				 (unsigned long long)service);
	char byte = 1;
	pid_t pid;

	if (geteuid())
		return 0;
	ck_assert_int_eq(pipe(p), 0);
	pid = fork();
	if (!pid) {
		bool user = !setuid(OTHER_UID);
		int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

		byte = !user ||
		       bind(fd, (struct sockaddr *)&sun,
			    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len));
		(void)!write(p[1], &byte, 1);
		pause();
		_exit(0);
	}
	ck_assert_int_eq(read(p[0], &byte, 1), 1);
	ck_assert_int_eq(byte, 0);
	close(p[0]);
	close(p[1]);
	return pid;
}

static void unbind_name(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* With keys another user who has no key cannot keep a service from being registered and found. */
START_TEST(cluster__name_bound_by_another_user)
{
	pid_t squatter = bind_name();
	struct ripc *a, *b;

	if (!squatter) {
		test_skip("only root can become another user");
		return;
	}
	keys_write(KEY_A);
	a = open_with(key_path, "");
	b = open_with(key_path, "");
	check_exchange(a, b);
	ripc_close(a);
	ripc_close(b);
	unbind_name(squatter);
}
END_TEST

/* Without keys, or with no other way to be found, it is an error that names the user. */
START_TEST(cluster__name_of_other_user_reported)
{
	pid_t squatter = bind_name();
	struct ripc_service *s;
	char uid[32];
	struct ripc *a;

	if (!squatter) {
		test_skip("only root can become another user");
		return;
	}
	snprintf(uid, sizeof(uid), "uid %u", OTHER_UID);
	keys_write(KEY_A);
	a = _i ? open_with(key_path, "resolver=local") : open_with(NULL, "");
	ck_assert_int_eq(ripc_service_register(a, service, 0, &s), -EADDRINUSE);
	ck_assert_msg(strstr(ripc_error_detail(), uid) != NULL, "%s", ripc_error_detail());
	ck_assert_int_eq(!!strstr(ripc_error_detail(), "does not prove to have the key"), _i);
	ripc_close(a);
	unbind_name(squatter);
}
END_TEST

START_TEST(cluster__a_key_that_others_can_read)
{
	char options[256];
	struct ripc *ctx;

	keys_write(KEY_A);
	ck_assert_int_eq(chmod(key_path, 0644), 0);
	snprintf(options, sizeof(options), "interfaces=lo key_file=%s", key_path);
	ck_assert_int_eq(ripc_open(&ctx, options), -EACCES);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "others have access"));
}
END_TEST

/* Datagrams carry no proof: what is sent by them could be anybody's. */
START_TEST(cluster__no_datagrams_without_proof)
{
	char options[256];
	struct ripc *ctx;

	keys_write(KEY_A);
	snprintf(options, sizeof(options), "interfaces=lo short=udp key_file=%s", key_path);
	ck_assert_int_eq(ripc_open(&ctx, options), -EINVAL);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "short=udp"));
}
END_TEST

/*
 * Nor are there any for groups: all messages use lanes, whichever context has the list of members.
 */
START_TEST(cluster__groups_without_multicast)
{
	const char *more = _i ? "transports=iwarp/soft resolver=udp" : "transports=iwarp/soft";
	struct ripc_group_stats stats = {.size = sizeof(stats)};
	struct ripc_service *s[3];
	struct ripc *ctx[3];

	keys_write(KEY_A);
	for (unsigned i = 0; i < 3; i++) {
		ctx[i] = open_with(key_path, more);
		ck_assert_int_eq(ripc_service_register(ctx[i], RIPC_ANY_ID, 0, &s[i]), 0);
		if (i)
			ck_assert_msg(!ripc_group_join(s[i], service >> 2 | 1, 10000), "%s",
				      ripc_error_detail());
	}
	for (uint8_t n = 0; n < 10; n++) {
		ck_assert_msg(!ripc_group_send(s[0], service >> 2 | 1, &(struct iovec){&n, 1}, 1,
					       NULL, 10000),
			      "%s", ripc_error_detail());
		for (unsigned i = 1; i < 3; i++) {
			struct ripc_message *m;

			ck_assert_int_eq(ripc_receive(s[i], &m, 10000), 0);
			ck_assert_uint_eq(*(uint8_t *)m->items[0].iov_base, n);
			ripc_message_free(m);
		}
	}
	ck_assert_int_eq(ripc_group_stats(ctx[0], service >> 2 | 1, NULL, &stats), 0);
	ck_assert_uint_eq(stats.sent, 10);
	ck_assert_uint_eq(stats.multicasts, 0);
	for (unsigned i = 0; i < 3; i++)
		ripc_close(ctx[i]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/cluster");
	TCase *tc = tcase_create("cluster");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, cluster__of_one_key, 0, 2);
	tcase_add_test(tc, cluster__with_both_keys);
	tcase_add_loop_test(tc, cluster__holder_reads_new_keys, 0, 2);
	tcase_add_test(tc, cluster__own_message_replayed);
	tcase_add_loop_test(tc, cluster__unauthenticated_ignored, 0, 4);
	tcase_add_loop_test(tc, cluster__file_back_end, 0, 7);
	tcase_add_test(tc, cluster__two_on_one_host);
	tcase_add_test(tc, cluster__name_bound_by_another_user);
	tcase_add_loop_test(tc, cluster__name_of_other_user_reported, 0, 2);
	tcase_add_test(tc, cluster__a_key_that_others_can_read);
	tcase_add_test(tc, cluster__no_datagrams_without_proof);
	tcase_add_loop_test(tc, cluster__groups_without_multicast, 0, 2);
	suite_add_tcase(suite, tc);
	return test_main("auth/cluster", suite);
}
