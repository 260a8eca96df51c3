/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* shm until a connection is open: addresses, segments, sockets, and rejected connections. */
#define _GNU_SOURCE
#include "shm_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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
	int fd = ripc__segment_create(&s, 8192), other;

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

/* An object of 4 MiB with these seals. */
static int make_object(unsigned flags, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd < 0)
		return fd;
	ck_assert_int_eq(ftruncate(fd, 4 << 20), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* A hole of hugetlbfs may have no page to read: SIGBUS. This needs no free huge page. */
START_TEST(segment__not_of_huge_pages)
{
	struct ripc__segment s = {0};
	int fd = make_object(MFD_HUGETLB, F_SEAL_SHRINK | F_SEAL_GROW);

	if (fd < 0) {
		test_skip("no memfd of huge pages: %s", strerror(errno));
		return;
	}
	ck_assert_int_eq(ripc__segment_map(&s, fd, 8192), -EPERM);
	ck_assert_int_eq(ripc__segment_map(&s, fd, 4 << 20), -EPERM);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	ck_assert_int_eq(ripc__segment_map_readonly(&s, fd, 4 << 20), -EPERM);
	ck_assert_ptr_null(s.base);
	close(fd);
}
END_TEST

/* F_SEAL_SHRINK permits its maker to make holes. Mapping it ends that. */
START_TEST(segment__no_holes_after_map)
{
	struct ripc__segment s = {0}, peer = {0};
	int fd = ripc__segment_create(&s, 8192);
	int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fallocate(fd, punch, 0, 4096), 0);
	ck_assert_int_eq(ripc__segment_map(&peer, fd, 8192), 0);
	peer.base[0] = 7;
	ck_assert_int_lt(fallocate(fd, punch, 0, 4096), 0);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_lt(madvise(peer.base, 4096, MADV_REMOVE), 0);
	ck_assert_uint_eq(s.base[0], 7);
	ck_assert_ptr_eq(mmap(NULL, 8192, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	ripc__segment_unmap(&s);
	ripc__segment_unmap(&peer);
	close(fd);
	/* An object that takes no further seal is not mapped. */
	fd = make_object(0, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	ck_assert_int_eq(ripc__segment_map(&peer, fd, 8192), -EPERM);
	ck_assert_ptr_null(peer.base);
	close(fd);
}
END_TEST

START_TEST(segment__map_readonly)
{
	struct ripc__segment s = {0};
	int fd = make_object(0, F_SEAL_SHRINK);

	ck_assert_int_eq(pwrite(fd, "x", 1, 4095), 1);
	ck_assert_int_eq(ripc__segment_map_readonly(&s, fd, 4096), -EPERM);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	ck_assert_int_eq(ripc__segment_map_readonly(&s, fd, 0), -EINVAL);
	ck_assert_int_eq(ripc__segment_map_readonly(&s, fd, (4 << 20) + 1), -EINVAL);
	/* After its first page there is a hole. */
	ck_assert_int_eq(ripc__segment_map_readonly(&s, fd, 4097), -EPERM);
	ck_assert_int_eq(ripc__segment_map_readonly(&s, fd, 4096), 0);
	ck_assert_uint_eq(s.base[4095], 'x');
	ripc__segment_unmap(&s);
	close(fd);
	/* A file of a shared tmpfs has a size limit, and takes no seals. */
	fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	ck_assert_int_eq(ftruncate(fd, 8192), 0);
	ck_assert_int_eq(ripc__segment_map_readonly(&s, fd, 4096), -EPERM);
	ck_assert_int_eq(ripc__segment_map(&s, fd, 4096), -EPERM);
	close(fd);
}
END_TEST

/* Simulates vm.overcommit_memory=2. Return: whether that is possible. */
static bool fake_overcommit(void)
{
	char path[] = "/tmp/ripc-test-XXXXXX";
	int fd = mkstemp(path);
	bool done;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, "2\n", 2), 2);
	close(fd);
	done = !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount(path, "/proc/sys/vm/overcommit_memory", NULL, MS_BIND, NULL);
	unlink(path);
	return done;
}

/* Bytes of its allocated pages. SEEK_HOLE does not count untouched ones. */
static off_t allocated(int fd)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	return (off_t)st.st_blocks * 512;
}

/* Where a fault may be refused, all pages are allocated when it is mapped. */
START_TEST(segment__allocated_no_overcommit)
{
	struct ripc__segment s = {0}, peer = {0};
	int fd = ripc__segment_create(&s, 1 << 20), given;

	/* By default no page is allocated before it is used. */
	ck_assert_int_eq(allocated(fd), 0);
	ripc__segment_unmap(&s);
	close(fd);
	if (!fake_overcommit()) {
		test_skip("no mount namespace can be made here");
		return;
	}
	fd = ripc__segment_create(&s, 1 << 20);
	ck_assert_int_eq(allocated(fd), 1 << 20);
	given = make_object(0, F_SEAL_SHRINK | F_SEAL_GROW);
	ck_assert_int_eq(ripc__segment_map(&peer, given, 1 << 20), 0);
	ck_assert_int_ge(allocated(given), 1 << 20);
	ripc__segment_unmap(&s);
	ripc__segment_unmap(&peer);
	close(fd);
	close(given);
}
END_TEST

/* A limit on file sizes is an error, instead of a signal. */
START_TEST(segment__limited)
{
	struct rlimit limit = {4096, 4096};
	struct ripc__segment s = {0};

	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_int_eq(ripc__segment_create(&s, 8192), -EFBIG);
}
END_TEST

/* ---- listen.c ---- */

/* Stale sockets are removed, others stay, also before their listen(), and ours goes at close. */
START_TEST(listen__directory)
{
	static const struct timespec old[2];
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
	strcpy(options.shm_dir, dir);
	t = open_shm();
	ck_assert_int_eq(stat(stale, &st), 0);
	close(fd);
	ck_assert_int_eq(utimensat(AT_FDCWD, stale, old, 0), 0);
	strcpy(path, t->address.path);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode, S_IFSOCK | 0600);
	second = open_shm();
	ck_assert_int_lt(stat(stale, &st), 0);
	ck_assert_int_eq(stat(path, &st), 0);
	/* From another network namespace, the directory is used. */
	a = t->address;
	a.netns++;
	len = ripc__shm_address_encode(&a, addr, sizeof(addr));
	ck_assert_int_eq(OPS->connect(tr_of(second), addr, len, "", 0, NULL, &ep), 0);
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
	struct ripc__transport *tr = tr_of(t);
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
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "RIPC_SHM_DIR"));
	strcpy(a.path, "/nonexistent/socket");
	len = ripc__shm_address_encode(&a, addr, sizeof(addr));
	ck_assert_int_eq(OPS->connect(tr, addr, len, NULL, 0, NULL, &ep), -EHOSTUNREACH);
	a.host[3]++;
	len = ripc__shm_address_encode(&a, addr, sizeof(addr));
	ck_assert_int_eq(OPS->connect(tr, addr, len, NULL, 0, NULL, &ep), -EHOSTUNREACH);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "another host"));
	close_shm(t);
}
END_TEST

/* Without /proc a side does not know its host; its socket identifies it. _i: 0 the peer, 1 we. */
START_TEST(connect__unknown_host)
{
	struct shm *t = open_shm(), *peer = open_shm(), *own = _i ? t : peer;
	struct ripc__transport *tr = tr_of(t);
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct ripc__shm_address a;
	struct ripc__ep *ep;
	char text[200];
	size_t len;

	memset(own->address.host, 0, sizeof(own->address.host));
	for (int i = 0; i < 2; i++) {
		/* With an old kernel it does not know its namespace, either. */
		if (i)
			own->address.netns = 0;
		a = peer->address;
		len = ripc__shm_address_encode(&a, addr, sizeof(addr));
		ck_assert_int_eq(OPS->connect(tr, addr, len, "", 0, NULL, &ep), 0);
		await(peer, RIPC__EV_REQUEST);
	}
	OPS->describe(addr, len, text, sizeof(text));
	if (!_i)
		ck_assert_ptr_nonnull(strstr(text, "host not known"));
	/* No such socket: it may be on another host. */
	a.name[3]++;
	len = ripc__shm_address_encode(&a, addr, sizeof(addr));
	ck_assert_int_eq(OPS->connect(tr, addr, len, "", 0, NULL, &ep), -ECONNREFUSED);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "/proc"));
	close_shm(peer);
	close_shm(t);
}
END_TEST

START_TEST(connect__rejected)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct shm *a = open_shm(), *b = open_shm();
	struct ripc__event ev;
	struct ripc__ep *ep;
	int len = OPS->address(tr_of(b), addr, sizeof(addr));

	ck_assert_int_eq(OPS->connect(tr_of(a), addr, (size_t)len, "x", 1, &ep, &ep), 0);
	ev = await(b, RIPC__EV_REQUEST);
	OPS->reject(tr_of(b), ev.request, "no", 2);
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

/*
 * Any malformed request of a process of the same user is rejected and reported, and its descriptor
 * is closed.
 */
START_TEST(request__garbage)
{
	struct shm *t = open_shm();
	struct ripc__segment s = {0};
	uint8_t good[48 + 5] = "ripcshm2\1\11\22", bad[400];
	unsigned before = test_descriptors();
	int small = ripc__segment_create(&s, 4096), loose, raw;
	int huge = make_object(MFD_HUGETLB, F_SEAL_SHRINK | F_SEAL_GROW);

	ck_assert_uint_eq(good[9], 9);
	good[12] = 5;
	loose = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(loose, 1 << 20), 0);
	for (int i = 0; i < 10; i++) {
		int pass = i == 6 ? -1 : i == 7 ? small : i == 8 && huge >= 0 ? huge : loose;
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
		await(t, RIPC__EV_BAD_INPUT);
		ck_assert(ripc__list_empty(&t->r.eps));
		close(raw);
	}
	/*
	 * A silent connection that closes is not reported; one that stays open is closed after a
	 * while.
	 */
	close(raw_connect(t));
	ck_assert_int_eq(progress(t).kind, RIPC__EV_NONE);
	ck_assert_int_eq(progress(t).kind, RIPC__EV_NONE);
	ck_assert(ripc__list_empty(&t->r.eps));
	raw = raw_connect(t);
	progress(t);
	ck_assert_uint_eq(t->r.neps[RIPC__EP_INCOMING], 1);
	for (int i = 0; i < 3100; i++)
		progress(t);
	ck_assert(ripc__list_empty(&t->r.eps));
	close(raw);
	close(small);
	close(loose);
	if (huge >= 0)
		close(huge);
	ripc__segment_unmap(&s);
	progress(t);
	ck_assert_uint_eq(test_descriptors(), before);
	close_shm(t);
}
END_TEST

/*
 * Waits for the request of a client, through other reports, for less than the life of a silent
 * connection.
 */
static struct ripc__event await_request(struct shm *t)
{
	for (int i = 0; i < 1000; i++) {
		struct ripc__event ev = progress(t);

		if (ev.kind == RIPC__EV_REQUEST)
			return ev;
	}
	ck_abort_msg("the request does not come");
	return (struct ripc__event){0};
}

/* More silent connections than may be half open neither delay a new client nor keep it out. */
START_TEST(accept__evicts_silent)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct shm *t = open_shm(), *client = open_shm();
	int len = OPS->address(tr_of(t), addr, sizeof(addr)), fds[300], rc;
	struct ripc__event ev;
	struct ripc__ep *ep;

	for (int i = 0; i < 300; i++)
		fds[i] = raw_connect(t);
	for (int round = 0; round < 3; round++) {
		rc = OPS->connect(tr_of(client), addr, (size_t)len, "x", 1, NULL, &ep);
		ck_assert_int_eq(rc, 0);
		ev = await_request(t);
		OPS->reject(tr_of(t), ev.request, NULL, 0);
		ck_assert_uint_le(t->r.neps[RIPC__EP_INCOMING], SHM_INCOMING_MAX);
		await(client, RIPC__EV_CLOSED);
		OPS->ep_close(ep);
		/* The attack continues. */
		for (int i = 0; i < 300; i++) {
			close(fds[i]);
			fds[i] = raw_connect(t);
		}
	}
	for (int i = 0; i < 300; i++)
		close(fds[i]);
	close_shm(client);
	close_shm(t);
}
END_TEST

/* As many requests at once as wait after a pause of the process: none is lost. */
START_TEST(accept__after_a_pause)
{
	enum { CLIENTS = 3 * SHM_INCOMING_MAX };
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct shm *t = open_shm(), *client = open_shm();
	int len = OPS->address(tr_of(t), addr, sizeof(addr));
	struct ripc__ep *ep[CLIENTS];
	unsigned requests = 0;

	for (unsigned i = 0; i < CLIENTS; i++) {
		ck_assert_int_eq(
			OPS->connect(tr_of(client), addr, (size_t)len, "x", 1, NULL, &ep[i]), 0);
		/* Some only test whether somebody listens. */
		close(raw_connect(t));
	}
	for (unsigned i = 0; i < 20 * CLIENTS && requests < CLIENTS; i++) {
		struct ripc__event ev = progress(t);

		ck_assert_int_ne(ev.kind, RIPC__EV_BAD_INPUT);
		if (ev.kind != RIPC__EV_REQUEST)
			continue;
		requests++;
		OPS->reject(tr_of(t), ev.request, NULL, 0);
	}
	ck_assert_uint_eq(requests, CLIENTS);
	for (unsigned i = 0; i < CLIENTS; i++)
		OPS->ep_close(ep[i]);
	close_shm(client);
	close_shm(t);
}
END_TEST

/* The connection of another process stays, although it is the oldest. */
START_TEST(accept__evicts_from_busiest)
{
	int fds[2 * SHM_INCOMING_MAX], ready[2], end[2], found = 0;
	struct shm *t = open_shm();
	struct ripc__ep *ep;
	char byte;
	pid_t child;

	ck_assert_int_eq(pipe(ready), 0);
	ck_assert_int_eq(pipe(end), 0);
	child = fork();
	if (!child) {
		int fd = raw_connect(t);

		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(write(ready[1], "", 1), 1);
		close(end[1]);
		(void)!read(end[0], &byte, 1);
		_exit(0);
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	for (unsigned i = 0; i < 2 * SHM_INCOMING_MAX; i++)
		fds[i] = raw_connect(t);
	for (int i = 0; i < 10; i++)
		progress(t);
	ck_assert_uint_eq(t->r.neps[RIPC__EP_INCOMING], SHM_INCOMING_MAX);
	ripc__list_for_each_entry (ep, &t->r.eps, link)
		found += shm_ep(ep)->pid == child;
	ck_assert_int_eq(found, 1);
	for (unsigned i = 0; i < 2 * SHM_INCOMING_MAX; i++)
		close(fds[i]);
	close(end[1]);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	close(ready[0]);
	close(ready[1]);
	close(end[0]);
	close_shm(t);
}
END_TEST

/* A peer's process is killed: its messages are delivered, then the end is reported. */
START_TEST(open__peer_killed)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct shm *t = open_shm();
	int len = OPS->address(tr_of(t), addr, sizeof(addr)), status;
	struct ripc__event ev;
	struct ripc__ep *ep;
	pid_t child = fork();

	if (!child) {
		struct iovec iov = {"last words", 10};
		struct shm *own = open_shm();

		OPS->connect(tr_of(own), addr, (size_t)len, "", 0, NULL, &ep);
		AWAIT(progress(own).kind == RIPC__EV_ESTABLISHED);
		OPS->post(ep, NULL, 0, &iov, 1, false);
		kill(getpid(), SIGKILL);
	}
	AWAIT((ev = progress(t)).kind == RIPC__EV_REQUEST);
	ck_assert_int_eq(OPS->accept(tr_of(t), ev.request, "", 0, NULL, &ep), 0);
	await(t, RIPC__EV_ESTABLISHED);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status));
	ev = await(t, RIPC__EV_RECV);
	ck_assert(!memcmp(ev.data, "last words", 10));
	OPS->release(tr_of(t), ev.token);
	ev = await(t, RIPC__EV_CLOSED);
	ck_assert_int_eq(ev.status, -ECONNRESET);
	OPS->ep_close(ep);
	close_shm(t);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/shm/setup");
	TCase *c = tcase_create("setup");

	tcase_set_timeout(c, 120);
	tcase_add_test(c, address__round_trip);
	tcase_add_test(c, segment__sealed);
	tcase_add_test(c, segment__not_of_huge_pages);
	tcase_add_test(c, segment__no_holes_after_map);
	tcase_add_test(c, segment__map_readonly);
	tcase_add_test(c, segment__allocated_no_overcommit);
	tcase_add_test(c, segment__limited);
	tcase_add_test(c, listen__directory);
	tcase_add_test(c, connect__unreachable);
	tcase_add_loop_test(c, connect__unknown_host, 0, 2);
	tcase_add_test(c, connect__rejected);
	tcase_add_test(c, request__garbage);
	tcase_add_test(c, accept__evicts_silent);
	tcase_add_test(c, accept__after_a_pause);
	tcase_add_test(c, accept__evicts_from_busiest);
	tcase_add_test(c, open__peer_killed);
	suite_add_tcase(s, c);
	return test_main("transport/shm/setup", s);
}
