/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Attempts to connect: every transport tried is named with its cause, the likeliest first. */
#include "core/peer/attempt.h"
#include "core/peer/lane.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

enum { SHM, IB, SOFT, NTP };

static uint64_t now_ns;
static struct ripc ctx;
static struct ripc__peer peer;
static struct ripc__lane lane;

static uint64_t test_clock(void *arg)
{
	return now_ns;
}

static void describe(const uint8_t *addr, size_t len, char *text, size_t textlen)
{
	snprintf(text, textlen, "place %.*s", (int)len, (const char *)addr);
}

static const struct ripc__transport_ops ops[NTP] = {
	{.name = "shm", .id = 201, .describe = describe},
	{.name = "ib", .id = 202, .describe = describe},
	{.name = "soft", .id = 203, .describe = describe},
};

static void setup(void)
{
	struct ripc__record record = {.naddrs = NTP};

	memset(&ctx, 0, sizeof(ctx));
	memset(&peer, 0, sizeof(peer));
	memset(&lane, 0, sizeof(lane));
	ctx.hooks.now = test_clock;
	ctx.ntp = NTP;
	for (unsigned i = 0; i < NTP; i++) {
		ctx.tp[i].ops = &ops[i];
		ctx.tp[i].t = (struct ripc__transport *)&ctx;
		ctx.tp[i].limits.caps = RIPC__CAP_CONNECTED;
		record.addrs[i].transport = ops[i].id;
		record.addrs[i].len = 1;
		record.addrs[i].addr[0] = (uint8_t)('a' + i);
	}
	peer.instance[0] = 1;
	peer.lists = (struct ripc__peer_lists *)(uintptr_t)&ripc__peer_lists_none;
	ck_assert_int_eq(ripc__peer_set_addrs(&peer, &record), 0);
}

static void teardown(void)
{
	ripc__attempts_clear(&peer);
	if (peer.lists != &ripc__peer_lists_none)
		free(peer.lists);
	free(peer.addrs);
}

static void expect_text(const char *expected)
{
	char text[512];
	size_t n = ripc__attempts_text(&ctx, &peer, text, sizeof(text));

	ck_assert_str_eq(text, expected);
	ck_assert_uint_eq(n, strlen(expected));
}

START_TEST(text__same_host_first)
{
	ripc__attempt_add(&peer, SHM, SHM, false, "shm: the peer is on another host");
	ripc__attempt_add(&peer, SOFT, SOFT, true, "no answer");
	ripc__attempt_add(&peer, IB, IB, true, "unreachable");
	expect_text("ib: unreachable; soft: no answer; shm: the peer is on another host");
}
END_TEST

START_TEST(text__current_attempt)
{
	now_ns = 5000 * RIPC__MS;
	lane.tp = SOFT;
	lane.last_rx_ns = 4200 * RIPC__MS;
	peer.out = &lane;
	peer.out_path = SOFT;
	expect_text("soft: no answer from place c yet, after 800 ms");
	ripc__attempt_add(&peer, SHM, SHM, false, "another host");
	expect_text("soft: no answer from place c yet, after 800 ms; shm: another host");
	ripc__attempt_add(&peer, IB, IB, true, "no GID");
	expect_text(
		"ib: no GID; soft: no answer from place c yet, after 800 ms; shm: another host");
	/* In the next round the last cause has more detail. */
	ripc__attempt_add(&peer, SOFT, SOFT, true, "no answer in 1000 ms");
	expect_text("ib: no GID; soft: no answer in 1000 ms; shm: another host");
}
END_TEST

START_TEST(text__no_attempt)
{
	const struct ripc__transport_ops *const simulated[] = {&ops[SHM], NULL};

	expect_text("not connected: no attempt was made yet");
	peer.round = RIPC__ROUND_CROSSED;
	expect_text("not connected: the peer opens the connection");
	ctx.hooks.transports = simulated;
	/* The path of a transport that is closed here. */
	ctx.tp[SHM].t = ctx.tp[SOFT].t = NULL;
	peer.addrs_len /= NTP;
	expect_text("no transport in common: here ib; the peer has shm place a");
	peer.addrs_len = 0;
	expect_text("no address is known: the peer had opened the connection");
}
END_TEST

/* None is cut off because another one is long. */
START_TEST(text__truncated_evenly)
{
	char why[400], text[256];

	memset(why, 'x', sizeof(why) - 1);
	why[sizeof(why) - 1] = 0;
	for (unsigned i = 0; i < NTP; i++)
		ripc__attempt_add(&peer, i, i, i != SHM, why);
	for (size_t len = 64; len <= sizeof(text); len++) {
		size_t n = ripc__attempts_text(&ctx, &peer, text, len);

		ck_assert_uint_lt(n, len);
		ck_assert_uint_eq(n, strlen(text));
		ck_assert_ptr_nonnull(strstr(text, "ib: x"));
		ck_assert_ptr_nonnull(strstr(text, "; soft: x"));
		ck_assert_ptr_nonnull(strstr(text, "; shm: x"));
	}
	/* Smaller than that it is cut, and nothing is written behind the end. */
	for (size_t len = 1; len < 64; len++) {
		text[len] = 42;
		ck_assert_uint_lt(ripc__attempts_text(&ctx, &peer, text, len), len);
		ck_assert_int_eq(text[len], 42);
	}
}
END_TEST

START_TEST(add__replaces_same_path_only)
{
	/* Two addresses of one transport are two ways. */
	ripc__attempt_add(&peer, 1, SOFT, true, "one");
	ripc__attempt_add(&peer, 2, SOFT, true, "two");
	ripc__attempt_add(&peer, 1, SOFT, true, "three");
	expect_text("soft: three; soft: two");
	ck_assert(ripc__attempt_failed_over(&peer, SOFT));
	ck_assert(!ripc__attempt_failed_over(&peer, IB));
	ripc__attempt_add(&peer, 0, SHM, false, "four");
	ripc__attempts_clear_tp(&peer, SOFT);
	expect_text("shm: four");
}
END_TEST

START_TEST(set_addrs__clears_attempts)
{
	struct ripc__record record = {.naddrs = 1};

	record.addrs[0].transport = 1;
	record.addrs[0].len = 1;
	record.addrs[0].addr[0] = 'a';
	ck_assert_int_eq(ripc__peer_set_addrs(&peer, &record), 0);
	ripc__attempt_add(&peer, 0, SHM, false, "one");
	ck_assert_int_eq(ripc__peer_set_addrs(&peer, &record), 0);
	ck_assert(ripc__attempt_failed_over(&peer, SHM));
	record.addrs[0].addr[0] = 'b';
	ck_assert_int_eq(ripc__peer_set_addrs(&peer, &record), 0);
	ck_assert(!ripc__attempt_failed_over(&peer, SHM));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/peer/attempt");
	TCase *tc = tcase_create("attempt");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, text__same_host_first);
	tcase_add_test(tc, text__current_attempt);
	tcase_add_test(tc, text__no_attempt);
	tcase_add_test(tc, text__truncated_evenly);
	tcase_add_test(tc, add__replaces_same_path_only);
	tcase_add_test(tc, set_addrs__clears_attempts);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/attempt", suite);
}
