/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The transport over real sockets of the loopback: two of them in one thread. */
#define _GNU_SOURCE /* memmem */

#include "core/clock.h"
#include "harness.h"
#include "ripc.h"
#include "transport/iwarp/soft/mpa.h"
#include "transport/iwarp/soft/soft.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_NS (UINT64_C(20) * 1000 * RIPC__MS)

static const struct ripc__transport_ops *const ops = &ripc__transport_soft;

/* One end: what it has seen. */
struct side {
	struct ripc__transport *t;
	struct ripc__ep *ep; /* of the last EV_ESTABLISHED */
	unsigned nrequest, nestablished, nclosed, nrecv, nread, nwrite, nsendable, ngarbage,
		ndatagram;
	void *request; /* the last that was not answered */
	bool answer_later, refuse;
	uint8_t priv[256]; /* last private data */
	uint32_t privlen;
	bool rejected;
	int closed_status;
	char text[256]; /* of EV_CLOSED or EV_GARBAGE */
	uint8_t *last;  /* last message */
	uint32_t last_len;
	uint64_t wr_id;
	uint8_t from[64];
	uint32_t fromlen;
	uint64_t sum; /* bytes received */
	unsigned max; /* events asked for at a time */
	bool hold;    /* tokens are kept */
	void *held[8192];
	unsigned nheld;
	bool closed_before_data;
	bool in_order; /* messages carry consecutive numbers, checked */
	uint32_t number;
};

static struct side a, b;
static unsigned fds_before;

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int open_side(struct side *s, const char *options)
{
	struct ripc__options opt;
	static const uint8_t instance[16] = "test";
	struct ripc__transport_env env = {.opt = &opt, .instance = instance};
	char why[256];

	memset(s, 0, sizeof(*s));
	s->max = 16;
	ck_assert_int_eq(ripc__options_load(&opt, options, why, sizeof(why)), 0);
	ck_assert_int_eq(ops->probe(&env, why, sizeof(why)), 0);
	return ops->open(&s->t, &env);
}

static void close_side(struct side *s)
{
	while (s->nheld)
		ops->release(s->t, s->held[--s->nheld]);
	ops->close(s->t);
	free(s->last);
}

static void open_both(const char *options)
{
	fds_before = count_fds();
	ck_assert_int_eq(open_side(&a, options), 0);
	ck_assert_int_eq(open_side(&b, options), 0);
}

static void close_both(void)
{
	close_side(&a);
	close_side(&b);
	ck_assert_uint_eq(count_fds(), fds_before);
}

static void received(struct side *s, const struct ripc__event *e)
{
	s->nrecv++;
	s->sum += e->len;
	free(s->last);
	s->last = malloc(e->len + 1);
	if (e->len)
		memcpy(s->last, e->data, e->len);
	s->last_len = e->len;
	s->closed_before_data |= s->nclosed;
	if (s->in_order) {
		ck_assert_uint_ge(e->len, 4);
		ck_assert_mem_eq(e->data, &s->number, 4);
		s->number++;
	}
	if (s->hold && e->token)
		s->held[s->nheld++] = e->token;
	else if (e->token)
		ops->release(s->t, e->token);
}

static void handle(struct side *s, const struct ripc__event *e)
{
	switch (e->kind) {
	case RIPC__EV_REQUEST:
		s->nrequest++;
		s->privlen = e->len;
		memcpy(s->priv, e->data, e->len);
		ck_assert_uint_gt(strlen(e->text), 0);
		if (s->answer_later) {
			s->request = e->request;
		} else if (s->refuse) {
			ops->reject(s->t, e->request, "no room", 7);
		} else {
			ck_assert_int_eq(ops->accept(s->t, e->request, "welcome", 7, s, &s->ep), 0);
		}
		break;
	case RIPC__EV_ESTABLISHED:
		ck_assert_ptr_eq(e->user, s);
		s->nestablished++;
		s->ep = e->ep;
		if (e->data) {
			s->privlen = e->len;
			memcpy(s->priv, e->data, e->len);
		}
		break;
	case RIPC__EV_CLOSED:
		ck_assert_ptr_eq(e->user, s);
		ck_assert_int_lt(e->status, 0);
		s->nclosed++;
		s->closed_status = e->status;
		s->rejected = e->reject;
		if (e->reject) {
			s->privlen = e->len;
			memcpy(s->priv, e->data, e->len);
		}
		snprintf(s->text, sizeof(s->text), "%s", e->text);
		break;
	case RIPC__EV_RECV:
		received(s, e);
		break;
	case RIPC__EV_DATAGRAM:
		s->ndatagram++;
		s->fromlen = e->fromlen;
		memcpy(s->from, e->from, e->fromlen);
		free(s->last);
		s->last = malloc(e->len + 1);
		memcpy(s->last, e->data, e->len);
		s->last_len = e->len;
		ops->release(s->t, e->token);
		break;
	case RIPC__EV_READ_DONE:
		ck_assert_int_eq(e->status, 0);
		s->nread++;
		s->wr_id = e->wr_id;
		break;
	case RIPC__EV_WRITE_DONE:
		s->nwrite++;
		s->wr_id = e->wr_id;
		break;
	case RIPC__EV_SENDABLE:
		s->nsendable++;
		break;
	case RIPC__EV_GARBAGE:
		s->ngarbage++;
		snprintf(s->text, sizeof(s->text), "%s", e->text);
		break;
	default:
		ck_abort_msg("event %d", e->kind);
	}
}

static unsigned step(struct side *s)
{
	struct ripc__event events[64];
	uint64_t deadline = RIPC__NEVER;
	unsigned n = ops->progress(s->t, events, s->max, ripc__clock_ns(), &deadline);

	ck_assert_uint_le(n, s->max);
	for (unsigned i = 0; i < n; i++)
		handle(s, &events[i]);
	return n;
}

/* Drives both until the condition holds. */
#define UNTIL(condition)                                                                     \
	do {                                                                                 \
		uint64_t end_ns = ripc__clock_ns() + PATIENCE_NS;                            \
		while (!(condition)) {                                                       \
			ck_assert_msg(ripc__clock_ns() < end_ns, "in vain: %s", #condition); \
			step(&a);                                                            \
			step(&b);                                                            \
		}                                                                            \
	} while (0)

static void start_connect(struct side *from, struct side *to, struct ripc__ep **ep)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	int len = ops->address(to->t, addr, sizeof(addr));

	ck_assert_int_gt(len, 0);
	ck_assert_int_eq(ops->connect(from->t, addr, (size_t)len, "hello", 5, from, ep), 0);
}

static void connect_both(const char *options)
{
	struct ripc__ep *ep;

	open_both(options);
	start_connect(&a, &b, &ep);
	UNTIL(a.nestablished && b.nestablished);
	ck_assert_ptr_eq(a.ep, ep);
}

static int post(struct side *s, const void *p, size_t len, bool more)
{
	struct iovec iov = {(void *)p, len};

	return ops->post_send(s->ep, &iov, 1, more);
}

static uint8_t *pattern(size_t len, unsigned seed)
{
	uint8_t *p = malloc(len ? len : 1);

	ck_assert_ptr_nonnull(p);
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)((i * 2654435761u + seed) >> 13);
	return p;
}

static bool all_are(const uint8_t *p, size_t len, uint8_t value)
{
	return !len || (p[0] == value && !memcmp(p, p + 1, len - 1));
}

/* A TCP connection by hand to where the side listens. */
static int raw(struct side *s)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct ripc__iwarp_address decoded;
	union ripc__sockaddr to;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	ck_assert_int_eq(ripc__iwarp_address_decode(&decoded, addr,
						    (size_t)ops->address(s->t, addr, sizeof(addr))),
			 0);
	to = decoded.places[0].ip;
	ck_assert_int_eq(to.sa.sa_family, AF_INET);
	ripc__sockaddr_set_port(&to, decoded.places[0].tcp);
	ck_assert_int_eq(connect(fd, &to.sa, sizeof(to.in)), 0);
	return fd;
}

/* The frame that comes back on a connection by hand. */
static struct ripc__mpa raw_frame(int fd, bool reply)
{
	static uint8_t buf[RIPC__MPA_FRAME_MAX];
	struct ripc__mpa frame;
	const char *why;
	size_t len = 0;

	for (uint64_t end_ns = ripc__clock_ns() + PATIENCE_NS; ripc__clock_ns() < end_ns;) {
		ssize_t n = recv(fd, buf + len, sizeof(buf) - len, MSG_DONTWAIT);

		if (n > 0)
			len += (size_t)n;
		if (ripc__mpa_decode(&frame, reply, buf, len, &why) > 0)
			return frame;
		ck_assert_int_ne(n, 0);
		step(&a);
		step(&b);
	}
	ck_abort_msg("no MPA frame came");
}

static bool raw_ended(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN);
}

START_TEST(soft_open__listens_on_the_loopback_only)
{
	struct ripc__iwarp_address decoded;
	uint8_t addr[RIPC__ADDRESS_MAX];
	char text[256];

	ck_assert_int_eq(open_side(&a, "interfaces=lo"), 0);
	ck_assert_int_eq(ripc__iwarp_address_decode(&decoded, addr,
						    (size_t)ops->address(a.t, addr, sizeof(addr))),
			 0);
	for (unsigned i = 0; i < decoded.nplaces; i++)
		ck_assert(decoded.places[i].loopback);
	ops->describe(addr, (size_t)ops->address(a.t, addr, sizeof(addr)), text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "127.0.0.1:"));
	ops->describe((const uint8_t *)"nonsense", 8, text, sizeof(text));
	ck_assert_str_eq(text, "address that makes no sense");
	close_side(&a);
}
END_TEST

START_TEST(soft_open__interface_without_address)
{
	struct ripc__options opt;
	struct ripc__transport_env env = {.opt = &opt};
	struct ripc__transport *t;
	char why[256];

	ck_assert_int_eq(ripc__options_load(&opt, NULL, why, sizeof(why)), 0);
	snprintf(opt.interfaces, sizeof(opt.interfaces), "nosuch0");
	ck_assert_int_eq(ops->open(&t, &env), -ENODEV);
	ck_assert_ptr_nonnull(strstr(ripc_detail(), "nosuch0"));
}
END_TEST

START_TEST(soft_limits__as_promised)
{
	struct ripc__transport_limits l;

	ck_assert_int_eq(open_side(&a, NULL), 0);
	ops->limits(a.t, &l);
	ck_assert_uint_eq(l.send_max, 16384);
	ck_assert_uint_eq(l.recv_depth, 0);
	ck_assert_uint_ge(l.read_depth, 1);
	ck_assert_uint_eq(l.datagram_max, 0);
	ck_assert(!(l.caps & RIPC__CAP_DATAGRAM));
	close_side(&a);
}
END_TEST

START_TEST(soft_connect__private_data_both_ways)
{
	connect_both(NULL);
	ck_assert_uint_eq(b.privlen, 5);
	ck_assert_mem_eq(b.priv, "hello", 5);
	ck_assert_uint_eq(a.privlen, 7);
	ck_assert_mem_eq(a.priv, "welcome", 7);
	ck_assert(((struct ripc__ep *)a.ep)->engine.ulpdu_max == RIPC__ULPDU_SOFT);
	close_both();
}
END_TEST

START_TEST(soft_connect__crc_as_both_want)
{
	static const struct {
		const char *active, *passive;
		bool crc;
	} cases[] = {
		{"crc=auto", "crc=auto", false}, {"crc=on", "crc=auto", true},
		{"crc=auto", "crc=on", true},    {"crc=off", "crc=on", true},
		{"crc=off", "crc=off", false},   {"crc=on", "crc=on", true},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ripc__ep *ep;

		ck_assert_int_eq(open_side(&a, cases[i].active), 0);
		ck_assert_int_eq(open_side(&b, cases[i].passive), 0);
		start_connect(&a, &b, &ep);
		UNTIL(a.nestablished && b.nestablished);
		ck_assert_int_eq(a.ep->engine.crc, cases[i].crc);
		ck_assert_int_eq(b.ep->engine.crc, cases[i].crc);
		ck_assert_int_eq(post(&a, "x", 1, false), 0);
		UNTIL(b.nrecv);
		close_side(&a);
		close_side(&b);
	}
}
END_TEST

START_TEST(soft_reject__with_private_data)
{
	struct ripc__ep *ep;

	open_both(NULL);
	b.refuse = true;
	start_connect(&a, &b, &ep);
	UNTIL(a.nclosed);
	ck_assert(a.rejected);
	ck_assert_int_eq(a.closed_status, -ECONNREFUSED);
	ck_assert_uint_eq(a.privlen, 7);
	ck_assert_mem_eq(a.priv, "no room", 7);
	ck_assert_uint_eq(a.nestablished, 0);
	ops->ep_close(ep);
	close_both();
}
END_TEST

START_TEST(soft_connect__nobody_there)
{
	struct ripc__ep *ep;
	uint8_t addr[RIPC__ADDRESS_MAX];
	int len;

	open_both(NULL);
	len = ops->address(b.t, addr, sizeof(addr));
	close_side(&b);
	ck_assert_int_eq(open_side(&b, NULL), 0);
	ck_assert_int_eq(ops->connect(a.t, addr, (size_t)len, NULL, 0, &a, &ep), 0);
	UNTIL(a.nclosed);
	ck_assert(!a.rejected);
	ck_assert_int_eq(a.closed_status, -ECONNREFUSED);
	ck_assert_ptr_nonnull(strstr(a.text, "127.0.0.1:"));
	ck_assert_ptr_nonnull(strstr(a.text, "refused"));
	ck_assert_int_eq(ops->post_send(ep, NULL, 0, false), -ENOTCONN);
	ops->ep_close(ep);
	close_both();
}
END_TEST

START_TEST(soft_connect__nonsense_address)
{
	struct ripc__ep *ep;
	uint8_t addr[RIPC__ADDRESS_MAX];
	uint64_t rng = test_seed();
	size_t len;

	open_both(NULL);
	len = (size_t)ops->address(b.t, addr, sizeof(addr));
	for (size_t part = 0; part < len; part++)
		ck_assert_int_eq(ops->connect(a.t, addr, part, NULL, 0, &a, &ep), -EINVAL);
	addr[4] ^= 1; /* another host: its loopback cannot be reached */
	ck_assert_int_eq(ops->connect(a.t, addr, len, NULL, 0, &a, &ep), -EHOSTUNREACH);
	for (unsigned i = 0; i < 1000; i++) {
		for (size_t k = 0; k < len; k++)
			addr[k] = (uint8_t)test_random(&rng);
		ck_assert_int_eq(ops->connect(a.t, addr, len, NULL, 0, &a, &ep), -EINVAL);
	}
	ck_assert_int_eq(ops->connect(a.t, addr, len, addr, RIPC__PRIVATE_MAX + 1, &a, &ep), -EINVAL);
	close_both();
}
END_TEST

START_TEST(soft_ep_close__at_every_stage_of_set_up)
{
	open_both(NULL);
	b.answer_later = true;
	for (unsigned rounds = 0; rounds < 40; rounds++) {
		struct ripc__ep *ep;

		b.request = NULL;
		start_connect(&a, &b, &ep);
		for (unsigned i = 0; i < rounds / 2; i++) {
			step(&a);
			step(&b);
		}
		ops->ep_close(ep);
		for (unsigned i = 0; i < 10; i++) {
			step(&a);
			step(&b);
		}
		if (!b.request)
			continue;
		/* The other end finds out, now or later. */
		if (rounds % 2)
			ops->reject(b.t, b.request, NULL, 0);
		else if (!ops->accept(b.t, b.request, NULL, 0, &b, &b.ep)) {
			unsigned closed = b.nclosed;

			UNTIL(b.nclosed > closed);
			ops->ep_close(b.ep);
		}
	}
	ck_assert_uint_eq(a.nclosed, 0);
	close_both();
}
END_TEST

START_TEST(soft_post_send__all_sizes)
{
	uint8_t *p = pattern(RIPC__SEND_MAX, 3);
	static const size_t sizes[] = {1,   2,   3,   4,    5,    63,   64,    65,
				       300, 512, 513, 1000, 4096, 8191, 16383, 16384};

	connect_both(_i ? "crc=on" : "crc=off");
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t len = sizes[i];
		struct iovec iov[3] = {{p, len / 2}, {NULL, 0}, {p + len / 2, len - len / 2}};
		struct side *from = i % 2 ? &a : &b, *to = i % 2 ? &b : &a;
		unsigned before = to->nrecv;

		ck_assert_int_ge(ops->post_send(from->ep, iov, 3, false), 0);
		UNTIL(to->nrecv > before);
		ck_assert_uint_eq(to->last_len, len);
		ck_assert_mem_eq(to->last, p, len);
	}
	ck_assert_int_eq(ops->post_send(a.ep, &(struct iovec){p, RIPC__SEND_MAX + 1}, 1, false),
			 -EMSGSIZE);
	/* One of no bytes is no message. */
	ck_assert_int_eq(ops->post_send(a.ep, NULL, 0, false), 0);
	ck_assert_int_eq(ops->post_send(a.ep, &(struct iovec){p, 7}, 1, false), 0);
	UNTIL(b.last_len == 7);
	ck_assert_uint_eq(b.nrecv, sizeof(sizes) / sizeof(sizes[0]) -
					   sizeof(sizes) / sizeof(sizes[0]) / 2 + 1);
	close_both();
	free(p);
}
END_TEST

START_TEST(soft_post_send__more_is_held_back_until_flush)
{
	uint8_t p[100] = "x";

	connect_both(NULL);
	ck_assert_int_eq(post(&a, p, 100, true), 1);
	ck_assert_int_eq(post(&a, p, 100, true), 1);
	for (unsigned i = 0; i < 100; i++)
		step(&b);
	ck_assert_uint_eq(b.nrecv, 0);
	ops->flush(a.t);
	for (uint64_t end = ripc__clock_ns() + PATIENCE_NS; b.nrecv < 2 && ripc__clock_ns() < end;)
		step(&b);
	ck_assert_uint_eq(b.nrecv, 2);
	/* Without more, what was held back goes along. */
	ck_assert_int_eq(post(&a, p, 100, true), 1);
	ck_assert_int_eq(post(&a, p, 100, false), 0);
	for (uint64_t end = ripc__clock_ns() + PATIENCE_NS; b.nrecv < 4 && ripc__clock_ns() < end;)
		step(&b);
	ck_assert_uint_eq(b.nrecv, 4);
	/* ep_close() pushes it, too. */
	ck_assert_int_eq(post(&a, p, 100, true), 1);
	ops->ep_close(a.ep);
	UNTIL(b.nclosed);
	ck_assert_uint_eq(b.nrecv, 5);
	close_both();
}
END_TEST

START_TEST(soft_post_send__slow_reader)
{
	uint8_t p[3000] = {0};
	uint32_t number = 0;
	int err;

	connect_both(_i ? "crc=on" : "crc=off");
	b.in_order = true;
	do {
		memcpy(p, &number, 4);
		err = post(&a, p, sizeof(p), false);
		number += err >= 0;
		ck_assert_uint_lt(number, 1000000);
	} while (err >= 0);
	ck_assert_int_eq(err, -EAGAIN);
	ck_assert_uint_gt(number, 300);
	for (unsigned i = 0; i < 1000; i++)
		step(&a);
	ck_assert_uint_eq(a.nsendable, 0);
	UNTIL(b.nrecv == number);
	UNTIL(a.nsendable);
	ck_assert_uint_eq(a.nsendable, 1);
	memcpy(p, &number, 4);
	ck_assert_int_ge(post(&a, p, sizeof(p), false), 0);
	UNTIL(b.nrecv == number + 1);
	close_both();
}
END_TEST

START_TEST(soft_post_send__many_both_ways_in_order)
{
	uint32_t number = 0;

	connect_both(NULL);
	a.in_order = b.in_order = true;
	b.max = 3;
	for (; number < 50000; number++) {
		uint8_t p[64] = {0};
		int err;

		memcpy(p, &number, 4);
		/* How much fits depends on the memory that the kernel grants at the moment. */
		UNTIL((err = post(&a, p, sizeof(p), number % 7 == 0)) != -EAGAIN);
		ck_assert_int_ge(err, 0);
		UNTIL((err = post(&b, p, sizeof(p), false)) != -EAGAIN);
		ck_assert_int_ge(err, 0);
		if (number % 100 == 0) {
			step(&a);
			step(&b);
		}
	}
	UNTIL(a.nrecv == number && b.nrecv == number);
	close_both();
}
END_TEST

START_TEST(soft_progress__data_before_closed_and_max_kept)
{
	uint8_t p[40] = {0};

	connect_both(NULL);
	for (unsigned i = 0; i < 100; i++)
		ck_assert_int_ge(post(&a, p, sizeof(p), false), 0);
	ops->ep_close(a.ep);
	b.max = 1;
	UNTIL(b.nclosed);
	ck_assert_uint_eq(b.nrecv, 100);
	ck_assert(!b.closed_before_data);
	ck_assert_int_eq(post(&b, p, 1, false), -ENOTCONN);
	for (unsigned i = 0; i < 100; i++)
		step(&b);
	ck_assert_uint_eq(b.nclosed, 1);
	ops->ep_close(b.ep);
	close_both();
}
END_TEST

/* Some length, by read and by write. */
static void transfer(size_t len)
{
	uint8_t *src = pattern(len, 1), *dst = calloc(1, len + 2), *back = calloc(1, len + 2);
	struct ripc__mr ms, md, mb;
	unsigned nread = a.nread, nwrite = a.nwrite, nrecv = b.nrecv;

	ck_assert_ptr_nonnull(dst);
	ck_assert_ptr_nonnull(back);
	dst[0] = back[0] = dst[len + 1] = back[len + 1] = 0xcc;
	ck_assert_int_eq(ops->reg(a.t, NULL, src, len, 0, &ms), 0);
	ck_assert_uint_eq(ms.key, 0);
	ck_assert_int_eq(ops->reg(b.t, NULL, dst + 1, len,
				  RIPC__ACCESS_REMOTE_WRITE | RIPC__ACCESS_REMOTE_READ, &md),
			 0);
	ck_assert_int_eq(ops->reg(a.t, NULL, back + 1, len, RIPC__ACCESS_LOCAL_WRITE, &mb), 0);
	ck_assert_int_eq(ops->post_write(a.ep, &ms, src, len, md.addr, md.key, 11), 0);
	ck_assert_int_ge(post(&a, "done", 4, false), 0);
	UNTIL(b.nrecv > nrecv);
	ck_assert_mem_eq(dst + 1, src, len);
	UNTIL(a.nwrite > nwrite);
	ck_assert_uint_eq(a.wr_id, 11);
	ck_assert_int_eq(ops->post_read(a.ep, &mb, back + 1, len, md.addr, md.key, 12), 0);
	UNTIL(a.nread > nread);
	ck_assert_uint_eq(a.wr_id, 12);
	ck_assert_mem_eq(back + 1, src, len);
	ck_assert(dst[0] == 0xcc && back[0] == 0xcc && dst[len + 1] == 0xcc && back[len + 1] == 0xcc);
	ops->dereg(a.t, &ms);
	ops->dereg(b.t, &md);
	ops->dereg(a.t, &mb);
	free(src);
	free(dst);
	free(back);
}

START_TEST(soft_post_write__lengths_up_to_64_mib)
{
	static const size_t lens[] = {0, 1, 3, 4, 4095, 65471, 65472, 65473, 1000000, 64u << 20};

	connect_both(_i ? "crc=on" : "crc=off");
	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		transfer(lens[i]);
	close_both();
}
END_TEST

START_TEST(soft_post_read__depth)
{
	uint8_t *src = pattern(100000, 5), *dst = calloc(1, 100000);
	struct ripc__transport_limits l;
	struct ripc__mr ms, md;
	unsigned n = 0;
	int err;

	connect_both(NULL);
	ops->limits(a.t, &l);
	ck_assert_int_eq(ops->reg(b.t, NULL, src, 100000, RIPC__ACCESS_REMOTE_READ, &ms), 0);
	ck_assert_int_eq(ops->reg(a.t, NULL, dst, 100000, RIPC__ACCESS_LOCAL_WRITE, &md), 0);
	while (!(err = ops->post_read(a.ep, &md, dst + n * 1000, 1000, ms.addr + n * 1000, ms.key, n)))
		n++;
	ck_assert_int_eq(err, -EAGAIN);
	ck_assert_uint_eq(n, l.read_depth);
	UNTIL(a.nread == n && a.nsendable);
	ck_assert_uint_eq(a.wr_id, n - 1);
	ck_assert_mem_eq(dst, src, n * 1000);
	ck_assert_int_eq(ops->post_read(a.ep, &md, dst + 99999, 2, ms.addr, ms.key, n), -EINVAL);
	ck_assert_int_eq(ops->post_read(a.ep, &md, dst - 1, 1, ms.addr, ms.key, n), -EINVAL);
	ck_assert_int_eq(ops->post_read(a.ep, &md, dst, l.rdma_max + 1, ms.addr, ms.key, n),
			 -EMSGSIZE);
	close_both();
	free(src);
	free(dst);
}
END_TEST

START_TEST(soft_post_write__bad_key_ends_that_connection_only)
{
	struct ripc__ep *bad, *good;
	struct ripc__mr ms, md;
	uint8_t src[1000] = {1}, dst[1000] = {0};

	connect_both(NULL);
	good = a.ep;
	start_connect(&a, &b, &bad);
	UNTIL(a.nestablished == 2 && b.nestablished == 2);
	ck_assert_int_eq(ops->reg(a.t, NULL, src, 1000, RIPC__ACCESS_LOCAL_WRITE, &ms), 0);
	ck_assert_int_eq(ops->reg(b.t, NULL, dst, 1000, RIPC__ACCESS_REMOTE_READ, &md), 0);
	if (_i == 0)
		ck_assert_int_eq(ops->post_write(bad, &ms, src, 1000, md.addr, md.key, 1), 0);
	else if (_i == 1)
		ck_assert_int_eq(ops->post_read(bad, &ms, src, 1000, md.addr + 1, md.key, 1), 0);
	else
		ck_assert_int_eq(ops->post_read(bad, &ms, src, 1000, md.addr, md.key ^ 1, 1), 0);
	UNTIL(a.nclosed && b.nclosed);
	ck_assert_ptr_nonnull(strstr(a.text, "the peer terminated the connection"));
	ck_assert_ptr_nonnull(strstr(b.text, "terminated"));
	ck_assert_uint_eq(dst[0], 0);
	ck_assert_uint_eq(a.nread, 0);
	a.ep = good;
	ck_assert_int_eq(post(&a, "alive", 5, false), 0);
	UNTIL(b.nrecv);
	close_both();
}
END_TEST

START_TEST(soft_ep_close__in_the_midst_of_a_transfer)
{
	size_t len = 64u << 20;
	uint8_t *src = calloc(1, len), *dst = calloc(1, len);
	struct ripc__mr ms, md;

	connect_both(NULL);
	ck_assert_int_eq(ops->reg(a.t, NULL, src, len, RIPC__ACCESS_LOCAL_WRITE, &ms), 0);
	ck_assert_int_eq(ops->reg(b.t, NULL, dst, len,
				  RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE, &md),
			 0);
	if (_i & 1)
		ck_assert_int_eq(ops->post_read(a.ep, &ms, src, len, md.addr, md.key, 1), 0);
	else
		ck_assert_int_eq(ops->post_write(a.ep, &ms, src, len, md.addr, md.key, 1), 0);
	for (unsigned i = 0; i < 5; i++) {
		step(&a);
		step(&b);
	}
	if (_i & 2) {
		ops->ep_close(b.ep);
		UNTIL(a.nclosed);
		ck_assert_uint_eq(a.nread + a.nwrite, 0);
	} else {
		ops->ep_close(a.ep);
		/* Nothing of ours is touched any more. */
		memset(src, 0xcc, len);
		UNTIL(b.nclosed);
		ck_assert(all_are(src, len, 0xcc));
	}
	close_both();
	free(src);
	free(dst);
}
END_TEST

START_TEST(soft_dereg__under_way)
{
	size_t len = 64u << 20;
	uint8_t *src = calloc(1, len), *dst = calloc(1, len);
	struct ripc__mr ms, md;

	connect_both(NULL);
	ck_assert_int_eq(ops->reg(a.t, NULL, src, len, RIPC__ACCESS_LOCAL_WRITE, &ms), 0);
	ck_assert_int_eq(ops->reg(b.t, NULL, dst, len,
				  RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE, &md),
			 0);
	if (_i)
		ck_assert_int_eq(ops->post_read(a.ep, &ms, src, len, md.addr, md.key, 1), 0);
	else
		ck_assert_int_eq(ops->post_write(a.ep, &ms, src, len, md.addr, md.key, 1), 0);
	for (unsigned i = 0; i < 5; i++) {
		step(&a);
		step(&b);
	}
	UNTIL(((struct ripc__region *)md.priv)->users);
	ops->dereg(b.t, &md);
	memset(dst, 0xcc, len);
	UNTIL(a.nclosed && b.nclosed);
	ck_assert_int_eq(b.closed_status, -ECANCELED);
	ck_assert_uint_eq(a.nread, 0);
	ck_assert(all_are(dst, len, 0xcc));
	close_both();
	free(src);
	free(dst);
}
END_TEST

START_TEST(soft_dereg__unused_disturbs_nobody)
{
	uint8_t memory[10];
	struct ripc__mr mr;

	connect_both(NULL);
	ck_assert_int_eq(ops->reg(b.t, NULL, memory, 10, RIPC__ACCESS_REMOTE_READ, &mr), 0);
	ops->dereg(b.t, &mr);
	ck_assert_int_eq(post(&a, "x", 1, false), 0);
	UNTIL(b.nrecv);
	ck_assert_uint_eq(a.nclosed + b.nclosed, 0);
	close_both();
}
END_TEST

START_TEST(soft_release__token_outlives_the_endpoint)
{
	const char text[] = "still here";

	connect_both(NULL);
	b.hold = true;
	ck_assert_int_eq(post(&a, text, sizeof(text), false), 0);
	UNTIL(b.nrecv);
	ops->ep_close(b.ep);
	UNTIL(a.nclosed);
	for (unsigned i = 0; i < 100; i++)
		step(&b);
	ck_assert_ptr_nonnull(memmem(((struct ripc__slab *)b.held[0])->data, RIPC__SLAB_BYTES, text,
				     sizeof(text)));
	close_both();
}
END_TEST

/* A receiver that keeps all it is given gets no more slabs to keep, and is asked to copy instead: nobody starves. */
START_TEST(soft_release__kept_messages_stop_nobody)
{
	uint8_t p[8000] = {0};
	uint32_t number = 0;

	connect_both(NULL);
	((struct soft *)b.t)->pool.max = 16 * RIPC__SLAB_BYTES;
	b.hold = b.in_order = true;
	for (unsigned i = 0; i < 2000; i++) {
		memcpy(p, &number, 4);
		if (post(&a, p, sizeof(p), false) >= 0)
			number++;
		step(&a);
		step(&b);
	}
	UNTIL(b.nrecv == number);
	ck_assert(!((struct soft *)b.t)->starving);
	/* 2000 such messages fill more than 60 slabs. */
	ck_assert_uint_gt(number, 1000);
	ck_assert_uint_lt(b.nheld, number / 2);
	ck_assert_uint_le(((struct soft *)b.t)->pool.bytes, 8 * RIPC__SLAB_BYTES);
	ck_assert_uint_eq(b.nclosed, 0);
	close_both();
}
END_TEST

START_TEST(soft_accept__garbage)
{
	int fd;

	open_both(NULL);
	fd = raw(&b);
	ck_assert_int_eq(write(fd, "GET / HTTP/1.0\r\n\r\n", 18), 18);
	UNTIL(b.ngarbage);
	ck_assert_ptr_nonnull(strstr(b.text, "127.0.0.1:"));
	ck_assert_ptr_nonnull(strstr(b.text, "not an MPA"));
	UNTIL(raw_ended(fd));
	close(fd);
	/* Somebody who only looks whether the port is open. */
	close(raw(&b));
	for (unsigned i = 0; i < 200; i++)
		step(&b);
	UNTIL(!((struct soft *)b.t)->nhalf_open);
	ck_assert_uint_eq(b.ngarbage, 1);
	close_both();
}
END_TEST

START_TEST(soft_accept__garbage_instead_of_fpdus)
{
	struct ripc__mpa request = {.revision = 1};
	uint8_t buf[RIPC__MPA_FRAME_MAX];
	int fd;

	open_both(NULL);
	fd = raw(&b);
	ck_assert_int_gt(write(fd, buf, ripc__mpa_encode(&request, buf, sizeof(buf))), 0);
	raw_frame(fd, true);
	memset(buf, 0xff, sizeof(buf));
	ck_assert_int_gt(write(fd, buf, sizeof(buf)), 0);
	UNTIL(b.nclosed);
	ck_assert_int_eq(b.closed_status, -EPROTO);
	UNTIL(raw_ended(fd));
	close(fd);
	close_both();
}
END_TEST

START_TEST(soft_accept__half_open_connections_are_bounded)
{
	int fds[2 * SOFT_HALF_OPEN_MAX];
	struct ripc__ep *ep;

	open_both(NULL);
	for (unsigned i = 0; i < 2 * SOFT_HALF_OPEN_MAX; i++) {
		fds[i] = raw(&b);
		step(&b);
	}
	UNTIL(((struct soft *)b.t)->nhalf_open == SOFT_HALF_OPEN_MAX && b.ngarbage);
	start_connect(&a, &b, &ep);
	UNTIL(a.nestablished);
	ck_assert_uint_ge(b.ngarbage, 1);
	ck_assert(raw_ended(fds[0]));
	ck_assert(!raw_ended(fds[2 * SOFT_HALF_OPEN_MAX - 1]));
	for (unsigned i = 0; i < 2 * SOFT_HALF_OPEN_MAX; i++)
		close(fds[i]);
	close_both();
}
END_TEST

/* The time to wait for a request is long; the clock is told to be later. */
START_TEST(soft_accept__too_slow)
{
	struct ripc__event events[4];
	uint64_t deadline = RIPC__NEVER;
	int fd;

	open_both(NULL);
	fd = raw(&b);
	ck_assert_int_eq(write(fd, "MPA ID", 6), 6);
	UNTIL(((struct soft *)b.t)->nhalf_open == 1);
	ops->progress(b.t, events, 4, ripc__clock_ns(), &deadline);
	ck_assert_uint_lt(deadline, ripc__clock_ns() + 6000 * RIPC__MS);
	for (unsigned i = 0; i < 40 && !b.ngarbage; i++) {
		unsigned n =
			ops->progress(b.t, events, 4, ripc__clock_ns() + 6000 * RIPC__MS, &deadline);

		for (unsigned k = 0; k < n; k++)
			handle(&b, &events[k]);
	}
	ck_assert_uint_eq(b.ngarbage, 1);
	ck_assert_ptr_nonnull(strstr(b.text, "in time"));
	UNTIL(raw_ended(fd));
	close(fd);
	close_both();
}
END_TEST

START_TEST(soft_accept__out_of_descriptors)
{
	struct rlimit old, tight;
	struct ripc__ep *ep;
	unsigned n = 0;

	open_both(NULL);
	start_connect(&a, &b, &ep);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	tight = old;
	tight.rlim_cur = (rlim_t)ep->fd + 1;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
	for (unsigned i = 0; i < 100; i++)
		n += step(&b);
	/* The connection may be there only now, or it may just have tried again. */
	for (uint64_t end = ripc__clock_ns() + PATIENCE_NS;
	     !((struct soft *)b.t)->deaf && ripc__clock_ns() < end;)
		n += step(&b);
	ck_assert_uint_eq(n, 0);
	ck_assert(((struct soft *)b.t)->deaf);
	/* The descriptor to sleep on is silent meanwhile. */
	ck_assert_int_eq(ops->arm(b.t), 0);
	ck_assert_int_eq(poll(&(struct pollfd){.fd = ops->fd(b.t), .events = POLLIN}, 1, 0), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	UNTIL(a.nestablished && b.nestablished);
	close_both();
}
END_TEST

START_TEST(soft_accept__peer_of_revision_1)
{
	struct ripc__mpa request = {.revision = 1, .priv = (const uint8_t *)"basic", .privlen = 5},
			 reply;
	uint8_t buf[RIPC__MPA_FRAME_MAX], fpdu[64];
	struct iovec iov = {"late", 4};
	size_t len;
	int fd;

	open_both("crc=off");
	fd = raw(&b);
	len = ripc__mpa_encode(&request, buf, sizeof(buf));
	/* One byte after the other. */
	for (size_t i = 0; i < len; i++) {
		ck_assert_int_eq(write(fd, buf + i, 1), 1);
		step(&b);
	}
	reply = raw_frame(fd, true);
	ck_assert_uint_eq(reply.revision, 1);
	ck_assert(!reply.reject && !reply.crc && !reply.enhanced && !reply.soft);
	ck_assert_uint_eq(reply.privlen, 7);
	ck_assert_uint_eq(b.privlen, 5);
	UNTIL(b.nestablished);
	/* The active side speaks first. */
	ck_assert_int_ge(ops->post_send(b.ep, &iov, 1, false), 0);
	for (unsigned i = 0; i < 100; i++)
		step(&b);
	ck_assert_int_lt(recv(fd, fpdu, sizeof(fpdu), MSG_DONTWAIT), 0);
	len = ripc__ddp_put_untagged(fpdu, RIPC__RDMAP_SEND, true, 0, 1, 0, 2);
	memcpy(fpdu + len, "hi\0\0\0\0\0", 8);
	ck_assert_int_eq(write(fd, fpdu, 28), 28);
	UNTIL(b.nrecv);
	ck_assert_mem_eq(b.last, "hi", 2);
	UNTIL(recv(fd, fpdu, sizeof(fpdu), MSG_DONTWAIT) == 28);
	ck_assert_mem_eq(fpdu + 20, "late", 4);
	close(fd);
	UNTIL(b.nclosed);
	close_both();
}
END_TEST

START_TEST(soft_accept__markers_demanded)
{
	struct ripc__mpa request = {.revision = 1 + (_i & 1), .markers = true, .enhanced = _i & 1},
			 reply;
	uint8_t buf[RIPC__MPA_FRAME_MAX];
	int fd;

	open_both(NULL);
	fd = raw(&b);
	ck_assert_int_gt(write(fd, buf, ripc__mpa_encode(&request, buf, sizeof(buf))), 0);
	reply = raw_frame(fd, true);
	ck_assert(reply.reject && !reply.markers);
	ck_assert_mem_eq(reply.priv, "this end does not send markers", reply.privlen);
	UNTIL(b.ngarbage);
	ck_assert_uint_eq(b.nrequest, 0);
	close(fd);
	close_both();
}
END_TEST

/* A listening socket by hand, in the place of b's first. */
static int raw_listener(uint8_t *addr, size_t *len)
{
	struct ripc__iwarp_address address = {.host = ripc__iwarp_host_id(), .nplaces = 1};
	union ripc__sockaddr *ip = &address.places[0].ip;
	socklen_t sl = sizeof(ip->in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	ip->in.sin_family = AF_INET;
	ip->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ck_assert_int_eq(bind(fd, &ip->sa, sl), 0);
	ck_assert_int_eq(getsockname(fd, &ip->sa, &sl), 0);
	ck_assert_int_eq(listen(fd, 5), 0);
	address.places[0].loopback = true;
	address.places[0].tcp = ripc__sockaddr_port(ip);
	*len = ripc__iwarp_address_encode(&address, addr, RIPC__ADDRESS_MAX);
	return fd;
}

static int raw_accept(int listener)
{
	int fd = -1;

	UNTIL((fd = accept(listener, NULL, NULL)) >= 0);
	return fd;
}

/* 0: it closes on revision 2; 1: it refuses that in revision 1; 2: it answers in revision 1. */
START_TEST(soft_connect__peer_knows_revision_1_only)
{
	struct ripc__mpa reply = {.revision = 1,
				  .reply = true,
				  .priv = (const uint8_t *)"old",
				  .privlen = 3},
			 request;
	uint8_t addr[RIPC__ADDRESS_MAX], buf[RIPC__MPA_FRAME_MAX];
	struct ripc__ep *ep;
	size_t len;
	int listener, fd;

	open_both("crc=off");
	listener = raw_listener(addr, &len);
	ck_assert_int_eq(ops->connect(a.t, addr, len, "x", 1, &a, &ep), 0);
	fd = raw_accept(listener);
	request = raw_frame(fd, false);
	ck_assert_uint_eq(request.revision, 2);
	ck_assert(request.enhanced && !request.peer_to_peer && !request.markers);
	if (_i < 2) {
		reply.reject = true;
		if (_i == 1)
			ck_assert_int_gt(write(fd, buf, ripc__mpa_encode(&reply, buf, sizeof(buf))),
					 0);
		shutdown(fd, SHUT_WR);
		reply.reject = false;
		UNTIL(raw_ended(fd));
		close(fd);
		fd = raw_accept(listener);
		request = raw_frame(fd, false);
		ck_assert_uint_eq(request.revision, 1);
		ck_assert(!request.enhanced);
	}
	ck_assert_int_gt(write(fd, buf, ripc__mpa_encode(&reply, buf, sizeof(buf))), 0);
	UNTIL(a.nestablished);
	ck_assert_uint_eq(a.privlen, 3);
	/* The first FPDU comes from the active side by itself: a send of no bytes. */
	UNTIL(recv(fd, buf, sizeof(buf), MSG_DONTWAIT) == 24);
	ck_assert_mem_eq(buf, "\0\x12\x41\x43", 4);
	close(fd);
	UNTIL(a.nclosed);
	close(listener);
	close_both();
}
END_TEST

START_TEST(soft_connect__reply_of_nonsense)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct ripc__ep *ep;
	size_t len;
	int listener, fd;

	open_both(NULL);
	listener = raw_listener(addr, &len);
	ck_assert_int_eq(ops->connect(a.t, addr, len, "x", 1, &a, &ep), 0);
	fd = raw_accept(listener);
	ck_assert_int_eq(write(fd, "220 mail.example ESMTP\r\n", 24), 24);
	UNTIL(a.nclosed);
	ck_assert_ptr_nonnull(strstr(a.text, "not an MPA set-up frame"));
	close(fd);
	close(listener);
	close_both();
}
END_TEST

/* One place refuses, and at the other one (the first, the second) somebody else answers: the peer may live. */
START_TEST(soft_connect__refused_at_one_of_two_places)
{
	struct ripc__iwarp_address address;
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct ripc__ep *ep;
	size_t len;
	int listener, nobody, fd;

	open_both(NULL);
	nobody = raw_listener(addr, &len);
	ck_assert_int_eq(ripc__iwarp_address_decode(&address, addr, len), 0);
	address.places[!_i] = address.places[0];
	listener = raw_listener(addr, &len);
	{
		struct ripc__iwarp_address other;

		ck_assert_int_eq(ripc__iwarp_address_decode(&other, addr, len), 0);
		address.places[_i] = other.places[0];
	}
	address.nplaces = 2;
	len = ripc__iwarp_address_encode(&address, addr, sizeof(addr));
	close(nobody);
	ck_assert_int_eq(ops->connect(a.t, addr, len, "x", 1, &a, &ep), 0);
	fd = raw_accept(listener);
	ck_assert_int_eq(write(fd, "220 mail.example ESMTP\r\n", 24), 24);
	UNTIL(a.nclosed);
	ck_assert_int_eq(a.closed_status, -EHOSTUNREACH);
	ck_assert_ptr_nonnull(strstr(a.text, "refused"));
	ck_assert_ptr_nonnull(strstr(a.text, "not an MPA set-up frame"));
	close(fd);
	close(listener);
	close_both();
}
END_TEST

/* Likewise, and all refuse. */
START_TEST(soft_connect__refused_at_two_places)
{
	struct ripc__iwarp_address address, other;
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct ripc__ep *ep;
	size_t len;
	int one, two;

	open_both(NULL);
	one = raw_listener(addr, &len);
	ck_assert_int_eq(ripc__iwarp_address_decode(&address, addr, len), 0);
	two = raw_listener(addr, &len);
	ck_assert_int_eq(ripc__iwarp_address_decode(&other, addr, len), 0);
	address.places[address.nplaces++] = other.places[0];
	len = ripc__iwarp_address_encode(&address, addr, sizeof(addr));
	close(one);
	close(two);
	ck_assert_int_eq(ops->connect(a.t, addr, len, "x", 1, &a, &ep), 0);
	UNTIL(a.nclosed);
	ck_assert_int_eq(a.closed_status, -ECONNREFUSED);
	close_both();
}
END_TEST

START_TEST(soft_progress__many_endpoints)
{
	enum { N = 150 };
	struct ripc__ep *eps[N];
	unsigned round;

	open_both(NULL);
	/* With room for one event at a time nobody loses his turn. */
	if (_i)
		a.max = b.max = 1;
	for (unsigned i = 0; i < N; i++) {
		start_connect(&a, &b, &eps[i]);
		UNTIL(a.nestablished == i + 1 && b.nestablished == i + 1);
	}
	ck_assert_uint_lt(sizeof(struct ripc__ep), 8192);
	for (round = 0; round < 3; round++) {
		for (unsigned i = 0; i < N; i++)
			ck_assert_int_ge(ops->post_send(eps[i], &(struct iovec){"x", 1}, 1, false), 0);
		UNTIL(b.nrecv == (round + 1) * N);
	}
	for (unsigned i = 0; i < N; i += 2)
		ops->ep_close(eps[i]);
	UNTIL(b.nclosed == N / 2);
	close_both();
}
END_TEST

START_TEST(soft_fd__readable_when_there_is_something)
{
	struct pollfd p;

	connect_both(NULL);
	for (unsigned i = 0; i < 2000; i++) {
		step(&a);
		step(&b);
	}
	ck_assert_int_eq(ops->arm(b.t), 0);
	p = (struct pollfd){.fd = ops->fd(b.t), .events = POLLIN};
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	ck_assert_int_eq(post(&a, "wake", 4, false), 0);
	ck_assert_int_eq(poll(&p, 1, 5000), 1);
	UNTIL(b.nrecv);
	/* Held back: nothing to wait for, but arm() pushes it. */
	ck_assert_int_eq(post(&a, "wake", 4, true), 1);
	ck_assert_int_eq(ops->arm(a.t), 0);
	ck_assert_int_eq(poll(&p, 1, 5000), 1);
	close_both();
}
END_TEST

/* Each side sleeps on its descriptor only: a transfer larger than the socket buffers still goes on. */
START_TEST(soft_arm__writable_socket_wakes)
{
	size_t len = 32u << 20;
	uint8_t *src = pattern(len, 2), *dst = calloc(1, len);
	struct ripc__mr ms, md;

	connect_both(NULL);
	ck_assert_int_eq(ops->reg(a.t, NULL, src, len, 0, &ms), 0);
	ck_assert_int_eq(ops->reg(b.t, NULL, dst, len, RIPC__ACCESS_REMOTE_WRITE, &md), 0);
	ck_assert_int_eq(ops->post_write(a.ep, &ms, src, len, md.addr, md.key, 1), 0);
	ck_assert_int_ge(post(&a, "end", 3, false), 0);
	for (unsigned i = 0; i < 1000000 && !b.nrecv; i++) {
		struct pollfd p[2] = {
			{.fd = ops->fd(a.t), .events = POLLIN},
			{.fd = ops->fd(b.t), .events = POLLIN},
		};
		int ready = ops->arm(a.t) | ops->arm(b.t) << 1;

		ck_assert_int_ge(poll(p, 2, ready ? 0 : 5000), ready ? 0 : 1);
		if (p[0].revents || (ready & 1))
			step(&a);
		if (p[1].revents || (ready & 2))
			step(&b);
	}
	ck_assert_uint_eq(b.nrecv, 1);
	ck_assert_mem_eq(dst, src, len);
	close_both();
	free(src);
	free(dst);
}
END_TEST

START_TEST(soft_post_datagram__there_and_back)
{
	struct ripc__transport_limits l;
	uint8_t addr[RIPC__ADDRESS_MAX], *p;
	struct iovec iov[2] = {{"ping", 4}, {"!", 1}};
	int len;

	open_both("short=udp");
	ops->limits(a.t, &l);
	ck_assert(l.caps & RIPC__CAP_DATAGRAM);
	ck_assert_uint_ge(l.datagram_max, 1024);
	len = ops->address(b.t, addr, sizeof(addr));
	ck_assert_int_eq(ops->post_datagram(a.t, addr, (size_t)len, iov, 2), 0);
	UNTIL(b.ndatagram);
	ck_assert_uint_eq(b.last_len, 5);
	ck_assert_mem_eq(b.last, "ping!", 5);
	ck_assert_int_eq(ops->post_datagram(b.t, b.from, b.fromlen, iov, 1), 0);
	UNTIL(a.ndatagram);
	ck_assert_uint_eq(a.last_len, 4);
	p = pattern(l.datagram_max + 1, 4);
	iov[0] = (struct iovec){p, l.datagram_max};
	ck_assert_int_eq(ops->post_datagram(a.t, addr, (size_t)len, iov, 1), 0);
	UNTIL(b.ndatagram == 2);
	ck_assert_uint_eq(b.last_len, l.datagram_max);
	ck_assert_mem_eq(b.last, p, l.datagram_max);
	iov[0].iov_len++;
	ck_assert_int_eq(ops->post_datagram(a.t, addr, (size_t)len, iov, 1), -EMSGSIZE);
	ck_assert_int_eq(ops->post_datagram(a.t, addr, 7, iov, 0), -EINVAL);
	close_both();
	free(p);
}
END_TEST

START_TEST(soft_post_datagram__not_asked_for)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct iovec iov = {"x", 1};
	int len;

	open_both(NULL);
	len = ops->address(b.t, addr, sizeof(addr));
	ck_assert_int_eq(ops->post_datagram(a.t, addr, (size_t)len, &iov, 1), -EOPNOTSUPP);
	close_both();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("soft");
	TCase *tc = tcase_create("soft");

	setenv("RIPC_INTERFACES", "lo", 1);
	tcase_add_test(tc, soft_open__listens_on_the_loopback_only);
	tcase_add_test(tc, soft_open__interface_without_address);
	tcase_add_test(tc, soft_limits__as_promised);
	tcase_add_test(tc, soft_connect__private_data_both_ways);
	tcase_add_test(tc, soft_connect__crc_as_both_want);
	tcase_add_test(tc, soft_reject__with_private_data);
	tcase_add_test(tc, soft_connect__nobody_there);
	tcase_add_test(tc, soft_connect__nonsense_address);
	tcase_add_test(tc, soft_ep_close__at_every_stage_of_set_up);
	tcase_add_loop_test(tc, soft_post_send__all_sizes, 0, 2);
	tcase_add_test(tc, soft_post_send__more_is_held_back_until_flush);
	tcase_add_loop_test(tc, soft_post_send__slow_reader, 0, 2);
	tcase_add_test(tc, soft_post_send__many_both_ways_in_order);
	tcase_add_test(tc, soft_progress__data_before_closed_and_max_kept);
	tcase_add_loop_test(tc, soft_post_write__lengths_up_to_64_mib, 0, 2);
	tcase_add_test(tc, soft_post_read__depth);
	tcase_add_loop_test(tc, soft_post_write__bad_key_ends_that_connection_only, 0, 3);
	tcase_add_loop_test(tc, soft_ep_close__in_the_midst_of_a_transfer, 0, 4);
	tcase_add_loop_test(tc, soft_dereg__under_way, 0, 2);
	tcase_add_test(tc, soft_dereg__unused_disturbs_nobody);
	tcase_add_test(tc, soft_release__token_outlives_the_endpoint);
	tcase_add_test(tc, soft_release__kept_messages_stop_nobody);
	tcase_add_test(tc, soft_accept__garbage);
	tcase_add_test(tc, soft_accept__garbage_instead_of_fpdus);
	tcase_add_test(tc, soft_accept__half_open_connections_are_bounded);
	tcase_add_test(tc, soft_accept__too_slow);
	tcase_add_test(tc, soft_accept__out_of_descriptors);
	tcase_add_test(tc, soft_accept__peer_of_revision_1);
	tcase_add_loop_test(tc, soft_accept__markers_demanded, 0, 2);
	tcase_add_loop_test(tc, soft_connect__peer_knows_revision_1_only, 0, 3);
	tcase_add_test(tc, soft_connect__reply_of_nonsense);
	tcase_add_loop_test(tc, soft_connect__refused_at_one_of_two_places, 0, 2);
	tcase_add_test(tc, soft_connect__refused_at_two_places);
	tcase_add_loop_test(tc, soft_progress__many_endpoints, 0, 2);
	tcase_add_test(tc, soft_fd__readable_when_there_is_something);
	tcase_add_test(tc, soft_arm__writable_socket_wakes);
	tcase_add_test(tc, soft_post_datagram__there_and_back);
	tcase_add_test(tc, soft_post_datagram__not_asked_for);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return test_main("soft/test_soft", suite);
}
