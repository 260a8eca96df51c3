/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The end of a connection over stubs of librdmacm and the verbs. No device is used. */
#include "harness.h"
#include "transport/iwarp/verbs/verbs.h"

#include <stdlib.h>

static unsigned destroyed_qps, destroyed_ids, disconnects;

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	(void)id;
	destroyed_qps++;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	(void)id;
	destroyed_ids++;
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	(void)id;
	disconnects++;
	return 0;
}

static int poll_cq(struct ibv_cq *c, int max, struct ibv_wc *wc)
{
	(void)c;
	(void)max;
	(void)wc;
	return 0;
}

static struct ibv_context context = {.ops = {.poll_cq = poll_cq}};
static struct ibv_cq device_cq = {.context = &context};
static struct ibv_qp qp = {.context = &context};
static struct rdma_cm_id id;
static struct iwv_device nic;
static struct ripc__verbs_cq cq = {.cq = &device_cq};
static struct ripc__ep ep;
static struct ripc__transport t;

static struct iwv_conn *conn_new(enum iwv_conn_state state)
{
	struct iwv_conn *conn;

	ripc__list_init(&t.conns);
	ripc__list_init(&t.destroyed);
	conn = ripc__iwv_conn_new(&t, &ep, state);
	ck_assert_ptr_nonnull(conn);
	conn->id = &id;
	conn->nic = &nic;
	conn->cq = &cq;
	conn->qp = &qp;
	nic.nconns++;
	return conn;
}

static void reap(void)
{
	t.rounds++;
	ripc__iwv_conns_reap(&t);
	ck_assert_uint_eq(nic.nconns, 0);
}

/*
 * The first message of the peer made the connection ready before its event was read. After
 * ep_close() no read and no write accesses memory of the core, although the event is awaited.
 */
START_TEST(drop__up_before_its_event)
{
	struct iwv_conn *conn = conn_new(IWV_UP);

	conn->cm_event_due = true;
	ripc__iwv_conn_drop(conn);
	ck_assert_uint_eq(destroyed_qps, 1);
	ck_assert_ptr_null(conn->qp);
	ck_assert_ptr_null(ep.conn);
	ck_assert_int_eq(conn->state, IWV_DROPPED);
	ck_assert_uint_eq(destroyed_ids, 0);
	/* The event came. */
	ripc__iwv_conn_release(conn);
	ck_assert_uint_eq(destroyed_qps, 1);
	ck_assert_uint_eq(destroyed_ids, 1);
	reap();
}
END_TEST

/* Nothing of the core was posted yet. */
START_TEST(drop__not_up)
{
	struct iwv_conn *conn = conn_new(IWV_ACCEPTED);

	conn->cm_event_due = true;
	ripc__iwv_conn_drop(conn);
	ck_assert_uint_eq(destroyed_qps, 0);
	conn->established = true;
	ripc__iwv_conn_release(conn);
	ck_assert_uint_eq(disconnects, 1);
	ck_assert_uint_eq(destroyed_qps, 1);
	ck_assert_uint_eq(destroyed_ids, 1);
	reap();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/iwarp/verbs/connection");
	TCase *tc = tcase_create("connection");

	tcase_add_test(tc, drop__up_before_its_event);
	tcase_add_test(tc, drop__not_up);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/verbs/connection", suite);
}
