/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/group/coordinator.h"

#include "core/peer/lane.h"
#include "core/group/membership.h"
#include "core/peer/peer.h"
#include "wire/record.h"

#include <string.h>

/* ripc__group_notify() to all other contexts but the one that it is about. */
static void notify_all(struct ripc__group *g, const uint8_t *about, unsigned kind, bool present,
		       uint64_t version, const uint8_t *record, size_t len)
{
	struct ripc__member *m, *tmp;

	HASH_ITER (hh, g->members, m, tmp) {
		struct ripc__lane *lane = ripc__group_lane(g, m->instance);

		if (lane && memcmp(m->instance, about, 16))
			ripc__group_notify(lane, kind, g->id, present, version, record, len);
	}
}

void ripc__coordinator_announce(struct ripc__group *g, const uint8_t *about, const uint8_t *record,
				size_t len, bool present)
{
	notify_all(g, about, RIPC__MEMBER, present, ++g->version, record, len);
}

void ripc__coordinator_announce_self(struct ripc__group *g, bool present)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX];
	size_t len = ripc__group_own_record(g, record);

	if (len)
		ripc__coordinator_announce(g, g->ctx->instance, record, len, present);
}

void ripc__coordinator_send_list(struct ripc__group *g, struct ripc__lane *lane)
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
	ripc__group_notify(lane, RIPC__COORDINATOR, g->id, 1, g->version, NULL, 0);
}

void ripc__coordinator_resign(struct ripc__group *g)
{
	notify_all(g, g->ctx->instance, RIPC__COORDINATOR, false, 0, NULL, 0);
}

void ripc__coordinator_start(struct ripc__group *g)
{
	ripc__group_set_state(g, RIPC__GROUP_COORDINATING);
	g->failures = 0;
	/*
	 * Above the version of any earlier coordinator, so that no old list is taken for this one.
	 */
	g->version = ripc__now(g->ctx);
	ripc__members_expire(g, false);
	ripc__log(RIPC_LOG_DEBUG, "group %" PRIu64 ": this context is the coordinator", g->id);
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
		ripc__log(RIPC_LOG_WARN, "group %" PRIu64 ": no room for peer %s among %u others",
			  g->id, ripc__instance_text(record->instance), HASH_COUNT(g->members));
		return 0;
	}
	ripc__member_expire(g, m, RIPC__MEMBER_TIMEOUT_NS);
	/*
	 * Members that learned of it from the previous coordinator have that one's list, not this
	 * one. Its addresses may have changed.
	 */
	if (!known && h->u[0] == RIPC__ROLE_MEMBER)
		ripc__coordinator_announce(g, m->instance, m->record, m->record_len, true);
	if (h->u[1] != g->version)
		ripc__coordinator_send_list(g, lane);
	else
		ripc__group_notify(lane, RIPC__COORDINATOR, g->id, 1, g->version, NULL, 0);
	return 0;
}
