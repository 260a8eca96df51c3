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
	uint64_t nonce;

	do
		nonce = ripc__rcore_random(core);
	while (!nonce);
	return nonce;
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
	uint64_t since_ns = h && h->since_ns ? h->since_ns : now_ns;
	uint64_t age_ms = now_ns > since_ns ? (now_ns - since_ns) / RIPC__MS : 0;

	memset(record, 0, sizeof(*record));
	memcpy(record->instance, core->env.instance, 16);
	memcpy(record->host, core->env.host, 16);
	record->generation = h ? h->generation : 1;
	record->ttl_ms = RIPC__TTL_MS;
	record->since_ms = age_ms < UINT32_MAX ? (uint32_t)age_ms : UINT32_MAX;
	if (!h)
		return;
	record->service = h->node.id;
	if (h->name) {
		record->name_len = (uint8_t)strlen(h->name);
		memcpy(record->name, h->name, record->name_len);
	}
	record->naddrs = core->env.naddrs;
	for (unsigned i = 0; i < core->env.naddrs; i++)
		record->addrs[i] = core->addrs[i];
}

void ripc__rcore_send(struct ripc__rcore *core, const struct ripc__mcast_sender *to,
		      const struct ripc__resolver_msg *msg)
{
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	int len = ripc__resolver_msg_encode(msg, buf, sizeof(buf));

	if (len > 0)
		core->env.send(core->env.arg, to, msg->service, buf, (size_t)len);
}
