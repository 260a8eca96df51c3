/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Fetches a file from fileserver.c, which describes the messages.
 *
 *     ./fetch 42 NAME [FILE]
 *
 * FILE is the last part of NAME by default. A new or regular FILE appears only when it is complete:
 * the data is written to FILE.part-XXXXXX, which is then renamed. It keeps the mode and, if that is
 * allowed, the owner of the file that it replaces. A device, a pipe or a symbolic link is opened
 * and written in place, because a rename would replace the device or the link itself.
 */
#define _GNU_SOURCE
#include "service_arg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 5000 /* a server that sends nothing for so long is gone */

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int fail(int err, const char *what)
{
	fprintf(stderr, "fetch: %s: %s: %s\n", what, ripc_strerror(err), ripc_error_detail());
	return 1;
}

static int write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			perror("fetch: write");
			return 1;
		}
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Takes one reply apart. Return: 0 and the size of the file, or 1 after a message. */
static int take_piece(const struct ripc_message *m, int fd, long long expected, long long *size)
{
	char head[64];
	long long offset;
	size_t len = m->items[0].iov_len;

	if (m->nitems != 2 || len >= sizeof(head)) {
		fprintf(stderr, "fetch: that is not a reply of a file server\n");
		return 1;
	}
	memcpy(head, m->items[0].iov_base, len);
	head[len] = 0;
	if (!strncmp(head, "error ", 6)) {
		fprintf(stderr, "fetch: the server reports: %s\n", head + 6);
		return 1;
	}
	if (sscanf(head, "ok %lld %lld", &offset, size) != 2 || offset < expected ||
	    offset > *size || (long long)m->items[1].iov_len > *size - offset ||
	    (!m->items[1].iov_len && *size)) {
		fprintf(stderr, "fetch: the reply makes no sense: %s\n", head);
		return 1;
	}
	/*
	 * Long messages of one sender arrive in the order they were started: each continues the
	 * last. But where the sender dies, one of them may be cut short that others behind it have
	 * overtaken on the wire.
	 */
	if (offset > expected) {
		fprintf(stderr, "fetch: the server has fallen silent: the piece at %lld is lost\n",
			expected);
		return 1;
	}
	/*
	 * The second item stands in registered memory of the library's pool, where the network put
	 * it.
	 */
	return write_all(fd, m->items[1].iov_base, m->items[1].iov_len);
}

/* *size is -1 until the first reply contains it. */
static int fetch(struct ripc_service *service, uint64_t server, const char *name, int fd,
		 long long *size)
{
	struct iovec request = {.iov_base = (void *)name, .iov_len = strlen(name)};
	long long have = 0;
	int err = ripc_send(service, server, &request, 1, NULL, TIMEOUT_MS);

	if (err)
		return fail(err, "request");
	do {
		struct ripc_message *m;
		int bad;

		err = ripc_receive(service, &m, TIMEOUT_MS);
		if (err)
			return fail(err, "the server has fallen silent");
		/*
		 * Any process may send to our service: a message of another source is not a reply.
		 */
		if (m->source != server) {
			ripc_message_free(m);
			continue;
		}
		bad = take_piece(m, fd, have, size);
		have += m->nitems == 2 ? (long long)m->items[1].iov_len : 0;
		ripc_message_free(m);
		if (bad)
			return 1;
	} while (have != *size);
	return 0;
}

struct target {
	const char *file;
	char part[4096]; /* renamed to file when complete; empty: file is written in place */
	int fd;
};

static int target_failed(const char *path)
{
	fprintf(stderr, "fetch: %s: %s\n", path, strerror(errno));
	return 1;
}

/* Creates the temporary file; old is the regular file that it will replace, or NULL. */
static int part_open(struct target *t, const struct stat *old)
{
	mode_t mask = umask(0);

	umask(mask);
	if (snprintf(t->part, sizeof(t->part), "%s.part-XXXXXX", t->file) >= (int)sizeof(t->part)) {
		t->part[0] = 0;
		errno = ENAMETOOLONG;
		return target_failed(t->file);
	}
	t->fd = mkostemp(t->part, O_CLOEXEC);
	if (t->fd < 0)
		return target_failed(t->part);
	/*
	 * fchown() clears the set-user-ID bits and needs a privilege: it is called first and may
	 * fail.
	 */
	if (old && fchown(t->fd, old->st_uid, old->st_gid) && errno != EPERM)
		goto failed;
	if (fchmod(t->fd, old ? old->st_mode & 07777 : 0666 & ~mask))
		goto failed;
	return 0;

failed:
	target_failed(t->part);
	close(t->fd);
	unlink(t->part);
	return 1;
}

static int target_open(struct target *t)
{
	struct stat old;

	t->part[0] = 0;
	if (lstat(t->file, &old))
		return errno == ENOENT ? part_open(t, NULL) : target_failed(t->file);
	if (S_ISREG(old.st_mode)) {
		/* A rename needs no right to write the file: ask for it. */
		if (faccessat(AT_FDCWD, t->file, W_OK, AT_EACCESS))
			return target_failed(t->file);
		return part_open(t, &old);
	}
	t->fd = open(t->file, O_WRONLY | O_TRUNC | O_CLOEXEC);
	return t->fd < 0 ? target_failed(t->file) : 0;
}

/* err: the transfer failed, the temporary file is removed. Return: 0 if the target is complete. */
static int target_close(struct target *t, int err)
{
	if (close(t->fd) && !err)
		err = target_failed(t->part[0] ? t->part : t->file);
	if (!t->part[0])
		return err;
	if (!err && rename(t->part, t->file))
		err = target_failed(t->file);
	if (err)
		unlink(t->part);
	return err;
}

int main(int argc, char **argv)
{
	const char *name = argc > 2 ? argv[2] : "", *slash = strrchr(name, '/');
	struct target target = {.file = argc > 3 ? argv[3] : slash ? slash + 1 : name};
	struct ripc_service *service;
	long long size = -1;
	double begin_s, took_s;
	int err;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: fetch ID NAME [FILE]\n");
		return 2;
	}
	err = ripc_service_register(NULL, RIPC_ANY_ID, 0, &service);
	if (err)
		return fail(err, "register");
	if (target_open(&target))
		return 1;
	begin_s = now_s();
	err = fetch(service, service_arg(argv[1]), name, target.fd, &size);
	took_s = now_s() - begin_s;
	err = target_close(&target, err);
	if (!err)
		printf("%s: %lld bytes in %.3f s, %.1f MB/s\n", target.file, size, took_s,
		       (double)size / took_s / 1e6);
	ripc_close(NULL);
	/* The file is there: only the report of it is missing. */
	if (fflush(stdout)) {
		perror("fetch: standard output");
		err = 1;
	}
	return err;
}
