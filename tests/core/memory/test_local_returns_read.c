/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Return buffers that the peer cannot write: the context reads the items into them, and the read
 * ends early.
 */
#include "core/memory/return_buffers.h"

static void no_write(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_WRITE;
}

START_TEST(claim__read_into_no_write_lane)
{
	restart(no_write, 64 * KIB);
	/* The peer learns that there is one, but nothing that it could write. */
	send_with_return(20000);
	ck_assert_uint_eq(ripc__dest_find(rig.ctx[1], RIG_ID(0))->nremote_returns, 0);
	ck_assert_ptr_null(first_local_return()->lane);
	OK(rig_long(&rig, 1, 0, 30000, 6, 5000));
	ck_assert_int_eq(rig_expect(&rig, 0, 30000, 6), RIPC_IN_POOL);
	OK(rig_long(&rig, 1, 0, 20000, 7, 5000));
	ck_assert_int_eq(rig_expect(&rig, 0, 20000, 7), RIPC_IN_RETURN_BUFFER);
	rig_verify(buf, 20000, 7);
	ck_assert_ptr_null(first_local_return());
}
END_TEST

static void no_write_slow(struct ripc__sim_config *config)
{
	no_write(config);
	config->bandwidth = 200 * 1000 * 1000;
	config->read_depth = 2;
	config->rdma_max = 64 * KIB;
}

/* A long message is being read into buf. */
static struct ripc_request *begin_read_into(uint8_t *data)
{
	struct ripc_request *r;

	restart(no_write_slow, MIB);
	send_with_return(MIB);
	rig_fill(data, MIB, 8);
	r = rig_begin(&rig, 1, 0, data, MIB);
	rig_run(&rig, 2);
	ck_assert_uint_eq(rig_waiting(rig.s[0], RIPC__RNDV_TRANSFER), 1);
	ck_assert(first_local_return()->arriving);
	return r;
}

/* It was freed during the read, which ends with the lane: then nothing holds it any more. */
START_TEST(revoke__lane_lost_during_read)
{
	uint8_t *data = malloc(MIB);
	struct ripc_request *r = begin_read_into(data);

	OK(ripc_buf_free(ctx, buf));
	ck_assert_ptr_nonnull(first_local_return());
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 2);
	ck_assert_uint_eq(rig_waiting(rig.s[0], RIPC__RNDV_SUSPENDED), 1);
	ck_assert_ptr_null(first_local_return());
	ck_assert_int_eq(ripc__memory_find(ctx, buf, 1)->state, RIPC__REGION_FREE);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	OK(ripc_request_wait(&r, 10000));
	ck_assert_int_eq(rig_expect(&rig, 0, MIB, 8), RIPC_IN_POOL);
	free(data);
}
END_TEST

/* The same without the free: the buffer stays offered, and the message comes into it. */
START_TEST(claim__again_after_lane_lost)
{
	uint8_t *data = malloc(MIB);
	struct ripc_request *r = begin_read_into(data);

	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 2);
	ck_assert_ptr_nonnull(first_local_return());
	ck_assert(!first_local_return()->arriving);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	OK(ripc_request_wait(&r, 10000));
	ck_assert_int_eq(rig_expect(&rig, 0, MIB, 8), RIPC_IN_RETURN_BUFFER);
	rig_verify(buf, MIB, 8);
	ck_assert_ptr_null(first_local_return());
	free(data);
}
END_TEST

/* Its service is closed during the read. */
START_TEST(revoke__service_closed_during_read)
{
	uint8_t *data = malloc(MIB);
	struct ripc_request *r = begin_read_into(data);
	uint64_t start = ripc__sim_now(rig.net);

	OK(ripc_service_unregister(rig.s[0]));
	rig.s[0] = NULL;
	ck_assert_uint_lt(ripc__sim_now(rig.net) - start, 100 * RIPC__MS);
	ck_assert_ptr_null(first_local_return());
	OK(ripc_buf_free(ctx, buf));
	ck_assert_int_eq(ripc__memory_find(ctx, buf, 1)->state, RIPC__REGION_FREE);
	RC(-ECANCELED, ripc_request_cancel(&r, 1000));
	free(data);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/memory/local_returns_read");
	TCase *tc = tcase_create("returns");

	test_seed();
	tcase_add_checked_fixture(tc, return_buffers_setup, return_buffers_teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, claim__read_into_no_write_lane);
	tcase_add_test(tc, revoke__lane_lost_during_read);
	tcase_add_test(tc, claim__again_after_lane_lost);
	tcase_add_test(tc, revoke__service_closed_during_read);
	suite_add_tcase(suite, tc);
	return test_main("core/memory/local_returns_read", suite);
}
