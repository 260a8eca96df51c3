/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* window/shm as a transport: addresses, sockets, segments, and peers that do as they please. */
#define _GNU_SOURCE
#include "harness.h"
#include "ripc.h"
#include "transport/window/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPS (&ripc__transport_shm)

static struct ripc__options options;

static struct shm *open_shm(void)
{
	static const uint8_t instance[16];
	struct ripc__transport_env env = {.opt = &options, .instance = instance};
	struct ripc__transport *t = NULL;

	ck_assert_int_eq(OPS->open(&t, &env), 0);
	return (struct shm *)t;
}

static void close_shm(struct shm *t)
{
	OPS->close((struct ripc__transport *)t);
}

/* One round, for one event. */
static struct ripc__event progress(struct shm *t)
{
	struct ripc__event ev = {.kind = RIPC__EV_NONE};
	static uint64_t now = 1;
	uint64_t deadline = UINT64_MAX;

	/* Far enough from the last round that the sockets are looked at. */
	now += 1000000;
	OPS->progress((struct ripc__transport *)t, &ev, 1, now, &deadline);
	return ev;
}

static struct ripc__event await(struct shm *t, enum ripc__ev_kind kind)
{
	for (int i = 0; i < 1000; i++) {
		struct ripc__event ev = progress(t);

		if (ev.kind == kind)
			return ev;
		ck_assert_int_eq(ev.kind, RIPC__EV_NONE);
	}
	ck_abort_msg("event %d does not come", kind);
	return (struct ripc__event){0};
}

struct two {
	struct shm *a, *b;
	struct ripc__ep *ea, *eb;
};

static void connect_two(struct two *w)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct ripc__event ev;
	int len;

	len = OPS->address((struct ripc__transport *)w->b, addr, sizeof(addr));
	ck_assert_int_gt(len, 0);
	ck_assert_int_eq(OPS->connect((struct ripc__transport *)w->a, addr, (size_t)len, "hello", 5,
				      w, &w->ea),
			 0);
	ev = await(w->b, RIPC__EV_REQUEST);
	ck_assert_uint_eq(ev.len, 5);
	ck_assert(!memcmp(ev.data, "hello", 5));
	ck_assert_int_eq(
		OPS->accept((struct ripc__transport *)w->b, ev.request, "welcome", 7, w, &w->eb), 0);
	await(w->b, RIPC__EV_ESTABLISHED);
	ev = await(w->a, RIPC__EV_ESTABLISHED);
	ck_assert_uint_eq(ev.len, 7);
	ck_assert(!memcmp(ev.data, "welcome", 7));
}

static void join(struct two *w)
{
	w->a = open_shm();
	w->b = open_shm();
	connect_two(w);
}

static void part(struct two *w)
{
	close_shm(w->a);
	close_shm(w->b);
}

static int raw_connect(struct shm *t)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	ripc__shm_address_name(&t->address, un.sun_path + 1);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&un,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 38)),
			 0);
	return fd;
}

static void raw_send(int fd, const void *p, size_t len, int pass)
{
	struct iovec iov = {(void *)(uintptr_t)p, len};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	if (pass >= 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &pass, sizeof(int));
	}
	ck_assert_int_eq(sendmsg(fd, &msg, MSG_NOSIGNAL), (ssize_t)len);
}

static unsigned descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* ---- address.c ---- */

START_TEST(address__round_trip)
{
	struct ripc__shm_address a = {.netns = 77, .path = "/run/x/ripc-1.sock"}, b;
	uint8_t buf[RIPC__ADDRESS_MAX + 1];
	size_t len;

	memset(a.host, 1, 16);
	memset(a.name, 2, 16);
	len = ripc__shm_address_encode(&a, buf, RIPC__ADDRESS_MAX);
	ck_assert_uint_gt(len, 0);
	ck_assert_int_eq(ripc__shm_address_decode(&b, buf, len), 0);
	ck_assert_mem_eq(a.host, b.host, 16);
	ck_assert_mem_eq(a.name, b.name, 16);
	ck_assert_uint_eq(a.netns, b.netns);
	ck_assert_str_eq(a.path, b.path);
	for (size_t i = 0; i < len; i++)
		ck_assert_int_eq(ripc__shm_address_decode(&b, buf, i), -EINVAL);
	ck_assert_int_eq(ripc__shm_address_decode(&b, buf, len + 1), -EINVAL);
	buf[44] = 'x';
	ck_assert_int_eq(ripc__shm_address_decode(&b, buf, len), -EINVAL);
	buf[44] = '/';
	buf[0] = 2;
	ck_assert_int_eq(ripc__shm_address_decode(&b, buf, len), -EINVAL);
}
END_TEST

/* ---- segment.c ---- */

START_TEST(segment__sealed)
{
	struct ripc__segment s = {0}, peer = {0};
	int fd = ripc__segment_make(&s, 8192), other;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_lt(ftruncate(fd, 0), 0);
	ck_assert_int_eq(ripc__segment_map(&peer, fd, 8193), -EINVAL);
	ck_assert_int_eq(ripc__segment_map(&peer, fd, 8192), 0);
	peer.base[8191] = 7;
	ck_assert_uint_eq(s.base[8191], 7);
	ripc__segment_unmap(&s);
	ripc__segment_unmap(&peer);
	close(fd);
	other = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(other, 8192), 0);
	ck_assert_int_eq(ripc__segment_map(&peer, other, 8192), -EPERM);
	ck_assert_ptr_null(peer.base);
	close(other);
	other = open("/dev/zero", O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(ripc__segment_map(&peer, other, 8192), -EINVAL);
	close(other);
}
END_TEST

/* A limit on file sizes is an error, and not the signal that a file too large would bring. */
START_TEST(segment__limited)
{
	struct rlimit limit = {4096, 4096};
	struct ripc__segment s = {0};

	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_int_eq(ripc__segment_make(&s, 8192), -EFBIG);
}
END_TEST

/* ---- listen.c ---- */

/* Sockets of processes that were killed go, those of others stay, and ours goes with us. */
START_TEST(listen__directory)
{
	char dir[] = "/tmp/ripc-test-XXXXXX", stale[128], path[128];
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct ripc__shm_address a;
	struct shm *t, *second;
	struct ripc__ep *ep;
	struct stat st;
	size_t len;
	int fd;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(stale, sizeof(stale), "%s/ripc-%032d.sock", dir, 7);
	strcpy(un.sun_path, stale);
	fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	close(fd);
	strcpy(options.shm_dir, dir);
	t = open_shm();
	ck_assert_int_lt(stat(stale, &st), 0);
	strcpy(path, t->address.path);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert(S_ISSOCK(st.st_mode));
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
	second = open_shm();
	ck_assert_int_eq(stat(path, &st), 0);
	/* From another network namespace, as it seems, it is the way. */
	a = t->address;
	a.netns++;
	len = ripc__shm_address_encode(&a, addr, sizeof(addr));
	ck_assert_int_eq(OPS->connect((struct ripc__transport *)second, addr, len, "", 0, NULL, &ep),
			 0);
	await(t, RIPC__EV_REQUEST);
	close_shm(second);
	close_shm(t);
	ck_assert_int_lt(stat(path, &st), 0);
	ck_assert_int_eq(rmdir(dir), 0);
	options.shm_dir[0] = 0;
}
END_TEST

/* ---- setup.c ---- */

START_TEST(connect__unreachable)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct shm *t = open_shm(), *gone = open_shm();
	struct ripc__transport *tr = (struct ripc__transport *)t;
	struct ripc__shm_address a = gone->address;
	struct ripc__ep *ep;
	size_t len;

	close_shm(gone);
	len = ripc__shm_address_encode(&a, addr, sizeof(addr));
	ck_assert_int_eq(OPS->connect(tr, addr, len, NULL, 0, NULL, &ep), -ECONNREFUSED);
	ck_assert_int_eq(OPS->connect(tr, addr, len - 1, NULL, 0, NULL, &ep), -EINVAL);
	a.netns++;
	len = ripc__shm_address_encode(&a, addr, sizeof(addr));
	ck_assert_int_eq(OPS->connect(tr, addr, len, NULL, 0, NULL, &ep), -EHOSTUNREACH);
	ck_assert_ptr_nonnull(strstr(ripc_detail(), "RIPC_SHM_DIR"));
	strcpy(a.path, "/nonexistent/socket");
	len = ripc__shm_address_encode(&a, addr, sizeof(addr));
	ck_assert_int_eq(OPS->connect(tr, addr, len, NULL, 0, NULL, &ep), -EHOSTUNREACH);
	a.host[3]++;
	len = ripc__shm_address_encode(&a, addr, sizeof(addr));
	ck_assert_int_eq(OPS->connect(tr, addr, len, NULL, 0, NULL, &ep), -EHOSTUNREACH);
	ck_assert_ptr_nonnull(strstr(ripc_detail(), "another host"));
	close_shm(t);
}
END_TEST

START_TEST(connect__rejected)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct shm *a = open_shm(), *b = open_shm();
	struct ripc__event ev;
	struct ripc__ep *ep;
	int len = OPS->address((struct ripc__transport *)b, addr, sizeof(addr));

	ck_assert_int_eq(
		OPS->connect((struct ripc__transport *)a, addr, (size_t)len, "x", 1, &ep, &ep), 0);
	ev = await(b, RIPC__EV_REQUEST);
	OPS->reject((struct ripc__transport *)b, ev.request, "no", 2);
	ev = await(a, RIPC__EV_CLOSED);
	ck_assert(ev.reject);
	ck_assert_uint_eq(ev.len, 2);
	ck_assert(!memcmp(ev.data, "no", 2));
	ck_assert_ptr_eq(ev.user, &ep);
	OPS->ep_close(ev.ep);
	close_shm(a);
	close_shm(b);
}
END_TEST

/* Whatever a stranger of the same user says first, it is turned away, told of, and no descriptor of its stays. */
START_TEST(request__garbage)
{
	struct shm *t = open_shm();
	struct ripc__segment s = {0};
	uint8_t good[48 + 5] = "ripcshm1\1\11\22", bad[400];
	unsigned before = descriptors();
	int small = ripc__segment_make(&s, 4096), loose, raw;

	ck_assert_uint_eq(good[9], 9);
	good[12] = 5;
	loose = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(loose, 1 << 20), 0);
	for (int i = 0; i < 9; i++) {
		int pass = i == 6 ? -1 : i == 7 ? small : loose;
		size_t len = sizeof(good);

		memset(bad, 0, sizeof(bad));
		memcpy(bad, good, sizeof(good));
		if (i == 0)
			bad[0]++;
		else if (i == 1)
			bad[8] = 2;
		else if (i == 2)
			bad[9]++;
		else if (i == 3)
			bad[12]++;
		else if (i == 4)
			len = 47;
		else if (i == 5)
			len = sizeof(bad);
		raw = raw_connect(t);
		raw_send(raw, bad, len, pass);
		await(t, RIPC__EV_GARBAGE);
		ck_assert_uint_eq(t->neps, 0);
		close(raw);
	}
	/* Who says nothing and goes is nothing to tell of; who says nothing and stays goes, too. */
	close(raw_connect(t));
	ck_assert_int_eq(progress(t).kind, RIPC__EV_NONE);
	ck_assert_int_eq(progress(t).kind, RIPC__EV_NONE);
	ck_assert_uint_eq(t->neps, 0);
	raw = raw_connect(t);
	progress(t);
	ck_assert_uint_eq(t->neps, 1);
	for (int i = 0; i < 3100; i++)
		progress(t);
	ck_assert_uint_eq(t->neps, 0);
	close(raw);
	close(small);
	close(loose);
	ripc__segment_unmap(&s);
	progress(t);
	ck_assert_uint_eq(descriptors(), before);
	close_shm(t);
}
END_TEST

/* A peer's process that ends without a word: what it sent before is delivered, then the end is reported. */
START_TEST(open__peer_killed)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct shm *t = open_shm();
	int len = OPS->address((struct ripc__transport *)t, addr, sizeof(addr)), status;
	struct ripc__event ev;
	struct ripc__ep *ep;
	pid_t child = fork();

	if (!child) {
		struct iovec iov = {"last words", 10};
		struct shm *own = open_shm();

		OPS->connect((struct ripc__transport *)own, addr, (size_t)len, "", 0, NULL, &ep);
		for (int i = 0; i < 100000 && progress(own).kind != RIPC__EV_ESTABLISHED; i++)
			usleep(100);
		OPS->post_send(ep, &iov, 1, false);
		kill(getpid(), SIGKILL);
	}
	for (int i = 0; i < 100000; i++) {
		ev = progress(t);
		if (ev.kind == RIPC__EV_REQUEST)
			break;
		usleep(100);
	}
	ck_assert_int_eq(ev.kind, RIPC__EV_REQUEST);
	ck_assert_int_eq(OPS->accept((struct ripc__transport *)t, ev.request, "", 0, NULL, &ep), 0);
	await(t, RIPC__EV_ESTABLISHED);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status));
	ev = await(t, RIPC__EV_RECV);
	ck_assert(!memcmp(ev.data, "last words", 10));
	OPS->release((struct ripc__transport *)t, ev.token);
	ev = await(t, RIPC__EV_CLOSED);
	ck_assert_int_eq(ev.status, -ECONNRESET);
	OPS->ep_close(ep);
	close_shm(t);
}
END_TEST

/* ---- endpoint.c ---- */

START_TEST(read__direct)
{
	size_t len = 3u << 20;
	uint8_t *from = malloc(len), *to = malloc(len);
	struct ripc__mr remote, local;
	struct ripc__event ev;
	struct two w;

	join(&w);
	ck_assert(w.ea->peer_reads && w.eb->peer_reads);
	for (size_t i = 0; i < len; i++)
		from[i] = (uint8_t)(i * 7 + (i >> 9));
	ck_assert_int_eq(OPS->reg((struct ripc__transport *)w.b, w.eb, from, len,
				  RIPC__ACCESS_REMOTE_READ, &remote),
			 0);
	ck_assert_int_eq(OPS->reg((struct ripc__transport *)w.a, NULL, to, len,
				  RIPC__ACCESS_LOCAL_WRITE, &local),
			 0);
	ck_assert_int_eq(OPS->post_read(w.ea, &local, to, len + 1, remote.addr, remote.key, 1),
			 -EINVAL);
	ck_assert_int_eq(OPS->post_read(w.ea, &local, to, len, remote.addr, remote.key, 2), 0);
	ev = await(w.a, RIPC__EV_READ_DONE);
	ck_assert_int_eq(ev.status, 0);
	ck_assert_uint_eq(ev.wr_id, 2);
	ck_assert(!memcmp(from, to, len));
	/* Memory that the kernel does not find there is an error, not a signal. */
	ck_assert_int_eq(OPS->post_read(w.ea, &local, to, len, 4096, remote.key, 3), 0);
	ev = await(w.a, RIPC__EV_READ_DONE);
	ck_assert_int_eq(ev.status, -EFAULT);
	OPS->dereg((struct ripc__transport *)w.b, &remote);
	OPS->dereg((struct ripc__transport *)w.a, &local);
	/* Registrations may be ended after their endpoint. */
	ck_assert_int_eq(OPS->reg((struct ripc__transport *)w.b, w.eb, from, len,
				  RIPC__ACCESS_REMOTE_READ, &remote),
			 0);
	OPS->ep_close(w.eb);
	ck_assert_int_eq(OPS->post_read(w.ea, &local, to, len, remote.addr, remote.key, 4), 0);
	for (int i = 0; i < 100; i++) {
		ev = progress(w.a);
		if (ev.kind == RIPC__EV_READ_DONE)
			ck_assert_int_ne(ev.status, 0);
		if (ev.kind == RIPC__EV_CLOSED)
			break;
	}
	ck_assert_int_eq(ev.kind, RIPC__EV_CLOSED);
	OPS->dereg((struct ripc__transport *)w.b, &remote);
	part(&w);
	free(from);
	free(to);
}
END_TEST

/* One look of an owner who sleeps whenever it may: then it looks at nothing until its descriptor is readable. */
static void drowsy_look(struct shm *t, bool *asleep)
{
	struct pollfd p = {.fd = OPS->fd((struct ripc__transport *)t), .events = POLLIN};
	static uint64_t now = UINT64_C(1) << 40;
	uint64_t deadline = UINT64_MAX;
	struct ripc__event ev;

	if (*asleep && poll(&p, 1, 0) == 0)
		return;
	now += 1000000;
	*asleep = !OPS->progress((struct ripc__transport *)t, &ev, 1, now, &deadline) &&
		  deadline == UINT64_MAX && !OPS->arm((struct ripc__transport *)t);
}

/* Where memory of the other cannot be read, its owner brings it: also one who sleeps whenever it may, and hears of nothing else. */
START_TEST(read__served_by_one_who_sleeps)
{
	uint8_t from[3000], to[3000] = {0};
	struct ripc__mr remote, local;
	struct ripc__event ev = {.kind = RIPC__EV_NONE};
	bool asleep = false;
	struct two w;

	join(&w);
	w.ea->peer_reads = false;
	w.ea->win.be.caps &= ~RIPC__WIN_READ;
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 7);
	ck_assert_int_eq(OPS->reg((struct ripc__transport *)w.b, w.eb, from, sizeof(from),
				  RIPC__ACCESS_REMOTE_READ, &remote),
			 0);
	ck_assert_int_eq(OPS->reg((struct ripc__transport *)w.a, NULL, to, sizeof(to),
				  RIPC__ACCESS_LOCAL_WRITE, &local),
			 0);
	for (int i = 0; i < 100 && !asleep; i++)
		drowsy_look(w.b, &asleep);
	ck_assert(asleep);
	ck_assert_int_eq(OPS->post_read(w.ea, &local, to, sizeof(to), remote.addr, remote.key, 1), 0);
	for (int i = 0; i < 100 && ev.kind == RIPC__EV_NONE; i++) {
		drowsy_look(w.b, &asleep);
		ev = progress(w.a);
	}
	ck_assert_int_eq(ev.kind, RIPC__EV_READ_DONE);
	ck_assert_int_eq(ev.status, 0);
	ck_assert_mem_eq(from, to, sizeof(from));
	OPS->dereg((struct ripc__transport *)w.b, &remote);
	OPS->dereg((struct ripc__transport *)w.a, &local);
	part(&w);
}
END_TEST

/* A peer that scribbles over all it can reach, in the middle of traffic. _i seeds. */
START_TEST(hostile__scribbles)
{
	uint64_t rng = test_seed() + (uint64_t)_i;
	static uint8_t bytes[3000];
	struct iovec iov = {bytes, 0};
	struct ripc__mr mr;
	struct two w;

	join(&w);
	ck_assert_int_eq(OPS->reg((struct ripc__transport *)w.a, w.ea, bytes, sizeof(bytes),
				  RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE, &mr),
			 0);
	for (int i = 0; i < 20000 && w.ea->state == SHM_OPEN; i++) {
		struct ripc__event ev[8] = {{0}};
		uint64_t r = test_random(&rng), deadline = UINT64_MAX;
		size_t at = r % 3 ? r / 8 % 8192 : r / 8 % (w.eb->outbox.len / 8);
		unsigned n;

		iov.iov_len = r >> 32 & 2047;
		OPS->post_send(r & 4 ? w.ea : w.eb, &iov, 1, false);
		if (r % 7 == 0) {
			r = test_random(&rng);
			if (r & 1)
				r &= 0xff0f00ff00ffffff;
			memcpy(w.eb->outbox.base + 8 * at, &r, 8);
		}
		n = OPS->progress((struct ripc__transport *)w.a, ev, 8, 1, &deadline);
		for (unsigned k = 0; k < n; k++)
			if (ev[k].kind == RIPC__EV_RECV && ev[k].token)
				OPS->release((struct ripc__transport *)w.a, ev[k].token);
		n = OPS->progress((struct ripc__transport *)w.b, ev, 8, 1, &deadline);
		for (unsigned k = 0; k < n; k++)
			if (ev[k].kind == RIPC__EV_RECV && ev[k].token)
				OPS->release((struct ripc__transport *)w.b, ev[k].token);
	}
	OPS->dereg((struct ripc__transport *)w.a, &mr);
	part(&w);
}
END_TEST

/* Its kicks, and what it passes with them, cost it nothing but its own socket. */
START_TEST(hostile__kicks)
{
	unsigned before;
	struct two w;

	join(&w);
	before = descriptors();
	for (int i = 0; i < 50; i++) {
		raw_send(w.eb->fd, "kick me", 7, 0);
		progress(w.a);
	}
	for (int i = 0; i < 50; i++)
		progress(w.a);
	ck_assert_uint_eq(descriptors(), before);
	ck_assert_int_eq(w.ea->state, SHM_OPEN);
	part(&w);
}
END_TEST

/* Until the endpoint of b is not looked at any more. */
static void turn_cold(struct two *w)
{
	for (int i = 0; i < 100 && !w->eb->cold; i++) {
		ck_assert_int_eq(progress(w->b).kind, RIPC__EV_NONE);
		OPS->arm((struct ripc__transport *)w->b);
	}
	ck_assert(w->eb->cold);
}

/* Its peer rings, and it is heard. */
START_TEST(cold__rings)
{
	struct iovec item = {"hello", 5};
	struct two w;

	join(&w);
	for (int i = 0; i < 3; i++) {
		struct ripc__event ev;
		struct pollfd p;

		turn_cold(&w);
		/* Asleep: nothing is readable before the peer rings. */
		p = (struct pollfd){.fd = OPS->fd((struct ripc__transport *)w.b), .events = POLLIN};
		ck_assert_int_eq(poll(&p, 1, 0), 0);
		ck_assert_int_eq(OPS->post_send(w.ea, &item, 1, false), 0);
		ck_assert_int_eq(poll(&p, 1, 10000), 1);
		ev = await(w.b, RIPC__EV_RECV);
		ck_assert_uint_eq(ev.len, 5);
		ck_assert_ptr_eq(ev.ep, w.eb);
		OPS->release((struct ripc__transport *)w.b, ev.token);
		ck_assert(!w.eb->cold);
	}
	part(&w);
}
END_TEST

/* Also by who never looks at the sockets, as it does not sleep; the ring that comes later does no harm. */
START_TEST(cold__is_found)
{
	struct iovec item = {"hello", 5};
	uint64_t deadline = UINT64_MAX;
	struct ripc__event ev = {.kind = RIPC__EV_NONE};
	struct two w;

	join(&w);
	turn_cold(&w);
	/* Looks at the sockets, for it was about to sleep. */
	OPS->progress((struct ripc__transport *)w.b, &ev, 1, UINT64_C(1) << 40, &deadline);
	ck_assert(w.eb->cold);
	ck_assert_int_eq(OPS->post_send(w.ea, &item, 1, false), 0);
	for (int i = 0; i < 10 && ev.kind == RIPC__EV_NONE; i++)
		OPS->progress((struct ripc__transport *)w.b, &ev, 1, UINT64_C(1) << 40, &deadline);
	ck_assert_int_eq(ev.kind, RIPC__EV_RECV);
	OPS->release((struct ripc__transport *)w.b, ev.token);
	ck_assert(!w.eb->cold);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(progress(w.b).kind, RIPC__EV_NONE);
	part(&w);
}
END_TEST

/* Where nobody sleeps as well, if it takes longer. */
START_TEST(cold__without_sleep)
{
	struct iovec item = {"hello", 5};
	struct ripc__event ev;
	struct two w;

	join(&w);
	for (int i = 0; i < 100000 && !w.eb->cold; i++)
		ck_assert_int_eq(progress(w.b).kind, RIPC__EV_NONE);
	ck_assert(w.eb->cold);
	ck_assert_int_eq(OPS->post_send(w.ea, &item, 1, false), 0);
	ev = await(w.b, RIPC__EV_RECV);
	OPS->release((struct ripc__transport *)w.b, ev.token);
	ck_assert(!w.eb->cold);
	part(&w);
}
END_TEST

/* What is posted is looked after, and the end is noticed. */
START_TEST(cold__posts_and_ends)
{
	struct iovec item = {"hello", 5};
	uint8_t head[RIPC__HEAD_LEN] = {0};
	struct ripc__event ev;
	struct two w;

	join(&w);
	turn_cold(&w);
	ck_assert_int_eq(OPS->post_send(w.eb, &item, 1, true), 2);
	ck_assert(!w.eb->cold);
	/* What was held back goes out before the next sleep. */
	turn_cold(&w);
	ck_assert(!ripc__win_busy(&w.eb->win));
	ck_assert_int_eq(OPS->post_plain(w.eb, head, "x", 1, false), 0);
	ck_assert(!w.eb->cold);
	turn_cold(&w);
	OPS->ep_close(w.ea);
	ev = await(w.b, RIPC__EV_CLOSED);
	ck_assert_ptr_eq(ev.ep, w.eb);
	OPS->ep_close(w.eb);
	part(&w);
}
END_TEST

/* One that is dropped while it is not looked at is gone. */
START_TEST(cold__closed)
{
	struct two w;

	join(&w);
	turn_cold(&w);
	OPS->ep_close(w.eb);
	ck_assert_ptr_eq(w.b->cold.next, &w.b->cold);
	await(w.a, RIPC__EV_CLOSED);
	part(&w);
	join(&w);
	turn_cold(&w);
	part(&w);
}
END_TEST

/*
 * Whoever is forked reads the ring of those that are not looked at, at any moment, to close what belongs to its parent: looking at one after
 * the other changes nothing in it.
 */
START_TEST(cold__ring_stays_as_it_is)
{
	enum { PEERS = 3 };
	struct iovec item = {"hello", 5};
	struct ripc__ep *order[PEERS], *ep, *from[PEERS] = {NULL};
	uint64_t deadline = UINT64_MAX;
	struct ripc__event ev;
	unsigned n, found = 0;
	struct two w;

	join(&w);
	from[0] = w.ea;
	turn_cold(&w);
	for (n = 1; n < PEERS; n++) {
		connect_two(&w);
		from[n] = w.ea;
		turn_cold(&w);
	}
	for (n = 0, ep = w.b->cold.next; ep != &w.b->cold && n < PEERS; ep = ep->next)
		order[n++] = ep;
	ck_assert_uint_eq(n, PEERS);
	ck_assert_ptr_eq(ep, &w.b->cold);
	for (unsigned round = 0; round < 2 * PEERS + 1; round++) {
		ck_assert_uint_eq(OPS->progress((struct ripc__transport *)w.b, &ev, 1, 1, &deadline),
				  0);
		for (n = 0, ep = w.b->cold.next; n < PEERS; n++, ep = ep->next)
			ck_assert_ptr_eq(ep, order[n]);
		ck_assert_ptr_eq(ep, &w.b->cold);
	}
	/* And all have their turn. */
	for (n = 0; n < PEERS; n++)
		ck_assert_int_eq(OPS->post_send(from[n], &item, 1, false), 0);
	for (n = 0; n < 100 && found < PEERS; n++) {
		if (!OPS->progress((struct ripc__transport *)w.b, &ev, 1, w.b->looked_ns, &deadline))
			continue;
		ck_assert_int_eq(ev.kind, RIPC__EV_RECV);
		OPS->release((struct ripc__transport *)w.b, ev.token);
		found++;
	}
	ck_assert_uint_eq(found, PEERS);
	part(&w);
}
END_TEST

/* A child has none of them, looked at or not. */
START_TEST(cold__in_a_child)
{
	struct two w;
	int status;
	pid_t pid;

	join(&w);
	turn_cold(&w);
	connect_two(&w);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		unsigned before = descriptors();

		/* Two connections, up to two listeners, and what it sleeps on. */
		OPS->forked((struct ripc__transport *)w.b);
		_exit(before - descriptors() == 3u + (w.b->listeners[0] >= 0) + (w.b->listeners[1] >= 0)
			      ? 0
			      : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	part(&w);
}
END_TEST

/* Only after a round has found the endpoint; small ones into the room, others where the rounds receive. */
START_TEST(take__follows_who_spoke_last)
{
	static uint8_t head[RIPC__HEAD_LEN], data[3000], room[224];
	struct ripc__event ev;
	struct two w;

	join(&w);
	/* Brings it the memory that is received into. */
	ck_assert_int_eq(OPS->post_plain(w.ea, head, data, 64, false), 0);
	ev = await(w.b, RIPC__EV_RECV);
	ck_assert_uint_eq(ev.len, 100);
	OPS->release((struct ripc__transport *)w.b, ev.token);
	ck_assert(!OPS->take((struct ripc__transport *)w.b, room, sizeof(room), &ev));
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7);
	for (size_t len = 0; len <= sizeof(data); len += 50) {
		head[0] = (uint8_t)len;
		ck_assert_int_eq(OPS->post_plain(w.ea, head, data, len, false), 0);
		ck_assert(OPS->take((struct ripc__transport *)w.b, room, sizeof(room), &ev));
		ck_assert_int_eq(ev.kind, RIPC__EV_RECV);
		ck_assert_ptr_eq(ev.ep, w.eb);
		ck_assert_ptr_eq(ev.user, &w);
		ck_assert_uint_eq(ev.len, RIPC__HEAD_LEN + len);
		ck_assert((ev.data == room) == !ev.token);
		ck_assert((ev.data == room) == (RIPC__HEAD_LEN + len <= sizeof(room)));
		ck_assert(!memcmp(ev.data, head, RIPC__HEAD_LEN));
		ck_assert(!memcmp(ev.data + RIPC__HEAD_LEN, data, len));
		if (ev.token)
			OPS->release((struct ripc__transport *)w.b, ev.token);
	}
	OPS->ep_close(w.eb);
	ck_assert(!OPS->take((struct ripc__transport *)w.b, room, sizeof(room), &ev));
	part(&w);
}
END_TEST

/* A memory object of len bytes with these seals, the first of it filled. */
static int object(off_t len, size_t filled, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	static const uint8_t page[4096];

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, len), 0);
	for (size_t at = 0; at < filled; at += sizeof(page))
		ck_assert_int_eq((int)pwrite(fd, page, sizeof(page), (off_t)at), (int)sizeof(page));
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

START_TEST(hand__only_what_can_do_no_harm)
{
	const int good = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
	unsigned before = descriptors();
	struct ripc__event ev;
	struct two w;
	int bad[7], fd;

	bad[0] = object(65536, 65536, F_SEAL_GROW | F_SEAL_FUTURE_WRITE); /* could be cut */
	bad[1] = object(65536, 65536, F_SEAL_SHRINK | F_SEAL_GROW); /* or holes be punched into it */
	bad[2] = object(32768, 32768, good);                        /* shorter than is said */
	bad[3] = object(65536, 61440, good);                        /* not all there */
	bad[4] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	bad[5] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	bad[6] = open("/", O_RDONLY | O_CLOEXEC);
	fd = object(65536, 65536, good);
	join(&w);
	for (unsigned i = 0; i < 7; i++)
		ck_assert_int_eq(ripc__shm_hand(w.ea, bad[i], 65536, i), 0);
	ck_assert_int_eq(ripc__shm_hand(w.ea, fd, 0, 7), 0);
	ck_assert_int_eq(ripc__shm_hand(w.ea, fd, SIZE_MAX, 8), -EMSGSIZE);
	ck_assert_int_eq(ripc__shm_hand(w.ea, fd, 65537, 8), 0);
	/* Packets of another kind, with a descriptor or without. */
	raw_send(w.ea->fd, "ripchnd1", 8, fd);
	raw_send(w.ea->fd, "ripchnd1ripchnd1ripchnd2", 24, -1);
	raw_send(w.ea->fd, "ripchnd2ripchnd1ripchnd1", 24, fd);
	raw_send(w.ea->fd, "ripchnd1ripchnd1ripchnd1andmore", 31, fd);
	/* None of them is reported, and the good one behind them is. */
	ck_assert_int_eq(ripc__shm_hand(w.ea, fd, 65536, 9), 0);
	ev = await(w.b, RIPC__EV_HANDED);
	ck_assert_uint_eq(ev.wr_id, 9);
	ck_assert_uint_eq(ev.size, 65536);
	ck_assert_ptr_eq(ev.user, &w);
	ck_assert_int_lt(mprotect((void *)(uintptr_t)ev.data, ev.size, PROT_READ | PROT_WRITE), 0);
	munmap((void *)(uintptr_t)ev.data, ev.size);
	for (unsigned i = 0; i < 7; i++)
		close(bad[i]);
	close(fd);
	part(&w);
	ck_assert_uint_eq(descriptors(), before);
}
END_TEST

START_TEST(hand__not_to_who_takes_none)
{
	int fd = object(65536, 65536, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
	struct two w;

	join(&w);
	w.b->takes = false;
	ck_assert_int_eq(ripc__shm_hand(w.ea, fd, 65536, 1), 0);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_eq(progress(w.b).kind, RIPC__EV_NONE);
	close(fd);
	part(&w);
}
END_TEST

/* Whoever keeps all messages does not stop what comes after them. */
START_TEST(progress__no_slabs)
{
	struct iovec iov = {"message", 7};
	struct ripc__event ev;
	unsigned held = 0;
	void *token = NULL;
	struct two w;

	join(&w);
	w.a->intake.pool.max = RIPC__SLAB_BYTES;
	/* All that there is, and still what comes is seen. */
	for (int i = 0, without = 0; without < 100; i++) {
		ck_assert_int_lt(i, 10000);
		ck_assert_int_eq(OPS->post_send(w.eb, &iov, 1, false), 0);
		ev = await(w.a, RIPC__EV_RECV);
		ck_assert(!memcmp(ev.data, "message", 7));
		without += !ev.token;
		if (ev.token) {
			token = ev.token;
			held++;
		}
	}
	ck_assert_uint_gt(held, 1000);
	while (held--)
		OPS->release((struct ripc__transport *)w.a, token);
	ck_assert_int_eq(OPS->post_send(w.eb, &iov, 1, false), 0);
	ev = await(w.a, RIPC__EV_RECV);
	ck_assert_ptr_nonnull(ev.token);
	OPS->release((struct ripc__transport *)w.a, ev.token);
	part(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("test_shm");
	TCase *c = tcase_create("shm");

	test_seed();
	tcase_set_timeout(c, 120);
	tcase_add_test(c, address__round_trip);
	tcase_add_test(c, segment__sealed);
	tcase_add_test(c, segment__limited);
	tcase_add_test(c, listen__directory);
	tcase_add_test(c, connect__unreachable);
	tcase_add_test(c, connect__rejected);
	tcase_add_test(c, request__garbage);
	tcase_add_test(c, open__peer_killed);
	tcase_add_test(c, read__direct);
	tcase_add_test(c, read__served_by_one_who_sleeps);
	tcase_add_loop_test(c, hostile__scribbles, 0, 30);
	tcase_add_test(c, hostile__kicks);
	tcase_add_test(c, cold__rings);
	tcase_add_test(c, cold__is_found);
	tcase_add_test(c, cold__without_sleep);
	tcase_add_test(c, cold__posts_and_ends);
	tcase_add_test(c, cold__closed);
	tcase_add_test(c, cold__ring_stays_as_it_is);
	tcase_add_test(c, cold__in_a_child);
	tcase_add_test(c, take__follows_who_spoke_last);
	tcase_add_test(c, hand__only_what_can_do_no_harm);
	tcase_add_test(c, hand__not_to_who_takes_none);
	tcase_add_test(c, progress__no_slabs);
	suite_add_tcase(s, c);
	return test_main("test_shm", s);
}
