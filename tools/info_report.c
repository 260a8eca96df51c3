/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"
#include "info.h"
#include "tool.h"

#include <stdio.h>
#include <string.h>

#ifdef HAVE_JANSSON
#include <jansson.h>
#define WITH_JSON true
#else
#define WITH_JSON false
#endif
#ifdef HAVE_SYS_SDT_H
#define WITH_TRACEPOINTS true
#else
#define WITH_TRACEPOINTS false
#endif
#ifdef RIPC_DEBUG
#define WITH_DEBUG true
#else
#define WITH_DEBUG false
#endif

/* Parts of the library that are built in or left out, decided by configure. */
static const struct {
	const char *name, *text;
	bool built;
} features[] = {
	{"json", "JSON output of the tools (jansson)", WITH_JSON},
	{"tracepoints", "USDT tracepoints (sys/sdt.h)", WITH_TRACEPOINTS},
	{"debug", "exact checks of buffer ownership (--enable-debug)", WITH_DEBUG},
};
#define NFEATURES (sizeof(features) / sizeof(features[0]))

static const char *limit_text(rlim_t limit, const char *unit, char *text, size_t len)
{
	if (limit == RLIM_INFINITY)
		return "unlimited";
	snprintf(text, len, "%llu%s", (unsigned long long)limit, unit);
	return text;
}

static void print_limit(const char *name, const struct rlimit *limit, const char *unit)
{
	char soft[32], hard[32];

	printf("%-14s soft %s, hard %s\n", name,
	       limit_text(limit->rlim_cur, unit, soft, sizeof(soft)),
	       limit_text(limit->rlim_max, unit, hard, sizeof(hard)));
}

static void print_context(const struct info *info)
{
	char instance[37];

	if (info->open_error) {
		printf("%-14s not opened: %s\n", "context:", info->open_detail);
		return;
	}
	tool_instance_text(info->instance, instance);
	printf("%-14s %s\n", "instance:", info->has_instance ? instance : info->instance_error);
	for (unsigned i = 0; i < info->ntransports; i++)
		printf("%-14s %s: %s%s\n", "transport:", info->transports[i].name,
		       info->transports[i].open ? "" : "unavailable: ", info->transports[i].text);
	for (unsigned i = 0; i < info->nresolvers; i++)
		printf("%-14s %s: %s%s\n", "resolver:", info->resolvers[i].name,
		       info->resolvers[i].works ? "" : "finds nothing: ", info->resolvers[i].text);
	printf("%-14s short messages to %llu bytes on every transport, long to %llu bytes\n",
	       "limits:", (unsigned long long)info->limits.short_max,
	       (unsigned long long)info->limits.long_max);
	printf("%-14s %u items and %u return buffers per message\n", "", info->limits.items_max,
	       info->limits.return_buffers_max);
}

void info_print(const struct info *info)
{
	char built_for[32];

	snprintf(built_for, sizeof(built_for), "%d.%d.%d", RIPC_VERSION_MAJOR, RIPC_VERSION_MINOR,
		 RIPC_VERSION_PATCH);
	printf("%-14s %s", "libripc:", ripc_version());
	if (strcmp(built_for, ripc_version()))
		printf(" (these tools were built for %s)", built_for);
	printf("\n%-14s %s, %s, %u processors\n", "host:", info->host, info->kernel, info->cpus);
	if (!info->nsettings)
		printf("%-14s defaults, see ripc(7)\n", "settings:");
	for (unsigned i = 0; i < info->nsettings; i++)
		printf("%-14s %s (%s)\n", "setting:", info->settings[i].text,
		       info->settings[i].origin);
	print_context(info);
	if (!info->ndevices)
		printf("%-14s no RDMA device\n", "devices:");
	for (unsigned i = 0; i < info->ndevices; i++)
		printf("%-14s %s port %u: %s, %s, %s\n", "device:", info->devices[i].name,
		       info->devices[i].port, info->devices[i].node, info->devices[i].link,
		       info->devices[i].state);
	print_limit("memlock:", &info->memlock, " bytes");
	print_limit("descriptors:", &info->nofile, "");
	if (info->huge_total)
		printf("%-14s %llu of %llu KiB, %llu free", "huge pages:", info->huge_total,
		       info->huge_kib, info->huge_free);
	else
		printf("%-14s none set aside", "huge pages:");
	printf("; transparent ones: %s\n",
	       info->transparent[0] ? info->transparent : "not in this kernel");
	for (size_t i = 0; i < NFEATURES; i++)
		printf("%-14s %s: %s\n", "feature:", features[i].text,
		       features[i].built ? "built in" : "left out");
}

#ifdef HAVE_JANSSON
/* Names of files may be anything, and long texts are cut: what is not UTF-8 becomes '?'. */
static json_t *text_json(const char *text)
{
	char clean[1024];
	size_t len = 0;

	while (*text && len < sizeof(clean) - 4) {
		const size_t left = strnlen(text, 4);
		json_t *one = NULL;
		size_t n = 0;

		while (!one && n < left)
			one = json_stringn(text, ++n);
		if (!one)
			n = 1;
		memcpy(clean + len, one ? text : "?", n);
		json_decref(one);
		text += n;
		len += n;
	}
	return json_stringn(clean, len);
}

/* An unlimited limit has no number: null. */
static json_t *limit_json(const struct rlimit *limit)
{
	json_t *soft = limit->rlim_cur == RLIM_INFINITY ? json_null()
							: json_integer((json_int_t)limit->rlim_cur);
	json_t *hard = limit->rlim_max == RLIM_INFINITY ? json_null()
							: json_integer((json_int_t)limit->rlim_max);

	return json_pack("{s:o,s:o}", "soft", soft, "hard", hard);
}

static json_t *lists_json(const struct info *info)
{
	json_t *settings = json_array(), *transports = json_array(), *resolvers = json_array(),
	       *devices = json_array(), *built = json_object();

	for (unsigned i = 0; i < info->nsettings; i++)
		json_array_append_new(settings, json_pack("{s:o,s:s}", "setting",
							  text_json(info->settings[i].text),
							  "origin", info->settings[i].origin));
	for (unsigned i = 0; i < info->ntransports; i++)
		json_array_append_new(transports,
				      json_pack("{s:s,s:b,s:o}", "name", info->transports[i].name,
						"available", info->transports[i].open,
						info->transports[i].open ? "address" : "reason",
						text_json(info->transports[i].text)));
	for (unsigned i = 0; i < info->nresolvers; i++)
		json_array_append_new(resolvers,
				      json_pack("{s:s,s:b,s:o}", "name", info->resolvers[i].name,
						"works", info->resolvers[i].works, "state",
						text_json(info->resolvers[i].text)));
	for (unsigned i = 0; i < info->ndevices; i++)
		json_array_append_new(
			devices,
			json_pack("{s:s,s:i,s:s,s:s,s:s}", "name", info->devices[i].name, "port",
				  (int)info->devices[i].port, "type", info->devices[i].node, "link",
				  info->devices[i].link, "state", info->devices[i].state));
	for (size_t i = 0; i < NFEATURES; i++)
		json_object_set_new(built, features[i].name, json_boolean(features[i].built));
	return json_pack("{s:o,s:o,s:o,s:o,s:o}", "settings", settings, "transports", transports,
			 "resolvers", resolvers, "devices", devices, "features", built);
}

static json_t *context_json(const struct info *info)
{
	char instance[37];
	json_t *limits;

	if (info->open_error)
		return json_pack("{s:s,s:o}", "error", ripc_strerror(info->open_error), "detail",
				 text_json(info->open_detail));
	tool_instance_text(info->instance, instance);
	limits = json_pack(
		"{s:I,s:I,s:i,s:i}", "short_max", (json_int_t)info->limits.short_max, "long_max",
		info->limits.long_max > INT64_MAX ? INT64_MAX : (json_int_t)info->limits.long_max,
		"items_max", (int)info->limits.items_max, "return_buffers_max",
		(int)info->limits.return_buffers_max);
	return json_pack("{s:s,s:o}", info->has_instance ? "instance" : "error",
			 info->has_instance ? instance : info->instance_error, "limits", limits);
}

int info_print_json(const struct info *info)
{
	json_t *lists = lists_json(info);
	json_t *root = json_pack(
		"{s:i,s:s,s:{s:s,s:s,s:i},s:o,s:o,s:o,s:{s:I,s:I,s:I,s:s}}", "version", 1,
		"library", ripc_version(), "host", "name", info->host, "kernel", info->kernel,
		"processors", (int)info->cpus, "context", context_json(info), "memlock_bytes",
		limit_json(&info->memlock), "descriptors", limit_json(&info->nofile), "huge_pages",
		"total", (json_int_t)info->huge_total, "free", (json_int_t)info->huge_free, "kib",
		(json_int_t)info->huge_kib, "transparent", info->transparent);
	int rc = -1;

	if (lists && root && !json_object_update(root, lists) &&
	    !json_dumpf(root, stdout, JSON_INDENT(2) | JSON_SORT_KEYS)) {
		putchar('\n');
		rc = 0;
	} else {
		tool_error("out of memory for the JSON output");
	}
	json_decref(lists);
	json_decref(root);
	return rc;
}
#else
int info_print_json(const struct info *info)
{
	tool_error("this build has no JSON output: jansson was left out");
	return -1;
}
#endif
