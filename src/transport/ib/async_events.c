/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Asynchronous events of devices, and their removal. The connections of a removed device are closed
 * first; the device is closed after the last one, because the kernel may wait for that. Its
 * structures stay until the transport is closed.
 */
#include "base/clock.h"
#include "base/log.h"
#include "transport/ib/ib.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define DEVICE_FILES "/dev/infiniband"
#define EXIST_NS     (1000 * RIPC__MS) /* interval of checks that devices still exist */

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
		if (t->ports[i].d == d)
			t->ports[i].down = true;
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

	while (!d->released && ripc__verbs_event(&d->v, &ev)) {
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

/* Some drivers report no event: the kernel removes the device file and waits for close(). */
int ripc__ib_watch_devices(struct ripc__transport *t)
{
	t->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (t->inotify_fd < 0)
		return ripc__fail(-errno, "ib: cannot create an inotify descriptor: %s",
				  strerror(errno));
	/* Without the directory only the timer runs ripc__ib_check_devices(). */
	if (inotify_add_watch(t->inotify_fd, DEVICE_FILES, IN_DELETE) < 0)
		return 0;
	return ripc__ib_watch(t, t->inotify_fd);
}

static void release(struct ib_device *d)
{
	struct ripc__transport *t = d->t;
	struct ripc__ep *ep;

	ripc__list_for_each_entry (ep, &t->eps, all)
		if (ep->d == d && (ep->qp || ep->job.state != RIPC__JOB_IDLE))
			return;
	if (!ripc__ib_ah_cache_invalidate(t, d, NULL))
		return;
	ripc__ib_mcast_device_lost(t, d);
	for (unsigned i = 0; i < t->nports; i++) {
		if (t->ports[i].d != d || !t->ports[i].ud.qp)
			continue;
		ibv_destroy_qp(t->ports[i].ud.qp);
		t->ports[i].ud.qp = NULL;
	}
	ripc__verbs_regions_invalidate(&t->regions, &d->v);
	ripc__ib_device_close(d);
	d->released = true;
	ripc__log(RIPC_LOG_INFO, "ib: %s is closed", d->v.name);
}

void ripc__ib_check_devices(struct ripc__transport *t)
{
	char events[1024];

	while (read(t->inotify_fd, events, sizeof(events)) > 0)
		;
	t->device_check_ns = t->now_ns + EXIST_NS;
	for (unsigned i = 0; i < t->ndevices; i++) {
		struct ib_device *d = &t->devices[i];

		if (!d->released && ripc__verbs_device_removed(&d->v))
			ripc__ib_device_lost(d, "the device is being removed");
	}
}

void ripc__ib_devices_release(struct ripc__transport *t)
{
	for (unsigned i = 0; i < t->ndevices; i++)
		if (t->devices[i].v.gone && !t->devices[i].released)
			release(&t->devices[i]);
}
