/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Completion queues over stubs of the verbs: polling, arming, errors, and how they grow. */
#include "transport/rdma/queue.h"
#include "transitions.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TO(state) (1u << RIPC__CQ_##state)

DEFINE_SET_STATE(struct ripc__verbs_cq, ripc__verbs_cq_set_state)

START_TEST(cq_set_state__transitions)
{
	static const unsigned allowed[RIPC__CQ_STATES] = {
		[RIPC__CQ_DISARMED] = TO(ARMED) | TO(BROKEN),
		[RIPC__CQ_ARMED] = TO(SIGNALLED) | TO(BROKEN),
		[RIPC__CQ_SIGNALLED] = TO(DISARMED) | TO(BROKEN),
	};

	check_transitions(set_state, allowed);
}
END_TEST

/* A device whose completions are numbered from 1, with so many left. */
static int left, next;
static unsigned polls, late; /* polls so far; polls until the first completion */

static int poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	int n = left < max ? left : max;

	if (++polls <= late)
		return 0;
	if (left < 0)
		return -1;
	for (int i = 0; i < n; i++)
		wc[i] = (struct ibv_wc){.wr_id = (uint64_t)++next};
	left -= n;
	return n;
}

static unsigned requests; /* events that were requested */
static int notify_rc;

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
	(void)cq;
	(void)solicited;
	requests++;
	return notify_rc;
}

static struct ibv_context context = {.ops = {.poll_cq = poll_cq, .req_notify_cq = req_notify_cq}};
static struct ibv_cq device_cq = {.context = &context};

static void complete(struct ripc__verbs_cq *cq, int n)
{
	*cq = (struct ripc__verbs_cq){.cq = &device_cq};
	left = n;
	next = 0;
	polls = late = requests = 0;
}

/* An armed queue requests no second event. Polls of completions show that there is one to read. */
START_TEST(cq_arm__one_event)
{
	struct ripc__verbs_cq cq;
	struct ibv_wc wc[4];

	complete(&cq, 0);
	ck_assert_int_eq(ripc__verbs_cq_arm(&cq), 0);
	ck_assert_int_eq(ripc__verbs_cq_arm(&cq), 0);
	ck_assert_int_eq(ripc__verbs_cq_poll(&cq, wc, 4), 0);
	ck_assert(!ripc__verbs_cq_poll_one(&cq, wc));
	ck_assert_uint_eq(cq.state, RIPC__CQ_ARMED);
	left = 1;
	ck_assert_int_eq(ripc__verbs_cq_poll(&cq, wc, 4), 1);
	ck_assert_uint_eq(cq.state, RIPC__CQ_SIGNALLED);
	for (unsigned i = 0; i < 2; i++) {
		complete(&cq, 0);
		ck_assert_int_eq(ripc__verbs_cq_arm(&cq), 0);
		left = 1;
		if (i)
			ck_assert(ripc__verbs_cq_poll_one(&cq, wc));
		else
			ck_assert_int_eq(ripc__verbs_cq_arm(&cq), 1);
		ck_assert_uint_eq(cq.state, RIPC__CQ_SIGNALLED);
		ck_assert_uint_eq(requests, 1);
	}
}
END_TEST

START_TEST(cq_poll_one__one_by_one)
{
	struct ripc__verbs_cq cq;
	struct ibv_wc wc;

	complete(&cq, 0);
	ck_assert(!ripc__verbs_cq_poll_one(&cq, &wc));
	ck_assert_uint_eq(cq.state, RIPC__CQ_DISARMED);
	left = 2;
	for (uint64_t i = 1; i <= 2; i++) {
		ck_assert(ripc__verbs_cq_poll_one(&cq, &wc));
		ck_assert_uint_eq(wc.wr_id, i);
	}
	ck_assert(!ripc__verbs_cq_poll_one(&cq, &wc));
	ck_assert_int_eq(ripc__verbs_cq_poll(&cq, &wc, 1), 0);
}
END_TEST

/* An empty queue is polled repeatedly, but not without end; a failed one is not. */
START_TEST(cq_poll_one__poll_count)
{
	struct ripc__verbs_cq cq;
	struct ibv_wc wc;

	complete(&cq, 1);
	late = RIPC__VERBS_POLL_COUNT - 1;
	ck_assert(ripc__verbs_cq_poll_one(&cq, &wc));
	ck_assert_uint_eq(polls, RIPC__VERBS_POLL_COUNT);
	complete(&cq, 1);
	late = RIPC__VERBS_POLL_COUNT;
	ck_assert(!ripc__verbs_cq_poll_one(&cq, &wc));
	ck_assert_uint_eq(polls, RIPC__VERBS_POLL_COUNT);
	complete(&cq, 1);
	ck_assert(ripc__verbs_cq_poll_one(&cq, &wc));
	ck_assert_uint_eq(polls, 1);
	complete(&cq, -1);
	ck_assert(!ripc__verbs_cq_poll_one(&cq, &wc));
	ck_assert_uint_eq(polls, 1);
}
END_TEST

/* A failed poll is reported by the next one even if that would succeed: completions may be lost. */
START_TEST(cq_poll_one__error_is_kept)
{
	struct ripc__verbs_device device = {.name = "none"};
	struct ripc__verbs_cq cq;
	struct ibv_wc wc[4];

	complete(&cq, -1);
	cq.device = &device;
	ck_assert(!ripc__verbs_cq_poll_one(&cq, wc));
	left = 2;
	ck_assert(!ripc__verbs_cq_poll_one(&cq, wc));
	ck_assert_int_eq(ripc__verbs_cq_arm(&cq), -EIO);
	ck_assert_int_eq(ripc__verbs_cq_poll(&cq, wc, 4), -EIO);
}
END_TEST

START_TEST(cq_poll__error_behind_completions)
{
	struct ripc__verbs_device device = {.name = "none"};
	struct ripc__verbs_cq cq;
	struct ibv_wc wc[4];

	complete(&cq, 1);
	cq.device = &device;
	ck_assert(ripc__verbs_cq_poll_one(&cq, wc));
	ripc__verbs_cq_push_back(&cq, wc);
	left = -1;
	ck_assert_int_eq(ripc__verbs_cq_poll(&cq, wc, 4), 1);
	left = 2;
	ck_assert_int_eq(ripc__verbs_cq_poll(&cq, wc, 4), -EIO);
}
END_TEST

START_TEST(cq_push_back__comes_first)
{
	struct ripc__verbs_cq cq;
	struct ibv_wc wc[4];

	complete(&cq, 3);
	ck_assert(ripc__verbs_cq_poll_one(&cq, wc));
	ripc__verbs_cq_push_back(&cq, wc);
	ck_assert(!ripc__verbs_cq_poll_one(&cq, wc));
	ck_assert_int_eq(ripc__verbs_cq_arm(&cq), 1);
	ck_assert_int_eq(ripc__verbs_cq_poll(&cq, wc, 4), 3);
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(wc[i].wr_id, (uint64_t)i + 1);
	left = 1;
	ck_assert(ripc__verbs_cq_poll_one(&cq, wc));
	ck_assert_uint_eq(wc[0].wr_id, 4);
}
END_TEST

/* ---- stubs of the verbs of completion queues ---- */

static struct ripc__verbs_device device = {.ctx = &context, .name = "made0"};
static struct ibv_comp_channel channel;
static unsigned channels, queues; /* that exist */
static unsigned cq_events;        /* that can be read */
static unsigned acknowledged, resizes;
static int create_rc, resize_rc; /* errno of a failure, or 0 */
static bool no_channel, bad_channel;

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	errno = EMFILE;
	if (no_channel)
		return NULL;
	channel.fd = bad_channel ? -1 : eventfd(0, EFD_CLOEXEC);
	channels++;
	return &channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ch)
{
	channels--;
	return ch->fd >= 0 ? close(ch->fd) : 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			     struct ibv_comp_channel *ch, int comp_vector)
{
	errno = create_rc;
	if (create_rc)
		return NULL;
	device_cq.cqe = cqe;
	device_cq.cq_context = cq_context;
	queues++;
	return &device_cq;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	resizes++;
	if (!resize_rc)
		cq->cqe = cqe;
	return resize_rc;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	ck_assert_uint_eq(cq_events, 0);
	queues--;
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **cq_context)
{
	if (!cq_events)
		return -1;
	cq_events--;
	*cq = &device_cq;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	acknowledged += nevents;
}

static void open_cq(struct ripc__verbs_cq *cq, uint32_t entries)
{
	device.attr.max_cqe = 100;
	ck_assert_int_eq(ripc__verbs_cq_init(cq, &device, entries), 0);
	left = 0;
}

START_TEST(cq_init__limits)
{
	struct ripc__verbs_cq cq;

	open_cq(&cq, 101);
	ck_assert_uint_eq(cq.entries, 100);
	ck_assert(fcntl(channel.fd, F_GETFL) & O_NONBLOCK);
	/* Unread events would block the destruction. */
	cq_events = 2;
	ripc__verbs_cq_fini(&cq);
	ripc__verbs_cq_fini(&cq);
	ck_assert_uint_eq(acknowledged, 2);
	ck_assert_uint_eq(queues + channels, 0);
}
END_TEST

START_TEST(cq_init__errors)
{
	struct ripc__verbs_cq cq;

	no_channel = true;
	ck_assert_int_eq(ripc__verbs_cq_init(&cq, &device, 1), -EMFILE);
	no_channel = false;
	bad_channel = true;
	ck_assert_int_eq(ripc__verbs_cq_init(&cq, &device, 1), -EBADF);
	ck_assert_uint_eq(channels, 0);
	bad_channel = false;
	create_rc = ENOSPC;
	ck_assert_int_eq(ripc__verbs_cq_init(&cq, &device, 1), -ENOSPC);
	ck_assert_uint_eq(channels, 0);
	ck_assert_ptr_null(cq.cq);
}
END_TEST

START_TEST(cq_reserve__resizes)
{
	static const struct {
		uint32_t n, entries;
	} steps[] = {{16, 16}, {1, 32}, {15, 32}, {35, 100}, {33, 100}};
	struct ripc__verbs_cq cq;

	open_cq(&cq, 16);
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		ck_assert_int_eq(ripc__verbs_cq_reserve(&cq, steps[i].n), 0);
		ck_assert_uint_eq(cq.entries, steps[i].entries);
	}
	ck_assert_uint_eq(resizes, 2);
	ck_assert_int_eq(ripc__verbs_cq_reserve(&cq, 1), -ENOBUFS);
	ripc__verbs_cq_unreserve(&cq, 90);
	ck_assert_int_eq(ripc__verbs_cq_reserve(&cq, 91), -ENOBUFS);
	ck_assert_int_eq(ripc__verbs_cq_reserve(&cq, 90), 0);
	ripc__verbs_cq_fini(&cq);
	/* A queue with more entries than the device promises. */
	open_cq(&cq, 64);
	cq.entries = 128;
	ck_assert_int_eq(ripc__verbs_cq_reserve(&cq, 128), 0);
	ck_assert_uint_eq(resizes, 2);
	ripc__verbs_cq_fini(&cq);
}
END_TEST

/* Drivers return an errno, or its negative. */
START_TEST(cq_reserve__resize_fails)
{
	struct ripc__verbs_cq cq;

	open_cq(&cq, 16);
	resize_rc = _i ? ENOMEM : -ENOMEM;
	ck_assert_int_eq(ripc__verbs_cq_reserve(&cq, 17), -ENOMEM);
	ck_assert_uint_eq(cq.reserved, 0);
	ck_assert_uint_eq(cq.entries, 16);
	ripc__verbs_cq_fini(&cq);
}
END_TEST

/* An event is requested once, until it was read. */
START_TEST(cq_arm__requests_once)
{
	struct ripc__verbs_cq cq;
	struct ibv_wc wc[2];

	open_cq(&cq, 16);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(ripc__verbs_cq_arm(&cq), 0);
		ck_assert_uint_eq(requests, 1);
	}
	/* The completion is found before its event. */
	left = 1;
	ck_assert_int_eq(ripc__verbs_cq_arm(&cq), 1);
	ck_assert_int_eq(ripc__verbs_cq_poll(&cq, wc, 2), 1);
	ck_assert_int_eq(ripc__verbs_cq_arm(&cq), 0);
	ck_assert_uint_eq(requests, 1);
	cq_events = 1;
	ck_assert_int_eq(ripc__verbs_cq_arm(&cq), 0);
	ck_assert_uint_eq(requests, 2);
	ck_assert_uint_eq(acknowledged, 1);
	/* Without a completion since the request no event is looked for. */
	cq_events = 1;
	ck_assert_int_eq(ripc__verbs_cq_arm(&cq), 0);
	ck_assert_uint_eq(cq_events, 1);
	left = 1;
	ck_assert_int_eq(ripc__verbs_cq_poll(&cq, wc, 2), 1);
	notify_rc = _i ? EIO : -EIO;
	ck_assert_int_eq(ripc__verbs_cq_arm(&cq), -EIO);
	ck_assert_uint_eq(requests, 3);
	notify_rc = 0;
	ck_assert_int_eq(ripc__verbs_cq_arm(&cq), 0);
	ck_assert_uint_eq(requests, 4);
	ripc__verbs_cq_fini(&cq);
}
END_TEST

/* All completions are kept in their order, those of an earlier poll first. */
START_TEST(cq_keep__order)
{
	const int n = 3 * (int)RIPC__VERBS_STASH + 1;
	struct ripc__verbs_cq cq;
	struct ibv_wc wc[64];

	open_cq(&cq, 16);
	next = 0;
	left = 2;
	ck_assert_int_eq(ripc__verbs_cq_arm(&cq), 1);
	ck_assert_int_eq(ripc__verbs_cq_poll(&cq, wc, 1), 1);
	left = n - 2;
	ripc__verbs_cq_keep(&cq);
	ck_assert_int_eq(left, 0);
	ck_assert(!ripc__verbs_cq_poll_one(&cq, wc));
	ck_assert_int_eq(ripc__verbs_cq_arm(&cq), 1);
	left = 1;
	ripc__verbs_cq_keep(&cq);
	left = 1;
	for (int i = 2; i <= n + 2; i++) {
		ck_assert_int_eq(ripc__verbs_cq_poll(&cq, wc, 1), 1);
		ck_assert_uint_eq(wc[0].wr_id, (uint64_t)i);
	}
	ck_assert_int_eq(ripc__verbs_cq_arm(&cq), 0);
	left = 1;
	ck_assert(ripc__verbs_cq_poll_one(&cq, wc));
	ripc__verbs_cq_push_back(&cq, wc);
	ck_assert_int_eq(ripc__verbs_cq_poll(&cq, wc, 4), 1);
	ck_assert_uint_eq(wc[0].wr_id, (uint64_t)n + 3);
	ripc__verbs_cq_keep(&cq);
	left = -1;
	ripc__verbs_cq_keep(&cq);
	ck_assert_int_eq(ripc__verbs_cq_poll(&cq, wc, 4), -EIO);
	ripc__verbs_cq_fini(&cq);
}
END_TEST

/*
 * The driver discards a completion whose event was raised, together with its queue pair. The event
 * is read by the next arm; otherwise the descriptor would stay readable, and no sleep would last.
 */
START_TEST(cq_keep__event_without_completion)
{
	struct ripc__verbs_cq cq;

	open_cq(&cq, 16);
	ck_assert_int_eq(ripc__verbs_cq_arm(&cq), 0);
	ripc__verbs_cq_keep(&cq);
	cq_events = 1;
	ck_assert_int_eq(ripc__verbs_cq_arm(&cq), 0);
	ck_assert_uint_eq(cq_events, 0);
	ck_assert_uint_eq(requests, 2);
	ripc__verbs_cq_fini(&cq);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/rdma/cq");
	TCase *c = tcase_create("cq");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, cq_set_state__transitions);
	tcase_add_test(c, cq_arm__one_event);
	tcase_add_test(c, cq_poll_one__one_by_one);
	tcase_add_test(c, cq_poll_one__poll_count);
	tcase_add_test(c, cq_poll_one__error_is_kept);
	tcase_add_test(c, cq_poll__error_behind_completions);
	tcase_add_test(c, cq_push_back__comes_first);
	tcase_add_test(c, cq_init__limits);
	tcase_add_test(c, cq_init__errors);
	tcase_add_test(c, cq_reserve__resizes);
	tcase_add_loop_test(c, cq_reserve__resize_fails, 0, 2);
	tcase_add_loop_test(c, cq_arm__requests_once, 0, 2);
	tcase_add_test(c, cq_keep__order);
	tcase_add_test(c, cq_keep__event_without_completion);
	suite_add_tcase(s, c);
	return test_main("transport/rdma/cq", s);
}
