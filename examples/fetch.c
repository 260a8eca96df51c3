/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Fetches a file from fileserver.c, which describes the messages.
 *
 *     ./fetch 42 NAME [FILE]
 *
 * FILE is the last part of NAME by default. A new or regular FILE appears only when it is complete:
 * the data is written to FILE.part-XXXXXX, which is then renamed. It keeps the mode and, if that is
 * allowed, the owner of the file that it replaces. A device, a pipe or a symbolic link is opened
 * and written in place, because a rename would replace the device or the link itself. A signal such
 * as that of Ctrl-C removes the incomplete file.
 */
#define _GNU_SOURCE
#include "service_arg.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOOKUP_TIMEOUT_MS 5000
/* A call ends at once if the server dies. This bounds one that lives and does not answer. */
#define CALL_TIMEOUT_MS 60000
#define CALLS           4 /* under way: while one piece is written, others are on their way */

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

/* The pieces of a file, which are asked for and written in order. */
struct transfer {
	struct ripc_service *service;
	uint64_t server;
	const char *name;
	int fd;
	struct ripc_request *calls[CALLS];
	char offsets[CALLS][24]; /* the memory of a request, until its call is done */
	unsigned begun, ended;   /* calls */
	long long asked, have;   /* bytes */
	long long size, stride;  /* of the file, of a piece; -1: not known yet */
	unsigned long long version;
};

static int ask(struct transfer *t)
{
	unsigned i = t->begun++ % CALLS;
	struct iovec items[2] = {{t->offsets[i], 0}, {(void *)t->name, strlen(t->name)}};
	int err;

	items[0].iov_len = (size_t)snprintf(t->offsets[i], sizeof(t->offsets[i]), "%lld", t->asked);
	err = ripc_call_start(t->service, t->server, items, 2, NULL, CALL_TIMEOUT_MS, &t->calls[i]);
	return err ? fail(err, "request") : 0;
}

/* Takes one answer apart, and writes its piece. Return: 0, or 1 after a message. */
static int take_piece(struct transfer *t, const struct ripc_message *m)
{
	size_t len = m->items[0].iov_len;
	unsigned long long version;
	long long size, want;
	char head[300];

	if (m->nitems != 2 || len >= sizeof(head)) {
		fprintf(stderr, "fetch: that is not an answer of a file server\n");
		return 1;
	}
	memcpy(head, m->items[0].iov_base, len);
	head[len] = 0;
	if (!strncmp(head, "error ", 6)) {
		fprintf(stderr, "fetch: the server reports: %s\n", head + 6);
		return 1;
	}
	len = m->items[1].iov_len;
	if (sscanf(head, "ok %lld %llx", &size, &version) != 2 || size < 0 || (size && !len)) {
		fprintf(stderr, "fetch: the answer makes no sense: %s\n", head);
		return 1;
	}
	if (t->size < 0) {
		t->size = size;
		t->version = version;
		t->stride = (long long)len;
	}
	want = t->size - t->have < t->stride ? t->size - t->have : t->stride;
	if (size != t->size || version != t->version || (long long)len != want) {
		fprintf(stderr, "fetch: the file was changed meanwhile\n");
		return 1;
	}
	t->have += want;
	/* The piece stands in memory of the library's pool, where the network put it. */
	return write_all(t->fd, m->items[1].iov_base, len);
}

static int fetch(struct transfer *t)
{
	int err = ripc_route_lookup(NULL, t->server, NULL, LOOKUP_TIMEOUT_MS);

	if (err)
		return fail(err, "look up");
	do {
		struct ripc_message *m;

		/* The first answer gives the size, and the length of all pieces but the last. */
		while (!err &&
		       (t->begun == 0 || (t->asked < t->size && t->begun - t->ended < CALLS))) {
			err = ask(t);
			t->asked += t->stride;
		}
		if (err)
			return 1;
		err = ripc_call_wait(&t->calls[t->ended++ % CALLS], &m, -1);
		if (err) {
			ripc_message_free(m);
			return fail(err, "the server has fallen silent");
		}
		err = take_piece(t, m);
		ripc_message_free(m);
		if (t->begun == 1)
			t->asked = t->stride;
	} while (!err && t->have != t->size);
	return err;
}

struct target {
	const char *file;
	char part[4096]; /* renamed to file when complete; empty: file is written in place */
	int fd;
};

static struct target target;

/* The default action of the signal follows, which ends the process. */
static void on_signal(int number)
{
	if (target.part[0])
		unlink(target.part);
	raise(number);
}

static void catch_signals(void)
{
	static const int numbers[] = {SIGHUP, SIGINT, SIGTERM};
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
	struct sigaction old;

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		/* nohup(1) has a process ignore SIGHUP. */
		if (!sigaction(numbers[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
}

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
	struct transfer t = {.name = name, .size = -1};
	double begin_s, took_s;
	int err;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: fetch SERVICE NAME [FILE]\n");
		return 2;
	}
	err = ripc_service_register(NULL, RIPC_ANY_ID, 0, &t.service);
	if (err)
		return fail(err, "register");
	target.file = argc > 3 ? argv[3] : slash ? slash + 1 : name;
	catch_signals();
	if (target_open(&target))
		return 1;
	begin_s = now_s();
	t.server = service_arg(argv[1]);
	t.fd = target.fd;
	err = fetch(&t);
	took_s = now_s() - begin_s;
	err = target_close(&target, err);
	if (!err)
		printf("%s: %lld bytes in %.3f s, %.1f MB/s\n", target.file, t.size, took_s,
		       (double)t.size / took_s / 1e6);
	ripc_close(NULL);
	/* The file is there: only the report of it is missing. */
	if (fflush(stdout)) {
		perror("fetch: standard output");
		err = 1;
	}
	return err;
}
