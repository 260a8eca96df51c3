/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "doctor.h"

#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#define MEMLOCK_BYTES \
	(UINT64_C(64) << 20) /* what a program with a few long messages under way pins */
#define NOFILE_WANTED   1024 /* one for each peer, and some */
#define NOFILE_NEEDED   64   /* what one context and its first peers take */
#define MTU_WANTED      1500
#define INTERFACES_MAX  64
#define CAP_IPC_LOCK_AT 14 /* capabilities(7), bit of CapEff */

void doctor_report(struct doctor *d, enum doctor_level level, const char *name, const char *fmt,
		   ...)
{
	va_list ap;

	printf("%s: %s: ", level == DOCTOR_FAULT ? "fault" : "warning", name);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	d->found[level]++;
}

const char *doctor_setting(const struct doctor *d, const char *name)
{
	const char *value = NULL;

	for (unsigned i = 0; i < d->info->nsettings; i++) {
		const char *text = d->info->settings[i].text;

		if (!strncmp(text, "RIPC_", 5))
			text += 5;
		if (!strncasecmp(text, name, strlen(name)) && text[strlen(name)] == '=')
			value = text + strlen(name) + 1;
	}
	return value;
}

bool doctor_lists(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
		if (!strncmp(list, word, len) && strchr(",:", list[len]))
			return true;
	return false;
}

/* ---- limits of the process ---- */

static bool holds_ipc_lock(void)
{
	unsigned long long caps = 0;
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "CapEff: %llx", &caps);
	if (file)
		fclose(file);
	return caps >> CAP_IPC_LOCK_AT & 1;
}

static void check_limits(struct doctor *d)
{
	const struct rlimit *lock = &d->info->memlock, *files = &d->info->nofile;

	/* Without a device nothing is locked. */
	if (d->info->ndevices && lock->rlim_cur != RLIM_INFINITY && lock->rlim_cur < MEMLOCK_BYTES)
		doctor_report(
			d, holds_ipc_lock() ? DOCTOR_WARNING : DOCTOR_FAULT, "memlock",
			"only %llu bytes of memory may be locked, and RDMA devices lock every "
			"buffer: raise it to %llu or more with \"ulimit -l\", in "
			"/etc/security/limits.conf (memlock) or with LimitMEMLOCK= of systemd",
			(unsigned long long)lock->rlim_cur, (unsigned long long)MEMLOCK_BYTES);
	if (files->rlim_cur != RLIM_INFINITY && files->rlim_cur < NOFILE_WANTED)
		doctor_report(
			d, files->rlim_cur < NOFILE_NEEDED ? DOCTOR_FAULT : DOCTOR_WARNING,
			"descriptors",
			"only %llu files may be open, and every peer takes one or more: raise it "
			"with \"ulimit -n %u\", in /etc/security/limits.conf (nofile) or with "
			"LimitNOFILE= of systemd",
			(unsigned long long)files->rlim_cur, NOFILE_WANTED);
}

/* ---- RDMA devices ---- */

/* Whether any GID of the port is set. */
static bool has_gid(const char *device, unsigned port)
{
	char path[256], line[64];
	bool found = false;

	for (unsigned i = 0; i < 256 && !found; i++) {
		FILE *file;

		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/gids/%u", device,
			 port, i);
		file = fopen(path, "re");
		if (!file)
			break;
		if (fgets(line, sizeof(line), file))
			found = strspn(line, "0:\n") != strlen(line);
		fclose(file);
	}
	return found;
}

static void check_file(struct doctor *d, const char *path, const char *remedy)
{
	int error = access(path, R_OK | W_OK) ? errno : 0;

	if (error == EACCES || error == EPERM)
		doctor_report(
			d, DOCTOR_FAULT, "device files",
			"%s may not be opened by this user: add the user to the group of the file "
			"(often rdma), or give the container the device",
			path);
	else if (error)
		doctor_report(d, DOCTOR_FAULT, "device files",
			      "there is an RDMA device but no %s: %s", path, remedy);
}

static void check_devices(struct doctor *d)
{
	bool iwarp = false, copies = true;
	unsigned major, minor;
	struct utsname name;

	for (unsigned i = 0; i < d->info->ndevices; i++) {
		const struct info_device *v = &d->info->devices[i];

		iwarp |= !strcmp(v->node, "RNIC");
		if (strcmp(v->state, "ACTIVE"))
			doctor_report(
				d, DOCTOR_FAULT, "port",
				"port %u of %s is %s: bring up its link, its network interface "
				"(\"ip link set ... up\"), or, with InfiniBand, the subnet manager",
				v->port, v->name, *v->state ? v->state : "in no known state");
		else if (strcmp(v->node, "RNIC") && !has_gid(v->name, v->port))
			doctor_report(d, DOCTOR_FAULT, "GID",
				      "port %u of %s has no GID, which is its address: give its "
				      "network interface an IP address",
				      v->port, v->name);
	}
	if (!d->info->ndevices)
		return;
	check_file(d, "/dev/infiniband/uverbs0",
		   "load the module ib_uverbs, or give the container /dev/infiniband");
	if (iwarp)
		check_file(
			d, "/dev/infiniband/rdma_cm",
			"load the module rdma_ucm, or give the container /dev/infiniband/rdma_cm");
	/* Since 5.12 pinned pages are copied for the child. */
	if (!uname(&name) && sscanf(name.release, "%u.%u", &major, &minor) == 2)
		copies = major > 5 || (major == 5 && minor >= 12);
	if (!copies && !getenv("RDMAV_FORK_SAFE") && !getenv("IBV_FORK_SAFE"))
		doctor_report(
			d, DOCTOR_WARNING, "fork",
			"in this kernel (%s) a program that forks can lose what RDMA devices write "
			"into its memory: set "
			"RDMAV_FORK_SAFE=1, and never use the parent's contexts in the child",
			name.release);
}

/* ---- network ---- */

static int interface_mtu(const char *name)
{
	struct ifreq request = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), mtu = 0;

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (fd >= 0 && !ioctl(fd, SIOCGIFMTU, &request))
		mtu = request.ifr_mtu;
	if (fd >= 0)
		close(fd);
	return mtu;
}

static void check_interface(struct doctor *d, const char *name, unsigned flags, int *first_mtu,
			    const char **first)
{
	int mtu = interface_mtu(name);

	if (!(flags & IFF_LOOPBACK) && !(flags & (IFF_BROADCAST | IFF_MULTICAST)))
		doctor_report(
			d, DOCTOR_WARNING, "broadcast",
			"%s carries neither broadcast nor multicast, so services behind it are not "
			"found by asking all: list their hosts with resolver=local,udp,file:/path",
			name);
	if (mtu && mtu < MTU_WANTED)
		doctor_report(
			d, DOCTOR_WARNING, "MTU",
			"%s has an MTU of %d, below %d, which splits messages and slows them down: "
			"\"ip link set %s mtu %d\"",
			name, mtu, MTU_WANTED, name, MTU_WANTED);
	if (flags & IFF_LOOPBACK || !mtu)
		return;
	if (*first_mtu && mtu != *first_mtu)
		doctor_report(d, DOCTOR_WARNING, "MTU",
			      "%s has an MTU of %d and %s one of %d: on one network all hosts must "
			      "have the same, or large messages get lost",
			      *first, *first_mtu, name, mtu);
	*first_mtu = mtu;
	*first = name;
}

/* Whether contexts of this host reach each other without the network. */
static bool host_works(const struct doctor *d)
{
	bool shm = false;

	for (unsigned i = 0; i < d->info->ntransports; i++)
		if (!strcmp(d->info->transports[i].name, "shm"))
			shm = d->info->transports[i].open;
	return shm && doctor_resolver_works(d, "local");
}

static void check_network(struct doctor *d)
{
	const char *wanted = doctor_setting(d, "interfaces"), *seen[INTERFACES_MAX], *first = NULL;
	struct ifaddrs *all, *a;
	unsigned nseen = 0, up = 0;
	int mtu = 0;

	if (getifaddrs(&all))
		return;
	for (a = all; a; a = a->ifa_next) {
		bool known = false, is_up = a->ifa_flags & IFF_UP;

		d->no_loopback |= a->ifa_flags & IFF_LOOPBACK && !is_up;
		for (unsigned i = 0; i < nseen; i++)
			known |= !strcmp(seen[i], a->ifa_name);
		known |= wanted && !doctor_lists(wanted, a->ifa_name);
		if (known || nseen == INTERFACES_MAX)
			continue;
		seen[nseen++] = a->ifa_name;
		up += is_up;
		if (is_up)
			check_interface(d, a->ifa_name, a->ifa_flags, &mtu, &first);
		else if (wanted || (a->ifa_flags & IFF_LOOPBACK && !host_works(d)))
			doctor_report(
				d, DOCTOR_FAULT, "interface",
				"%s is down, and %s: \"ip link set %s up\"", a->ifa_name,
				wanted ? "it is one of those to be used"
				       : "contexts of this host reach each other over it alone",
				a->ifa_name);
	}
	d->no_interface = !up;
	if (!up)
		doctor_report(
			d, wanted || !host_works(d) ? DOCTOR_FAULT : DOCTOR_WARNING, "interface",
			"no network interface in use is up, so services of other hosts are not "
			"found: \"ip link\" lists them, the setting interfaces names those to use");
	freeifaddrs(all);
}

/* ---- container, keys, clock ---- */

static void check_proc(struct doctor *d)
{
	if (access("/proc/sys/kernel/random/boot_id", R_OK))
		doctor_report(
			d, DOCTOR_WARNING, "proc",
			"the boot id in /proc cannot be read: %s: contexts here do not know "
			"which host this is, and try the shared memory of every peer, even where "
			"that is on another host: \"mount -t proc proc /proc\"",
			strerror(errno));
}

/* The namespaces that the kernel starts with have these numbers (include/uapi/linux/nsfs.h). */
#define INITIAL_PID_NS "pid:[4026531836]"

/*
 * Whether this is a container. Its marks alone are no proof: a machine may be booted from the image
 * of one. A network namespace alone is no container.
 */
static bool in_container(void)
{
	char pid_ns[64];
	ssize_t n = readlink("/proc/self/ns/pid", pid_ns, sizeof(pid_ns) - 1);

	pid_ns[n > 0 ? n : 0] = 0;
	if (!strcmp(pid_ns, INITIAL_PID_NS))
		return false;
	return getenv("container") || !access("/.dockerenv", F_OK) ||
	       !access("/run/.containerenv", F_OK);
}

static void check_container(struct doctor *d)
{
	const char *dir = doctor_setting(d, "shm_dir");

	if (dir && access(dir, W_OK | X_OK))
		doctor_report(d, DOCTOR_FAULT, "container",
			      "the directory shared by the containers of this host, %s, cannot be "
			      "used: %s: mount the same one into each, writable",
			      dir, strerror(errno));
	else if (!dir && in_container())
		doctor_report(
			d, DOCTOR_WARNING, "container",
			"this is a container without a directory that it shares with others, so "
			"it reaches those of this host that have another network namespace over "
			"the network only: mount one into each and name it with RIPC_SHM_DIR");
}

static void check_key(struct doctor *d)
{
	const char *path = doctor_setting(d, "key_file");
	struct timex clock = {0};
	struct stat st;

	if (!path)
		return;
	if (stat(path, &st))
		doctor_report(d, DOCTOR_FAULT, "key file",
			      "the key file %s: %s: copy it from another host of the cluster", path,
			      strerror(errno));
	else if (access(path, R_OK))
		doctor_report(
			d, DOCTOR_FAULT, "key file",
			"the key file %s may not be read by this user: change its owner with chown",
			path);
	else if (st.st_mode & (S_IRWXG | S_IRWXO))
		doctor_report(d, DOCTOR_FAULT, "key file",
			      "other users have access to the key file %s (mode %03o): "
			      "\"chmod 600 %s\"",
			      path, st.st_mode & 0777, path);
	/* A message that is too old is taken for one that was recorded and sent again. */
	if (adjtimex(&clock) == TIME_ERROR || clock.status & STA_UNSYNC)
		doctor_report(
			d, DOCTOR_WARNING, "clock",
			"the clock of this host is not synchronized (\"timedatectl\"); with a key, "
			"messages of a host whose clock differs by more than 30 s are refused: "
			"run chrony or another NTP client");
}

/* ---- the library at work ---- */

static void check_transports(struct doctor *d)
{
	bool others = false;

	if (d->info->open_error) {
		doctor_report(d, DOCTOR_FAULT, "library", "no context can be opened: %s",
			      d->info->open_detail);
		return;
	}
	for (unsigned i = 0; i < d->info->ntransports; i++)
		others |=
			d->info->transports[i].open && strcmp(d->info->transports[i].name, "self");
	d->no_transport = !others;
	if (others)
		return;
	doctor_report(
		d, DOCTOR_FAULT, "transports",
		"no transport leads out of this process: allow one with the setting transports, "
		"or see why each is unavailable:");
	for (unsigned i = 0; i < d->info->ntransports; i++)
		if (!d->info->transports[i].open)
			printf("\t%s: %s\n", d->info->transports[i].name,
			       d->info->transports[i].text);
}

unsigned doctor_print(const struct info *info, const char *settings, uint64_t service,
		      const char *name)
{
	struct doctor d = {.info = info, .settings = settings};
	const unsigned *found = d.found;

	check_limits(&d);
	check_devices(&d);
	check_network(&d);
	check_proc(&d);
	check_container(&d);
	check_key(&d);
	check_transports(&d);
	doctor_check_port(&d);
	doctor_check_resolvers(&d);
	doctor_check_broadcast(&d);
	if (service)
		doctor_check_service(&d, service, name);
	printf("%u %s, %u %s: examined limits, RDMA devices, network interfaces, container, key "
	       "and clock, transports, the resolver, and whether services are found\n",
	       found[DOCTOR_FAULT], found[DOCTOR_FAULT] == 1 ? "fault" : "faults",
	       found[DOCTOR_WARNING], found[DOCTOR_WARNING] == 1 ? "warning" : "warnings");
	return found[DOCTOR_FAULT];
}
