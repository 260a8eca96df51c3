/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The baseline, ping-pong over TCP: tcp_pingpong [ROUNDS], both ends in one program */
#include "../src/ripc.h"
#include "common.h"
#include "config.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>

static void transfer(int fd, uint8_t *data, ssize_t (*fn)(int, void *, size_t))
{
	ssize_t n;

	for (size_t done = 0; done < PACKET_SIZE; done += (size_t)n) {
		n = fn(fd, data + done, PACKET_SIZE - done);
		if (n < 1)
			exit(EXIT_SUCCESS); /* the other end has closed */
	}
}

static ssize_t put(int fd, void *data, size_t len)
{
	return write(fd, data, len);
}

static int no_delay(int fd)
{
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	return fd;
}

int main(int argc, char **argv)
{
	int rounds = number(argc, argv, 1, NUM_ROUNDS), fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in addr = {.sin_family = AF_INET};
	socklen_t len = sizeof(addr);
	uint8_t payload[PACKET_SIZE] = {0};
	unsigned long before;

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, len) || listen(fd, 5) ||
	    getsockname(fd, (struct sockaddr *)&addr, &len))
		panic("cannot listen");
	if (!fork()) {
		fd = no_delay(accept(fd, NULL, NULL));
		while (true) {
			transfer(fd, payload, read);
			transfer(fd, payload, put);
		}
	}
	close(fd);
	fd = no_delay(socket(AF_INET, SOCK_STREAM, 0));
	if (connect(fd, (struct sockaddr *)&addr, len))
		panic("cannot connect");
	before = now_usec();
	for (int i = 0; i < rounds; i++) {
		transfer(fd, payload, put);
		transfer(fd, payload, read);
	}
	report(rounds, now_usec() - before);
	close(fd);
	wait(NULL);
	return EXIT_SUCCESS;
}
