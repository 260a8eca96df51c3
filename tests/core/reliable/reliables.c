/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/reliable/reliables.h"

struct rig rig;

const struct ripc_send_options reliable = {.size = sizeof(reliable), .flags = RIPC_RELIABLE};

void reliable_setup(void)
{
	rig_start(&rig, 2, NULL);
}

void reliable_teardown(void)
{
	rig_end(&rig);
}

static void deep(struct ripc__sim_config *config)
{
	config->recv_depth = 4096;
	config->queue_depth = 4096;
}

void restart_deep(void)
{
	rig_end(&rig);
	rig_start(&rig, 2, deep);
}

int send_number(uint64_t dest, uint64_t n, int timeout_ms)
{
	struct iovec item = {&n, sizeof(n)};

	return ripc_send_short(rig.s[0], dest, &item, 1, &reliable, timeout_ms);
}

uint64_t take_number(struct ripc_service *s)
{
	struct ripc_message *m;
	uint64_t n;

	if (!s || ripc_receive(s, &m, 0))
		return 0;
	ck_assert_uint_eq(m->nitems, 1);
	ck_assert_uint_eq(m->is_long, 0);
	ck_assert_uint_eq(m->source, RIG_ID(0));
	memcpy(&n, m->items[0].iov_base, sizeof(n));
	ripc_message_free(m);
	return n;
}

void expect_numbers(unsigned i, uint64_t first, uint64_t last)
{
	for (uint64_t n = first; n <= last; n++)
		ck_assert_uint_eq(take_number(rig.s[i]), n);
	ck_assert_uint_eq(take_number(rig.s[i]), 0);
}

unsigned unacked(void)
{
	struct ripc__peer *p = rig_peer(&rig, 0, 1);

	return p ? p->reliable_unacked : 0;
}
