/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The sockets that shm listens on: an abstract one, and on request one in a directory. */
#define _GNU_SOURCE
#include "base/log.h"
#include "base/text.h"
#include "transport/shm/shm.h"

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 1024
/* Age from which a socket in a directory that refuses a connection is stale. */
#define STALE_S 10

static int listen_at(struct shm *t, unsigned which, const struct sockaddr_un *un, socklen_t len)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &t->listeners[which]};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	/* Nobody can connect before listen(). */
	if (!bind(fd, (const struct sockaddr *)un, len) &&
	    (!un->sun_path[0] || !chmod(un->sun_path, 0600)) && !listen(fd, BACKLOG) &&
	    !epoll_ctl(t->r.fd, EPOLL_CTL_ADD, fd, &ev)) {
		t->listeners[which] = fd;
		return 0;
	}
	rc = -errno;
	close(fd);
	return rc;
}

static bool is_ours(const char *name)
{
	size_t len = strlen(name);

	return len == 42 && !strncmp(name, "ripc-", 5) && !strcmp(name + len - 5, ".sock");
}

/*
 * Removes sockets whose processes were killed. A new one, whose process is still between bind() and
 * listen(), refuses connections, too.
 */
static void remove_stale_sockets(const char *dir)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	DIR *d = opendir(dir);
	struct dirent *e;
	struct stat st;

	while (d && (e = readdir(d))) {
		int fd, n;

		if (!is_ours(e->d_name))
			continue;
		n = snprintf(un.sun_path, sizeof(un.sun_path), "%s/%s", dir, e->d_name);
		if (n < 0 || (size_t)n >= sizeof(un.sun_path) || stat(un.sun_path, &st) ||
		    time(NULL) - st.st_mtime < STALE_S)
			continue;
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fd < 0)
			break;
		if (connect(fd, (struct sockaddr *)&un, sizeof(un)) && errno == ECONNREFUSED)
			unlink(un.sun_path);
		close(fd);
	}
	if (d)
		closedir(d);
}

static int listen_in(struct shm *t, const char *dir)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	char name[64];
	int rc;

	remove_stale_sockets(dir);
	ripc__shm_address_name(&t->address, name);
	snprintf(un.sun_path, sizeof(un.sun_path), "%.63s/ripc-%.32s.sock", dir, name + 5);
	rc = listen_at(t, 1, &un, sizeof(un));
	if (!rc)
		strcpy(t->address.path, un.sun_path);
	else
		unlink(un.sun_path);
	return rc;
}

int ripc__shm_listen(struct shm *t, const struct ripc__options *opt)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	socklen_t len;
	int rc;

	ripc__shm_address_name(&t->address, un.sun_path + 1);
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(un.sun_path + 1));
	rc = listen_at(t, 0, &un, len);
	if (rc)
		return ripc__fail(rc, "shm: cannot listen on a Unix socket: %s",
				  ripc__epoll_error(rc));
	if (opt->shm_dir[0] && (rc = listen_in(t, opt->shm_dir)))
		return ripc__fail(rc, "shm: cannot listen on a socket in %s: %s", opt->shm_dir,
				  ripc_strerror(rc));
	return 0;
}

void ripc__shm_unlisten(struct shm *t)
{
	for (unsigned i = 0; i < 2; i++)
		if (t->listeners[i] >= 0)
			close(t->listeners[i]);
	if (t->address.path[0])
		unlink(t->address.path);
}
