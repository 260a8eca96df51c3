/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/group/group.h"
#include "core/peer/peer.h"
#include "core/service/service.h"

#include <stdlib.h>

static void local_member_free(struct ripc__group *g, struct ripc__local_member *local_member)
{
	ripc__list_del(&local_member->link);
	free(local_member);
	if (ripc__group_role(g) == RIPC__ROLE_MEMBER)
		return;
	g->stats.members--;
	ripc__mcast_listen(g, false);
	/* A sender still needs the list; otherwise the group is not used any more. */
	if (!g->stats.sent)
		g->used_ns = 0;
	ripc__group_kick(g);
}

void ripc__groups_service_gone(struct ripc_service *s)
{
	for (struct ripc__group *g = s->ctx->groups; g; g = g->hh.next) {
		struct ripc__local_member *local_member, *tmp;

		ripc__list_for_each_entry_safe (local_member, tmp, &g->local_members, link)
			if (local_member->service == s)
				local_member_free(g, local_member);
		ripc__wake(s->ctx, &g->waitq);
	}
}

int ripc__check_group(struct ripc_service *s, uint64_t group, struct ripc **ctx)
{
	if (!s)
		return ripc__fail(-EINVAL, "no service");
	if (!ripc__group_is_id(group))
		return ripc__fail(-EINVAL, "group %" PRIu64 ": must be from 1 to 2^62 - 2", group);
	return ripc__service_context(s, ctx);
}

static struct ripc__local_member *local_member_find(struct ripc__group *g,
						    const struct ripc_service *s)
{
	struct ripc__local_member *local_member;

	ripc__list_for_each_entry (local_member, &g->local_members, link)
		if (local_member->service == s)
			return local_member;
	return NULL;
}

static int not_joined(struct ripc__group *g, int timeout_ms)
{
	struct ripc__dest *d = ripc__dest_find(g->ctx, ripc__group_name(g->id));

	if (g->claim_error)
		return ripc__fail(timeout_ms ? -ETIMEDOUT : -EAGAIN,
				  "group %" PRIu64
				  ": it has no coordinator, and this context cannot "
				  "become it: %s",
				  g->id, ripc_strerror(g->claim_error));
	return ripc__fail(timeout_ms ? -ETIMEDOUT : -EAGAIN,
			  "group %" PRIu64 ": its coordinator has not answered in %d ms%s%s", g->id,
			  timeout_ms, d && d->why ? ": " : "", d && d->why ? d->why : "");
}

/* Lock held, service entered. */
static int join_group(struct ripc_service *s, uint64_t id, int timeout_ms)
{
	struct ripc *ctx = s->ctx;
	uint64_t deadline = ripc__deadline(ctx, timeout_ms);
	struct ripc__group *g = ripc__group_get(ctx, id);
	struct ripc__local_member *local_member;
	int rc = 0;

	if (g && local_member_find(g, s))
		return ripc__fail(-EALREADY, "%s is a member of group %" PRIu64,
				  ripc__service_text(ctx, s->id), id);
	local_member = g ? calloc(1, sizeof(*local_member)) : NULL;
	if (!local_member)
		return ripc__fail(-ENOMEM, "no memory for group %" PRIu64, id);
	local_member->service = s;
	if (ripc__group_role(g) != RIPC__ROLE_MEMBER) {
		g->stats.members++;
		for (struct ripc__mcast_sender *m = g->senders; m; m = m->hh.next)
			m->was_absent = true;
		/* A sender becomes a member when the coordinator has acknowledged it. */
		if (g->state == RIPC__GROUP_JOINED)
			ripc__group_set_state(g, RIPC__GROUP_JOINING);
		ripc__mcast_listen(g, true);
		ripc__group_kick(g);
	}
	ripc__list_add(&g->local_members, &local_member->link);
	g->users++;
	while (!ripc__group_members_known(g)) {
		rc = ripc__service_closing(s);
		if (rc)
			break;
		if (timeout_ms
			    ? ripc__wait(ctx, &g->waitq, deadline) && !ripc__group_members_known(g)
			    : (ripc__progress(ctx), !ripc__group_members_known(g))) {
			rc = not_joined(g, timeout_ms);
			break;
		}
	}
	g->users--;
	/* The service may have been closed while the call waited, and so have left the group. */
	if (rc && (local_member = local_member_find(g, s)))
		local_member_free(g, local_member);
	return rc;
}

int RIPC__NO_ANALYSIS ripc_group_join(struct ripc_service *s, uint64_t group, int timeout_ms)
{
	struct ripc *ctx;
	int rc = ripc__check_group(s, group, &ctx);

	if (!rc)
		rc = ripc__service_lock(s, ctx);
	if (rc)
		return rc;
	rc = join_group(s, group, timeout_ms);
	ripc__service_unlock(s, ctx);
	return rc;
}

int RIPC__NO_ANALYSIS ripc_group_leave(struct ripc_service *s, uint64_t group)
{
	struct ripc *ctx;
	int rc = ripc__check_group(s, group, &ctx);
	struct ripc__group *g;
	struct ripc__local_member *local_member;

	if (!rc)
		rc = ripc__service_lock(s, ctx);
	if (rc)
		return rc;
	g = ripc__group_find(ctx, group);
	local_member = g ? local_member_find(g, s) : NULL;
	if (local_member)
		local_member_free(g, local_member);
	else
		rc = ripc__fail(-ENOENT, "%s is no member of group %" PRIu64,
				ripc__service_text(ctx, s->id), group);
	ripc__service_unlock(s, ctx);
	return rc;
}
