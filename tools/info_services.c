/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ripc-info --services: what is registered on the network. */
#include "config.h"
#include "info.h"
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_JANSSON
#include <jansson.h>
#endif

struct services {
	struct ripc_service_info *info;
	size_t n, cap;
	bool no_memory;
};

static void collect(void *arg, const struct ripc_service_info *info)
{
	struct services *s = arg;

	/* The service that ripc-info itself may hold is of no interest. */
	if (info->own || s->no_memory)
		return;
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 64;
		struct ripc_service_info *more = realloc(s->info, cap * sizeof(*more));

		s->no_memory = !more;
		if (!more)
			return;
		s->info = more;
		s->cap = cap;
	}
	s->info[s->n++] = *info;
}

static void host_text(const struct ripc_service_info *info, char text[16])
{
	static const uint8_t unknown[16];

	if (info->same_host)
		snprintf(text, 16, "this");
	else if (!memcmp(info->host, unknown, sizeof(unknown)))
		snprintf(text, 16, "unknown");
	else
		snprintf(text, 16, "%02x%02x%02x%02x", info->host[0], info->host[1], info->host[2],
			 info->host[3]);
}

static void age_text(uint64_t ms, char text[32])
{
	unsigned long long s = (unsigned long long)ms / 1000;

	if (s < 60)
		snprintf(text, 32, "%llu.%llu s", s, (unsigned long long)ms / 100 % 10);
	else if (s < 3600)
		snprintf(text, 32, "%llu min", s / 60);
	else if (s < 86400)
		snprintf(text, 32, "%llu h", s / 3600);
	else
		snprintf(text, 32, "%llu d", s / 86400);
}

static void print(const struct services *s)
{
	printf("%-20s %-8s %-8s %-24s %s\n", "ID", "HOST", "AGE", "NAME", "TRANSPORTS");
	for (size_t i = 0; i < s->n; i++) {
		const struct ripc_service_info *info = &s->info[i];
		char host[16], age[32], name[256];

		host_text(info, host);
		age_text(info->age_ms, age);
		tool_name_text(*info->name ? info->name : "-", name);
		printf("%-20llu %-8s %-8s %-24s %s\n", (unsigned long long)info->service, host, age,
		       name, info->addresses);
	}
}

#ifdef HAVE_JANSSON
static json_t *one_json(const struct ripc_service_info *info)
{
	char id[24], host[33], instance[37], addresses[sizeof(info->addresses)], *save, *word;
	json_t *list = json_array();

	/* Ids beyond 2^63 are no integers of JSON. */
	snprintf(id, sizeof(id), "%llu", (unsigned long long)info->service);
	for (unsigned i = 0; i < 16; i++)
		snprintf(host + 2 * i, 3, "%02x", info->host[i]);
	tool_instance_text(info->instance, instance);
	memcpy(addresses, info->addresses, sizeof(addresses));
	for (word = strtok_r(addresses, ";", &save); word; word = strtok_r(NULL, ";", &save))
		json_array_append_new(list, json_string(word + (*word == ' ')));
	return json_pack("{s:s,s:s,s:s,s:s,s:b,s:I,s:o}", "id", id, "name", info->name, "instance",
			 instance, "host", host, "same_host", (int)info->same_host, "age_ms",
			 (json_int_t)info->age_ms, "transports", list);
}

static int print_json(const struct services *s)
{
	json_t *list = json_array(), *root = json_pack("{s:i,s:o}", "version", 1, "services", list);
	int rc = root ? 0 : -1;

	for (size_t i = 0; !rc && i < s->n; i++)
		rc = json_array_append_new(list, one_json(&s->info[i]));
	if (!rc)
		rc = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_SORT_KEYS);
	if (rc)
		tool_error("out of memory for the JSON output");
	else
		putchar('\n');
	json_decref(root);
	return rc;
}
#else
static int print_json(const struct services *s)
{
	tool_error("this build has no JSON output: jansson was left out");
	return -1;
}
#endif

int info_services(const char *settings, int timeout_ms, bool json)
{
	struct tool_settings all = {0};
	struct services s = {0};
	struct ripc *ctx;
	int rc;

	/* The library warns of a list that lacks services. Settings of the user win. */
	if ((!getenv("RIPC_LOG") && !tool_settings_add(&all, "log", "warn")) ||
	    (*settings && !tool_settings_add(&all, settings, NULL)))
		return TOOL_ERROR;
	rc = ripc_open(&ctx, all.text);
	if (rc) {
		tool_fail(rc, "cannot open the library");
		return TOOL_ERROR;
	}
	rc = ripc_service_list(ctx, collect, &s, timeout_ms);
	if (rc < 0)
		tool_fail(rc, "cannot list the services");
	else if (s.no_memory)
		tool_error("out of memory for the list of %d services", rc);
	else if (!json)
		print(&s);
	else if (print_json(&s))
		rc = -1;
	ripc_close(ctx);
	free(s.info);
	return rc < 0 || s.no_memory ? TOOL_ERROR : TOOL_OK;
}
