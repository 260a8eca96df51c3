/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Brings the guests of the lab together that have the device ivshmem-doorbell: gives each the same
 * memory, a number, and the eventfds by which the others are interrupted. Protocol: QEMU,
 * docs/specs/ivshmem-spec, "Client-Server protocol". Built and started by tests/lab/run.
 *
 * usage: doorbell SOCKET MEMORY MEGABYTES     runs until it is killed
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define GUESTS   8    /* at one time */
#define VERSION  0    /* of the protocol */
#define MEMORY   (-1) /* announces the memory instead of a guest */
#define NUMBERED 1    /* numbers begin here: 0 would be what a device without interrupts has */

static int guests[GUESTS], bells[GUESTS];

/* A number, and a descriptor unless it is negative. */
static void tell(int to, int64_t number, int fd)
{
	int64_t word = (int64_t)htole64((uint64_t)number);
	struct iovec iov = {&word, sizeof(word)};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(int));
	}
	if (sendmsg(to, &msg, MSG_NOSIGNAL) < 0)
		perror("doorbell: a guest cannot be told");
}

static void come(int listener, int memory)
{
	int guest = accept4(listener, NULL, NULL, SOCK_CLOEXEC), at = 0;

	while (at < GUESTS && guests[at] >= 0)
		at++;
	if (guest < 0 || at == GUESTS) {
		fprintf(stderr, "doorbell: a guest is not let in\n");
		if (guest >= 0)
			close(guest);
		return;
	}
	guests[at] = guest;
	bells[at] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	tell(guest, VERSION, -1);
	tell(guest, at + NUMBERED, -1);
	tell(guest, MEMORY, memory);
	for (int i = 0; i < GUESTS; i++)
		if (i != at && guests[i] >= 0) {
			tell(guests[i], at + NUMBERED, bells[at]);
			tell(guest, i + NUMBERED, bells[i]);
		}
	tell(guest, at + NUMBERED, bells[at]);
}

static void go(int at)
{
	close(guests[at]);
	close(bells[at]);
	guests[at] = -1;
	for (int i = 0; i < GUESTS; i++)
		if (guests[i] >= 0)
			tell(guests[i], at + NUMBERED, -1);
}

int main(int argc, char **argv)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct pollfd fds[GUESTS + 1];
	int listener, memory;

	if (argc != 4 || strlen(argv[1]) >= sizeof(un.sun_path)) {
		fprintf(stderr, "usage: doorbell SOCKET MEMORY MEGABYTES\n");
		return 2;
	}
	memset(guests, -1, sizeof(guests));
	memcpy(un.sun_path, argv[1], strlen(argv[1]));
	memory = open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (memory < 0 || listener < 0 || ftruncate(memory, (off_t)atoi(argv[3]) << 20) ||
	    bind(listener, (struct sockaddr *)&un, sizeof(un)) || listen(listener, GUESTS)) {
		perror("doorbell");
		return 1;
	}
	for (;;) {
		for (int i = 0; i < GUESTS; i++)
			fds[i] = (struct pollfd){.fd = guests[i], .events = POLLIN};
		fds[GUESTS] = (struct pollfd){.fd = listener, .events = POLLIN};
		if (poll(fds, GUESTS + 1, -1) < 0 && errno != EINTR)
			return 1;
		/* A guest says nothing: what can be read of it is its end. */
		for (int i = 0; i < GUESTS; i++)
			if (guests[i] >= 0 && fds[i].revents)
				go(i);
		if (fds[GUESTS].revents)
			come(listener, memory);
	}
}
