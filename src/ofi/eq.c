/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ofi/fabric.h"
#include "ofi/provider.h"
#include "ofi/wait.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

struct event {
	struct event *prev, *next;
	uint32_t number;
	size_t len;
	uint8_t bytes[];
};

struct ofi_eq {
	struct fid_eq fid;
	struct ofi_fabric *fabric;
	pthread_mutex_t lock;
	struct event *events;
	int event_fd; /* readable while there are events */
	bool may_wait, may_write;
};

static struct ofi_eq *eq_of(struct fid_eq *fid)
{
	return container_of(fid, struct ofi_eq, fid);
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *number, void *buf, size_t len, uint64_t flags)
{
	struct ofi_eq *eq = eq_of(fid);
	struct event *e;
	eventfd_t value;
	ssize_t n = -FI_EAGAIN;

	pthread_mutex_lock(&eq->lock);
	e = eq->events;
	if (e && e->len > len) {
		n = -FI_ETOOSMALL;
	} else if (e) {
		*number = e->number;
		memcpy(buf, e->bytes, e->len);
		n = (ssize_t)e->len;
		if (!(flags & FI_PEEK)) {
			DL_DELETE(eq->events, e);
			free(e);
		}
		if (!eq->events)
			eventfd_read(eq->event_fd, &value);
	}
	pthread_mutex_unlock(&eq->lock);
	return n;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
	return -FI_EAGAIN;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t number, const void *buf, size_t len,
			uint64_t flags)
{
	struct ofi_eq *eq = eq_of(fid);
	struct event *e;

	if (!eq->may_write)
		return -FI_EINVAL;
	e = malloc(sizeof(*e) + len);
	if (!e)
		return -FI_ENOMEM;
	e->number = number;
	e->len = len;
	memcpy(e->bytes, buf, len);
	pthread_mutex_lock(&eq->lock);
	DL_APPEND(eq->events, e);
	eventfd_write(eq->event_fd, 1);
	pthread_mutex_unlock(&eq->lock);
	return (ssize_t)len;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *number, void *buf, size_t len, int timeout_ms,
			uint64_t flags)
{
	struct ofi_eq *eq = eq_of(fid);
	struct pollfd p = {.fd = eq->event_fd, .events = POLLIN};
	int64_t deadline_ms = ofi_deadline_ms(timeout_ms), left_ms = timeout_ms;
	ssize_t n;

	if (!eq->may_wait)
		return ofi_refused("fi_eq_sread of a queue without wait object");
	/* A signal ends poll(), and another thread may take the event. */
	while ((n = eq_read(fid, number, buf, len, flags)) == -FI_EAGAIN && left_ms) {
		poll(&p, 1, (int)left_ms);
		if (timeout_ms > 0)
			left_ms = deadline_ms - ofi_deadline_ms(0);
		if (timeout_ms > 0 && left_ms < 0)
			left_ms = 0;
	}
	return n;
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	return ofi_strerror(prov_errno, buf, len);
}

static int eq_close(struct fid *fid)
{
	struct ofi_eq *eq = container_of(fid, struct ofi_eq, fid.fid);
	struct event *e, *tmp;

	DL_FOREACH_SAFE (eq->events, e, tmp)
		free(e);
	close(eq->event_fd);
	pthread_mutex_destroy(&eq->lock);
	__atomic_sub_fetch(&eq->fabric->refs, 1, __ATOMIC_RELAXED);
	free(eq);
	return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	const struct ofi_eq *eq = container_of(fid, struct ofi_eq, fid.fid);

	if (command != FI_GETWAIT)
		return ofi_refused("fi_control of an event queue");
	if (!eq->may_wait)
		return -FI_ENODATA;
	*(int *)arg = eq->event_fd;
	return 0;
}

static struct fi_ops eq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = eq_close,
	.bind = ofi_no_bind,
	.control = eq_control,
	.ops_open = ofi_no_ops_open,
};

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
	.strerror = eq_strerror,
};

int ofi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **fid,
		void *context)
{
	struct ofi_eq *eq;

	if (attr->wait_obj == FI_WAIT_SET || attr->wait_obj == FI_WAIT_MUTEX_COND)
		return ofi_refused("fi_eq_open with this wait object");
	eq = calloc(1, sizeof(*eq));
	if (!eq)
		return -FI_ENOMEM;
	eq->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (eq->event_fd < 0) {
		free(eq);
		return -errno;
	}
	pthread_mutex_init(&eq->lock, NULL);
	eq->fabric = container_of(fabric, struct ofi_fabric, fid);
	eq->may_wait = attr->wait_obj != FI_WAIT_NONE;
	eq->may_write = attr->flags & FI_WRITE;
	eq->fid.fid = (struct fid){.fclass = FI_CLASS_EQ, .context = context, .ops = &eq_fi_ops};
	eq->fid.ops = &eq_ops;
	__atomic_add_fetch(&eq->fabric->refs, 1, __ATOMIC_RELAXED);
	*fid = &eq->fid;
	return 0;
}
