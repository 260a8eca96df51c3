/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "partial_socket.h"
#include "harness.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

size_t partial_socket_max;
uint64_t partial_socket_rng;

/* Bytes that this call takes or gives, at most len; 0: none. */
static size_t portion(size_t len)
{
	uint64_t r = test_random(&partial_socket_rng);

	if (!partial_socket_max)
		return len;
	if (r % 4 == 0)
		return 0;
	r = r / 4 % partial_socket_max + 1;
	return r < len ? r : len;
}

static ssize_t none(void)
{
	errno = test_random(&partial_socket_rng) % 8 ? EAGAIN : EINTR;
	return -1;
}

/* Cuts a list to its first n bytes, n > 0. Return: entries. */
static size_t cut(struct iovec *to, const struct iovec *from, size_t n)
{
	size_t i = 0;

	for (; n; i++) {
		to[i] = from[i];
		if (to[i].iov_len > n)
			to[i].iov_len = n;
		n -= to[i].iov_len;
	}
	return i;
}

static size_t total(const struct msghdr *msg)
{
	size_t n = 0;

	for (size_t i = 0; i < msg->msg_iovlen; i++)
		n += msg->msg_iov[i].iov_len;
	return n;
}

ssize_t send(int fd, const void *p, size_t len, int flags)
{
	size_t n = portion(len);

	return n || !len ? syscall(SYS_sendto, fd, p, n, flags, NULL, 0) : none();
}

ssize_t recv(int fd, void *p, size_t len, int flags)
{
	size_t n = portion(len);

	return n || !len ? syscall(SYS_recvfrom, fd, p, n, flags, NULL, NULL) : none();
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct iovec iov[128];
	struct msghdr part = *msg;
	size_t n = portion(total(msg));

	if (!n)
		return none();
	part.msg_iov = iov;
	part.msg_iovlen = cut(iov, msg->msg_iov, n);
	return syscall(SYS_sendmsg, fd, &part, flags);
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct iovec iov[128];
	struct msghdr part = *msg;
	size_t n = portion(total(msg));

	if (!n)
		return none();
	part.msg_iov = iov;
	part.msg_iovlen = cut(iov, msg->msg_iov, n);
	return syscall(SYS_recvmsg, fd, &part, flags);
}
