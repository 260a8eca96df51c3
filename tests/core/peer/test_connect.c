/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lanes that are being set up with a cluster key, by a process that does not have it. */
#include "auth/keys.h"
#include "core/rig.h"

#include "auth/handshake.h"

static struct rig rig;
/* The next messages of these bytes from context 0 are changed. */
static size_t tampered_len;
static unsigned tampered;

static void tamper(void *arg, const uint8_t from[16], const uint8_t to[16], uint8_t *data,
		   size_t *len)
{
	(void)arg;
	(void)to;
	if (!tampered || *len != tampered_len || memcmp(from, rig_instance(&rig, 0), 16))
		return;
	tampered--;
	data[*len - 1] ^= 1;
}

static void setup(void)
{
	char options[128];

	keys_setup();
	keys_write(KEY_A);
	snprintf(options, sizeof(options), "key_file=%s", key_path);
	rig_init(&rig, NULL);
	for (unsigned i = 0; i < 2; i++)
		rig_open(&rig, options);
	ripc__sim_tamper(rig.net, tamper, NULL);
}

static void teardown(void)
{
	rig_end(&rig);
	keys_teardown();
}

/* The confirmation of the connecting process is wrong: its lane ends, and it connects again. */
START_TEST(confirm__wrong)
{
	tampered_len = RIPC__CONFIRM_LEN;
	tampered = 1;
	OK(rig_long(&rig, 0, 1, 100, 1, 5000));
	rig_expect(&rig, 1, 100, 1);
	ck_assert_uint_eq(tampered, 0);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_peers, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).unauthenticated, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).lanes, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/peer/connect");
	TCase *tc = tcase_create("connect");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, confirm__wrong);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/connect", suite);
}
