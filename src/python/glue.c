/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The C part of the Python module. cffi releases the interpreter's lock around each call. */
#include "glue.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* Above any short message of most lanes: not tried as a short message first. */
#define GLUE_LONG_BYTES 65536

static unsigned forks;
static pthread_once_t forks_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
	forks++;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, count_fork);
}

static void unreference(struct glue *glue)
{
	if (!__atomic_sub_fetch(&glue->references, 1, __ATOMIC_ACQ_REL))
		free(glue);
}

/* Return: false if the context has ended, or is about to. */
static bool use(struct glue *glue)
{
	long uses = __atomic_load_n(&glue->uses, __ATOMIC_RELAXED);

	do {
		if (!uses)
			return false;
	} while (!__atomic_compare_exchange_n(&glue->uses, &uses, uses + 1, true, __ATOMIC_ACQUIRE,
					      __ATOMIC_RELAXED));
	__atomic_add_fetch(&glue->references, 1, __ATOMIC_RELAXED);
	return true;
}

static void unuse(struct glue *glue)
{
	if (!__atomic_sub_fetch(&glue->uses, 1, __ATOMIC_ACQ_REL))
		ripc_close(glue->ctx);
	unreference(glue);
}

int glue_open(struct glue **result, const char *options)
{
	struct glue *glue = malloc(sizeof(*glue));
	int rc;

	if (!glue)
		return -ENOMEM;
	pthread_once(&forks_once, watch_forks);
	*glue = (struct glue){.uses = 1, .references = 2, .forks = forks};
	rc = ripc_open(&glue->ctx, options);
	if (rc) {
		free(glue);
		return rc;
	}
	*result = glue;
	return 0;
}

int glue_close(struct glue *glue)
{
	if (__atomic_exchange_n(&glue->closed, 1, __ATOMIC_ACQ_REL))
		return -ESHUTDOWN;
	unuse(glue);
	return 0;
}

void glue_drop(struct glue *glue)
{
	glue_close(glue);
	unreference(glue);
}

/* Takes over the use of the context that the caller has, if there is a message. */
static int wrap(struct glue *glue, struct ripc_message *message, struct glue_message **result)
{
	struct glue_message *m = message ? malloc(sizeof(*m)) : NULL;

	*result = m;
	if (m) {
		*m = (struct glue_message){.message = message, .glue = glue};
		return 0;
	}
	ripc_message_free(message);
	unuse(glue);
	return message ? -ENOMEM : 0;
}

int glue_receive(struct glue *glue, struct ripc_service *service, int timeout_ms,
		 struct glue_message **result)
{
	struct ripc_message *message;
	int rc;

	if (!use(glue))
		return -GLUE_CLOSED;
	rc = ripc_receive(service, &message, timeout_ms);
	if (!rc)
		return wrap(glue, message, result);
	unuse(glue);
	return rc;
}

void glue_message_free(struct glue_message *m)
{
	if (m->glue->forks == forks) {
		ripc_message_free(m->message);
		unuse(m->glue);
	}
	free(m);
}

int glue_send_items(struct ripc_service *service, uint64_t dest, const struct iovec *items,
		    unsigned nitems, unsigned flags, int timeout_ms, struct ripc_request **request)
{
	struct ripc_send_options options = {.size = sizeof(options), .flags = flags};
	size_t bytes = 0;

	*request = NULL;
	for (unsigned i = 0; i < nitems; i++)
		bytes += items[i].iov_len;
	if (bytes <= GLUE_LONG_BYTES) {
		int rc = ripc_send_short(service, dest, items, nitems, flags ? &options : NULL,
					 timeout_ms);

		if (rc != -EMSGSIZE)
			return rc;
	}
	/* A long message is reliable, and leaves at once, in any case. */
	return ripc_send_async(service, dest, items, nitems, NULL, request);
}

int glue_send(struct ripc_service *service, uint64_t dest, const char *data, size_t len,
	      unsigned flags, int timeout_ms, struct ripc_request **request)
{
	struct iovec item = {.iov_base = (char *)data, .iov_len = len};

	return glue_send_items(service, dest, &item, 1, flags, timeout_ms, request);
}

int glue_call_wait(struct glue *glue, struct ripc_request **request, struct glue_message **reply,
		   int wait_ms)
{
	struct ripc_message *message = NULL;
	int rc, rc2;

	*reply = NULL;
	if (!use(glue)) {
		/* Frees the call, which ended with its context. */
		ripc_request_cancel(request, 0);
		return -GLUE_CLOSED;
	}
	rc = ripc_call_wait(request, &message, wait_ms);
	rc2 = wrap(glue, message, reply);
	return rc ? rc : rc2;
}

int glue_call(struct glue *glue, struct ripc_service *service, uint64_t dest,
	      const struct iovec *items, unsigned nitems, const struct iovec *into, unsigned ninto,
	      unsigned flags, int timeout_ms, int wait_ms, struct ripc_request **request,
	      struct glue_message **reply)
{
	struct ripc_call_options options = {
		.size = sizeof(options),
		.flags = flags,
		.nreply_buffers = ninto,
		.reply_buffers = into,
	};
	int rc = ripc_call_start(service, dest, items, nitems, &options, timeout_ms, request);

	*reply = NULL;
	return rc ? rc : glue_call_wait(glue, request, reply, wait_ms);
}

struct glue_buffer *glue_buffer_alloc(struct glue *glue, size_t len, uint64_t dest)
{
	struct glue_buffer *b;

	if (!use(glue)) {
		errno = GLUE_CLOSED;
		return NULL;
	}
	b = malloc(sizeof(*b));
	if (b) {
		*b = (struct glue_buffer){.len = len, .glue = glue};
		b->base = dest ? ripc_buf_alloc_for(glue->ctx, len, dest)
			       : ripc_buf_alloc(glue->ctx, len);
	}
	if (!b || !b->base) {
		int error = errno;

		free(b);
		unuse(glue);
		errno = error;
		return NULL;
	}
	return b;
}

void glue_buffer_free(struct glue_buffer *b)
{
	if (b->glue->forks == forks) {
		/* A buffer in use by a send (-EBUSY) is freed with the context. */
		ripc_buf_free(b->glue->ctx, b->base);
		unuse(b->glue);
	}
	free(b);
}

/* ---- services ---- */

struct service_array {
	struct ripc_service_info *list;
	int count, room;
};

static void add_service(void *arg, const struct ripc_service_info *info)
{
	struct service_array *array = arg;

	if (array->count == array->room) {
		int room = array->room ? array->room * 2 : 16;
		void *more = realloc(array->list, (size_t)room * sizeof(*array->list));

		if (!more)
			return;
		array->list = more;
		array->room = room;
	}
	array->list[array->count++] = *info;
}

int glue_service_list(struct ripc *ctx, struct ripc_service_info **list, int timeout_ms)
{
	struct service_array array = {0};
	int rc = ripc_service_list(ctx, add_service, &array, timeout_ms);

	*list = array.list;
	return rc < 0 ? rc : array.count;
}

void glue_free(struct ripc_service_info *list)
{
	free(list);
}

/* ---- log ---- */

static int log_fd = -1;

static void write_line(void *arg, enum ripc_log_level level, const char *line)
{
	char first = (char)('0' + level), last = '\n';
	/* Within PIPE_BUF a write to a pipe is whole or not at all. */
	size_t len = strnlen(line, 4000);
	struct iovec iov[3] = {
		{.iov_base = &first, .iov_len = 1},
		{.iov_base = (char *)line, .iov_len = len},
		{.iov_base = &last, .iov_len = 1},
	};
	int saved = errno;

	if (writev(__atomic_load_n(&log_fd, __ATOMIC_RELAXED), iov, 3) < 0)
		errno = saved;
	errno = saved;
}

void glue_log(int fd, int level)
{
	if (fd < 0)
		ripc_log_set(NULL, NULL, RIPC_LOG_ERROR);
	__atomic_store_n(&log_fd, fd, __ATOMIC_RELAXED);
	if (fd >= 0)
		ripc_log_set(write_line, NULL, (enum ripc_log_level)level);
}
