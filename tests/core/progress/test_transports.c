/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The option transports: names, their order, mistakes, and the description of addresses. */
#include "core/progress/transports.h"
#include "core/progress/context.h"
#include "core/rig.h"
#include "transport/ring/ring_sim.h"

static void check_names(const char *options, const char *const *names, int n)
{
	struct ripc *ctx;
	const char *name;
	char why[256];

	OK(ripc_open(&ctx, options));
	for (int i = 0; i < n; i++) {
		RC(1, ripc_transport_info(ctx, (unsigned)i, &name, why, sizeof(why)));
		ck_assert_str_eq(name, names[i]);
	}
	ck_assert_int_lt(ripc_transport_info(ctx, (unsigned)n, &name, why, sizeof(why)), 0);
	OK(ripc_close(ctx));
}

/* self is always there and first; the others follow in the order of the option. */
START_TEST(open__in_order)
{
	static const char *const soft_shm[] = {"self", "iwarp/soft", "shm"};
	static const char *const self[] = {"self"};

	check_names("transports=iwarp/soft,shm resolver=local", soft_shm, 3);
	check_names("transports=self resolver=local", self, 1);
}
END_TEST

/* A transport that auto does not open. */
START_TEST(open__opt_in)
{
	static const char *const names[] = {"self", "ring/sim"};
	struct ripc *ctx;

	ring_sim();
	check_names("transports=ring/sim resolver=local", names, 2);
	OK(ripc_open(&ctx, "resolver=local"));
	for (unsigned i = 0; i < ctx->ntp; i++)
		ck_assert_str_ne(ctx->tp[i].ops->name, "ring/sim");
	OK(ripc_close(ctx));
}
END_TEST

START_TEST(open__mistakes)
{
	static const struct {
		const char *options, *text;
	} bad[] = {
		{"transports=nothing", "there is no nothing"},
		{"transports=sim", "sim cannot be used here"},
		{"transports=iwarp/soft,iwarp/soft", "iwarp/soft stands there twice"},
		{"transports=shm shm_dir=/nowhere", "shm_dir (RIPC_SHM_DIR): shm: "},
	};
	struct ripc *ctx;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int rc = ripc_open(&ctx, bad[i].options);

		ck_assert_msg(rc == (i < 3 ? -EINVAL : -ENOENT), "%s: %d", bad[i].options, rc);
		ck_assert_msg(strstr(ripc_error_detail(), bad[i].text), "%s: %s", bad[i].options,
			      ripc_error_detail());
	}
}
END_TEST

static char logged[1024];

static void on_log(void *arg, enum ripc_log_level level, const char *line)
{
	snprintf(logged, sizeof(logged), "%s", line);
}

/* The context works without a device that the user has named, but not silently. */
START_TEST(open__unusable_device)
{
	struct ripc *ctx;
	const char *name;
	char why[256];

	ripc_log_set(on_log, NULL, RIPC_LOG_WARN);
	OK(ripc_open(&ctx, "transports=pcie,shm pcie_device=/dev/null resolver=local"));
	ripc_log_set(NULL, NULL, RIPC_LOG_ERROR);
	ck_assert_msg(strstr(logged, "pcie_device (RIPC_PCIE_DEVICE): pcie: /dev/null: ") != NULL,
		      "%s", logged);
	RC(0, ripc_transport_info(ctx, 1, &name, why, sizeof(why)));
	ck_assert_str_eq(name, "pcie");
	ck_assert_ptr_nonnull(strstr(logged, why));
	OK(ripc_close(ctx));
}
END_TEST

/* A transport for datagrams is polled in each pass, also without a lane. */
START_TEST(open__datagrams_are_polled)
{
	struct rig rig;

	for (unsigned on = 0; on < 2; on++) {
		unsigned polled = 0;

		rig_start_with(&rig, 1, on ? rig_datagrams : NULL, on ? "short=udp" : NULL);
		for (unsigned i = 0; i < rig.ctx[0]->ntp; i++)
			polled |= (unsigned)rig.ctx[0]->tp[i].limits.eager_datagram << i;
		ck_assert_uint_eq(polled != 0, on);
		ck_assert_uint_eq(rig.ctx[0]->active_tps, polled);
		ck_assert_uint_eq(rig.ctx[0]->datagrams, on);
		rig_end(&rig);
	}
}
END_TEST

START_TEST(strip_prefix__own_name_only)
{
	ck_assert_str_eq(ripc__strip_prefix("shm", "shm: no memory"), "no memory");
	ck_assert_str_eq(ripc__strip_prefix("shm", "shmem: no memory"), "shmem: no memory");
	ck_assert_str_eq(ripc__strip_prefix("shm", "ib: no memory"), "ib: no memory");
	ck_assert_str_eq(ripc__strip_prefix("shm", "shm:no memory"), "shm:no memory");
}
END_TEST

START_TEST(describe__unknown_transport)
{
	char text[64];

	ripc__transport_describe(NULL, 250, (const uint8_t *)"", 0, text, sizeof(text));
	ck_assert_str_eq(text, "transport 250");
}
END_TEST

static void describe_sim(const uint8_t *addr, size_t len, char *text, size_t textlen)
{
	snprintf(text, textlen, "port %.*s", (int)len, (const char *)addr);
}

/* An address of a simulated transport, of one of the library, and of one that is opt-in. */
START_TEST(describe__by_number)
{
	static const struct ripc__transport_ops near = {
		.name = "near", .id = 201, .describe = describe_sim};
	static const struct ripc__transport_ops far = {
		.name = "far", .id = 202, .describe = describe_sim};
	const struct ripc__transport_ops *simulated[] = {&near, &far, NULL};
	char text[64];

	ripc__transport_describe(simulated, 201, (const uint8_t *)"7", 1, text, sizeof(text));
	ck_assert_str_eq(text, "near port 7");
	ripc__transport_describe(simulated, 202, (const uint8_t *)"8", 1, text, sizeof(text));
	ck_assert_str_eq(text, "far port 8");
	ripc__transport_describe(simulated, 203, (const uint8_t *)"8", 1, text, sizeof(text));
	ck_assert_str_eq(text, "transport 203");
	ripc__transport_describe(NULL, 201, (const uint8_t *)"7", 1, text, sizeof(text));
	ck_assert_str_eq(text, "transport 201");
	ripc__transport_describe(simulated, ripc__transport_shm.id, NULL, 0, text, sizeof(text));
	ck_assert_int_eq(strncmp(text, "shm ", 4), 0);
	ripc__transport_describe(NULL, ring_sim()->id, NULL, 0, text, sizeof(text));
	ck_assert_int_eq(strncmp(text, "ring/sim ", 9), 0);
	/* self has no address in records. */
	ripc__transport_describe(NULL, ripc__transport_self.id, NULL, 0, text, sizeof(text));
	ck_assert_int_eq(strncmp(text, "transport ", 10), 0);
	/* The text is cut. */
	memset(text, 'x', sizeof(text));
	ripc__transport_describe(simulated, 201, (const uint8_t *)"7", 1, text, 4);
	ck_assert_str_eq(text, "nea");
	ck_assert_int_eq(text[4], 'x');
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/progress/transports");
	TCase *tc = tcase_create("transports");

	test_seed();
	tcase_add_test(tc, open__in_order);
	tcase_add_test(tc, open__opt_in);
	tcase_add_test(tc, open__mistakes);
	tcase_add_test(tc, open__unusable_device);
	tcase_add_test(tc, open__datagrams_are_polled);
	tcase_add_test(tc, strip_prefix__own_name_only);
	tcase_add_test(tc, describe__unknown_transport);
	tcase_add_test(tc, describe__by_number);
	suite_add_tcase(suite, tc);
	return test_main("core/progress/transports", suite);
}
