/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/watch/watch.h"
#include "core/memory/message.h"

#include <stdio.h>
#include <stdlib.h>

#define WHY_MAX 256 /* bytes of the text that an event carries */

struct watch {
	struct ripc__list link;         /* in dest->watches or of the peer */
	struct ripc__list service_link; /* in service->watches */
	struct ripc_service *service;
	uint64_t dest;
	struct ripc__message *m; /* message of the event */
	/* LOCATING: the holder that could not be reached, and since when; 0: none */
	uint8_t unreachable[16];
	uint64_t unreachable_ns;
};

/* Frees the watch, but not its message. */
static struct ripc__message *watch_free(struct watch *w)
{
	struct ripc__message *m = w->m;

	ripc__list_del(&w->link);
	ripc__list_del(&w->service_link);
	free(w);
	return m;
}

/* The watch ends with this event. p: the holder, or NULL. */
static void watch_end(struct watch *w, enum ripc_event event, const struct ripc__peer *p,
		      const char *why)
{
	static const uint8_t none[16];
	struct ripc_service *s = w->service;
	uint64_t dest = w->dest;
	struct ripc__message *m = watch_free(w);
	struct iovec *iov = (struct iovec *)m->pub.items;

	snprintf(m->heap, WHY_MAX, "%s", why);
	*iov = (struct iovec){m->heap, strlen(m->heap)};
	*(uint8_t *)m->pub.placement = RIPC_IN_RECEIVE_BUFFER;
	m->pub.event = event;
	m->pub.source = dest;
	m->pub.dest = s->id;
	memcpy(m->pub.instance, p ? p->instance : none, sizeof(m->pub.instance));
	ripc__service_deliver(s, m);
}

void ripc__watch_flush(struct ripc *ctx, struct ripc__dest *d)
{
	struct ripc__peer_lists *lists;
	struct ripc__list *n;

	if (ripc__dest_reach(ctx, d))
		return;
	/* Without memory they wait in d->watches for the next flush. */
	lists = ripc__peer_lists(d->peer);
	if (!lists)
		return;
	ripc__lane_notify(d->peer->lane, RIPC__WATCH, d->id, 0, 0, 0);
	while ((n = ripc__list_take(&d->watches)))
		ripc__list_add(&lists->watches, n);
}

void ripc__watch_not_found(struct ripc *ctx, struct ripc__dest *d, const char *why)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&d->watches)))
		watch_end(ripc__list_entry(n, struct watch, link), RIPC_EVENT_NOT_FOUND, NULL, why);
}

void ripc__watch_lane_up(struct ripc__lane *lane)
{
	const struct watch *w;

	ripc__list_for_each_entry (w, &lane->peer->lists->watches, link)
		ripc__lane_notify(lane, RIPC__WATCH, w->dest, 0, 0, 0);
}

void ripc__watch_received(struct ripc__lane *lane, uint64_t id)
{
	struct ripc_service *s = ripc__service_find(lane->ctx, id);
	struct ripc__flow *flow = s ? ripc__flow_get(lane, id) : NULL;

	if (!s) {
		ripc__lane_notify(lane, RIPC__WATCH_END, 0, id, 0, 0);
		return;
	}
	if (!flow) {
		ripc__lane_protocol_error(lane, "watches more services than one peer may use");
		return;
	}
	flow->service = s;
	lane->nwatched += !flow->watched;
	flow->watched = true;
}

void ripc__watchers_notify(struct ripc *ctx, uint64_t id)
{
	struct ripc__lane *lane;

	ripc__list_for_each_entry (lane, &ctx->lanes, link) {
		struct ripc__flow *f = ripc__flow_find(lane, id);

		if (!f || !f->watched)
			continue;
		f->watched = false;
		lane->nwatched--;
		ripc__lane_notify(lane, RIPC__WATCH_END, 0, id, 0, 0);
	}
}

void ripc__watch_ended(struct ripc__lane *lane, uint64_t id)
{
	struct watch *w, *tmp;
	char why[WHY_MAX];

	snprintf(why, sizeof(why), "peer %s does not hold %s any more",
		 ripc__instance_text(lane->peer->instance), ripc__service_text(lane->ctx, id));
	ripc__list_for_each_entry_safe (w, tmp, &lane->peer->lists->watches, link)
		if (w->dest == id)
			watch_end(w, RIPC_EVENT_MOVED, lane->peer, why);
	/* The resolver's report may be lost. The next watch is not to ask this peer again. */
	ripc__dest_refused(lane->ctx, id, lane->peer);
}

/*
 * The holder that the resolver named cannot be reached. The record may be old, so the resolver is
 * asked again, for peer_timeout_ms.
 */
static void holder_unreachable(struct ripc *ctx, struct watch *w, const struct ripc__peer *p,
			       const char *why)
{
	uint64_t now = ripc__now(ctx);

	if (!w->unreachable_ns || memcmp(w->unreachable, p->instance, 16)) {
		memcpy(w->unreachable, p->instance, 16);
		w->unreachable_ns = now;
	} else if (now - w->unreachable_ns >= ctx->opt.peer_timeout_ms * RIPC__MS) {
		watch_end(w, RIPC_EVENT_DIED, p, why);
	}
}

void ripc__watch_peer_gave_up(struct ripc__peer *p, const char *why)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&p->lists->watches)))
		watch_end(ripc__list_entry(n, struct watch, link), RIPC_EVENT_DIED, p, why);
}

void ripc__watch_peer_lost(struct ripc *ctx, struct ripc__peer *p, const char *why)
{
	struct ripc__dest *d;
	struct watch *w, *tmp;

	ripc__watch_peer_gave_up(p, why);
	ripc__list_for_each_entry (d, &p->lists->dests, link)
		ripc__list_for_each_entry_safe (w, tmp, &d->watches, link)
			holder_unreachable(ctx, w, p, why);
}

void ripc__watches_resolve(struct ripc *ctx, struct ripc__peer *p)
{
	const struct watch *w;

	ripc__list_for_each_entry (w, &p->lists->watches, link) {
		struct ripc__dest *d = ripc__dest_get(ctx, w->dest);

		if (d)
			ripc__dest_refresh(ctx, d);
	}
}

void ripc__watches_service_ended(struct ripc_service *s)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&s->watches)))
		ripc__message_release(watch_free(ripc__list_entry(n, struct watch, service_link)));
}

int ripc__watch_begin(struct ripc_service *s, uint64_t dest)
{
	struct ripc *ctx = s->ctx;
	struct ripc__dest *d = ripc__dest_get(ctx, dest);
	struct watch *w = d ? malloc(sizeof(*w)) : NULL;
	struct ripc__message *m = w ? ripc__message_new(ctx, 1) : NULL;

	if (m)
		m->heap = malloc(WHY_MAX);
	if (!m || !m->heap) {
		if (m)
			ripc__message_release(m);
		free(w);
		return ripc__fail(-ENOMEM, "no memory to watch %s", ripc__service_text(ctx, dest));
	}
	*w = (struct watch){.service = s, .dest = dest, .m = m};
	ripc__list_add(&s->watches, &w->service_link);
	ripc__list_add(&d->watches, &w->link);
	ripc__watch_flush(ctx, d);
	return 0;
}

void ripc__watch_stop(struct ripc_service *s, uint64_t dest)
{
	struct watch *w, *tmp;

	ripc__list_for_each_entry_safe (w, tmp, &s->watches, service_link)
		if (w->dest == dest)
			ripc__message_release(watch_free(w));
}
