/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Files as in the theses: a short message asks for so many bytes, a long one brings them; beside it
 * the same over one TCP connection with blocking sockets, turn by turn in the same two processes.
 *
 *     files server [OPTIONS]              prints its service id and TCP port, runs until its
 *       standard input ends
 *     files client ID PORT BYTES COUNT [OPTIONS]
 *
 * OPTIONS as for ripc_open(). The client prints one line of JSON: the medians of COUNT transfers
 * each.
 */
#include <ripc.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 60000
#define BYTES_MAX  (256u << 20)

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int fail(int err, const char *what)
{
	fprintf(stderr, "files: %s: %s: %s\n", what, ripc_strerror(err), ripc_error_detail());
	return 1;
}

static int all(int fd, char *data, size_t len, ssize_t (*step)(int, void *, size_t))
{
	while (len) {
		ssize_t n = step(fd, data, len);

		if (n <= 0)
			return -1;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static ssize_t put(int fd, void *data, size_t len)
{
	return send(fd, data, len, MSG_NOSIGNAL);
}

static ssize_t get(int fd, void *data, size_t len)
{
	return recv(fd, data, len, 0);
}

/* The contents of all files, a receive buffer, and the duration of each transfer. */
static char *file, *buf;
static double *ours, *tcp;

/* Answers over TCP: one client at a time. */
static void *serve_tcp(void *arg)
{
	int listener = *(int *)arg, one = 1;

	for (;;) {
		int fd = accept(listener, NULL, NULL);
		uint64_t bytes;

		if (fd < 0)
			return NULL;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		while (!all(fd, (char *)&bytes, sizeof(bytes), get) && bytes <= BYTES_MAX)
			if (all(fd, file, bytes, put))
				break;
		close(fd);
	}
}

static int server(const char *options)
{
	struct sockaddr_in sin = {.sin_family = AF_INET,
				  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(sin);
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	struct ripc_service *service;
	struct ripc *ctx;
	pthread_t thread;
	char end;
	static int listener;
	int err;

	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&sin, sizeof(sin)) ||
	    listen(listener, 1) || getsockname(listener, (struct sockaddr *)&sin, &len)) {
		perror("files");
		return 1;
	}
	err = ripc_open(&ctx, options);
	if (err)
		return fail(err, "open");
	err = ripc_service_register(ctx, RIPC_ANY_ID, 0, &service);
	if (err)
		return fail(err, "register");
	file = ripc_buf_alloc(ctx, BYTES_MAX);
	if (!file)
		return fail(-errno, "memory");
	memset(file, 'x', BYTES_MAX);
	if (pthread_create(&thread, NULL, serve_tcp, &listener))
		return 1;
	printf("%llu %u\n", (unsigned long long)ripc_service_id(service), ntohs(sin.sin_port));
	fflush(stdout);
	for (;;) {
		struct ripc_message *m;
		struct iovec iov = {file, 0};
		uint64_t bytes;

		if (poll(&input, 1, 0) && read(STDIN_FILENO, &end, 1) <= 0)
			break;
		err = ripc_receive(service, &m, 200);
		if (err == -ETIMEDOUT || err == -EAGAIN)
			continue;
		if (err)
			return fail(err, "receive");
		memcpy(&bytes, m->items[0].iov_base, sizeof(bytes));
		iov.iov_len = bytes <= BYTES_MAX ? bytes : BYTES_MAX;
		err = ripc_send_long(service, m->source, &iov, 1, NULL, TIMEOUT_MS);
		ripc_message_free(m);
		if (err)
			fail(err, "send");
	}
	ripc_buf_free(ctx, file);
	ripc_close(ctx);
	/* The thread ends with the process. */
	_exit(0);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), compare);
	return n & 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static int fetch(struct ripc_service *service, uint64_t id, uint64_t bytes)
{
	struct iovec iov = {&bytes, sizeof(bytes)};
	struct ripc_message *m;
	int err = ripc_send_short(service, id, &iov, 1, NULL, TIMEOUT_MS);

	if (err)
		return err;
	err = ripc_receive(service, &m, TIMEOUT_MS);
	if (err)
		return err;
	if (m->nitems != 1 || m->items[0].iov_len != bytes)
		err = -EBADMSG;
	ripc_message_free(m);
	return err;
}

static int client(uint64_t id, uint16_t port, uint64_t bytes, unsigned count, const char *options)
{
	struct sockaddr_in sin = {.sin_family = AF_INET,
				  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
				  .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, err;
	struct ripc_route route = {.size = sizeof(route)};
	struct ripc_service *service;
	struct ripc *ctx;

	ours = calloc(count, sizeof(*ours));
	tcp = calloc(count, sizeof(*tcp));
	buf = malloc(bytes);
	if (!ours || !tcp || !buf || fd < 0 || connect(fd, (struct sockaddr *)&sin, sizeof(sin))) {
		perror("files");
		return 1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	err = ripc_open(&ctx, options);
	if (err)
		return fail(err, "open");
	err = ripc_service_register(ctx, RIPC_ANY_ID, 0, &service);
	if (err)
		return fail(err, "register");
	/* The first of each kind does not count. */
	for (unsigned i = 0; i <= count; i++) {
		double start = now_us();

		err = fetch(service, id, bytes);
		if (err)
			return fail(err, "fetch");
		if (i)
			ours[i - 1] = now_us() - start;
		start = now_us();
		if (all(fd, (char *)&bytes, sizeof(bytes), put) || all(fd, buf, bytes, get)) {
			perror("files: TCP");
			return 1;
		}
		if (i)
			tcp[i - 1] = now_us() - start;
	}
	ripc_route_lookup(ctx, id, &route, 0);
	printf("{\"bytes\":%llu,\"count\":%u,\"transport\":\"%s\",\"us\":%.1f,\"tcp_us\":%.1f,"
	       "\"times_tcp\":%.3f}\n",
	       (unsigned long long)bytes, count, route.transport, median(ours, count),
	       median(tcp, count), median(tcp, count) / median(ours, count));
	close(fd);
	ripc_close(ctx);
	free(ours);
	free(tcp);
	free(buf);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long long bytes;
	unsigned count;

	if (argc >= 2 && argc <= 3 && !strcmp(argv[1], "server"))
		return server(argc > 2 ? argv[2] : NULL);
	if (argc < 6 || argc > 7 || strcmp(argv[1], "client")) {
		fprintf(stderr, "usage: files server [OPTIONS]\n"
				"       files client ID PORT BYTES COUNT [OPTIONS]\n");
		return 2;
	}
	bytes = strtoull(argv[4], NULL, 0);
	count = (unsigned)strtoul(argv[5], NULL, 0);
	if (!bytes || bytes > BYTES_MAX || !count || count > 1000000) {
		fprintf(stderr, "files: BYTES is 1 to %u, COUNT 1 to 1000000\n", BYTES_MAX);
		return 2;
	}
	return client(strtoull(argv[2], NULL, 0), (uint16_t)strtoul(argv[3], NULL, 0), bytes, count,
		      argc > 6 ? argv[6] : NULL);
}
