/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A file server: each call asks for one piece of a file, and the answer brings it.
 *
 *     ./fileserver 42 DIRECTORY
 *
 * A request has two items: the offset of the piece in decimal, and the name of the file. An answer
 * has two items, too: a line of text, and the piece.
 *
 *     "ok SIZE VERSION"     of the file; another version means that the file was changed
 *     "error TEXT"          no piece, and the second item is empty
 *
 * Several answers are under way at once, to one client or to many: a client that takes none holds
 * up nobody for long. fetch.c is the other side.
 */
#define _GNU_SOURCE
#include "service_arg.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHUNK      (4u << 20) /* bytes per piece: enough for full speed */
#define PIECES     8
#define TIMEOUT_MS 5000 /* a client that takes nothing for so long is given up */

/* A piece on its way. Its memory must stay as it is until its request is done. */
struct piece {
	struct ripc_request *request; /* NULL: free */
	char *data;                   /* CHUNK bytes that travel without a copy */
	char head[64];
};

static struct ripc_service *service;
static struct piece pieces[PIECES];

/* A piece that is free, when one is. */
static struct piece *piece_get(void)
{
	struct ripc_completion done = {.size = sizeof(done)};
	static unsigned oldest;

	for (;;) {
		for (unsigned i = 0; i < PIECES; i++) {
			struct piece *p = &pieces[i];
			int err = p->request ? ripc_request_test(&p->request) : 0;

			if (err && err != -EINPROGRESS)
				fprintf(stderr, "fileserver: %s\n", ripc_error_detail());
			if (!p->request)
				return p;
		}
		if (ripc_completion_next(NULL, &done, TIMEOUT_MS) == -ETIMEDOUT)
			ripc_request_cancel(&pieces[oldest++ % PIECES].request, 1000);
	}
}

static int send_error(struct ripc_message *request, const char *text)
{
	char head[300];
	struct iovec items[2] = {{head, 0}, {NULL, 0}};

	items[0].iov_len = (size_t)snprintf(head, sizeof(head), "error %s", text);
	return ripc_reply(request, items, 2, 0);
}

/* Another number after a change. */
static unsigned long long version_of(const struct stat *st)
{
	unsigned long long time = (unsigned long long)st->st_mtim.tv_sec * 1000000000;

	return (time + (unsigned long long)st->st_mtim.tv_nsec) ^
	       ((unsigned long long)st->st_ino << 40);
}

static int send_piece(struct ripc_message *request, int fd, const struct stat *st, off_t offset)
{
	struct piece *p = piece_get();
	ssize_t len = offset < st->st_size ? pread(fd, p->data, CHUNK, offset) : 0;
	struct iovec items[2] = {{p->head, 0}, {p->data, 0}};

	if (len < 0)
		return send_error(request, strerror(errno));
	items[0].iov_len = (size_t)snprintf(p->head, sizeof(p->head), "ok %lld %llx",
					    (long long)st->st_size, version_of(st));
	items[1].iov_len = (size_t)len;
	return ripc_reply_start(request, items, 2, NULL, &p->request);
}

/*
 * Opens a file below the root, wherever its name points: with RESOLVE_BENEATH the kernel itself
 * refuses names that lead out of it, be it by "..", by "/", or by a symbolic link. O_NONBLOCK: a
 * named pipe must not hold us up.
 */
static int open_beneath(int root, const char *name)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
			       .resolve = RESOLVE_BENEATH};

	return (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
}

static int serve(int root, struct ripc_message *request)
{
	char number[24], name[4096], *end;
	struct stat st;
	off_t offset;
	int fd, err;

	/* Input from the network is checked first, and becomes a string only then. */
	if (request->nitems != 2 || request->items[0].iov_len >= sizeof(number))
		return ripc_reply_error(request, EINVAL);
	if (request->items[1].iov_len >= sizeof(name))
		return send_error(request, "the name is too long");
	memcpy(number, request->items[0].iov_base, request->items[0].iov_len);
	number[request->items[0].iov_len] = 0;
	offset = (off_t)strtoll(number, &end, 10);
	if (*end || offset < 0)
		return ripc_reply_error(request, EINVAL);
	if (request->items[1].iov_len)
		memcpy(name, request->items[1].iov_base, request->items[1].iov_len);
	name[request->items[1].iov_len] = 0;
	fd = open_beneath(root, name);
	if (fd < 0)
		return send_error(request, errno == EXDEV
						   ? "the path leads out of the served directory"
						   : strerror(errno));
	if (fstat(fd, &st))
		err = send_error(request, strerror(errno));
	else if (S_ISDIR(st.st_mode))
		err = send_error(request, "it is a directory");
	else if (!S_ISREG(st.st_mode))
		err = send_error(request, "it is not a regular file");
	else
		err = send_piece(request, fd, &st, offset);
	close(fd);
	return err;
}

int main(int argc, char **argv)
{
	struct ripc_message *request;
	int root, err;

	if (argc != 3) {
		fprintf(stderr, "usage: fileserver SERVICE DIRECTORY\n");
		return 2;
	}
	root = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0) {
		fprintf(stderr, "fileserver: %s: %s\n", argv[2], strerror(errno));
		return 1;
	}
	err = service_arg_register(argv[1], &service);
	for (unsigned i = 0; !err && i < PIECES; i++) {
		pieces[i].data = ripc_buf_alloc(NULL, CHUNK);
		if (!pieces[i].data)
			err = -errno;
	}
	if (err) {
		fprintf(stderr, "fileserver: %s: %s\n", ripc_strerror(err), ripc_error_detail());
		return 1;
	}
	printf("service %s serves %s\n", argv[1], argv[2]);
	fflush(stdout);
	while (!ripc_receive(service, &request, -1)) {
		err = request->call ? serve(root, request) : 0;
		if (err)
			fprintf(stderr, "fileserver: client %llu: %s: %s\n",
				(unsigned long long)request->source, ripc_strerror(err),
				ripc_error_detail());
		ripc_message_free(request);
	}
	return 0;
}
