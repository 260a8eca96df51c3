/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "rig.h"

#include "core/invariants.h"
#include "wire/bytes.h"

static void on_deadlock(void *arg, const char *text)
{
	ck_abort_msg("%s", text);
}

void rig_init(struct rig *rig, void (*change)(struct ripc__sim_config *config))
{
	memset(rig, 0, sizeof(*rig));
	ripc__sim_defaults(&rig->config);
	if (change)
		change(&rig->config);
	rig->net = ripc__sim_create(test_seed(), &rig->config, on_deadlock, NULL);
	ck_assert_ptr_nonnull(rig->net);
	ripc__sim_audit(rig->net, check_sent);
}

unsigned rig_open(struct rig *rig, const char *options)
{
	struct ripc__hooks hooks;
	unsigned i = rig->n++;

	ck_assert_uint_lt(i, RIG_CONTEXTS);
	ripc__sim_hooks(rig->net, &hooks);
	OK(ripc__open_hooked(&rig->ctx[i], options, &hooks));
	OK(ripc__sim_attach(rig->net, rig->ctx[i]));
	OK(ripc_service_register(rig->ctx[i], RIG_ID(i), 0, &rig->s[i]));
	return i;
}

void rig_start_with(struct rig *rig, unsigned n, void (*change)(struct ripc__sim_config *config),
		    const char *options)
{
	rig_init(rig, change);
	for (unsigned i = 0; i < n; i++)
		rig_open(rig, options);
}

void rig_start(struct rig *rig, unsigned n, void (*change)(struct ripc__sim_config *config))
{
	rig_start_with(rig, n, change, NULL);
}

void rig_datagrams(struct ripc__sim_config *config)
{
	config->datagram = true;
}

static void check_contexts(const struct rig *rig)
{
	for (unsigned i = 0; i < rig->n; i++)
		if (rig->ctx[i])
			check_counters(rig->ctx[i]);
}

void rig_close(struct rig *rig, unsigned i)
{
	OK(ripc_close(rig->ctx[i]));
	ripc__sim_detach(rig->net, rig->ctx[i]);
	rig->ctx[i] = NULL;
	rig->s[i] = NULL;
}

void rig_end(struct rig *rig)
{
	struct ripc__sim_counters counters;
	const char *text = NULL;

	check_contexts(rig);
	for (unsigned i = 0; i < rig->n; i++)
		if (rig->ctx[i])
			rig_close(rig, i);
	while (ripc__sim_step(rig->net, RIPC__NEVER))
		;
	ripc__sim_counters(rig->net, &counters);
	ck_assert_uint_eq(counters.endpoints, 0);
	ck_assert_uint_eq(counters.regions, 0);
	ck_assert_uint_eq(counters.packets, 0);
	ck_assert_msg(!ripc__sim_violations(rig->net, &text), "%s", text);
	ripc__sim_destroy(rig->net);
}

void rig_run(struct rig *rig, unsigned ms)
{
	ripc__sim_run(rig->net, ms * RIPC__MS);
	check_contexts(rig);
}

const uint8_t *rig_instance(const struct rig *rig, unsigned i)
{
	return rig->ctx[i]->instance;
}

void rig_heal_links(struct rig *rig)
{
	for (unsigned i = 0; i < rig->n; i++)
		for (unsigned j = i + 1; j < rig->n; j++) {
			ripc__sim_partition(rig->net, rig_instance(rig, i), rig_instance(rig, j),
					    false);
			ripc__sim_break_at(rig->net, rig_instance(rig, i), rig_instance(rig, j), 0);
		}
}

struct ripc_stats rig_stats(const struct rig *rig, unsigned i)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	OK(ripc_context_stats(rig->ctx[i], &stats));
	return stats;
}

struct ripc__peer *rig_peer(const struct rig *rig, unsigned i, unsigned j)
{
	return ripc__peer_find(rig->ctx[i], rig_instance(rig, j));
}

struct ripc__lane *rig_lane(const struct rig *rig, unsigned i, unsigned j)
{
	struct ripc__peer *p = rig_peer(rig, i, j);

	return p ? p->lane : NULL;
}

struct ripc__dest *rig_dest(const struct rig *rig, unsigned i, unsigned j)
{
	return ripc__dest_find(rig->ctx[i], RIG_ID(j));
}

void rig_connect(struct rig *rig, unsigned i, unsigned j)
{
	OK(ripc_route_lookup(rig->ctx[i], RIG_ID(j), NULL, 5000));
	/* The other side has it a moment later. */
	for (int k = 0; k < 100 && !rig_lane(rig, j, i); k++)
		rig_run(rig, 1);
	ck_assert_ptr_nonnull(rig_lane(rig, j, i));
}

void rig_fail_lane(struct rig *rig, unsigned i, unsigned j)
{
	ripc__lock(rig->ctx[i]);
	ripc__lane_fail(rig_lane(rig, i, j), -ECONNRESET, "as the test wants it");
	ripc__unlock(rig->ctx[i]);
}

void rig_fill(void *p, size_t len, uint64_t tag)
{
	uint8_t *at = p;

	for (size_t k = 0; k < len; k++)
		at[k] = (uint8_t)(tag * 31 + k + (k >> 8) * 7);
}

void rig_verify(const void *p, size_t len, uint64_t tag)
{
	const uint8_t *at = p;

	for (size_t k = 0; k < len; k++)
		if (at[k] != (uint8_t)(tag * 31 + k + (k >> 8) * 7))
			ck_abort_msg("byte %zu of %zu is not that of message %llu", k, len,
				     (unsigned long long)tag);
}

int rig_short(struct rig *rig, unsigned i, unsigned j, size_t len, uint64_t tag, int timeout_ms)
{
	uint8_t *p = malloc(len + 1);
	struct iovec item = {p, len};
	int rc;

	rig_fill(p, len, tag);
	rc = ripc_send_short(rig->s[i], RIG_ID(j), &item, 1, NULL, timeout_ms);
	free(p);
	return rc;
}

int rig_long(struct rig *rig, unsigned i, unsigned j, size_t len, uint64_t tag, int timeout_ms)
{
	uint8_t *p = malloc(len + 1);
	struct iovec item = {p, len};
	int rc;

	rig_fill(p, len, tag);
	rc = ripc_send_long(rig->s[i], RIG_ID(j), &item, 1, NULL, timeout_ms);
	free(p);
	return rc;
}

struct ripc_request *rig_begin(struct rig *rig, unsigned i, unsigned j, void *p, size_t len)
{
	struct ripc_request *r = NULL;
	struct iovec item = {p, len};

	OK(ripc_send_async(rig->s[i], RIG_ID(j), &item, 1, NULL, &r));
	ck_assert_ptr_nonnull(r);
	return r;
}

struct ripc_message *rig_take(struct rig *rig, unsigned i)
{
	struct ripc_message *m = NULL;

	OK(ripc_receive(rig->s[i], &m, 10000));
	check_contexts(rig);
	return m;
}

enum ripc_placement rig_expect(struct rig *rig, unsigned i, size_t len, uint64_t tag)
{
	struct ripc_message *m = rig_take(rig, i);
	enum ripc_placement placement;

	ck_assert_uint_eq(m->nitems, 1);
	ck_assert_uint_eq(m->items[0].iov_len, len);
	rig_verify(m->items[0].iov_base, len, tag);
	placement = (enum ripc_placement)m->placement[0];
	ripc_message_free(m);
	return placement;
}

void rig_expect_none(struct rig *rig, unsigned i)
{
	struct ripc_message *m;

	RC(-ETIMEDOUT, ripc_receive(rig->s[i], &m, 50));
}

unsigned rig_send_return_buffer(struct rig *rig, unsigned i, unsigned j, void *base, size_t len)
{
	struct iovec item = {"x", 1}, back = {base, len};
	struct ripc_send_options options = {
		.size = sizeof(options), .nreturn_buffers = 1, .return_buffers = &back};
	struct ripc_message *m;
	unsigned n;

	OK(ripc_send_short(rig->s[i], RIG_ID(j), &item, 1, &options, 5000));
	m = rig_take(rig, j);
	n = m->nreturn_buffers;
	ripc_message_free(m);
	return n;
}

void rig_exchange(struct rig *rig, unsigned i, unsigned j)
{
	OK(rig_short(rig, i, j, 100, 1, 5000));
	rig_expect(rig, j, 100, 1);
	OK(rig_long(rig, j, i, 100000, 2, 5000));
	rig_expect(rig, i, 100000, 2);
	OK(rig_short(rig, j, i, 0, 3, 5000));
	rig_expect(rig, i, 0, 3);
	OK(rig_long(rig, i, j, 1, 4, 5000));
	rig_expect(rig, j, 1, 4);
}

void rig_inject(struct rig *rig, unsigned i, unsigned j, uint8_t *message, size_t len, int skew)
{
	struct ripc__lane *lane = rig_lane(rig, i, j);

	ck_assert_ptr_nonnull(lane);
	if (len >= RIPC__HEADER_LEN)
		ripc__put_le32(message + 24, (uint32_t)((int)lane->tx_seq + skew));
	OK(ripc__sim_hostile(rig->net, rig_instance(rig, i)));
	OK(ripc__sim_inject(rig->net, rig_instance(rig, i), rig_instance(rig, j), message, len));
	/*
	 * From now on the lane sends behind it, with full headers: the peer may send elided ones
	 * relative to it.
	 */
	lane->tx_last.dest = 0;
	if (lane->memory != &ripc__lane_memory_none)
		lane->memory->tx_long.request = 0;
	if (!skew)
		lane->tx_seq++;
}

unsigned rig_waiting(const struct ripc_service *s, enum ripc__rndv_state state)
{
	const struct ripc__list *head = &s->rndvs_in;
	struct ripc__list *n;
	unsigned count = 0;

	ripc__list_for_each (n, head)
		count += ripc__list_entry(n, struct ripc__rndv, link)->state == state;
	return count;
}

void rig_expect_one_lane(struct rig *rig)
{
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_uint_eq(rig->ctx[i]->stats.lanes, 1);
		ck_assert_ptr_nonnull(rig_lane(rig, i, !i));
		ck_assert_int_eq(rig_lane(rig, i, !i)->state, RIPC__LANE_UP);
		ck_assert_ptr_null(rig_peer(rig, i, !i)->out);
		ck_assert_ptr_null(rig_peer(rig, i, !i)->pending_conn);
	}
	ck_assert_int_ne(rig_lane(rig, 0, 1)->active, rig_lane(rig, 1, 0)->active);
}

void rig_restart(struct rig *rig, unsigned n, void (*change)(struct ripc__sim_config *config))
{
	rig_end(rig);
	rig_start(rig, n, change);
}
