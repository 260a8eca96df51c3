/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "resolver/state.h"

#include "base/clock.h"
#include "base/hash.h"

#include <string.h>

uint64_t ripc__rcore_random(struct ripc__rcore *core)
{
	return ripc__splitmix(&core->random);
}

uint64_t ripc__rcore_nonce(struct ripc__rcore *core)
{
	return ripc__rcore_random(core) | 1;
}

/*
 * Spreads deadlines from 3/4 to 5/4 of @ms, so that contexts that started together do not stay in
 * step.
 */
uint64_t ripc__rcore_jitter_ns(struct ripc__rcore *core, uint32_t ms)
{
	uint64_t ns = ms * RIPC__MS;

	return ns / 4 * 3 + ripc__rcore_random(core) % (ns / 2);
}

void ripc__rcore_own_record(struct ripc__rcore *core, const struct ripc__claim *h, uint64_t now_ns,
			    struct ripc__record *record)
{
	*record = core->own;
	if (!h) {
		record->naddrs = 0;
		return;
	}
	record->service = h->node.id;
	record->generation = h->generation;
	record->since_ms = h->since_ns ? ripc__ms_between(h->since_ns, now_ns) : 0;
	if (h->name) {
		record->name_len = (uint8_t)strlen(h->name);
		memcpy(record->name, h->name, record->name_len);
	}
}

size_t ripc__rcore_room(const struct ripc__rcore *core)
{
	size_t used = RIPC__RESOLVER_MSG_FIXED;

	for (unsigned i = 0; i < core->own.naddrs; i++)
		used += 3u + core->own.addrs[i].len;
	return used < RIPC__RESOLVER_UNSEALED_MAX ? RIPC__RESOLVER_UNSEALED_MAX - used : 0;
}

void ripc__rcore_send(struct ripc__rcore *core, const struct ripc__backend_addr *to,
		      const struct ripc__resolver_msg *msg)
{
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	int len = ripc__resolver_msg_encode(msg, buf, sizeof(buf));

	if (len > 0)
		core->env.send(core->env.arg, to, msg->service, buf, (size_t)len);
}
