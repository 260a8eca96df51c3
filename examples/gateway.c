/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * TCP clients in front of a service: each line that a client sends is the request of a call, and
 * the answer goes back as a line. One thread and one loop of libuv serve all clients and all calls.
 *
 *     ./server 42
 *     ./gateway 42 5000
 *     nc 127.0.0.1 5000
 *
 * A client has one call under way. Meanwhile the loop does not read from its connection.
 */
#include "service_arg.h"

#include <uv.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define CALL_TIMEOUT_MS 5000

struct client {
	uv_tcp_t tcp;
	/* A request of this size may be changed as soon as its call has started. */
	char line[RIPC_SHORT_GUARANTEED];
	size_t len;
	struct ripc_request *call;   /* under way, or NULL */
	struct ripc_message *answer; /* being written, or NULL */
	char error[300];
	uv_write_t write;
};

static struct ripc_service *me;
static uint64_t service;

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

static void on_closed(uv_handle_t *handle)
{
	struct client *c = handle->data;

	if (c->call)
		ripc_request_cancel(&c->call, 0);
	ripc_message_free(c->answer);
	free(c);
}

static void drop(struct client *c)
{
	if (!uv_is_closing((uv_handle_t *)&c->tcp))
		uv_close((uv_handle_t *)&c->tcp, on_closed);
}

/* Room behind what has been read. */
static void on_alloc(uv_handle_t *handle, size_t hint, uv_buf_t *buf)
{
	struct client *c = handle->data;

	(void)hint;
	*buf = uv_buf_init(c->line + c->len, (unsigned)(sizeof(c->line) - c->len));
}

/* Starts a call with the next line, or reads on if there is none. */
static void ask(struct client *c)
{
	struct ripc_call_options options = {.size = sizeof(options), .data = c};
	char *end = memchr(c->line, '\n', c->len);
	struct iovec item = {c->line, end ? (size_t)(end - c->line) : 0};

	if (!end && c->len < sizeof(c->line)) {
		uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
		return;
	}
	uv_read_stop((uv_stream_t *)&c->tcp);
	if (!end || ripc_call_start(me, service, &item, 1, &options, CALL_TIMEOUT_MS, &c->call)) {
		fprintf(stderr, "gateway: %s\n", end ? ripc_error_detail() : "line too long");
		drop(c);
		return;
	}
	c->len -= item.iov_len + 1;
	memmove(c->line, end + 1, c->len);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct client *c = stream->data;

	(void)buf;
	if (n < 0) {
		drop(c);
		return;
	}
	c->len += (size_t)n;
	ask(c);
}

static void on_written(uv_write_t *write, int status)
{
	struct client *c = write->data;

	ripc_message_free(c->answer);
	c->answer = NULL;
	if (status)
		drop(c);
	else
		ask(c);
}

/* The call of a client is done: its answer is written. */
static void answered(struct client *c)
{
	int err = ripc_call_wait(&c->call, &c->answer, 0);
	uv_buf_t bufs[RIPC_ITEMS_MAX + 1];
	unsigned n = 0;

	if (err) {
		snprintf(c->error, sizeof(c->error), "error: %s", ripc_error_detail());
		bufs[n++] = uv_buf_init(c->error, (unsigned)strlen(c->error));
	} else {
		for (; n < c->answer->nitems; n++)
			bufs[n] = uv_buf_init(c->answer->items[n].iov_base,
					      (unsigned)c->answer->items[n].iov_len);
	}
	bufs[n++] = uv_buf_init((char *)"\n", 1);
	c->write.data = c;
	if (uv_is_closing((uv_handle_t *)&c->tcp))
		return;
	if (uv_write(&c->write, (uv_stream_t *)&c->tcp, bufs, n, on_written))
		drop(c);
}

/* Readable as long as something is complete: one at a time, so that clients take turns. */
static void on_complete(uv_poll_t *handle, int status, int events)
{
	struct ripc_completion done = {.size = sizeof(done)};

	(void)handle;
	(void)status;
	(void)events;
	if (!ripc_completion_next(NULL, &done, 0) && done.kind == RIPC_COMPLETION_REQUEST)
		answered(done.data);
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct client *c = status ? NULL : calloc(1, sizeof(*c));

	if (!c)
		return;
	uv_tcp_init(listener->loop, &c->tcp);
	c->tcp.data = c;
	if (uv_accept(listener, (uv_stream_t *)&c->tcp))
		drop(c);
	else
		ask(c);
}

static void on_signal(uv_signal_t *handle, int signum)
{
	(void)signum;
	uv_stop(handle->loop);
}

int main(int argc, char **argv)
{
	uv_loop_t *loop = uv_default_loop();
	struct sockaddr_in address;
	uv_tcp_t listener;
	uv_signal_t terminated;
	uv_poll_t complete;
	unsigned long long port;
	int err;

	service = argc > 1 ? service_arg(argv[1]) : 0;
	if (argc != 3 || !service || !number_arg(argv[2], 65535, &port) || !port) {
		fprintf(stderr, "usage: gateway SERVICE PORT\n");
		return 2;
	}
	if (ripc_service_register(NULL, RIPC_ANY_ID, 0, &me) || ripc_completion_fd(NULL) < 0) {
		fprintf(stderr, "gateway: %s\n", ripc_error_detail());
		return 1;
	}
	uv_tcp_init(loop, &listener);
	uv_ip4_addr("127.0.0.1", (int)port, &address);
	uv_tcp_bind(&listener, (struct sockaddr *)&address, 0);
	err = uv_listen((uv_stream_t *)&listener, 128, on_connection);
	if (!err)
		err = uv_poll_init(loop, &complete, ripc_completion_fd(NULL));
	if (!err)
		err = uv_poll_start(&complete, UV_READABLE, on_complete);
	uv_signal_init(loop, &terminated);
	if (!err)
		err = uv_signal_start(&terminated, on_signal, SIGTERM);
	if (err) {
		fprintf(stderr, "gateway: port %llu: %s\n", port, uv_strerror(err));
		return 1;
	}
	printf("port %llu leads to service %llu\n", port, (unsigned long long)service);
	fflush(stdout);
	uv_run(loop, UV_RUN_DEFAULT);
	/* The loop forgets the descriptor before the context ends. */
	uv_poll_stop(&complete);
	return ripc_close(NULL) != 0;
}
