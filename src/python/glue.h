/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The part of the Python module that is written in C. build.py gives this header and ripc.h to
 * cffi: it may hold declarations, comments and plain directives only.
 *
 * A context of Python ends in two steps. glue_close() lets no further object come into being.
 * ripc_close() follows when the last message and buffer are gone, in the thread that frees it: the
 * memory under a memoryview stays valid for as long as the view exists. All counts are atomic,
 * because the garbage collector frees objects in any order, and from any thread.
 */
#ifndef RIPC_PYTHON_GLUE_H
#define RIPC_PYTHON_GLUE_H

#include "ripc.h"

/* A context, with the messages and buffers that need it. */
struct glue {
	struct ripc *ctx;
	/* 1 after glue_close() */
	int closed;
	/* 1 until glue_close(), and 1 for each message, buffer and call that may give a message */
	long uses;
	/* 1 until glue_drop(), and 1 for each message and buffer, and 1 until glue_close() */
	long references;
	/* number of forks at glue_open(): objects of a parent are not freed in the child */
	unsigned forks;
};

struct glue_message {
	struct ripc_message *message;
	struct glue *glue;
};

/* Memory of ripc_buf_alloc(). */
struct glue_buffer {
	char *base;
	size_t len;
	struct glue *glue;
};

/* No errno: the context is closed, and no call of the library has failed. */
#define GLUE_CLOSED 4096

/* Functions that return int return 0 or a negative errno, as those of ripc.h do. */
int glue_open(struct glue **glue, const char *options);
/* Return: -ESHUTDOWN if it was closed before. */
int glue_close(struct glue *glue);
/* Python has no reference to the context any more. */
void glue_drop(struct glue *glue);

/* As ripc_receive(), or -GLUE_CLOSED. */
int glue_receive(struct glue *glue, struct ripc_service *service, int timeout_ms,
		 struct glue_message **message);
void glue_message_free(struct glue_message *message);

/*
 * Sends a message of one item, short or long. Waits at most timeout_ms for a short one to leave; a
 * long one is only started: *request is not NULL then, and the data stays in use until it is done.
 */
int glue_send(struct ripc_service *service, uint64_t dest, const char *data, size_t len,
	      unsigned flags, int timeout_ms, struct ripc_request **request);
/* The same for several items. */
int glue_send_items(struct ripc_service *service, uint64_t dest, const struct iovec *items,
		    unsigned nitems, unsigned flags, int timeout_ms, struct ripc_request **request);

/*
 * Starts a call, and waits for its answer for at most wait_ms. into: reply buffers.
 * Return: -EINPROGRESS: go on with glue_call_wait(); -GLUE_CLOSED; else as ripc_call().
 */
int glue_call(struct glue *glue, struct ripc_service *service, uint64_t dest,
	      const struct iovec *items, unsigned nitems, const struct iovec *into, unsigned ninto,
	      unsigned flags, int timeout_ms, int wait_ms, struct ripc_request **request,
	      struct glue_message **reply);
int glue_call_wait(struct glue *glue, struct ripc_request **request, struct glue_message **reply,
		   int wait_ms);

/* dest: the service that it will be sent to, or 0. Return: NULL with errno set. */
struct glue_buffer *glue_buffer_alloc(struct glue *glue, size_t len, uint64_t dest);
void glue_buffer_free(struct glue_buffer *buffer);

/* As ripc_service_list(), into an array of at least one element, to be freed with glue_free(). */
int glue_service_list(struct ripc *ctx, struct ripc_service_info **list, int timeout_ms);
void glue_free(struct ripc_service_info *list);

/*
 * Writes each line of the log to a pipe: a character '0' + level, the line, '\n'. Lines are dropped
 * while the pipe is full. No thread of the library ever waits for Python. fd -1: no log.
 */
void glue_log(int fd, int level);

#endif
