/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Asynchronous events of devices: changes of their ports, their removal and return.
 *
 * A port goes down, comes back, or changes its addresses: an interface gets another IP address, a
 * subnet manager assigns another LID. Connections and address handles belong to the old addresses.
 *   event: the port takes no new connections, loses those it has, and its UD queue pair is flushed
 *   then, when no job uses the port: it takes the new addresses, and EV_ADDRESS is reported
 *
 * The connections of a removed device are closed first; the device is closed after the last one,
 * because the kernel may wait for that. Its structures stay: a device with its name is opened again
 * in its place.
 */
#include "base/clock.h"
#include "base/log.h"
#include "transport/ib/ib.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EVENTS_NS    (5 * RIPC__MS)    /* interval of reads of events */
#define READDRESS_NS (10 * RIPC__MS)   /* pause while jobs use the old addresses */
#define EXIST_NS     (1000 * RIPC__MS) /* interval of checks that devices still exist */
/* udev renames a new device, and sets the rights of its file */
#define REOPEN_NS (1000 * RIPC__MS)

/* ---- ports ---- */

/* The port takes no new connections, and loses those it has. */
static void break_eps(struct ib_port *p, int status, const char *text)
{
	struct ripc__ep *ep;

	p->t->route_gen++;
	p->down = true;
	ripc__list_for_each_entry (ep, &p->t->eps, all)
		if (ep->port == p)
			ripc__ib_ep_break(ep, status, text);
}

static void port_down(struct ib_port *p, const char *why)
{
	char text[IB_WHY_MAX];

	snprintf(text, sizeof(text), "%s port %u: %s", p->d->v.name, p->num, why);
	ripc__log(RIPC_LOG_WARN, "ib: %s; its connections are lost", text);
	break_eps(p, -ENETDOWN, text);
}

/* Whether connections and peers can go on with what they know of p, which is now as q. */
static bool same_addresses(const struct ib_port *p, const struct ib_port *q)
{
	return p->gid_index == q->gid_index && p->port_addr.link == q->port_addr.link &&
	       p->port_addr.lid == q->port_addr.lid && p->port_addr.mtu <= q->port_addr.mtu &&
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
	port_down(p, rc ? "it lost its address or link" : "its address or MTU has changed");
	p->readdress = true;
	ripc__ib_ud_stopped(&p->ud, "its address or MTU has changed");
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
	if (has_job(p) || !ripc__ib_ah_cache_invalidate(p)) {
		p->ud.retry_ns = t->now_ns + READDRESS_NS;
		return;
	}
	p->readdress = false;
	take_addresses(p);
}

/* ---- events ---- */

void ripc__ib_device_lost(struct ib_device *d, const char *why)
{
	struct ripc__transport *t = d->t;
	char text[IB_WHY_MAX];

	if (d->v.gone)
		return;
	d->v.gone = true;
	snprintf(text, sizeof(text), "%s: %s", d->v.name, why);
	ripc__log(RIPC_LOG_ERROR, "ib: %s; its connections are lost", text);
	t->reports.address = true;
	for (unsigned i = 0; i < t->nports; i++) {
		struct ib_port *p = &t->ports[i];

		if (p->d != d)
			continue;
		p->readdress = false;
		p->port_addr.link = 0;
		break_eps(p, -ENODEV, text);
	}
}

static void port_event(const struct ib_device *d, const struct ibv_async_event *ev)
{
	struct ripc__transport *t = d->t;

	for (unsigned i = 0; i < t->nports; i++) {
		struct ib_port *p = &t->ports[i];

		if (p->d != d || p->num != ev->element.port_num)
			continue;
		if (ev->event_type == IBV_EVENT_PORT_ERR)
			port_down(p, ibv_event_type_str(ev->event_type));
		else
			ripc__ib_port_changed(p);
	}
}

static void qp_fatal(struct ib_device *d, const struct ibv_qp *qp, const char *why)
{
	struct ripc__transport *t = d->t;
	struct ripc__ep *ep;
	char text[IB_WHY_MAX];

	snprintf(text, sizeof(text), "%s: %s", d->v.name, why);
	ripc__list_for_each_entry (ep, &t->eps, all) {
		if (ep->qp == qp) {
			ripc__ib_ep_break(ep, -EIO, text);
			return;
		}
	}
	for (unsigned i = 0; i < t->nports; i++)
		if (t->ports[i].ud.qp == qp)
			ripc__ib_ud_stopped(&t->ports[i].ud, why);
		else if (t->ports[i].mcast.qp == qp)
			ripc__ib_ud_stopped(&t->ports[i].mcast, why);
}

static void read_events(struct ib_device *d)
{
	struct ibv_async_event ev;

	while (d->v.ctx && !ibv_get_async_event(d->v.ctx, &ev)) {
		const char *text = ibv_event_type_str(ev.event_type);

		ripc__log(RIPC_LOG_DEBUG, "ib: %s reports: %s", d->v.name, text);
		/* Otherwise the destruction of a queue would wait for it. */
		ibv_ack_async_event(&ev);
		switch (ev.event_type) {
		case IBV_EVENT_PORT_ERR:
		case IBV_EVENT_PORT_ACTIVE:
		case IBV_EVENT_LID_CHANGE:
		case IBV_EVENT_GID_CHANGE:
			port_event(d, &ev);
			break;
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
		case IBV_EVENT_PATH_MIG_ERR:
			qp_fatal(d, ev.element.qp, text);
			break;
		case IBV_EVENT_CQ_ERR:
		case IBV_EVENT_SRQ_ERR:
		case IBV_EVENT_DEVICE_FATAL:
			ripc__ib_device_lost(d, text);
			break;
		default:
			break;
		}
	}
}

/* ---- removal ---- */

static void release(struct ib_device *d)
{
	struct ripc__transport *t = d->t;
	struct ripc__ep *ep;

	ripc__list_for_each_entry (ep, &t->eps, all)
		if (ep->d == d && (ep->qp || ep->job.state != RIPC__JOB_IDLE))
			return;
	for (unsigned i = 0; i < t->nports; i++)
		if (t->ports[i].d == d && !ripc__ib_ah_cache_invalidate(&t->ports[i]))
			return;
	/* The completion queue is destroyed: no more completions can come. */
	ripc__list_for_each_entry (ep, &t->eps, all)
		if (ep->d == d)
			ripc__ib_qp_drained(ep);
	for (unsigned i = 0; i < t->nports; i++)
		if (t->ports[i].d == d) {
			ripc__ib_mcast_port_close(&t->ports[i]);
			ripc__ib_port_close(&t->ports[i]);
		}
	ripc__verbs_regions_invalidate(&t->regions, &d->v);
	ripc__ib_device_close(d);
	ripc__log(RIPC_LOG_INFO, "ib: %s is closed", d->v.name);
}

static void check_devices(struct ripc__transport *t)
{
	if (ripc__verbs_files_changed(t->inotify_fd))
		t->reopen_ns = t->now_ns + REOPEN_NS;
	t->device_check_ns = t->now_ns + EXIST_NS;
	/* Some drivers report no event: the kernel removes the file and waits for close(). */
	for (unsigned i = 0; i < t->ndevices; i++) {
		struct ib_device *d = &t->devices[i];

		if (d->v.ctx && access(d->v.ctx->device->dev_path, F_OK) && errno == ENOENT)
			ripc__ib_device_lost(d, "the device is being removed");
	}
}

static void reopen(struct ripc__transport *t)
{
	struct ibv_device **list;
	char why[IB_WHY_MAX];
	int n = ripc__verbs_list(RIPC__VERBS_IB, &list, why, sizeof(why));

	for (int i = 0; i < n; i++)
		for (unsigned k = 0; k < t->ndevices; k++)
			if (!t->devices[k].v.ctx &&
			    !strcmp(t->devices[k].v.name, ibv_get_device_name(list[i])))
				ripc__ib_device_reopen(&t->devices[k], list[i]);
	for (unsigned i = 0; i < t->nports; i++)
		if (!t->ports[i].port_addr.link)
			ripc__ib_port_changed(&t->ports[i]);
	if (n > 0)
		ibv_free_device_list(list);
}

static void release_devices(struct ripc__transport *t)
{
	bool closed = false, closing = false;

	for (unsigned i = 0; i < t->ndevices; i++) {
		struct ib_device *d = &t->devices[i];

		closed |= !d->v.ctx;
		if (!d->v.gone || !d->v.ctx)
			continue;
		closing = true;
		release(d);
	}
	if (!t->reopen_ns || t->now_ns < t->reopen_ns)
		return;
	/* A device with its name may be there before it is closed. */
	t->reopen_ns = closing ? t->now_ns + REOPEN_NS : 0;
	/* The core reads received data until the next pass. */
	if (closed && !closing)
		reopen(t);
}

void ripc__ib_async_events(struct ripc__transport *t, bool check)
{
	for (unsigned i = 0; i < t->ndevices; i++)
		read_events(&t->devices[i]);
	if (check || t->now_ns >= t->device_check_ns)
		check_devices(t);
	release_devices(t);
	t->async_poll_ns = t->now_ns + EVENTS_NS;
}
