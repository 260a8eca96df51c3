/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/group/membership.h"

#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/progress/transports.h"
#include "wire/bytes.h"
#include "wire/record.h"

#include <stdlib.h>
#include <string.h>

/* time that a new coordinator waits for the members of the old list */
#define GRACE_NS (3000 * RIPC__MS)

struct ripc__member *ripc__member_find(struct ripc__group *g, const uint8_t instance[16])
{
	struct ripc__member *m;

	HASH_FIND(hh, g->members, instance, 16, m);
	return m;
}

void ripc__member_free(struct ripc__group *g, struct ripc__member *m)
{
	ripc__member_want(m, NULL);
	g->stats.members -= m->role == RIPC__ROLE_MEMBER;
	HASH_DEL(g->members, m);
	free(m);
}

static bool record_is(const struct ripc__member *m, const uint8_t *bytes, int len)
{
	return len == m->record_len && !memcmp(m->record, bytes, m->record_len);
}

bool ripc__member_has_record(const struct ripc__member *m, const struct ripc__record *record)
{
	uint8_t bytes[RIPC__RECORD_BYTES_MAX];
	int len = ripc__record_encode(record, bytes, sizeof(bytes));

	return record_is(m, bytes, len);
}

struct ripc__member *ripc__member_put(struct ripc__group *g, const struct ripc__record *record,
				      enum ripc__group_role role)
{
	struct ripc__member *m = ripc__member_find(g, record->instance), *old = m;
	uint8_t bytes[RIPC__RECORD_BYTES_MAX];
	int len = ripc__record_encode(record, bytes, sizeof(bytes));

	if (len < 0 || (!old && HASH_COUNT(g->members) >= RIPC__MEMBERS_MAX))
		return NULL;
	if (!old || old->record_len < len) {
		m = malloc(sizeof(*m) + (size_t)len);
		if (!m)
			return NULL;
		if (old) {
			*m = *old;
			HASH_DEL(g->members, old);
			free(old);
		} else {
			memset(m, 0, sizeof(*m));
			memcpy(m->instance, record->instance, 16);
			/* A new member does not get the message that is being sent. */
			m->sent = g->number;
		}
		HASH_ADD(hh, g->members, instance, 16, m);
		if (!m->hh.tbl) {
			ripc__member_want(m, NULL);
			g->stats.members -= m->role == RIPC__ROLE_MEMBER;
			free(m);
			return NULL;
		}
	}
	g->stats.members += role == RIPC__ROLE_MEMBER;
	g->stats.members -= m->role == RIPC__ROLE_MEMBER;
	m->role = role;
	m->moved |= old && !record_is(m, bytes, len);
	m->expires_ns = RIPC__NEVER;
	m->listed = true;
	m->record_len = (uint16_t)len;
	memcpy(m->record, bytes, (size_t)len);
	return m;
}

void ripc__member_expire(struct ripc__group *g, struct ripc__member *m, uint64_t after_ns)
{
	uint64_t when = ripc__now(g->ctx) + after_ns;

	if (when < m->expires_ns)
		m->expires_ns = when;
	if (m->expires_ns < g->next_ns)
		g->next_ns = m->expires_ns;
	ripc__timer_at(g->ctx, g->next_ns);
}

void ripc__members_expire(struct ripc__group *g, bool unlisted)
{
	struct ripc__member *m, *tmp;

	HASH_ITER (hh, g->members, m, tmp)
		if (!unlisted || !m->listed)
			ripc__member_expire(g, m, GRACE_NS);
}

void ripc__member_want(struct ripc__member *m, struct ripc__peer *p)
{
	if (m->wanted)
		m->wanted->wanted--;
	m->wanted = p;
	if (p)
		p->wanted++;
}

struct ripc__peer *ripc__member_peer(struct ripc *ctx, struct ripc__member *m)
{
	struct ripc__peer *p = ripc__peer_get(ctx, m->instance);
	struct ripc__record record;
	const char *why;

	if (!p || (p->addrs && !m->moved))
		return p;
	if (!ripc__record_decode(&record, m->record, m->record_len, &why) && record.naddrs &&
	    ripc__peer_set_addrs(p, &record))
		return NULL;
	m->moved = false;
	return p;
}

/* ---- control messages ---- */

void ripc__group_notify(struct ripc__lane *lane, unsigned kind, uint64_t group, uint64_t a,
			uint64_t b, const uint8_t *record, size_t len)
{
	uint8_t buf[RIPC__HEADER_LEN + 16 + RIPC__RECORD_BYTES_MAX], *p;

	p = ripc__header_put(buf, (uint8_t)kind, 0, 0, 0, group, 0);
	ripc__put_le64(p, a);
	ripc__put_le64(p + 8, b);
	if (len)
		memcpy(p + 16, record, len);
	ripc__lane_control(lane, buf, (size_t)(p + 16 - buf) + len);
}

size_t ripc__group_own_record(struct ripc__group *g, uint8_t *buf)
{
	struct ripc__record r = {.service = ripc__group_name(g->id), .generation = 1};
	int n = ripc__local_addrs(g->ctx, r.addrs), len;

	memcpy(r.instance, g->ctx->instance, 16);
	memcpy(r.host, g->ctx->host, 16);
	r.naddrs = n < 0 ? 0 : (unsigned)n;
	len = ripc__record_encode(&r, buf, RIPC__RECORD_BYTES_MAX);
	return len < 0 ? 0 : (size_t)len;
}

struct ripc__lane *ripc__group_lane(struct ripc__group *g, const uint8_t instance[16])
{
	struct ripc__peer *p = ripc__peer_find(g->ctx, instance);

	return p ? p->lane : NULL;
}
