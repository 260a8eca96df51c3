/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Services that join and leave two groups and send to them, while lanes break, the network splits
 * and contexts are suspended, closed and killed, with and without multicast. Rules:
 *
 * - A member receives a message at most once, whole, with every byte. A service that has left
 *   receives no later message, and a new member no earlier one, except those that are under way.
 * - Without multicast, messages of one sender to one member keep their order, and a message that
 *   failed is not received.
 * - When the faults are over, each group has one coordinator, all members know each other, and each
 *   message reaches all of them.
 * - Without faults the counters are those of the model.
 */
#include "core/groups.h"

#define HOSTS       4
#define SERVICES    2
#define GROUPS      2
#define ID(i, k)    (UINT64_C(500) + (i)*SERVICES + (k))
#define SENT_MAX    4000
#define STEPS       1200
#define INTERVALS   40
#define UNDERWAY_NS (500 * RIPC__MS) /* a message takes no longer, without faults */

struct sent {
	unsigned host, life, service, group;
	size_t len;
	int rc;
	uint64_t at_ns;
	uint64_t number;   /* of the group's protocol; 0: none */
	uint16_t received; /* a bit for each service */
};

/* When a service was a member: until message end - 1. */
struct membership {
	unsigned n;
	uint64_t begin_ns[INTERVALS];
	unsigned end[INTERVALS];
};

struct rig rig;
static struct ripc_service *service[HOSTS][SERVICES];
static struct membership members[HOSTS][SERVICES][GROUPS];
static unsigned last[HOSTS][SERVICES][GROUPS][HOSTS]; /* number + 1 of the last one received */
static bool slow[HOSTS][SERVICES];
static uint64_t resume_ns[HOSTS];
static unsigned lives[HOSTS];
static struct sent sent[SENT_MAX];
static unsigned nsent, nreceived;
static bool multicast, quiet, counted;
static uint64_t rng;

static unsigned draw(unsigned n)
{
	return (unsigned)(test_random(&rng) % n);
}

static bool runs(unsigned i)
{
	return rig.ctx[i] && !resume_ns[i];
}

static bool is_member(unsigned i, unsigned k, unsigned g)
{
	const struct membership *m = &members[i][k][g];

	return m->n && m->end[m->n - 1] == UINT32_MAX;
}

/* ---- messages ---- */

/* Return: how many items. */
static unsigned split(struct iovec *items, uint8_t *bytes, size_t len)
{
	size_t first = draw(2) ? len : draw((unsigned)len + 1);

	items[0] = (struct iovec){bytes, first};
	items[1] = (struct iovec){bytes + first, len - first};
	return first < len ? 2 : 1;
}

static void send_one(unsigned i, unsigned k, unsigned g, int timeout_ms)
{
	uint8_t bytes[RIPC_GROUP_MESSAGE_MAX];
	struct sent *s = &sent[nsent];
	struct iovec items[2];
	uint64_t before, after;
	unsigned n, number = nsent;
	struct ripc__group *group;

	if (nsent == SENT_MAX)
		return;
	*s = (struct sent){.host = i, .life = lives[i], .service = k, .group = g};
	s->at_ns = RIPC__NEVER / 2;
	s->len = 4 + draw(draw(2) ? 60 : sizeof(bytes) - 3);
	rig_fill(bytes, s->len, number);
	memcpy(bytes, &number, 4);
	n = split(items, bytes, s->len);
	/* It is received before the call returns. */
	nsent++;
	group = ripc__group_find(rig.ctx[i], 1 + g);
	before = group ? group->number : 0;
	s->rc = ripc_group_send(service[i][k], 1 + g, items, n, NULL, timeout_ms);
	s->at_ns = ripc__sim_now(rig.net);
	group = ripc__group_find(rig.ctx[i], 1 + g);
	after = group ? group->number : 0;
	s->number = after != before ? after : 0;
	ck_assert_msg(!s->rc || s->rc == -EHOSTUNREACH || s->rc == -EAGAIN, "%s: %s",
		      ripc_strerror(s->rc), ripc_error_detail());
	ck_assert_msg(!s->rc || multicast || !s->received, "message %u has failed: %s", number,
		      ripc_error_detail());
}

static void received(unsigned i, unsigned k, const struct ripc_message *m)
{
	uint8_t bytes[RIPC_GROUP_MESSAGE_MAX], want[RIPC_GROUP_MESSAGE_MAX];
	const struct membership *ms;
	unsigned number, bit = 1u << (i * SERVICES + k), n = 0;
	struct sent *s;
	size_t len = 0;
	bool member = false;

	for (n = 0; n < m->nitems; n++) {
		ck_assert_uint_le(len + m->items[n].iov_len, sizeof(bytes));
		memcpy(bytes + len, m->items[n].iov_base, m->items[n].iov_len);
		len += m->items[n].iov_len;
	}
	memcpy(&number, bytes, 4);
	ck_assert_uint_lt(number, nsent);
	s = &sent[number];
	ck_assert_uint_eq(len, s->len);
	rig_fill(want, len, number);
	memcpy(want, &number, 4);
	ck_assert_mem_eq(bytes, want, len);
	ck_assert_uint_eq(m->group, 1 + s->group);
	ck_assert_uint_eq(m->source, ID(s->host, s->service));
	ck_assert_uint_eq(m->dest, ID(i, k));
	ck_assert_msg(!(s->received & bit), "message %u was received twice", number);
	s->received |= (uint16_t)bit;
	nreceived++;
	ms = &members[i][k][s->group];
	for (n = 0; n < ms->n; n++)
		member |=
			(!quiet || s->at_ns + UNDERWAY_NS > ms->begin_ns[n]) && number < ms->end[n];
	ck_assert_msg(member, "message %u came to no member", number);
	ck_assert_msg(!s->rc || multicast, "message %u has failed: %d", number, s->rc);
	if (s->life == lives[s->host] && !multicast) {
		unsigned *before = &last[i][k][s->group][s->host];

		ck_assert_msg(number >= *before, "message %u after %u", number, *before - 1);
		*before = number + 1;
	}
}

static void take(unsigned i, unsigned k, unsigned max)
{
	struct ripc_message *m;

	while (max-- && !ripc_receive(service[i][k], &m, 0)) {
		received(i, k, m);
		ripc_message_free(m);
	}
}

/* ---- members ---- */

static void join_one(unsigned i, unsigned k, unsigned g, int timeout_ms)
{
	struct membership *m = &members[i][k][g];
	bool was = is_member(i, k, g);
	int rc;

	if (!was && m->n == INTERVALS)
		return;
	if (!was) {
		m->begin_ns[m->n] = ripc__sim_now(rig.net);
		m->end[m->n++] = UINT32_MAX;
	}
	rc = ripc_group_join(service[i][k], 1 + g, timeout_ms);
	if (was)
		ck_assert_int_eq(rc, -EALREADY);
	else
		ck_assert_msg(!rc || rc == -ETIMEDOUT || rc == -EAGAIN, "%s", ripc_error_detail());
	/* Messages may have come to it meanwhile. */
	if (rc && !was)
		m->end[m->n - 1] = nsent;
}

static void leave_one(unsigned i, unsigned k, unsigned g)
{
	struct membership *m = &members[i][k][g];
	bool was = is_member(i, k, g);

	ck_assert_int_eq(ripc_group_leave(service[i][k], 1 + g), was ? 0 : -ENOENT);
	if (was)
		m->end[m->n - 1] = nsent;
}

static void host_open(unsigned i)
{
	struct ripc__hooks hooks;

	ripc__sim_hooks(rig.net, &hooks);
	OK(ripc__open_hooked(&rig.ctx[i],
			     draw(2) ? "peer_timeout_ms=500 service_window=65536"
				     : "peer_timeout_ms=2000",
			     &hooks));
	OK(ripc__sim_attach(rig.net, rig.ctx[i]));
	lives[i]++;
	memset(members[i], 0, sizeof(members[i]));
	memset(last[i], 0, sizeof(last[i]));
	for (unsigned k = 0; k < SERVICES; k++) {
		OK(ripc_service_register(rig.ctx[i], ID(i, k), RIPC_TAKEOVER, &service[i][k]));
		slow[i][k] = !draw(5);
	}
	for (unsigned n = 0; n < HOSTS * SERVICES * GROUPS; n++)
		last[n / (SERVICES * GROUPS)][n / GROUPS % SERVICES][n % GROUPS][i] = 0;
	/* A new context may receive old messages. */
	for (unsigned n = 0; n < nsent; n++)
		for (unsigned k = 0; k < SERVICES; k++)
			sent[n].received &= (uint16_t) ~(1u << (i * SERVICES + k));
}

static void host_end(unsigned i, bool killed)
{
	if (killed) {
		ripc__sim_kill_context(rig.net, rig.ctx[i], draw(2));
		rig.ctx[i] = NULL;
	} else {
		rig_close(&rig, i);
	}
	resume_ns[i] = 0;
}

static void resume(unsigned i)
{
	resume_ns[i] = 0;
	ripc__sim_hold(rig.net, rig_instance(&rig, i), false);
}

/* ---- faults ---- */

static void fault(void)
{
	unsigned i = draw(HOSTS), j = (i + 1 + draw(HOSTS - 1)) % HOSTS;

	if (!rig.ctx[i]) {
		if (!draw(3))
			host_open(i);
		return;
	}
	switch (draw(12)) {
	case 0 ... 2:
		if (rig.ctx[j])
			ripc__sim_break(rig.net, rig_instance(&rig, i), rig_instance(&rig, j));
		break;
	case 3 ... 4:
		if (rig.ctx[j])
			ripc__sim_break_at(rig.net, rig_instance(&rig, i), rig_instance(&rig, j),
					   1 + draw(10));
		break;
	case 5 ... 6:
		if (rig.ctx[j])
			ripc__sim_partition(rig.net, rig_instance(&rig, i), rig_instance(&rig, j),
					    !draw(3));
		break;
	case 7:
		if (!runs(i))
			break;
		resume_ns[i] = ripc__sim_now(rig.net) + draw(draw(5) ? 100 : 6000) * RIPC__MS + 1;
		ripc__sim_hold(rig.net, rig_instance(&rig, i), true);
		break;
	case 8:
		slow[i][draw(SERVICES)] = draw(2);
		break;
	case 9:
		if (runs(i) && !draw(4))
			host_end(i, draw(3));
		break;
	default:
		break;
	}
}

static void step(void)
{
	static const int timeouts[] = {0, 5, 100, 3000};
	unsigned i = draw(HOSTS), k = draw(SERVICES), g = draw(GROUPS);

	for (unsigned h = 0; h < HOSTS; h++) {
		if (resume_ns[h] && ripc__sim_now(rig.net) >= resume_ns[h])
			resume(h);
		for (unsigned n = 0; n < SERVICES && runs(h); n++)
			if (!slow[h][n])
				take(h, n, draw(5) ? 100 : draw(3));
	}
	if (runs(i))
		switch (draw(20)) {
		case 0 ... 2:
			join_one(i, k, g, timeouts[draw(4)]);
			break;
		case 3:
			if (!counted)
				leave_one(i, k, g);
			break;
		case 4 ... 10:
			for (unsigned n = draw(4) ? 1 : draw(30); n; n--)
				send_one(i, k, g, timeouts[draw(4)]);
			break;
		default:
			break;
		}
	if (!quiet && !draw(6))
		fault();
	ripc__sim_run(rig.net, 1 + (draw(10)   ? draw(200000)
				    : draw(50) ? draw(40) * RIPC__MS
					       : draw(4000) * RIPC__MS));
}

/* ---- the end ---- */

static void heal(void)
{
	struct ripc__sim_config config = *ripc__sim_config(rig.net);

	config.datagram_loss = config.datagram_reordering = 0;
	ripc__sim_configure(rig.net, &config);
	for (unsigned i = 0; i < HOSTS; i++) {
		if (!rig.ctx[i])
			host_open(i);
		if (resume_ns[i])
			resume(i);
	}
	rig_heal_links(&rig);
}

static void take_all(void)
{
	for (unsigned i = 0; i < HOSTS; i++)
		for (unsigned k = 0; k < SERVICES; k++)
			take(i, k, 100000);
}

static void check_group(unsigned g)
{
	unsigned hosts = 0, coordinators = 0;
	uint16_t all = 0;

	for (unsigned i = 0; i < HOSTS; i++) {
		bool any = false;

		for (unsigned k = 0; k < SERVICES; k++) {
			any |= is_member(i, k, g);
			all |= (uint16_t)(is_member(i, k, g) << (i * SERVICES + k));
		}
		hosts += any;
	}
	for (unsigned i = 0; i < HOSTS; i++) {
		const struct ripc__group *group = ripc__group_find(rig.ctx[i], 1 + g);

		coordinators += group && group->state == RIPC__GROUP_COORDINATING;
		if (group && !ripc__list_empty((struct ripc__list *)&group->local_members))
			ck_assert_msg(group->stats.members == hosts,
				      "context %u knows %llu of %u members of group %u", i,
				      (unsigned long long)group->stats.members, hosts, g);
	}
	ck_assert_msg(coordinators == (hosts > 0), "group %u has %u coordinators, %u hosts", g,
		      coordinators, hosts);
	for (unsigned n = 0; n < HOSTS * SERVICES; n++) {
		unsigned number = nsent;

		send_one(n / SERVICES, n % SERVICES, g, 5000);
		if (number == nsent)
			continue;
		ck_assert_int_eq(sent[number].rc, hosts ? 0 : -EHOSTUNREACH);
		rig_run(&rig, 100);
		take_all();
		if (!multicast || !sent[number].rc)
			ck_assert_msg(sent[number].received == all,
				      "message %u of context %u to group %u: %x, not %x", number,
				      n / SERVICES, g, sent[number].received, all);
	}
}

/* The counters of context i for a sender, against what was received. */
static void check_counters(unsigned i, unsigned j, unsigned g)
{
	struct ripc_group_stats st = {.size = sizeof(st)};
	uint64_t want = 0, missed = 0, gap = 0, before = 0, number = 0;
	bool any = false;

	if (i == j || ripc_group_stats(rig.ctx[i], 1 + g, rig_instance(&rig, j), &st))
		return;
	for (unsigned n = 0; n < nsent; n++) {
		const struct sent *s = &sent[n];
		bool got = s->received >> (i * SERVICES) & ((1u << SERVICES) - 1);

		if (s->host != j || s->life != lives[j] || s->group != g || !s->number)
			continue;
		want += got;
		/* A sender that has sent nothing for long begins anew. */
		if (s->number - number >= RIPC__REPLAY_RESTART) {
			any = false;
			gap = before = 0;
		}
		number = s->number;
		any |= got;
		/* Behind the last one that was received they are not known to be missing. */
		gap = any && !got ? gap + 1 : 0;
		missed += got ? before : 0;
		before = gap;
	}
	ck_assert_msg(st.received == want && st.lost == missed,
		      "context %u, sender %u, group %u: received %llu of %llu, lost %llu of %llu",
		      i, j, g, (unsigned long long)st.received, (unsigned long long)want,
		      (unsigned long long)st.lost, (unsigned long long)missed);
}

static void start(unsigned n)
{
	struct ripc__sim_config config;

	rng = test_seed() + n * 7919;
	multicast = n % 2;
	rig_init(&rig, NULL);
	config = *ripc__sim_config(rig.net);
	config.multicast = multicast;
	if (draw(2)) {
		config.datagram_loss = 0.1;
		config.datagram_duplication = 0.1;
		config.datagram_reordering = 0.2;
	}
	if (!draw(3))
		config.recv_depth = 4;
	if (!draw(3))
		config.delay_max_ns = 20 * RIPC__MS;
	ripc__sim_configure(rig.net, &config);
	rig.n = HOSTS;
	for (unsigned i = 0; i < HOSTS; i++)
		host_open(i);
}

static void end(void)
{
	for (unsigned i = 0; i < HOSTS; i++)
		ck_assert_uint_eq(rig_stats(&rig, i).bad_messages, 0);
	rig_end(&rig);
}

START_TEST(group__random_faults)
{
	start((unsigned)_i);
	for (unsigned n = 0; n < STEPS; n++)
		step();
	heal();
	take_all();
	rig_run(&rig, 60000);
	take_all();
	for (unsigned g = 0; g < GROUPS; g++)
		check_group(g);
	ck_assert_uint_gt(nreceived, nsent);
	end();
}
END_TEST

START_TEST(group__random_quiet)
{
	quiet = true;
	start((unsigned)_i);
	counted = _i / 2 % 2;
	memset(slow, 0, sizeof(slow));
	for (unsigned n = 0; n < STEPS; n++)
		step();
	rig_run(&rig, 6000);
	take_all();
	for (unsigned i = 0; i < HOSTS; i++)
		for (unsigned n = 0; n < HOSTS * GROUPS && counted; n++)
			check_counters(i, n / GROUPS, n % GROUPS);
	heal();
	for (unsigned g = 0; g < GROUPS; g++)
		check_group(g);
	ck_assert_uint_gt(nreceived, nsent);
	end();
}
END_TEST

int main(void)
{
	int n = (int)test_number("RIPC_TEST_ROUNDS", 4);
	Suite *suite = suite_create("core/group/group_random");
	TCase *tc = tcase_create("random");

	test_seed();
	tcase_set_timeout(tc, 240);
	tcase_add_loop_test(tc, group__random_faults, 0, n);
	suite_add_tcase(suite, tc);
	tc = tcase_create("quiet");
	tcase_set_timeout(tc, 240);
	tcase_add_loop_test(tc, group__random_quiet, 0, n);
	suite_add_tcase(suite, tc);
	return test_main("core/group/group_random", suite);
}
