/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Groups: every member gets every message once, while members join, leave, send and die. */
#include "conf.h"

#include <inttypes.h>
#include <sys/resource.h>

#include "core/progress/hooks.h"
#include "core/sim/world.h"
#include "transport/sim/sim.h"

#define CROWD 4

struct group_contexts {
	unsigned n;
	struct ripc *ctx[CROWD];
	struct ripc_service *s[CROWD];
	uint64_t id[CROWD], group;
};

/* Services in contexts of their own, or all in one; no members yet. */
static void gather(struct conf *c, struct group_contexts *w, unsigned n)
{
	w->n = n;
	w->group = 1 + conf_random(c, RIPC_GROUP_LIMIT - 1);
	for (unsigned i = 0; i < n; i++) {
		w->ctx[i] = i && c->same ? w->ctx[0] : conf_open(c);
		w->id[i] = conf_id(c);
		w->s[i] = conf_register(c, w->ctx[i], w->id[i]);
	}
}

static struct ripc_group_stats group_stats(struct ripc *ctx, uint64_t group)
{
	struct ripc_group_stats stats = {.size = sizeof(stats)};

	EXPECT_OK(ripc_group_stats(ctx, group, NULL, &stats));
	return stats;
}

/* Waits until a context knows of so many members. */
static void await_members(struct conf *c, struct ripc *ctx, uint64_t group, uint64_t want)
{
	uint64_t have = 0;

	for (int waited = 0; waited <= c->patience_ms; waited += 5) {
		have = group_stats(ctx, group).members;
		if (have == want)
			return;
		conf_run(c, 5);
	}
	FAIL("%" PRIu64 " members are known, not %" PRIu64, have, want);
}

static void join_all(struct conf *c, struct group_contexts *w)
{
	for (unsigned i = 0; i < w->n; i++)
		EXPECT_OK(ripc_group_join(w->s[i], w->group, c->patience_ms));
	for (unsigned i = 0; i < w->n; i++)
		await_members(c, w->ctx[i], w->group, c->same ? 1 : w->n);
}

static int send_to(struct conf *c, struct ripc_service *s, uint64_t group, uint64_t tag)
{
	uint8_t data[100];
	struct iovec item = {data, sizeof(data)};

	conf_fill(data, sizeof(data), tag);
	return ripc_group_send(s, group, &item, 1, NULL, c->patience_ms);
}

/* The next message is this one. */
static void expect(struct conf *c, struct ripc_service *s, uint64_t source, uint64_t group,
		   uint64_t tag)
{
	struct ripc_message *m = conf_receive(c, s);
	struct conf_plan plan = conf_plan_one(100, tag);

	conf_check_message(m, &plan, source, ripc_service_id(s), false);
	EXPECT_EQ(group, m->group);
	EXPECT_EQ(0, m->nreturn_buffers);
	ripc_message_free(m);
}

static void each_once(struct conf *c)
{
	enum { ROUNDS = 5 };
	struct group_contexts w;

	gather(c, &w, CROWD);
	join_all(c, &w);
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned from = 0; from < w.n; from++) {
			EXPECT_OK(send_to(c, w.s[from], w.group, round * CROWD + from));
			for (unsigned to = 0; to < w.n; to++)
				expect(c, w.s[to], w.id[from], w.group, round * CROWD + from);
		}
	for (unsigned i = 0; i < w.n; i++) {
		struct ripc_group_stats stats = group_stats(w.ctx[i], w.group);

		conf_expect_none(c, w.s[i]);
		EXPECT_EQ(c->same ? ROUNDS * CROWD : ROUNDS, stats.sent);
		EXPECT_EQ(c->same ? 0 : ROUNDS * (CROWD - 1), stats.received);
		EXPECT_EQ(c->same ? 0 : CROWD - 1, stats.senders);
		EXPECT_EQ(0, stats.lost + stats.unreached + stats.dropped);
	}
}

/* One context, several members, and another group with the number of a service. */
static void several_here(struct conf *c)
{
	/* Nobody else's on this host, where other tests may run. */
	uint64_t group = 1 + conf_random(c, RIPC_GROUP_LIMIT - 2), other = group + 1;
	struct ripc_service *more;
	struct conf_pair p;

	conf_pair(c, &p);
	more = conf_register(c, p.b, conf_id(c));
	EXPECT_OK(ripc_group_join(p.sb, group, c->patience_ms));
	EXPECT_OK(ripc_group_join(more, group, c->patience_ms));
	EXPECT_OK(ripc_group_join(more, other, c->patience_ms));
	EXPECT_OK(send_to(c, p.sa, group, 1));
	expect(c, p.sb, p.ida, group, 1);
	expect(c, more, p.ida, group, 1);
	EXPECT_OK(send_to(c, p.sa, other, 2));
	expect(c, more, p.ida, other, 2);
	EXPECT_OK(ripc_group_leave(more, group));
	EXPECT_OK(send_to(c, p.sa, group, 3));
	expect(c, p.sb, p.ida, group, 3);
	conf_expect_none(c, more);
	conf_expect_none(c, p.sa);
	conf_exchange(c, &p);
	EXPECT_OK(ripc_service_unregister(more));
	EXPECT_OK(send_to(c, p.sa, group, 4));
	expect(c, p.sb, p.ida, group, 4);
}

static void outsider(struct conf *c)
{
	struct group_contexts w;

	gather(c, &w, 3);
	EXPECT_RC(-EHOSTUNREACH,
		  ripc_group_send(w.s[0], w.group, &(struct iovec){"x", 1}, 1, NULL, 200));
	CHECK(ripc_error_detail()[0], "no reason");
	EXPECT_OK(ripc_group_join(w.s[1], w.group, c->patience_ms));
	EXPECT_OK(send_to(c, w.s[0], w.group, 1));
	expect(c, w.s[1], w.id[0], w.group, 1);
	EXPECT_OK(ripc_group_join(w.s[2], w.group, c->patience_ms));
	await_members(c, w.ctx[0], w.group, c->same ? 1 : 2);
	EXPECT_OK(send_to(c, w.s[0], w.group, 2));
	expect(c, w.s[1], w.id[0], w.group, 2);
	expect(c, w.s[2], w.id[0], w.group, 2);
	/* The coordinator leaves: the other member takes over. */
	EXPECT_OK(ripc_group_leave(w.s[1], w.group));
	await_members(c, w.ctx[0], w.group, 1);
	EXPECT_OK(send_to(c, w.s[0], w.group, 3));
	expect(c, w.s[2], w.id[0], w.group, 3);
	conf_expect_none(c, w.s[1]);
	EXPECT_OK(ripc_group_leave(w.s[2], w.group));
	await_members(c, w.ctx[0], w.group, 0);
	EXPECT_RC(-EHOSTUNREACH,
		  ripc_group_send(w.s[0], w.group, &(struct iovec){"x", 1}, 1, NULL, 200));
	conf_expect_none(c, w.s[0]);
}

static void sizes(struct conf *c)
{
	static const unsigned counts[] = {1, 2, 5, RIPC_ITEMS_MAX};
	uint64_t group = 1 + conf_random(c, RIPC_GROUP_LIMIT - 1);
	struct conf_pair p;

	conf_pair(c, &p);
	EXPECT_OK(ripc_group_join(p.sb, group, c->patience_ms));
	for (unsigned i = 0; i < 20; i++) {
		struct iovec items[RIPC_ITEMS_MAX];
		struct ripc_message *m;
		struct conf_plan plan;
		size_t *last;
		void *base;

		conf_plan_random(c, &plan, counts[i % 4], i % 3 ? conf_random(c, 900) : 0);
		last = &plan.len[plan.nitems - 1];
		if (i >= 16)
			*last += RIPC_GROUP_MESSAGE_MAX - conf_plan_total(&plan);
		base = conf_build(c, p.a, CONF_UNREGISTERED, &plan, items);
		EXPECT_OK(ripc_group_send(p.sa, group, items, plan.nitems, NULL, c->patience_ms));
		conf_mem_free(c, p.a, CONF_UNREGISTERED, base);
		m = conf_receive(c, p.sb);
		conf_check_message(m, &plan, p.ida, p.idb, false);
		ripc_message_free(m);
	}
}

static void refused(struct conf *c)
{
	static uint8_t data[RIPC_GROUP_MESSAGE_MAX + 1];
	uint64_t group = 1 + conf_random(c, RIPC_GROUP_LIMIT - 1);
	struct iovec item = {data, sizeof(data)};
	struct ripc_send_options options = {.size = sizeof(options), .flags = RIPC_RELIABLE};
	struct ripc_group_stats stats = {.size = sizeof(stats)};
	struct conf_pair p;

	conf_pair(c, &p);
	EXPECT_ERROR(-EINVAL, ripc_group_join(NULL, 1, 0));
	EXPECT_ERROR(-EINVAL, ripc_group_join(p.sa, 0, 0));
	EXPECT_ERROR(-EINVAL, ripc_group_join(p.sa, RIPC_GROUP_LIMIT, 0));
	EXPECT_ERROR(-EINVAL, ripc_group_leave(p.sa, 0));
	EXPECT_ERROR(-ENOENT, ripc_group_leave(p.sa, group));
	EXPECT_ERROR(-ENOENT, ripc_group_stats(p.a, group, NULL, &stats));
	EXPECT_ERROR(-EINVAL, ripc_group_send(NULL, group, &item, 1, NULL, 0));
	EXPECT_ERROR(-EINVAL, ripc_group_send(p.sa, RIPC_GROUP_LIMIT, &item, 1, NULL, 0));
	EXPECT_ERROR(-EMSGSIZE, ripc_group_send(p.sa, group, &item, 1, NULL, 0));
	item.iov_len = 1;
	EXPECT_ERROR(-EINVAL, ripc_group_send(p.sa, group, &item, 0, NULL, 0));
	EXPECT_ERROR(-EOPNOTSUPP, ripc_group_send(p.sa, group, &item, 1, &options, 0));
	options = (struct ripc_send_options){.size = sizeof(struct ripc_send_options),
					     .nreturn_buffers = 1,
					     .return_buffers = &item};
	EXPECT_ERROR(-EOPNOTSUPP, ripc_group_send(p.sa, group, &item, 1, &options, 0));
	EXPECT_ERROR(-EAGAIN, ripc_group_send(p.sa, group, &item, 1, NULL, 0));
	/* The names that groups have for the resolver are no services. */
	EXPECT_ERROR(-EINVAL, ripc_send_short(p.sa, UINT64_C(3) << 62 | group, &item, 1, NULL, 0));
	EXPECT_ERROR(-EINVAL, ripc_route_lookup(p.a, UINT64_C(3) << 62 | group, NULL, 0));
	EXPECT_OK(ripc_group_join(p.sb, group, c->patience_ms));
	EXPECT_ERROR(-EALREADY, ripc_group_join(p.sb, group, c->patience_ms));
	EXPECT_OK(ripc_group_stats(p.b, group, NULL, &stats));
	EXPECT_EQ(1, stats.members);
	EXPECT_OK(ripc_group_leave(p.sb, group));
	EXPECT_ERROR(-ENOENT, ripc_group_leave(p.sb, group));
}

/*
 * Members that have confirmed multicast get messages by multicast only: no second copy comes. Where
 * some members cannot receive it, the others get each message all the same.
 */
static void coordinator_takeover(struct conf *c)
{
	enum { ROUND = 8, ROUNDS_MAX = 500 };
	struct ripc_group_stats before[3], after[3];
	unsigned rounds = 0;
	struct group_contexts w;
	bool over;

	gather(c, &w, 3);
	join_all(c, &w);
	do {
		for (unsigned i = 0; i < 3; i++)
			before[i] = group_stats(w.ctx[i], w.group);
		for (unsigned k = 0; k < ROUND; k++) {
			EXPECT_OK(send_to(c, w.s[0], w.group, k));
			for (unsigned to = 0; to < 3; to++)
				expect(c, w.s[to], w.id[0], w.group, k);
		}
		/* The copy over a lane would come soon after. */
		conf_run(c, 20);
		for (unsigned i = 0; i < 3; i++)
			after[i] = group_stats(w.ctx[i], w.group);
		over = after[0].multicasts - before[0].multicasts == ROUND &&
		       after[1].duplicates == before[1].duplicates &&
		       after[2].duplicates == before[2].duplicates;
		CHECK(++rounds < ROUNDS_MAX || over || !c->multicast, "lanes carry it all");
	} while (!over && c->multicast);
	for (unsigned i = 0; i < 3; i++)
		EXPECT_EQ(0, after[i].lost + after[i].unreached + after[i].dropped);
}

/* A context that closes, both member and coordinator, is not waited for. */
static void closes(struct conf *c)
{
	struct group_contexts w;

	gather(c, &w, CROWD);
	join_all(c, &w);
	for (unsigned gone = 0; gone + 1 < w.n; gone++) {
		EXPECT_OK(send_to(c, w.s[gone], w.group, gone));
		/*
		 * The call succeeds without a member whose connection attempt failed. A context
		 * that closed is one until the next coordinator knows that it is gone.
		 */
		CHECK(group_stats(w.ctx[gone], w.group).unreached <= gone, "a member is unreached");
		for (unsigned to = gone; to < w.n; to++)
			expect(c, w.s[to], w.id[gone], w.group, gone);
		conf_close(c, w.ctx[gone]);
		for (unsigned i = gone + 1; i < w.n; i++)
			await_members(c, w.ctx[i], w.group, w.n - gone - 1);
	}
	EXPECT_OK(send_to(c, w.s[w.n - 1], w.group, 99));
	expect(c, w.s[w.n - 1], w.id[w.n - 1], w.group, 99);
}

/* The same, with no good-bye; the others go on sending meanwhile. */
static void dies(struct conf *c)
{
	struct group_contexts w;

	gather(c, &w, CROWD);
	join_all(c, &w);
	for (unsigned gone = 0; gone + 2 < w.n; gone++) {
		ripc__sim_detach(c->net, w.ctx[gone]);
		conf_remove(c, w.ctx[gone]);
		ripc__kill(w.ctx[gone]);
		for (unsigned k = 0; k < 3; k++) {
			EXPECT_OK(send_to(c, w.s[w.n - 1], w.group, k));
			for (unsigned to = gone + 1; to < w.n; to++)
				expect(c, w.s[to], w.id[w.n - 1], w.group, k);
		}
		for (unsigned i = gone + 1; i < w.n; i++)
			await_members(c, w.ctx[i], w.group, w.n - gone - 1);
	}
}

/*
 * Takes all that comes, and counts how often each number did. Order may change where multicast
 * takes over from a lane.
 */
static unsigned take_all(struct ripc_service *s, uint8_t *seen, unsigned want, int wait_ms)
{
	struct ripc_message *m;
	unsigned n = 0;

	while (n < want && !ripc_receive(s, &m, wait_ms)) {
		seen[*(uint8_t *)m->items[0].iov_base]++;
		ripc_message_free(m);
		n++;
	}
	return n;
}

/* A joining member gets all messages from some message on, a leaving member all up to one. */
static void come_and_go(struct conf *c)
{
	enum { N = 60 };
	uint8_t seen[2][256] = {{0}};
	unsigned first = N, last = 0;
	struct group_contexts w;

	gather(c, &w, 3);
	EXPECT_OK(ripc_group_join(w.s[1], w.group, c->patience_ms));
	for (unsigned i = 0; i < N; i++) {
		uint8_t number = (uint8_t)i;

		EXPECT_OK(ripc_group_send(w.s[0], w.group, &(struct iovec){&number, 1}, 1, NULL,
					  c->patience_ms));
		if (i == N / 3)
			EXPECT_OK(ripc_group_join(w.s[2], w.group, c->patience_ms));
		if (i == 2 * N / 3)
			EXPECT_OK(ripc_group_leave(w.s[2], w.group));
	}
	EXPECT_EQ(N, take_all(w.s[1], seen[0], N, c->patience_ms));
	take_all(w.s[2], seen[1], N, 50);
	for (unsigned i = 0; i < N; i++) {
		EXPECT_EQ(1, seen[0][i]);
		CHECK(seen[1][i] <= 1, "message %u came twice", i);
		if (!seen[1][i])
			continue;
		CHECK(i > N / 3 && i <= 2 * N / 3, "message %u", i);
		first = i < first ? i : first;
		last = i;
	}
	for (unsigned i = first; i < last; i++)
		EXPECT_EQ(1, seen[1][i]);
	EXPECT_EQ(0, group_stats(w.ctx[1], w.group).lost);
	conf_expect_none(c, w.s[1]);
}

/*
 * A member that does not receive loses messages, and stops nobody. Multicast may lose one for the
 * others, too.
 */
static void slow_local_member(struct conf *c)
{
	enum { MOST = 3000, LOST_MAX = 5 };
	static uint8_t data[RIPC_GROUP_MESSAGE_MAX];
	struct iovec item = {data, sizeof(data)};
	struct ripc_group_stats stats = {.size = sizeof(stats)};
	struct ripc_message *m;
	struct group_contexts w;
	unsigned sent = 0, got = 0, lost = 0;

	gather(c, &w, 3);
	EXPECT_OK(ripc_group_join(w.s[1], w.group, c->patience_ms));
	EXPECT_OK(ripc_group_join(w.s[2], w.group, c->patience_ms));
	EXPECT_OK(send_to(c, w.s[0], w.group, 0));
	expect(c, w.s[1], w.id[0], w.group, 0);
	await_members(c, w.ctx[0], w.group, c->same ? 1 : 2);
	sent++;
	do {
		for (unsigned i = 0; i < 50; i++, sent++) {
			EXPECT_OK(ripc_group_send(w.s[0], w.group, &item, 1, NULL, c->patience_ms));
			m = NULL;
			if (ripc_receive(w.s[1], &m, c->multicast ? 2000 : c->patience_ms))
				CHECK(c->multicast && ++lost <= LOST_MAX, "%u of %u do not come",
				      lost, sent);
			ripc_message_free(m);
		}
		/* On a busy machine its progress thread may not have run yet. */
		if (sent > MOST / 2)
			conf_run(c, 20);
		stats = group_stats(w.ctx[2], w.group);
	} while (!(stats.dropped + stats.lost) && sent < MOST);
	CHECK(stats.dropped + stats.lost, "all of %u fit its queue", sent);
	while (!ripc_receive(w.s[2], &m, 50)) {
		ripc_message_free(m);
		got++;
	}
	CHECK(got > 1 && got < sent, "%u of %u", got, sent);
	EXPECT_EQ(0, group_stats(w.ctx[0], w.group).unreached);
}

/* The messages of each sender are counted separately. */
static void counted(struct conf *c)
{
	struct ripc_group_stats stats = {.size = sizeof(stats)};
	uint8_t instance[3][16];
	struct ripc_message *m;
	struct group_contexts w;

	gather(c, &w, 3);
	join_all(c, &w);
	for (unsigned from = 1; from < 3; from++)
		for (unsigned k = 0; k < from; k++) {
			EXPECT_OK(send_to(c, w.s[from], w.group, k));
			m = conf_receive(c, w.s[0]);
			EXPECT_EQ(w.id[from], m->source);
			memcpy(instance[from], m->instance, 16);
			ripc_message_free(m);
		}
	for (unsigned from = 1; from < 3; from++) {
		EXPECT_OK(ripc_group_stats(w.ctx[0], w.group, instance[from], &stats));
		EXPECT_EQ(from, stats.received);
		EXPECT_EQ(0, stats.lost);
	}
	memset(instance[0], 1, 16);
	EXPECT_ERROR(-ENOENT, ripc_group_stats(w.ctx[0], w.group, instance[0], &stats));
}

/* Without a descriptor the first member cannot claim the name of the group. */
static void no_descriptor(struct conf *c)
{
	struct rlimit limit, none;
	struct group_contexts w;
	char detail[512];
	int rc;

	gather(c, &w, 1);
	EXPECT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	none.rlim_cur = 3;
	EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
	rc = ripc_group_join(w.s[0], w.group, c->silence_ms);
	snprintf(detail, sizeof(detail), "%s", ripc_error_detail());
	EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	CHECK(rc == -ETIMEDOUT && strstr(detail, strerror(EMFILE)), "%d: %s", rc, detail);
	EXPECT_OK(ripc_group_join(w.s[0], w.group, c->patience_ms));
}

const struct conf_case conf_group[] = {
	{"group_each_once", each_once, 0},
	{"group_several_here", several_here, 0},
	{"group_outsider", outsider, 0},
	{"group_sizes", sizes, 0},
	{"group_refused", refused, 0},
	{"group_takes_over", coordinator_takeover, CONF_TWO_CONTEXTS},
	{"group_closes", closes, CONF_TWO_CONTEXTS},
	{"group_dies", dies, CONF_TWO_CONTEXTS | CONF_SIM},
	{"group_come_and_go", come_and_go, CONF_TWO_CONTEXTS},
	{"group_slow_member", slow_local_member, CONF_ONCE},
	{"group_counted", counted, CONF_TWO_CONTEXTS},
	{"group_no_descriptor", no_descriptor, CONF_REAL},
	{NULL, NULL, 0},
};
