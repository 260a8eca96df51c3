/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Asynchronous events of devices, their removal and return. The connections of a removed device are
 * closed first; the device is closed after the last one, because the kernel may wait for that. Its
 * structures stay: a device with its name is opened again in its place.
 */
#include "base/clock.h"
#include "base/log.h"
#include "transport/ib/ib.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define EXIST_NS  (1000 * RIPC__MS) /* interval of checks that devices still exist */
#define REOPEN_NS (1000 * RIPC__MS) /* udev renames a new device, and sets the rights of its file */

void ripc__ib_device_lost(struct ib_device *d, const char *why)
{
	struct ripc__transport *t = d->t;
	struct ripc__ep *ep;
	char text[IB_WHY_MAX];

	if (d->lost)
		return;
	d->lost = true;
	snprintf(text, sizeof(text), "%s: %s", d->v.name, why);
	ripc__log(RIPC_LOG_ERROR, "ib: %s; its connections are lost", text);
	d->v.gone = true;
	t->route_gen++;
	t->reports.address = true;
	for (unsigned i = 0; i < t->nports; i++)
		if (t->ports[i].d == d) {
			t->ports[i].down = true;
			t->ports[i].readdress = false;
			t->ports[i].port_addr.link = 0;
		}
	ripc__list_for_each_entry (ep, &t->eps, all)
		if (ep->d == d)
			ripc__ib_ep_break(ep, -ENODEV, text);
}

static void port_event(const struct ib_device *d, const struct ripc__verbs_event *ev)
{
	struct ripc__transport *t = d->t;

	for (unsigned i = 0; i < t->nports; i++) {
		struct ib_port *p = &t->ports[i];

		if (p->d != d || p->num != ev->port)
			continue;
		if (ev->async_event == RIPC__VERBS_PORT_DOWN)
			ripc__ib_port_down(p, ev->text);
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

void ripc__ib_async_events(struct ib_device *d)
{
	struct ripc__verbs_event ev;

	while (d->v.ctx && ripc__verbs_event(&d->v, &ev)) {
		ripc__log(RIPC_LOG_DEBUG, "ib: %s reports: %s", d->v.name, ev.text);
		switch (ev.async_event) {
		case RIPC__VERBS_PORT_DOWN:
		case RIPC__VERBS_PORT_UP:
		case RIPC__VERBS_PORT_CHANGED:
			port_event(d, &ev);
			break;
		case RIPC__VERBS_QP_FATAL:
			qp_fatal(d, ev.qp, ev.text);
			break;
		case RIPC__VERBS_DEVICE_GONE:
			ripc__ib_device_lost(d, ev.text);
			break;
		case RIPC__VERBS_NONE:
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
	if (!ripc__ib_ah_cache_invalidate(t, d, NULL))
		return;
	/* The completion queue is destroyed: no more completions can come. */
	ripc__list_for_each_entry (ep, &t->eps, all)
		if (ep->d == d)
			ripc__ib_qp_drained(ep);
	for (unsigned i = 0; i < t->nports; i++)
		if (t->ports[i].d == d)
			ripc__ib_port_close(&t->ports[i]);
	ripc__verbs_regions_invalidate(&t->regions, &d->v);
	ripc__ib_device_close(d);
	ripc__log(RIPC_LOG_INFO, "ib: %s is closed", d->v.name);
}

void ripc__ib_check_devices(struct ripc__transport *t)
{
	if (ripc__verbs_files_changed(t->inotify_fd))
		t->reopen_ns = t->now_ns + REOPEN_NS;
	t->device_check_ns = t->now_ns + EXIST_NS;
	/* Some drivers report no event: the kernel removes the file and waits for close(). */
	for (unsigned i = 0; i < t->ndevices; i++)
		if (ripc__verbs_device_removed(&t->devices[i].v))
			ripc__ib_device_lost(&t->devices[i], "the device is being removed");
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
	if (n > 0)
		ibv_free_device_list(list);
}

void ripc__ib_devices_release(struct ripc__transport *t)
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
