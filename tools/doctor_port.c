/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "doctor.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT_DEFAULT  7475
#define HOLDERS_MAX   64
#define CONTEXTS_MAX  4096 /* Unix sockets of libripc that are distinguished */
#define OUR_NAMES     "@ripc/"
#define MAPS_LINE_MAX 4096

/* A UDP socket at the port. */
struct holder {
	unsigned long inode;
	long pid; /* 0: its process is not visible from here */
	char name[32];
	bool ours; /* the process uses libripc, as far as can be seen */
};

struct holders {
	unsigned n, nours;
	struct holder holder[HOLDERS_MAX];
	unsigned long ours[CONTEXTS_MAX]; /* inodes */
};

unsigned doctor_port(const struct doctor *d)
{
	const char *value = doctor_setting(d, "port");

	return value ? (unsigned)strtoul(value, NULL, 10) : PORT_DEFAULT;
}

/* "12: 00000000:1D33 00000000:0000 07 00000000:00000000 00:00000000 00000000 1000 0 4242 ..." */
static void list_udp(struct holders *h, const char *path, unsigned port)
{
	FILE *file = fopen(path, "re");
	char line[512];

	while (file && fgets(line, sizeof(line), file)) {
		unsigned long inode;
		unsigned at;

		if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*s %*s %*s %*s %*s %*u %*u %lu", &at,
			   &inode) == 2 &&
		    at == port && h->n < HOLDERS_MAX)
			h->holder[h->n++].inode = inode;
	}
	if (file)
		fclose(file);
}

/* "0000000000000000: 00000002 00000000 00000000 0002 01 4242 @ripc/ctx/..." */
static void list_contexts(struct holders *h)
{
	FILE *file = fopen("/proc/net/unix", "re");
	char line[512];

	while (file && fgets(line, sizeof(line), file)) {
		unsigned long inode;
		int at = 0;

		if (sscanf(line, "%*[^:]: %*s %*s %*s %*s %*s %lu %n", &inode, &at) == 1 && at &&
		    !strncmp(line + at, OUR_NAMES, strlen(OUR_NAMES)) && h->nours < CONTEXTS_MAX)
			h->ours[h->nours++] = inode;
	}
	if (file)
		fclose(file);
}

/* Whether the library is among what a process has mapped. */
static bool maps_library(const char *pid)
{
	char path[300], line[MAPS_LINE_MAX];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%.20s/maps", pid);
	file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, "/libripc.so") != NULL;
	if (file)
		fclose(file);
	return found;
}

static void read_name(const char *pid, char *name, size_t len)
{
	char path[300];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	file = fopen(path, "re");
	name[0] = 0;
	if (file && fgets(name, (int)len, file))
		name[strcspn(name, "\n")] = 0;
	if (file)
		fclose(file);
}

/* Looks at the descriptors of one process. */
static void scan_process(struct holders *h, const char *pid)
{
	bool holds = false, ours = false;
	char path[300], target[64];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		unsigned long inode;
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		if (n <= 0)
			continue;
		target[n] = 0;
		if (sscanf(target, "socket:[%lu]", &inode) != 1)
			continue;
		for (unsigned i = 0; i < h->n; i++)
			if (h->holder[i].inode == inode) {
				h->holder[i].pid = strtol(pid, NULL, 10);
				holds = true;
			}
		for (unsigned i = 0; i < h->nours && !ours; i++)
			ours = h->ours[i] == inode;
	}
	if (dir)
		closedir(dir);
	if (!holds)
		return;
	ours = ours || maps_library(pid);
	for (unsigned i = 0; i < h->n; i++)
		if (h->holder[i].pid == strtol(pid, NULL, 10)) {
			h->holder[i].ours = ours;
			read_name(pid, h->holder[i].name, sizeof(h->holder[i].name));
		}
}

static void list_holders(struct holders *h, unsigned port)
{
	struct dirent *entry;
	DIR *dir;

	list_udp(h, "/proc/net/udp", port);
	list_udp(h, "/proc/net/udp6", port);
	list_contexts(h);
	dir = opendir("/proc");
	while (dir && (entry = readdir(dir)))
		if (strspn(entry->d_name, "0123456789") == strlen(entry->d_name))
			scan_process(h, entry->d_name);
	if (dir)
		closedir(dir);
}

/* Whether the port can be had as the resolver wants it, shared with those that want it so, too. */
static bool is_taken(int family, unsigned port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1;
	bool v4 = family == AF_INET, taken;

	if (fd < 0)
		return false;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	if (!v4)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	taken = (v4 ? bind(fd, (const struct sockaddr *)&in, sizeof(in))
		    : bind(fd, (const struct sockaddr *)&in6, sizeof(in6))) &&
		errno == EADDRINUSE;
	close(fd);
	return taken;
}

/* The first of those that are not of libripc, or NULL; @visible: its process is known. */
static const struct holder *other(const struct holders *h, bool visible)
{
	for (unsigned i = 0; i < h->n; i++)
		if (!h->holder[i].ours && (h->holder[i].pid || !visible))
			return &h->holder[i];
	return NULL;
}

void doctor_check_port(struct doctor *d)
{
	const char *resolver = doctor_setting(d, "resolver");
	unsigned port = doctor_port(d);
	bool taken4 = is_taken(AF_INET, port), taken6 = is_taken(AF_INET6, port);
	struct holders *h;
	const struct holder *o;
	char who[80] = "another program, of another user or container";

	if (resolver && !doctor_lists(resolver, "udp") && !doctor_lists(resolver, "file"))
		return;
	h = calloc(1, sizeof(*h));
	if (!h)
		return;
	list_holders(h, port);
	o = other(h, true);
	if (o)
		snprintf(who, sizeof(who), "another program, process %ld (%s)", o->pid, o->name);
	d->port_is_taken = taken4 || taken6;
	if (d->port_is_taken)
		doctor_report(d, DOCTOR_FAULT, "UDP port",
			      "UDP port %u%s is held by %s, so services are not found over the "
			      "network: end that program, or set RIPC_PORT to another port on all "
			      "hosts",
			      port,
			      taken4 && taken6 ? ""
			      : taken4         ? " (IPv4)"
					       : " (IPv6)",
			      who);
	else if (o)
		doctor_report(
			d, DOCTOR_WARNING, "UDP port",
			"UDP port %u is shared with %s, which may receive what is sent to this "
			"host alone, as with resolver=file: end that program, or set RIPC_PORT "
			"to another port on all hosts",
			port, who);
	free(h);
}
