/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Ports that go down, come back, or change their addresses: an interface gets another IP address, a
 * subnet manager assigns another LID. Connections and address handles belong to the old addresses.
 *
 *   event: the port takes no new connections, loses those it has, and its UD queue pair is flushed
 *   then, when no job uses the port: it takes the new addresses, and EV_ADDRESS is reported
 */
#include "base/clock.h"
#include "base/log.h"
#include "transport/ib/ib.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define READDRESS_NS (10 * RIPC__MS) /* pause while jobs use the old addresses */

void ripc__ib_port_down(struct ib_port *p, const char *why)
{
	struct ripc__transport *t = p->t;
	struct ripc__ep *ep;
	char text[IB_WHY_MAX];

	snprintf(text, sizeof(text), "%s port %u: %s", p->d->v.name, p->num, why);
	ripc__log(RIPC_LOG_WARN, "ib: %s; its connections are lost", text);
	t->route_gen++;
	p->down = true;
	ripc__list_for_each_entry (ep, &t->eps, all)
		if (ep->port == p)
			ripc__ib_ep_break(ep, -ENETDOWN, text);
}

static bool same_addresses(const struct ib_port *p, const struct ib_port *q)
{
	return p->gid_index == q->gid_index && p->port_addr.link == q->port_addr.link &&
	       p->port_addr.lid == q->port_addr.lid &&
	       !memcmp(p->port_addr.gid, q->port_addr.gid, sizeof(p->port_addr.gid));
}

static void take_addresses(struct ib_port *p)
{
	char why[IB_WHY_MAX], text[96];

	ripc__ib_mcast_detach(p);
	p->port_addr.link = 0;
	p->t->reports.address = true;
	if (ripc__ib_port_query(p, why, sizeof(why))) {
		ripc__log(RIPC_LOG_WARN, "ib: %s: the port is not used", why);
		return;
	}
	p->down = false;
	ripc__ib_mcast_attach(p);
	ripc__ib_port_addr_text(&p->port_addr, text, sizeof(text));
	ripc__log(RIPC_LOG_INFO, "ib: %s port %u is now %s, GID %u", p->d->v.name, p->num, text,
		  p->gid_index);
}

void ripc__ib_port_changed(struct ib_port *p)
{
	struct ib_port now = {.t = p->t, .d = p->d, .num = p->num};
	char why[IB_WHY_MAX];
	int rc;

	/* ripc__ib_port_readdress() follows. */
	if (p->readdress || p->d->v.gone)
		return;
	/* Nothing uses other addresses. */
	if (!p->port_addr.link) {
		take_addresses(p);
		return;
	}
	rc = ripc__ib_port_query(&now, why, sizeof(why));
	if (!rc && same_addresses(p, &now)) {
		p->t->route_gen++;
		p->down = false;
		return;
	}
	/* An event about a port that is unusable, and stays so. */
	if (rc && p->down)
		return;
	/* ripc__ib_port_readdress() logs why it is unusable. */
	ripc__ib_port_down(p, rc ? "it lost its address or link" : "its address has changed");
	p->readdress = true;
	ripc__ib_ud_stopped(&p->ud, "its address has changed");
}

static bool has_job(const struct ib_port *p)
{
	const struct ripc__ep *ep;

	ripc__list_for_each_entry (ep, &p->t->eps, all)
		if (ep->port == p && ep->job.state != RIPC__JOB_IDLE)
			return true;
	return false;
}

void ripc__ib_port_readdress(struct ib_port *p)
{
	struct ripc__transport *t = p->t;

	if (p->ud.posted || t->now_ns < p->ud.retry_ns)
		return;
	if (has_job(p) || !ripc__ib_ah_cache_invalidate(t, p->d, p)) {
		p->ud.retry_ns = t->now_ns + READDRESS_NS;
		return;
	}
	p->readdress = false;
	take_addresses(p);
}
