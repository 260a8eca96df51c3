/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A service in a poll(2) loop with another descriptor, here the standard input.
 * The descriptor is level-triggered, so one message for each turn of the loop is enough.
 * A message may be gone when the loop comes to it, for example if another thread has received it:
 * a timeout of 0 keeps the loop from blocking.
 */
#include <ripc.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

/* Sends a message back. Return: 0, or the error that ends the service. */
static int serve_one(struct ripc_service *service)
{
	struct ripc_message *m;
	int err = ripc_receive(service, &m, 0);

	if (err)
		return err == -EAGAIN ? 0 : err;
	/* 0: a client that is slow to take its reply must not stop us. */
	if (ripc_send_short(service, m->source, m->items, m->nitems, NULL,
			    0))
		fprintf(stderr, "%s\n", ripc_error_detail());
	ripc_message_free(m);
	return 0;
}

int main(void)
{
	struct ripc_service *service;
	struct pollfd fds[2];
	char typed[256];
	int err;

	err = ripc_service_register(NULL, 42, 0, &service);
	if (!err) {
		fds[0].fd = ripc_service_fd(service);
		fds[1].fd = STDIN_FILENO;
		fds[0].events = fds[1].events = POLLIN;
		err = fds[0].fd < 0 ? fds[0].fd : 0;
	}
	if (!err)
		printf("service 42 waits until the input ends\n");
	fflush(stdout);
	while (!err) {
		if (poll(fds, 2, -1) < 0) {
			err = errno == EINTR ? 0 : -errno;
			continue;
		}
		if (fds[0].revents)
			err = serve_one(service);
		if (fds[1].revents &&
		    read(STDIN_FILENO, typed, sizeof(typed)) <= 0)
			return ripc_close(NULL) != 0;
	}
	fprintf(stderr, "%s: %s\n", ripc_strerror(err),
		ripc_error_detail());
	return 1;
}
