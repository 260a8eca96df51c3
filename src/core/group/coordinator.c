/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/group/coordinator.h"

#include "core/peer/lane.h"
#include "core/group/membership.h"
#include "core/peer/peer.h"
#include "wire/record.h"

#include <string.h>

/* Announces to all other members that one joined or left. */
void ripc__coordinator_announce(struct ripc__group *g, const uint8_t *about, const uint8_t *record,
				size_t len, bool present)
{
	struct ripc__member *m, *tmp;

	g->version++;
	HASH_ITER (hh, g->members, m, tmp) {
		struct ripc__lane *lane = ripc__group_lane(g, m->instance);

		if (lane && memcmp(m->instance, about, 16))
			ripc__group_notify(lane, RIPC__MEMBER, g->id, present, g->version, record,
					   len);
	}
}

void ripc__coordinator_announce_self(struct ripc__group *g, bool present)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX];
	size_t len = ripc__group_own_record(g, record);

	if (len)
		ripc__coordinator_announce(g, g->ctx->instance, record, len, present);
}

/* Sends the whole list to a member that has an older list, or none. */
static void send_member_list(struct ripc__group *g, struct ripc__lane *lane)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX];
	struct ripc__member *m, *tmp;
	size_t len =
		ripc__group_role(g) == RIPC__ROLE_MEMBER ? ripc__group_own_record(g, record) : 0;

	if (len)
		ripc__group_notify(lane, RIPC__MEMBER, g->id, 1, g->version, record, len);
	HASH_ITER (hh, g->members, m, tmp)
		if (m->role == RIPC__ROLE_MEMBER && memcmp(m->instance, lane->peer->instance, 16))
			ripc__group_notify(lane, RIPC__MEMBER, g->id, 1, g->version, m->record,
					   m->record_len);
}

void ripc__coordinator_send_list(struct ripc__group *g, struct ripc__lane *lane)
{
	send_member_list(g, lane);
	ripc__group_notify(lane, RIPC__COORDINATOR, g->id, 1, g->version, NULL, 0);
}

/* This context is not the coordinator (any more): other members search for another. */
void ripc__coordinator_resign(struct ripc__group *g)
{
	struct ripc__member *m, *tmp;

	HASH_ITER (hh, g->members, m, tmp) {
		struct ripc__lane *lane = ripc__group_lane(g, m->instance);

		if (lane)
			ripc__group_notify(lane, RIPC__COORDINATOR, g->id, 0, 0, NULL, 0);
	}
}

void ripc__coordinator_start(struct ripc__group *g)
{
	struct ripc__member *m, *tmp;

	ripc__group_set_state(g, RIPC__GROUP_COORDINATING);
	g->failures = 0;
	/*
	 * Above the version of any earlier coordinator, so that no old list is taken for this one.
	 */
	g->version = ripc__now(g->ctx);
	HASH_ITER (hh, g->members, m, tmp) {
		m->joined_ns = 0;
		ripc__member_expire(g, m, RIPC__MEMBER_GRACE_NS);
	}
	ripc__log(RIPC_LOG_DEBUG, "group %llu: this context coordinates it",
		  (unsigned long long)g->id);
	ripc__wake(g->ctx, &g->waitq);
}

int ripc__coordinator_join(struct ripc__lane *lane, const struct ripc__header *h,
			   const struct ripc__record *record, const char **why)
{
	struct ripc__group *g = ripc__group_find(lane->ctx, h->dest);
	struct ripc__member *m;
	bool was, known;

	if (memcmp(record->instance, lane->peer->instance, 16) || h->u[0] > RIPC__ROLE_MEMBER) {
		*why = "wants to make another context a member";
		return -EPROTO;
	}
	if (!g || g->state != RIPC__GROUP_COORDINATING) {
		if (h->u[0])
			ripc__group_notify(lane, RIPC__COORDINATOR, h->dest, 0, 0, NULL, 0);
		return 0;
	}
	m = ripc__member_find(g, record->instance);
	was = m && m->role == RIPC__ROLE_MEMBER;
	known = was && ripc__member_has_record(m, record);
	if (was && h->u[0] != RIPC__ROLE_MEMBER)
		ripc__coordinator_announce(g, m->instance, m->record, m->record_len, false);
	if (!h->u[0]) {
		if (m)
			ripc__member_free(g, m);
		return 0;
	}
	m = ripc__member_put(g, record, (enum ripc__group_role)h->u[0]);
	if (!m) {
		ripc__log(RIPC_LOG_WARN, "group %llu: no room for peer %s among %u others",
			  (unsigned long long)g->id, ripc__instance_text(record->instance),
			  HASH_COUNT(g->members));
		return 0;
	}
	m->joined_ns = ripc__now(g->ctx);
	if (g->next_ns > m->joined_ns + RIPC__MEMBER_TIMEOUT_NS) {
		g->next_ns = m->joined_ns + RIPC__MEMBER_TIMEOUT_NS;
		ripc__timer_at(g->ctx, g->next_ns);
	}
	/*
	 * Members that learned of it from the previous coordinator have that one's list, not this
	 * one. Its addresses may have changed.
	 */
	if (!known && h->u[0] == RIPC__ROLE_MEMBER)
		ripc__coordinator_announce(g, m->instance, m->record, m->record_len, true);
	if (h->u[1] != g->version)
		send_member_list(g, lane);
	ripc__group_notify(lane, RIPC__COORDINATOR, g->id, 1, g->version, NULL, 0);
	return 0;
}
