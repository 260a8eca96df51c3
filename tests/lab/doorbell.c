/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Server of the device ivshmem-doorbell for the guests of the lab: gives each guest the shared
 * memory, a number, and the eventfds that interrupt the other guests. Protocol: QEMU,
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
#define NUMBERED 1    /* first number; a device without interrupts has 0 */

static int guests[GUESTS], bells[GUESTS];

/* Sends a number, and a descriptor unless fd is negative. */
static void send_number(int to, int64_t number, int fd)
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
		perror("doorbell: cannot send to a guest");
}

static void add_guest(int listener, int memory)
{
	int guest = accept4(listener, NULL, NULL, SOCK_CLOEXEC), at = 0;

	while (at < GUESTS && guests[at] >= 0)
		at++;
	if (guest < 0 || at == GUESTS) {
		fprintf(stderr, "doorbell: cannot accept a guest\n");
		if (guest >= 0)
			close(guest);
		return;
	}
	guests[at] = guest;
	bells[at] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	send_number(guest, VERSION, -1);
	send_number(guest, at + NUMBERED, -1);
	send_number(guest, MEMORY, memory);
	for (int i = 0; i < GUESTS; i++)
		if (i != at && guests[i] >= 0) {
			send_number(guests[i], at + NUMBERED, bells[at]);
			send_number(guest, i + NUMBERED, bells[i]);
		}
	send_number(guest, at + NUMBERED, bells[at]);
}

static void remove_guest(int at)
{
	close(guests[at]);
	close(bells[at]);
	guests[at] = -1;
	for (int i = 0; i < GUESTS; i++)
		if (guests[i] >= 0)
			send_number(guests[i], at + NUMBERED, -1);
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
		/* Guests send no data: a readable socket has been closed. */
		for (int i = 0; i < GUESTS; i++)
			if (guests[i] >= 0 && fds[i].revents)
				remove_guest(i);
		if (fds[GUESTS].revents)
			add_guest(listener, memory);
	}
}
