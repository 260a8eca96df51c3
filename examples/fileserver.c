/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A file server: a request is a short message with the name of a file, the file comes back in long
 * ones.
 *
 *     ./fileserver 42 DIRECTORY
 *
 * Every reply has two items: a line of text, and a piece of the file.
 *
 *     "ok OFFSET SIZE"     this piece begins at OFFSET of SIZE bytes
 *     "error TEXT"         no file, and the second item is empty
 *
 * Requests are served one after the other. fetch.c is the other side.
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

#define CHUNK \
	(4u << 20)   /* bytes per message: enough for full speed, little enough to hold several */
#define IN_FLIGHT  4 /* while one is read from the disk, others are on their way */
#define TIMEOUT_MS 5000 /* a client that takes nothing for so long is given up */

/* A piece on its way. Its memory must stay as it is until its request is done. */
struct piece {
	struct ripc_request *request; /* NULL: free */
	char *data;                   /* CHUNK bytes that travel without a copy */
	char head[64];
};

static struct ripc_service *service;
static struct piece pieces[IN_FLIGHT];

/* Waits until the piece has arrived, or is known not to. */
static int finish(struct piece *p)
{
	int err;

	if (!p->request)
		return 0;
	err = ripc_request_wait(&p->request, TIMEOUT_MS);
	/*
	 * Still in flight: the client receives nothing any more. Afterwards the memory is ours
	 * again.
	 */
	if (p->request)
		ripc_request_cancel(&p->request, 1000);
	return err;
}

static int start(struct piece *p, uint64_t client, size_t len)
{
	struct iovec items[2] = {
		{.iov_base = p->head, .iov_len = strlen(p->head)},
		{.iov_base = p->data, .iov_len = len},
	};

	return ripc_send_async(service, client, items, 2, NULL, &p->request);
}

static int send_error(uint64_t client, const char *text)
{
	snprintf(pieces[0].head, sizeof(pieces[0].head), "error %s", text);
	return start(&pieces[0], client, 0);
}

static int send_file(uint64_t client, int fd, off_t size)
{
	unsigned next = 0;
	off_t offset = 0;
	int err = 0;

	/* Also an empty file is one message. */
	do {
		struct piece *p = &pieces[next++ % IN_FLIGHT];
		ssize_t len;

		err = finish(p);
		if (err)
			break;
		len = pread(fd, p->data, CHUNK, offset);
		/* Somebody made the file shorter meanwhile, or the disk failed. */
		if (len < 0 || (!len && offset < size)) {
			snprintf(p->head, sizeof(p->head), "error %s",
				 len ? strerror(errno) : "the file shrank");
			err = start(p, client, 0);
			break;
		}
		if (len > size - offset)
			len = (ssize_t)(size - offset);
		snprintf(p->head, sizeof(p->head), "ok %lld %lld", (long long)offset,
			 (long long)size);
		err = start(p, client, (size_t)len);
		offset += len;
	} while (!err && offset < size);
	return err;
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

static int serve(int root, const struct ripc_message *request)
{
	char name[4096];
	struct stat st;
	int fd, err;

	/* Input from the network is checked first, and becomes a string only then. */
	if (request->nitems != 1 || request->items[0].iov_len >= sizeof(name))
		return send_error(request->source, "the name is too long");
	memcpy(name, request->items[0].iov_base, request->items[0].iov_len);
	name[request->items[0].iov_len] = 0;
	fd = open_beneath(root, name);
	if (fd < 0)
		return send_error(request->source,
				  errno == EXDEV ? "the path leads out of the served directory"
						 : strerror(errno));
	if (fstat(fd, &st))
		err = send_error(request->source, strerror(errno));
	else if (S_ISDIR(st.st_mode))
		err = send_error(request->source, "it is a directory");
	else if (!S_ISREG(st.st_mode))
		err = send_error(request->source, "it is not a regular file");
	else
		err = send_file(request->source, fd, st.st_size);
	close(fd);
	return err;
}

int main(int argc, char **argv)
{
	struct ripc_message *request;
	int root, err;

	if (argc != 3) {
		fprintf(stderr, "usage: fileserver ID DIRECTORY\n");
		return 2;
	}
	root = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0) {
		fprintf(stderr, "fileserver: %s: %s\n", argv[2], strerror(errno));
		return 1;
	}
	err = service_arg_register(argv[1], &service);
	for (unsigned i = 0; !err && i < IN_FLIGHT; i++) {
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
		err = serve(root, request);
		/*
		 * The pieces still on their way must arrive before their memory is used for the
		 * next file.
		 */
		for (unsigned i = 0; i < IN_FLIGHT; i++) {
			if (!err)
				err = finish(&pieces[i]);
			else if (pieces[i].request)
				ripc_request_cancel(&pieces[i].request, 1000);
		}
		if (err)
			fprintf(stderr, "fileserver: client %llu: %s: %s\n",
				(unsigned long long)request->source, ripc_strerror(err),
				ripc_error_detail());
		ripc_message_free(request);
	}
	return 0;
}
