/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Contexts that come, talk to one that stays, and go, many times: it keeps no queue pair, no registration, no descriptor, no
 * thread and no memory of them.
 *
 * RIPC_TEST_CYCLES=n: so many, 100 by default. RIPC_TEST_CONFIG=ud|rc|uc|rdma|udp: this configuration alone.
 */
#include "harness.h"
#include "leaks.h"
#include "ripc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONG_BYTES    (150 * 1024)
#define SHORT_BYTES   100
#define WARMUP_CYCLES 20 /* until all caches and pools are as large as they get */
#define POOLS         2  /* slabs that they may grow by later */
#define GROWTH_BYTES \
	(8ul << 20) /* what memory may grow by through the allocator's ways, however many there are */
#define TIMEOUT_MS 60000

static const struct config {
	const char *name, *transport, *options;
} configs[] = {
	{"ud", "ib", "transports=ib"},
	{"rc", "ib", "transports=ib short=rdma"},
	{"uc", "ib", "transports=ib short=rdma ib_qp=uc"},
	{"rdma", "iwarp/verbs", "transports=iwarp/verbs"},
	{"udp", "iwarp/verbs", "transports=iwarp/verbs short=udp"},
};
#define CONFIGS ((int)(sizeof(configs) / sizeof(configs[0])))

static uint8_t data[LONG_BYTES];

#define OK(call) ck_assert_msg(!(call), "%s: %s", #call, ripc_error_detail())

static unsigned long memory_bytes(void)
{
	unsigned long pages = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%lu %lu", &pages, &resident), 2);
	fclose(f);
	return resident * (unsigned long)sysconf(_SC_PAGESIZE);
}

/* Short messages of those that went may still come: nobody waits for them. */
static void expect(struct ripc_service *s, size_t len)
{
	struct ripc_message *m;

	OK(ripc_receive(s, &m, TIMEOUT_MS));
	while (m->items[0].iov_len == SHORT_BYTES) {
		ripc_message_free(m);
		OK(ripc_receive(s, &m, TIMEOUT_MS));
	}
	ck_assert_uint_eq(m->items[0].iov_len, len);
	ck_assert_mem_eq(m->items[0].iov_base, data, len);
	ripc_message_free(m);
}

/* A context that comes, sends and is sent to, and goes. */
static void cycle(struct ripc_service *stays, uint64_t id, const char *options)
{
	struct iovec item = {data, LONG_BYTES};
	struct ripc_service *s;
	struct ripc *ctx;

	OK(ripc_open(&ctx, options));
	OK(ripc_service_register(ctx, id + 1, 0, &s));
	OK(ripc_send_long(s, id, &item, 1, NULL, TIMEOUT_MS));
	expect(stays, LONG_BYTES);
	item.iov_len = 5000;
	OK(ripc_send_long(stays, id + 1, &item, 1, NULL, TIMEOUT_MS));
	expect(s, 5000);
	item.iov_len = SHORT_BYTES;
	OK(ripc_send_short(s, id, &item, 1, NULL, TIMEOUT_MS));
	OK(ripc_close(ctx));
}

START_TEST(cycles__no_leaks)
{
	const struct config *c = &configs[_i];
	const char *text = getenv("RIPC_TEST_CYCLES");
	uint64_t id = (uint64_t)getpid() * 4;
	struct leaks before, after;
	struct ripc_service *stays;
	struct ripc_message *m;
	unsigned long memory = 0, now;
	char options[200];
	struct ripc *ctx;
	int cycles = text ? atoi(text) : 100;

	if (!leaks_available(c->transport))
		return;
	for (size_t i = 0; i < LONG_BYTES; i++)
		data[i] = (uint8_t)(i * 7);
	snprintf(options, sizeof(options), "%s resolver=local log=error", c->options);
	OK(ripc_open(&ctx, options));
	OK(ripc_service_register(ctx, id, 0, &stays));
	for (int i = 0; i < WARMUP_CYCLES + cycles; i++) {
		if (i == WARMUP_CYCLES) {
			while (!ripc_receive(stays, &m, 1000))
				ripc_message_free(m);
			before = leaks_snapshot();
			/* The pools of receive buffers of the context that stays, which may grow when connections overlap. */
			before.resources += POOLS;
			/* Elsewhere the tool may see nothing of this process. */
			if (getenv("RIPC_LAB_DIR") && !getenv("RIPC_LAB_NATIVE"))
				ck_assert_uint_gt(before.resources, POOLS);
			memory = memory_bytes();
		}
		cycle(stays, id, options);
		/* Datagrams may be lost. */
		while (!ripc_receive(stays, &m, 0))
			ripc_message_free(m);
	}
	while (!ripc_receive(stays, &m, 1000))
		ripc_message_free(m);
	ck_assert_msg(leaks_compare(&before, &after),
		      "kept: %d descriptors, %d threads, %d RDMA resources",
		      (int)(after.descriptors - before.descriptors),
		      (int)(after.threads - before.threads),
		      (int)(after.resources - before.resources));
	now = memory_bytes();
	ck_assert_msg(now < memory + GROWTH_BYTES, "grown by %lu bytes in %d cycles", now - memory,
		      cycles);
	OK(ripc_close(ctx));
}
END_TEST

int main(void)
{
	const char *only = getenv("RIPC_TEST_CONFIG");
	bool any = false;
	Suite *suite = suite_create("faults/cycles");
	TCase *tc = tcase_create("cycles");

	tcase_set_timeout(tc, 3600);
	for (int i = 0; i < CONFIGS; i++) {
		if (only && strcmp(only, configs[i].name))
			continue;
		tcase_add_loop_test(tc, cycles__no_leaks, i, i + 1);
		any = true;
	}
	/* A name with a fault in it chooses nothing, which would pass. */
	if (!any) {
		printf("there is no RIPC_TEST_CONFIG=%s\n", only);
		return EXIT_FAILURE;
	}
	suite_add_tcase(suite, tc);
	return test_main("faults/cycles", suite);
}
