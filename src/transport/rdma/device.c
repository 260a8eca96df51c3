/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/rdma/device.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define DEVICE_FILES "/dev/infiniband"

/* vendor_id of drivers/infiniband/sw/siw in Linux; its devices may have any name. */
#define SIW_VENDOR_ID 0x626d74

void ripc__verbs_fork_safe(void)
{
	int rc;

	/* The kernel copies pinned pages on fork, or ibv_fork_init() was called. */
	if (ibv_is_fork_initialized() != IBV_FORK_DISABLED)
		return;
	rc = ibv_fork_init();
	if (rc)
		ripc__log(RIPC_LOG_WARN,
			  "verbs: memory registered here is not safe across fork(): %s; call "
			  "ibv_fork_init() before anything else of libibverbs",
			  strerror(rc));
}

static bool of_kind(const struct ibv_device *device, enum ripc__verbs_kind kind)
{
	if (kind == RIPC__VERBS_IWARP)
		return device->transport_type == IBV_TRANSPORT_IWARP;
	return device->transport_type == IBV_TRANSPORT_IB;
}

static const char *const kind_text[] = {"InfiniBand or RoCE device", "iWARP device"};

/* Why ibv_get_device_list() found nothing. */
static int no_device(char *why, size_t whylen)
{
	if (access("/sys/class/infiniband_verbs", F_OK))
		return ripc__reason(
			-ENODEV, why, whylen,
			"no RDMA device: the kernel's verbs (module ib_uverbs) are not loaded");
	if (access(DEVICE_FILES, F_OK))
		return ripc__reason(-ENODEV, why, whylen,
				    "no RDMA device can be seen: there is no " DEVICE_FILES);
	return ripc__reason(-ENODEV, why, whylen, "this host has no RDMA device");
}

int ripc__verbs_list(enum ripc__verbs_kind kind, struct ibv_device ***list, char *why, size_t len)
{
	int all, n = 0;

	*list = ibv_get_device_list(&all);
	if (!*list && errno && errno != ENOSYS) {
		int err = errno;

		return ripc__reason(-err, why, len, "RDMA devices cannot be listed: %s",
				    strerror(err));
	}
	if (!*list || !all) {
		if (*list)
			ibv_free_device_list(*list);
		*list = NULL;
		return no_device(why, len);
	}
	for (int i = 0; i < all; i++)
		if (of_kind((*list)[i], kind)) {
			struct ibv_device *found = (*list)[i];

			(*list)[i] = (*list)[n];
			(*list)[n++] = found;
		}
	if (n)
		return n;
	snprintf(why, len, "this host has %d RDMA device%s, but no %s", all, all > 1 ? "s" : "",
		 kind_text[kind]);
	ibv_free_device_list(*list);
	*list = NULL;
	return -ENODEV;
}

static int active_ports(struct ibv_context *ctx)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	int n = 0;

	if (ibv_query_device(ctx, &attr))
		return 0;
	for (unsigned i = 1; i <= attr.phys_port_cnt; i++)
		n += !ibv_query_port(ctx, (uint8_t)i, &port) && port.state == IBV_PORT_ACTIVE;
	return n;
}

/* The remedy for an error of ibv_open_device(). */
static const char *rights_hint(int err)
{
	return err == EACCES || err == EPERM ? " (see the rights of /dev/infiniband/uverbs*)" : "";
}

int ripc__verbs_probe(enum ripc__verbs_kind kind, char *why, size_t whylen)
{
	struct ibv_device **list;
	int n, rc = 0, active = 0;

	ripc__verbs_fork_safe();
	n = ripc__verbs_list(kind, &list, why, whylen);
	if (n < 0)
		return n;
	for (int i = 0; i < n && !active; i++) {
		struct ibv_context *ctx = ibv_open_device(list[i]);

		if (ctx) {
			active = active_ports(ctx);
			if (!active) {
				rc = -ENETDOWN;
				snprintf(why, whylen, "%s: no port is active",
					 ibv_get_device_name(list[i]));
			}
			ibv_close_device(ctx);
			continue;
		}
		rc = -errno;
		if (!rc)
			rc = -EIO;
		snprintf(why, whylen, "%s cannot be opened: %s%s", ibv_get_device_name(list[i]),
			 strerror(-rc), rights_hint(-rc));
	}
	ibv_free_device_list(list);
	return active ? 0 : rc;
}

int ripc__verbs_nonblocking(int fd, const char *name, const char *what)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && !fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return 0;
	return ripc__fail(-errno, "%s: cannot make %s non-blocking: %s", name, what,
			  strerror(errno));
}

static int device_init(struct ripc__verbs_device *d)
{
	int rc = ibv_query_device(d->ctx, &d->attr);

	if (rc)
		return ripc__fail(-rc, "%s: cannot query the device: %s", d->name, strerror(rc));
	d->pd = ibv_alloc_pd(d->ctx);
	if (!d->pd)
		return ripc__fail(errno ? -errno : -ENOMEM,
				  "%s: cannot allocate a protection domain: %s", d->name,
				  strerror(errno));
	d->siw = d->attr.vendor_id == SIW_VENDOR_ID;
	/*
	 * RFC 5040 places a read response like a remote write. SoftiWARP checks local rights only.
	 */
	d->read_sink_remote_write =
		d->ctx->device->transport_type == IBV_TRANSPORT_IWARP && !d->siw;
	return 0;
}

int ripc__verbs_device_adopt(struct ripc__verbs_device *d, struct ibv_context *ctx, unsigned index)
{
	int rc;

	*d = (struct ripc__verbs_device){.ctx = ctx, .index = index};
	snprintf(d->name, sizeof(d->name), "%s", ibv_get_device_name(ctx->device));
	rc = device_init(d);
	if (rc)
		d->ctx = NULL;
	return rc;
}

int ripc__verbs_device_open(struct ripc__verbs_device *d, struct ibv_device *dev, unsigned index)
{
	int rc;

	*d = (struct ripc__verbs_device){.index = index, .own = true};
	snprintf(d->name, sizeof(d->name), "%s", ibv_get_device_name(dev));
	errno = 0;
	d->ctx = ibv_open_device(dev);
	if (!d->ctx)
		return ripc__fail(errno ? -errno : -EIO, "cannot open %s: %s%s", d->name,
				  strerror(errno), rights_hint(errno));
	rc = ripc__verbs_nonblocking(d->ctx->async_fd, d->name, "its event descriptor");
	if (!rc)
		rc = device_init(d);
	if (!rc)
		return 0;
	ibv_close_device(d->ctx);
	d->ctx = NULL;
	return rc;
}

void ripc__verbs_device_close(struct ripc__verbs_device *d)
{
	struct ibv_async_event ev;

	if (!d->ctx)
		return;
	while (d->own && !ibv_get_async_event(d->ctx, &ev))
		ibv_ack_async_event(&ev);
	if (d->pd && ibv_dealloc_pd(d->pd))
		ripc__log(d->gone ? RIPC_LOG_DEBUG : RIPC_LOG_WARN,
			  "%s: cannot free the protection domain: %s", d->name, strerror(errno));
	if (d->own)
		ibv_close_device(d->ctx);
	d->ctx = NULL;
	d->pd = NULL;
}

void ripc__verbs_device_forked(struct ripc__verbs_device *d)
{
	if (!d->ctx)
		return;
	if (d->ctx->async_fd >= 0)
		close(d->ctx->async_fd);
	if (d->ctx->cmd_fd >= 0)
		close(d->ctx->cmd_fd);
}

/* udev sets the rights after the kernel has created a file. */
static bool watch_files(int fd)
{
	return inotify_add_watch(fd, DEVICE_FILES, IN_CREATE | IN_DELETE | IN_ATTRIB) >= 0;
}

/* The kernel removes the directory with the last file in it, and the watch ends with it. */
static void watch_again(int fd)
{
	if (watch_files(fd) || inotify_add_watch(fd, "/dev", IN_CREATE | IN_ONESHOT) < 0)
		return;
	/* The directory may have been created in between. */
	(void)watch_files(fd);
}

int ripc__verbs_files_watch(void)
{
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	if (fd < 0)
		return ripc__fail(-errno, "verbs: cannot create an inotify descriptor: %s",
				  strerror(errno));
	watch_again(fd);
	return fd;
}

bool ripc__verbs_files_changed(int fd)
{
	char events[1024];
	bool any = false;

	while (read(fd, events, sizeof(events)) > 0)
		any = true;
	if (any)
		watch_again(fd);
	return any;
}
