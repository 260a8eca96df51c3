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
#define PATIENCE_MS     3000
#define LISTEN_MS       1000 /* who searches for a service asks once a second at least */
#define INTERFACES_MAX  64
#define CAP_IPC_LOCK_AT 14 /* capabilities(7), bit of CapEff */

enum level { FAULT, WARNING };

struct doctor {
	const struct info *info;
	const char *settings;
	unsigned found[2];
};

static void say(struct doctor *d, enum level level, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static void say(struct doctor *d, enum level level, const char *name, const char *fmt, ...)
{
	va_list ap;

	printf("%s: %s: ", level == FAULT ? "fault" : "warning", name);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	d->found[level]++;
}

/* The value of a setting; the last one given wins, and those of the command line stand behind the environment's. */
static const char *setting(const struct doctor *d, const char *name)
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

static bool lists(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
		if (!strncmp(list, word, len) && (!list[len] || list[len] == ','))
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

static void look_at_limits(struct doctor *d)
{
	const struct rlimit *lock = &d->info->memlock, *files = &d->info->nofile;

	if (lock->rlim_cur != RLIM_INFINITY && lock->rlim_cur < MEMLOCK_BYTES)
		say(d, d->info->ndevices && !holds_ipc_lock() ? FAULT : WARNING, "memlock",
		    "only %llu bytes of memory may be locked, and RDMA devices lock every buffer: "
		    "raise it to %llu or "
		    "more with \"ulimit -l\", in /etc/security/limits.conf (memlock) or with "
		    "LimitMEMLOCK= of "
		    "systemd",
		    (unsigned long long)lock->rlim_cur, (unsigned long long)MEMLOCK_BYTES);
	if (files->rlim_cur != RLIM_INFINITY && files->rlim_cur < NOFILE_WANTED)
		say(d, files->rlim_cur < NOFILE_NEEDED ? FAULT : WARNING, "descriptors",
		    "only %llu files may be open, and every peer takes one or more: raise it with "
		    "\"ulimit -n %u\", in "
		    "/etc/security/limits.conf (nofile) or with LimitNOFILE= of systemd",
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

static void look_at_file(struct doctor *d, const char *path, const char *remedy)
{
	int error = access(path, R_OK | W_OK) ? errno : 0;

	if (error == EACCES || error == EPERM)
		say(d, FAULT, "device files",
		    "%s may not be opened by this user: add the user to the group of the file "
		    "(often rdma), or give the "
		    "container the device",
		    path);
	else if (error)
		say(d, FAULT, "device files", "there is an RDMA device but no %s: %s", path, remedy);
}

static void look_at_devices(struct doctor *d)
{
	bool iwarp = false, copies = true;
	unsigned major, minor;
	struct utsname name;

	for (unsigned i = 0; i < d->info->ndevices; i++) {
		const struct info_device *v = &d->info->devices[i];

		iwarp |= !strcmp(v->node, "RNIC");
		if (strcmp(v->state, "ACTIVE"))
			say(d, FAULT, "port",
			    "port %u of %s is %s: bring up its link, its network interface (\"ip "
			    "link set ... up\"), or, "
			    "with InfiniBand, the subnet manager",
			    v->port, v->name, *v->state ? v->state : "in no known state");
		else if (strcmp(v->node, "RNIC") && !has_gid(v->name, v->port))
			say(d, FAULT,
			    "GID", "port %u of %s has no GID, which is its address: give its network interface an IP address",
			    v->port, v->name);
	}
	if (!d->info->ndevices)
		return;
	look_at_file(d, "/dev/infiniband/uverbs0",
		     "load the module ib_uverbs, or give the container /dev/infiniband");
	if (iwarp)
		look_at_file(
			d, "/dev/infiniband/rdma_cm",
			"load the module rdma_ucm, or give the container /dev/infiniband/rdma_cm");
	/* Since 5.12 pinned pages are copied for the child. */
	if (!uname(&name) && sscanf(name.release, "%u.%u", &major, &minor) == 2)
		copies = major > 5 || (major == 5 && minor >= 12);
	if (!copies && !getenv("RDMAV_FORK_SAFE") && !getenv("IBV_FORK_SAFE"))
		say(d, WARNING, "fork",
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

static void look_at_interface(struct doctor *d, const char *name, unsigned flags, int *first_mtu,
			      const char **first)
{
	int mtu = interface_mtu(name);

	if (!(flags & IFF_LOOPBACK) && !(flags & (IFF_BROADCAST | IFF_MULTICAST)))
		say(d, WARNING, "broadcast",
		    "%s carries neither broadcast nor multicast, so services behind it are not "
		    "found by asking all: list "
		    "their hosts with resolver=local,udp,file:/path",
		    name);
	if (mtu && mtu < MTU_WANTED)
		say(d, WARNING, "MTU",
		    "%s has an MTU of %d, below %d, which splits messages and slows them down: "
		    "\"ip link set %s mtu "
		    "%d\"",
		    name, mtu, MTU_WANTED, name, MTU_WANTED);
	if (flags & IFF_LOOPBACK || !mtu)
		return;
	if (*first_mtu && mtu != *first_mtu)
		say(d, WARNING, "MTU",
		    "%s has an MTU of %d and %s one of %d: on one network all hosts must have the "
		    "same, or large messages "
		    "get lost",
		    *first, *first_mtu, name, mtu);
	*first_mtu = mtu;
	*first = name;
}

static void look_at_network(struct doctor *d)
{
	const char *wanted = setting(d, "interfaces"), *seen[INTERFACES_MAX], *first = NULL;
	struct ifaddrs *all, *a;
	unsigned nseen = 0, up = 0;
	int mtu = 0;

	if (getifaddrs(&all))
		return;
	for (a = all; a; a = a->ifa_next) {
		bool known = false;

		for (unsigned i = 0; i < nseen; i++)
			known |= !strcmp(seen[i], a->ifa_name);
		if (known || nseen == INTERFACES_MAX || (wanted && !lists(wanted, a->ifa_name)))
			continue;
		seen[nseen++] = a->ifa_name;
		if (a->ifa_flags & IFF_UP) {
			up++;
			look_at_interface(d, a->ifa_name, a->ifa_flags, &mtu, &first);
		} else if (wanted || a->ifa_flags & IFF_LOOPBACK) {
			say(d, FAULT, "interface", "%s is down, and %s: \"ip link set %s up\"",
			    a->ifa_name,
			    wanted ? "it is one of those to be used"
				   : "contexts of this host speak over it",
			    a->ifa_name);
		}
	}
	if (!up)
		say(d, FAULT, "interface",
		    "no network interface in use is up: \"ip link\" lists them, the setting "
		    "interfaces names those to "
		    "use");
	freeifaddrs(all);
}

/* ---- container, keys, clock ---- */

static void look_at_proc(struct doctor *d)
{
	if (access("/proc/sys/kernel/random/boot_id", R_OK))
		say(d, WARNING, "proc",
		    "the boot id in /proc cannot be read: %s: contexts here do not know which host "
		    "this is, and try the shared memory of every peer, even where that is on "
		    "another host: \"mount -t proc proc /proc\"",
		    strerror(errno));
}

static void look_at_container(struct doctor *d)
{
	const char *dir = setting(d, "shm_dir");
	bool container = getenv("container") || !access("/.dockerenv", F_OK) ||
			 !access("/run/.containerenv", F_OK);

	if (dir && access(dir, W_OK | X_OK))
		say(d, FAULT, "container",
		    "the directory shared by the containers of this host, %s, cannot be used: %s: "
		    "mount the same one into "
		    "each, writable",
		    dir, strerror(errno));
	else if (!dir && container)
		say(d, WARNING, "container",
		    "this is a container without a directory that it shares with others, so it "
		    "reaches those of the same "
		    "host over the network only: mount one into each and name it with "
		    "RIPC_SHM_DIR");
}

static void look_at_key(struct doctor *d)
{
	const char *path = setting(d, "key_file");
	struct timex clock = {0};
	struct stat st;

	if (!path)
		return;
	if (stat(path, &st))
		say(d, FAULT, "key file",
		    "the key file %s: %s: copy it from another host of the cluster", path,
		    strerror(errno));
	else if (access(path, R_OK))
		say(d, FAULT, "key file",
		    "the key file %s may not be read by this user: make it theirs with chown", path);
	else if (st.st_mode & (S_IRWXG | S_IRWXO))
		say(d, FAULT,
		    "key file", "others than its owner have rights to the key file %s (mode %03o): \"chmod 600 %s\"",
		    path, st.st_mode & 0777, path);
	/* A message that is too old is taken for one that was recorded and sent again. */
	if (adjtimex(&clock) == TIME_ERROR || clock.status & STA_UNSYNC)
		say(d, WARNING, "clock",
		    "the clock of this host is not kept by anything (\"timedatectl\"), and with a "
		    "key messages of a host "
		    "whose clock is far off are refused: run chrony or another NTP client");
}

/* ---- the library at work ---- */

static void look_at_transports(struct doctor *d)
{
	bool others = false;

	if (d->info->open_error) {
		say(d, FAULT, "library", "it cannot be opened: %s", d->info->open_detail);
		return;
	}
	for (unsigned i = 0; i < d->info->ntransports; i++)
		others |=
			d->info->transports[i].open && strcmp(d->info->transports[i].name, "self");
	if (others)
		return;
	say(d, FAULT,
	    "transports", "no transport leads out of this process: allow one with the setting transports, or see why each is unavailable:");
	for (unsigned i = 0; i < d->info->ntransports; i++)
		if (!d->info->transports[i].open)
			printf("\t%s: %s\n", d->info->transports[i].name, d->info->transports[i].text);
}

/* What a context refused. */
struct refused {
	unsigned long long keys;  /* for their key, or want of one */
	unsigned long long clock; /* of these: sealed with ours, by a clock that is far off */
	unsigned long long other; /* for anything else */
};

/* The library counts them with the strangers, and apart in what it says of its keys. */
static unsigned long long count_late(struct ripc *ctx)
{
	unsigned long long late = 0;
	const char *name, *at;
	char text[512];

	for (unsigned i = 0; ripc_resolvers(ctx, i, &name, text, sizeof(text)) >= 0; i++) {
		at = strcmp(name, "keys") ? NULL : strstr(text, " strangers, ");
		if (at)
			late = strtoull(at + strlen(" strangers, "), NULL, 10);
	}
	return late;
}

static void add_refused(struct refused *r, struct ripc *ctx)
{
	struct ripc_stats stats;
	unsigned long long all;

	if (!ctx || ripc_stats(ctx, &stats))
		return;
	all = stats.bad_messages + stats.bad_peers;
	r->keys += stats.strangers;
	r->clock += count_late(ctx);
	/* Some of those are counted there, too. */
	r->other += all > stats.strangers ? all - stats.strangers : 0;
}

/* Listens to the network for a while, or until there is something to be said. */
static struct refused listen_for_strangers(struct ripc *one, struct ripc *two)
{
	struct refused r;
	unsigned waited_ms = 0;

	for (;;) {
		r = (struct refused){0};
		add_refused(&r, one);
		add_refused(&r, two);
		if (r.keys || r.other || waited_ms >= LISTEN_MS)
			return r;
		usleep(50000);
		waited_ms += 50;
	}
}

static void look_at_strangers(struct doctor *d, struct ripc *one, struct ripc *two)
{
	struct refused r = listen_for_strangers(one, two);

	if (r.clock)
		say(d, WARNING, "clock",
		    "%llu messages were sealed with the right key by a clock that is more than 30 "
		    "s off "
		    "this one, and were refused: "
		    "neither host finds the other: set both clocks (\"date -u\"), and run chrony "
		    "or "
		    "another NTP client",
		    r.clock);
	if (r.keys > r.clock && setting(d, "key_file"))
		say(d, WARNING, "key",
		    "%llu messages were refused for their key within a moment: somebody has "
		    "another key, or none, "
		    "and neither finds the other: give all hosts the same "
		    "RIPC_KEY_FILE (\"sha256sum\")",
		    r.keys - r.clock);
	else if (r.keys > r.clock)
		say(d, WARNING, "key",
		    "%llu messages sealed with a key came within a moment, and nothing here has "
		    "one: who has it is not "
		    "found from here, nor finds what is here: name a copy of their key file with "
		    "RIPC_KEY_FILE",
		    r.keys);
	if (r.other)
		say(d, WARNING, "strangers",
		    "%llu datagrams or connections were refused within a moment: somebody speaks "
		    "another version or "
		    "something else at UDP port %s: compare ripc-info on all hosts, or take "
		    "another port with RIPC_PORT",
		    r.other, setting(d, "port") ? setting(d, "port") : "7475");
}

/* Two contexts of this process that find each other by broadcast alone. */
static void look_at_broadcast(struct doctor *d)
{
	struct ripc *one = NULL, *two = NULL;
	struct ripc_service *service;
	const char *resolver = setting(d, "resolver");
	char text[2300];
	int rc;

	if (d->info->open_error || (resolver && !lists(resolver, "udp")))
		return;
	snprintf(text, sizeof(text), "%s resolver=udp", d->settings);
	rc = ripc_open(&one, text);
	if (!rc)
		rc = ripc_open(&two, text);
	if (!rc)
		rc = ripc_register(one, RIPC_ANY_ID, 0, &service);
	if (!rc)
		rc = ripc_lookup(two, ripc_service_id(service), NULL, PATIENCE_MS);
	if (rc)
		say(d, FAULT, "firewall",
		    "requests for services sent to all do not even come back to this host: open "
		    "UDP port %s, and the ports "
		    "the answers go to, in the firewall (\"nft list ruleset\"), or list hosts with "
		    "resolver=file:/path "
		    "(%s)",
		    setting(d, "port") ? setting(d, "port") : "7475", ripc_detail());
	look_at_strangers(d, one, two);
	if (one)
		ripc_close(one);
	if (two)
		ripc_close(two);
}

/* Who holds a service, and what that means for somebody else who wants it. */
static void look_at_service(struct doctor *d, uint64_t id)
{
	unsigned long long number = (unsigned long long)id;
	struct ripc_service *service;
	struct ripc *ctx;
	int rc;

	if (d->info->open_error || ripc_open(&ctx, d->settings))
		return;
	rc = ripc_register(ctx, id, 0, &service);
	if (rc == -EADDRINUSE)
		say(d, WARNING, "duplicate id",
		    "service %llu is held already, and who else registers it gets EADDRINUSE: end "
		    "the one there is, or choose "
		    "another id (%s)",
		    number, ripc_detail());
	else if (rc)
		say(d, FAULT, "service", "service %llu cannot be registered: %s", number,
		    ripc_detail());
	if (rc == -EADDRINUSE && ripc_lookup(ctx, id, NULL, PATIENCE_MS))
		say(d, FAULT, "service", "service %llu is there and cannot be reached: %s", number,
		    ripc_detail());
	else if (!rc)
		printf("service: nobody holds service %llu: it can be registered, and whoever "
		       "sends to it waits\n",
		       number);
	ripc_close(ctx);
}

unsigned doctor_print(const struct info *info, const char *settings, uint64_t service)
{
	struct doctor d = {.info = info, .settings = settings};

	look_at_limits(&d);
	look_at_devices(&d);
	look_at_network(&d);
	look_at_proc(&d);
	look_at_container(&d);
	look_at_key(&d);
	look_at_transports(&d);
	look_at_broadcast(&d);
	if (service)
		look_at_service(&d, service);
	printf("%u faults, %u warnings: looked at limits, RDMA devices, network interfaces, "
	       "container, key and clock, "
	       "transports, and whether services are found\n",
	       d.found[FAULT], d.found[WARNING]);
	return d.found[FAULT];
}
