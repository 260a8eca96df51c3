/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The same service in a loop of libuv.
 * Compile it with the flags of `pkg-config --cflags --libs ripc libuv`.
 */
#include <ripc.h>
#include <uv.h>

#include <errno.h>
#include <stdio.h>

static void on_readable(uv_poll_t *handle, int status, int events)
{
	struct ripc_service *service = (struct ripc_service *)handle->data;
	struct ripc_message *m;
	int err = status ? status : ripc_receive(service, &m, 0);

	(void)events;
	if (err == -EAGAIN)
		return;
	/* -ESHUTDOWN: the service has ended, or was taken over. */
	if (err) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		uv_stop(handle->loop);
		return;
	}
	if (ripc_send_short(service, m->source, m->items, m->nitems, NULL,
			    0))
		fprintf(stderr, "%s\n", ripc_error_detail());
	ripc_message_free(m);
}

static void on_signal(uv_signal_t *handle, int signum)
{
	(void)signum;
	uv_stop(handle->loop);
}

int main(void)
{
	uv_loop_t *loop = uv_default_loop();
	struct ripc_service *service;
	uv_signal_t terminated;
	uv_poll_t readable;
	int fd;

	if (ripc_service_register(NULL, 42, 0, &service) ||
	    (fd = ripc_service_fd(service)) < 0) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	readable.data = service;
	if (uv_poll_init(loop, &readable, fd) ||
	    uv_poll_start(&readable, UV_READABLE, on_readable) ||
	    uv_signal_init(loop, &terminated) ||
	    uv_signal_start(&terminated, on_signal, SIGTERM))
		return 1;
	printf("service 42 waits for messages or SIGTERM\n");
	fflush(stdout);
	uv_run(loop, UV_RUN_DEFAULT);
	/* The loop forgets the descriptor before the service ends. */
	uv_poll_stop(&readable);
	uv_signal_stop(&terminated);
	return ripc_close(NULL) != 0;
}
