/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Long messages, reliable short ones and calls between services that move, while lanes break and
 * contexts are suspended, closed and killed, on networks with little room. Rules:
 *
 * - Each message is received at most once, with every byte, and not if its result excludes that.
 * - A holder receives the messages of one kind from one sender in the order in which they were
 *   sent; calls have no order.
 * - A message whose result is 0 is received, unless a holder of its service ended later.
 */
#include "core/rig.h"

#define HOSTS    3
#define SERVICES 3
#define ID(k)    (UINT64_C(500) + (k))
#define SENT_MAX 20000
#define STEPS    1500

enum kind { LONG, SHORT, CALL, KINDS };

struct sent {
	enum kind kind;
	unsigned src, dst;
	unsigned life; /* of the sender's context */
	bool received, done, unknown;
	int rc;
	struct ripc_request *request; /* NULL: it has ended, or is short */
	uint8_t *bytes;
	size_t len;
};

static struct rig rig;
static struct ripc_service *held[HOSTS][SERVICES];
static uint64_t resume_ns[HOSTS];
static unsigned lives[HOSTS];
static struct sent sent[SENT_MAX];
static unsigned nsent, counts[KINDS];
static unsigned last[HOSTS][KINDS][HOSTS][SERVICES]; /* holder, sender, service: number + 1 */
static unsigned ends[SERVICES]; /* messages that were sent before the last end of a holder */
static uint64_t rng;

static uint64_t draw(uint64_t n)
{
	return test_random(&rng) % n;
}

static bool runs(unsigned i)
{
	return rig.ctx[i] && !resume_ns[i];
}

/* Whether a message with this result may have been received. */
static bool may_be_received(const struct sent *s)
{
	return !s->done || !s->rc || s->unknown || s->rc == -EPIPE || s->rc == -ETIME ||
	       s->rc == -ESHUTDOWN || (s->kind == CALL && s->rc == -ECANCELED);
}

static void check_result(const struct sent *s)
{
	ck_assert_msg(!s->received || may_be_received(s), "message %td of kind %u was received: %d",
		      s - sent, s->kind, s->rc);
}

static void fill(uint8_t *bytes, size_t len, uint32_t number)
{
	rig_fill(bytes, len, number);
	memcpy(bytes, &number, sizeof(number));
}

static void received(struct ripc_message *m, unsigned i, unsigned k)
{
	struct iovec answer;
	uint8_t *bytes;
	uint32_t number;
	struct sent *s;
	unsigned *before;

	memcpy(&number, m->items[0].iov_base, sizeof(number));
	ck_assert_uint_lt(number, nsent);
	s = &sent[number];
	ck_assert_uint_eq(m->call ? CALL : m->is_long ? LONG : SHORT, s->kind);
	ck_assert_uint_eq(m->source, RIG_ID(s->src));
	ck_assert_uint_eq(m->dest, ID(s->dst));
	ck_assert_uint_eq(m->items[0].iov_len, s->len);
	bytes = malloc(s->len);
	fill(bytes, s->len, number);
	ck_assert_mem_eq(m->items[0].iov_base, bytes, s->len);
	free(bytes);
	ck_assert_msg(!s->received, "message %u of kind %u was received twice", number, s->kind);
	s->received = true;
	counts[s->kind]++;
	check_result(s);
	before = &last[i][s->kind][s->src][k];
	if (s->kind != CALL && s->life == lives[s->src]) {
		ck_assert_msg(number >= *before, "context %u: message %u of kind %u after %u", i,
			      number, s->kind, *before - 1);
		*before = number + 1;
	}
	answer = (struct iovec){&number, sizeof(number)};
	if (m->call && draw(10))
		ripc_reply(m, &answer, 1, 0);
	ripc_message_free(m);
}

/* A service that was taken over is gone when its queue is empty. */
static void take(unsigned i, unsigned k)
{
	struct ripc_message *m;
	int rc = 0;

	while (held[i][k] && draw(4) && !(rc = ripc_receive(held[i][k], &m, 0)))
		received(m, i, k);
	if (rc != -ESHUTDOWN)
		return;
	OK(ripc_service_unregister(held[i][k]));
	held[i][k] = NULL;
}

static void done(struct sent *s, int rc)
{
	s->done = true;
	s->rc = rc;
	s->request = NULL;
	free(s->bytes);
	s->bytes = NULL;
	check_result(s);
	if (s->kind == CALL && !rc)
		ck_assert_msg(s->received, "call %td has an answer", s - sent);
}

/* Reliable messages of a sender to a service: one of them has failed. */
static void shorts_unknown(unsigned src, unsigned dst)
{
	for (unsigned n = 0; n < nsent; n++)
		if (sent[n].kind == SHORT && sent[n].src == src && sent[n].dst == dst)
			sent[n].unknown = true;
}

static void start_send(void)
{
	static const struct ripc_send_options reliable = {.size = sizeof(reliable),
							  .flags = RIPC_RELIABLE};
	static const int timeouts[] = {-1, 20, 200, 2000};
	unsigned i = (unsigned)draw(HOSTS), k = (unsigned)draw(SERVICES);
	struct sent *s = &sent[nsent];
	uint32_t number = nsent;
	struct iovec item;

	if (!runs(i) || nsent == SENT_MAX)
		return;
	*s = (struct sent){.kind = (enum kind)draw(KINDS), .src = i, .dst = k, .life = lives[i]};
	item.iov_len = 8 + (s->kind == SHORT || draw(2) ? draw(400) : draw(60000));
	item.iov_base = s->bytes = malloc(item.iov_len);
	s->len = item.iov_len;
	fill(s->bytes, s->len, number);
	nsent++;
	switch (s->kind) {
	case LONG:
		OK(ripc_send_async(rig.s[i], ID(k), &item, 1, NULL, &s->request));
		break;
	case CALL:
		OK(ripc_call_start(rig.s[i], ID(k), &item, 1, NULL, timeouts[draw(4)],
				   &s->request));
		break;
	default:
		/* The error of an earlier one, or no room: this one was not sent. */
		if (ripc_send_short(rig.s[i], ID(k), &item, 1, &reliable, 0)) {
			shorts_unknown(i, k);
			s->unknown = false;
			done(s, -ECANCELED);
		}
		free(s->bytes);
		s->bytes = NULL;
		break;
	}
}

static void check_sent(struct sent *s, bool cancel)
{
	struct ripc_message *m = NULL;
	int rc;

	if (!s->request || !runs(s->src))
		return;
	if (s->kind == LONG && cancel && !draw(2000)) {
		rc = ripc_request_cancel(&s->request, (int)draw(100));
		done(s, rc);
		return;
	}
	rc = s->kind == CALL ? ripc_call_wait(&s->request, &m, 0) : ripc_request_test(&s->request);
	if (rc == -EINPROGRESS)
		return;
	if (m && !rc)
		ck_assert_mem_eq(m->items[0].iov_base, &(uint32_t){(uint32_t)(s - sent)}, 4);
	ripc_message_free(m);
	done(s, rc);
}

static void host_open(unsigned i)
{
	static const char *const options[] = {"peer_timeout_ms=200 service_window=65536",
					      "peer_timeout_ms=500", "peer_timeout_ms=5000"};
	struct ripc__hooks hooks;

	ripc__sim_hooks(rig.net, &hooks);
	OK(ripc__open_hooked(&rig.ctx[i], options[draw(3)], &hooks));
	OK(ripc__sim_attach(rig.net, rig.ctx[i]));
	OK(ripc_service_register(rig.ctx[i], RIG_ID(i), RIPC_TAKEOVER, &rig.s[i]));
	lives[i]++;
	memset(last[i], 0, sizeof(last[i]));
	for (unsigned h = 0; h < HOSTS; h++)
		for (unsigned kind = 0; kind < KINDS; kind++)
			memset(last[h][kind][i], 0, sizeof(last[h][kind][i]));
}

static void host_end(unsigned i, bool killed)
{
	if (killed) {
		ripc__sim_kill_context(rig.net, rig.ctx[i], !draw(2));
		rig.ctx[i] = NULL;
		rig.s[i] = NULL;
	} else {
		rig_close(&rig, i);
	}
	for (unsigned n = 0; n < nsent; n++) {
		if (sent[n].src != i)
			continue;
		sent[n].unknown |= sent[n].kind == SHORT && !sent[n].done;
		if (sent[n].request)
			done(&sent[n], -ESHUTDOWN);
	}
	for (unsigned k = 0; k < SERVICES; k++) {
		if (held[i][k])
			ends[k] = nsent;
		held[i][k] = NULL;
	}
	resume_ns[i] = 0;
}

static void hold(unsigned i, unsigned k, unsigned flags)
{
	if (runs(i) && !held[i][k])
		ripc_service_register(rig.ctx[i], ID(k), flags, &held[i][k]);
}

static void give_up(unsigned i, unsigned k)
{
	if (!runs(i) || !held[i][k])
		return;
	ends[k] = nsent;
	ripc_service_unregister(held[i][k]);
	held[i][k] = NULL;
}

static void fault_between(unsigned i, unsigned j)
{
	const uint8_t *a, *b;

	if (!rig.ctx[i] || !rig.ctx[j])
		return;
	a = rig_instance(&rig, i);
	b = rig_instance(&rig, j);
	switch (draw(7)) {
	case 0:
	case 1:
		ripc__sim_break(rig.net, a, b);
		break;
	case 2:
	case 3:
		ripc__sim_break_at(rig.net, a, b, 1 + draw(20));
		break;
	case 4:
		if (runs(i) && rig_lane(&rig, i, j))
			rig_fail_lane(&rig, i, j);
		break;
	default:
		ripc__sim_partition(rig.net, a, b, !draw(3));
		break;
	}
}

static void fault(void)
{
	unsigned i = (unsigned)draw(HOSTS), k = (unsigned)draw(SERVICES);

	switch (draw(12)) {
	case 0:
	case 1:
	case 2:
	case 3:
		fault_between(i, (i + 1 + (unsigned)draw(HOSTS - 1)) % HOSTS);
		break;
	case 4:
		if (!runs(i))
			break;
		resume_ns[i] = ripc__sim_now(rig.net) + draw(draw(5) ? 100 : 3000) * RIPC__MS + 1;
		ripc__sim_hold(rig.net, rig_instance(&rig, i), true);
		break;
	case 5:
	case 6:
		give_up(i, k);
		if (draw(2))
			hold(i, k, draw(2) ? RIPC_TAKEOVER : 0);
		break;
	case 7:
	case 8:
	case 9:
		hold(i, k, draw(4) ? RIPC_TAKEOVER : 0);
		break;
	case 10:
		if (runs(i) && !draw(5))
			host_end(i, draw(3) == 0);
		break;
	default:
		if (!rig.ctx[i])
			host_open(i);
	}
}

static void resume(unsigned i)
{
	resume_ns[i] = 0;
	ripc__sim_hold(rig.net, rig_instance(&rig, i), false);
}

/* Return: how many requests have not ended. */
static unsigned step(bool quiet)
{
	unsigned left = 0;

	for (unsigned i = 0; i < HOSTS; i++) {
		if (resume_ns[i] && (quiet || ripc__sim_now(rig.net) >= resume_ns[i]))
			resume(i);
		for (unsigned k = 0; k < SERVICES && runs(i); k++)
			take(i, k);
	}
	for (unsigned n = 0; n < nsent; n++) {
		check_sent(&sent[n], !quiet);
		left += sent[n].request != NULL;
	}
	for (uint64_t n = quiet ? 0 : draw(4); n; n--)
		start_send();
	if (!quiet && !draw(12))
		for (uint64_t n = 1 + draw(4); n; n--)
			fault();
	ripc__sim_run(rig.net, 1 + draw(draw(10)    ? 200000
					: draw(100) ? 40 * RIPC__MS
						    : 2000 * RIPC__MS));
	return left;
}

/* No more faults; each service is held. */
static void heal(void)
{
	for (unsigned i = 0; i < HOSTS; i++)
		if (!rig.ctx[i])
			host_open(i);
	rig_heal_links(&rig);
	step(true);
	for (unsigned i = 0; i < HOSTS; i++)
		for (unsigned k = 0; k < SERVICES; k++)
			give_up(i, k);
	for (unsigned k = 0; k < SERVICES; k++)
		OK(ripc_service_register(rig.ctx[k], ID(k), RIPC_TAKEOVER, &held[k][k]));
}

/* Messages with result 0 that were not received. */
static void check_all_received(void)
{
	for (unsigned n = 0; n < nsent; n++) {
		const struct sent *s = &sent[n];

		ck_assert_msg(s->received || s->rc || s->unknown || n < ends[s->dst],
			      "message %u of kind %u is lost", n, s->kind);
	}
}

static void far(struct ripc__sim_config *config)
{
	config->delay_min_ns = 10 * RIPC__MS;
	config->delay_max_ns = 40 * RIPC__MS;
}

static void far_no_read(struct ripc__sim_config *config)
{
	far(config);
	config->caps_off = RIPC__CAP_READ;
}

static void few(struct ripc__sim_config *config)
{
	config->write_imm = true;
	config->queue_depth = 1;
	config->read_depth = 1;
	config->recv_depth = 3;
	config->bandwidth = 20000000;
	config->delay_max_ns = 5 * RIPC__MS;
}

static void few_no_write(struct ripc__sim_config *config)
{
	few(config);
	config->write_imm = false;
	config->caps_off = RIPC__CAP_WRITE;
}

static void cheap(struct ripc__sim_config *config)
{
	config->written = true;
	config->queue_full = 0.05;
	config->hold = config->transient = 0.1;
	config->bandwidth = 100000000;
	config->setup_delay_ns = 20 * RIPC__MS;
}

static void (*const networks[])(struct ripc__sim_config *config) = {NULL, far,          far_no_read,
								    few,  few_no_write, cheap};

START_TEST(moves__random)
{
	unsigned left = 1;

	rng = test_seed() + (uint64_t)_i * 7919;
	rig_init(&rig, networks[_i % 6]);
	rig.n = HOSTS;
	for (unsigned i = 0; i < HOSTS; i++) {
		host_open(i);
		hold(i, i, 0);
	}
	for (unsigned n = 0; n < STEPS; n++)
		step(false);
	heal();
	for (unsigned n = 0; n < 20000 && left; n++)
		left = step(true);
	ck_assert_uint_eq(left, 0);
	for (unsigned i = 0; i < HOSTS; i++)
		for (unsigned k = 0; k < SERVICES; k++) {
			int rc = -ETIMEDOUT;

			for (unsigned n = 0; n < 200 && rc == -ETIMEDOUT; n++) {
				rc = ripc_flush(rig.s[i], ID(k), 100);
				take(k, k);
			}
			ck_assert_int_ne(rc, -ETIMEDOUT);
			if (rc)
				shorts_unknown(i, k);
		}
	for (unsigned n = 0; n < 200; n++)
		step(true);
	printf("run %d: %u sent, %u long, %u short, %u calls received\n", _i, nsent, counts[LONG],
	       counts[SHORT], counts[CALL]);
	check_all_received();
	for (unsigned i = 0; i < HOSTS; i++)
		host_end(i, false);
	rig_end(&rig);
}
END_TEST

int main(void)
{
	int n = (int)test_number("RIPC_TEST_ROUNDS", 6);
	Suite *suite = suite_create("core/message/moves");
	TCase *tc = tcase_create("moves");

	test_seed();
	tcase_set_timeout(tc, 240);
	tcase_add_loop_test(tc, moves__random, 0, n);
	suite_add_tcase(suite, tc);
	return test_main("core/message/moves", suite);
}
