/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ofi/fabric.h"
#include "ofi/provider.h"
#include "ofi/wait.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Events are messages of a socket pair: a number, and the bytes of the event. */
struct ofi_eq {
	struct fid_eq fid;
	struct ofi_fabric *fabric;
	pthread_mutex_t lock; /* of a read, which looks at an event first */
	int in, out;
	bool may_wait, may_write;
};

static struct ofi_eq *eq_of(struct fid_eq *fid)
{
	return container_of(fid, struct ofi_eq, fid);
}

static ssize_t receive(struct ofi_eq *eq, uint32_t *number, void *buf, size_t len, int flags)
{
	struct iovec iov[] = {{number, sizeof(*number)}, {buf, len}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t n = recvmsg(eq->out, &m, flags | MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0)
		return -errno;
	n -= (ssize_t)sizeof(*number);
	return n > (ssize_t)len ? -FI_ETOOSMALL : n;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *number, void *buf, size_t len, uint64_t flags)
{
	struct ofi_eq *eq = eq_of(fid);
	ssize_t n;

	pthread_mutex_lock(&eq->lock);
	n = receive(eq, number, buf, len, MSG_PEEK);
	if (n >= 0 && !(flags & FI_PEEK))
		n = receive(eq, number, buf, len, 0);
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
	struct iovec iov[] = {{&number, sizeof(number)}, {(void *)buf, len}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};

	if (!eq->may_write)
		return -FI_EINVAL;
	return sendmsg(eq->in, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : (ssize_t)len;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *number, void *buf, size_t len, int timeout_ms,
			uint64_t flags)
{
	struct ofi_eq *eq = eq_of(fid);
	struct pollfd p = {.fd = eq->out, .events = POLLIN};
	int64_t deadline_ms = ofi_deadline_ms(timeout_ms), left_ms;
	ssize_t n;

	if (!eq->may_wait)
		return ofi_refused("fi_eq_sread of a queue without wait object");
	/* Another thread may take the event. A signal ends the wait. */
	while ((n = eq_read(fid, number, buf, len, flags)) == -FI_EAGAIN &&
	       (left_ms = deadline_ms - ofi_deadline_ms(0)) > 0)
		if (poll(&p, 1, left_ms < INT_MAX ? (int)left_ms : -1) < 0)
			return -errno;
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

	close(eq->in);
	close(eq->out);
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
	*(int *)arg = eq->out;
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
	int fds[2];

	if (attr->wait_obj == FI_WAIT_SET || attr->wait_obj == FI_WAIT_MUTEX_COND ||
	    attr->wait_obj == FI_WAIT_POLLFD)
		return ofi_refused("fi_eq_open with this wait object");
	eq = calloc(1, sizeof(*eq));
	if (!eq)
		return -FI_ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds)) {
		free(eq);
		return -errno;
	}
	eq->in = fds[0];
	eq->out = fds[1];
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
