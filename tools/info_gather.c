/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "info.h"
#include "tool.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define DEVICES "/sys/class/infiniband"

extern char **environ;

/* First line of a small file, without its newline; empty if it cannot be read. */
static void read_line(const char *path, char *line, size_t len)
{
	FILE *file = fopen(path, "re");

	line[0] = 0;
	if (!file)
		return;
	if (fgets(line, (int)len, file))
		line[strcspn(line, "\n")] = 0;
	fclose(file);
}

static void add_setting(struct info *info, const char *text, size_t len, const char *origin)
{
	struct info_setting *s;

	if (info->nsettings == INFO_SETTINGS_MAX)
		return;
	s = &info->settings[info->nsettings++];
	snprintf(s->text, sizeof(s->text), "%.*s", (int)(len < 255 ? len : 255), text);
	s->origin = origin;
}

static void gather_settings(struct info *info, const char *settings)
{
	for (char **e = environ; e && *e; e++)
		if (!strncmp(*e, "RIPC_", 5) && strncmp(*e, "RIPC_TEST_", 10))
			add_setting(info, *e, strlen(*e), "environment");
	while (*(settings += strspn(settings, " "))) {
		size_t len = strcspn(settings, " ");

		add_setting(info, settings, len, "option");
		settings += len;
	}
}

/* The kernel writes "4: ACTIVE" and "1: CA": the word behind the number is for people. */
static void read_word(const char *device, unsigned port, const char *name, char *word, size_t len)
{
	char path[512], line[64];
	const char *text;

	if (port)
		snprintf(path, sizeof(path), DEVICES "/%s/ports/%u/%s", device, port, name);
	else
		snprintf(path, sizeof(path), DEVICES "/%s/%s", device, name);
	read_line(path, line, sizeof(line));
	text = strchr(line, ':');
	text = text ? text + 1 : line;
	snprintf(word, len, "%.31s", text + strspn(text, " "));
}

static void gather_device(struct info *info, const char *name)
{
	char path[512];

	for (unsigned port = 1; info->ndevices < INFO_DEVICES_MAX; port++) {
		struct info_device *d = &info->devices[info->ndevices];

		snprintf(path, sizeof(path), DEVICES "/%s/ports/%u", name, port);
		if (access(path, F_OK))
			return;
		snprintf(d->name, sizeof(d->name), "%.63s", name);
		d->port = port;
		read_word(name, port, "link_layer", d->link, sizeof(d->link));
		read_word(name, port, "state", d->state, sizeof(d->state));
		read_word(name, 0, "node_type", d->node, sizeof(d->node));
		info->ndevices++;
	}
}

static void gather_devices(struct info *info)
{
	struct dirent *entry;
	DIR *dir = opendir(DEVICES);

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			gather_device(info, entry->d_name);
	closedir(dir);
}

static void gather_host(struct info *info)
{
	struct utsname name;
	char line[256], *from, *to;
	FILE *file;

	if (!uname(&name)) {
		snprintf(info->host, sizeof(info->host), "%.255s", name.nodename);
		snprintf(info->kernel, sizeof(info->kernel), "%.60s %.60s %.60s", name.sysname,
			 name.release, name.machine);
	}
	info->cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	getrlimit(RLIMIT_MEMLOCK, &info->memlock);
	getrlimit(RLIMIT_NOFILE, &info->nofile);
	file = fopen("/proc/meminfo", "re");
	while (file && fgets(line, sizeof(line), file)) {
		sscanf(line, "HugePages_Total: %llu", &info->huge_total);
		sscanf(line, "HugePages_Free: %llu", &info->huge_free);
		sscanf(line, "Hugepagesize: %llu", &info->huge_kib);
	}
	if (file)
		fclose(file);
	/* "always [madvise] never": the mode in force stands in brackets. */
	read_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof(line));
	from = strchr(line, '[');
	to = from ? strchr(from, ']') : NULL;
	if (to)
		snprintf(info->transparent, sizeof(info->transparent), "%.*s", (int)(to - from - 1),
			 from + 1);
}

/* The instance id is not asked for anywhere: it is part of the route to a service of our own. */
static void gather_instance(struct info *info, struct ripc *ctx)
{
	struct ripc_service *service;
	struct ripc_route route = {.size = sizeof(route)};
	int rc;

	rc = ripc_service_register(ctx, RIPC_ANY_ID, 0, &service);
	if (!rc) {
		rc = ripc_route_lookup(ctx, ripc_service_id(service), &route, 1000);
		if (!rc) {
			memcpy(info->instance, route.instance, sizeof(info->instance));
			info->has_instance = true;
		}
		if (rc)
			snprintf(info->instance_error, sizeof(info->instance_error), "%s",
				 ripc_error_detail());
		ripc_service_unregister(service);
	} else {
		snprintf(info->instance_error, sizeof(info->instance_error), "%s",
			 ripc_error_detail());
	}
}

/*
 * After a service was registered: by then a back end has reached its servers, or found that it
 * cannot.
 */
static void gather_resolvers(struct info *info, struct ripc *ctx)
{
	const char *name;

	for (unsigned i = 0; i < INFO_RESOLVERS_MAX; i++) {
		struct info_resolver *r = &info->resolvers[i];
		int rc = ripc_resolver_info(ctx, i, &name, r->text, sizeof(r->text));

		if (rc < 0)
			break;
		snprintf(r->name, sizeof(r->name), "%s", name);
		r->works = rc == 1;
		info->nresolvers++;
	}
}

static void gather_context(struct info *info, const char *settings)
{
	const char *name;
	struct ripc *ctx;

	info->open_error = ripc_open(&ctx, settings);
	if (info->open_error) {
		snprintf(info->open_detail, sizeof(info->open_detail), "%s", ripc_error_detail());
		return;
	}
	for (unsigned i = 0; i < INFO_TRANSPORTS_MAX; i++) {
		struct info_transport *t = &info->transports[i];
		int rc = ripc_transport_info(ctx, i, &name, t->text, sizeof(t->text));

		if (rc < 0)
			break;
		snprintf(t->name, sizeof(t->name), "%s", name);
		t->open = rc == 1;
		info->ntransports++;
	}
	info->limits.size = sizeof(info->limits);
	ripc_route_limits(ctx, 0, &info->limits);
	gather_instance(info, ctx);
	gather_resolvers(info, ctx);
	ripc_close(ctx);
}

void info_gather(struct info *info, const char *settings)
{
	gather_host(info);
	gather_settings(info, settings);
	gather_devices(info);
	gather_context(info, settings);
}
