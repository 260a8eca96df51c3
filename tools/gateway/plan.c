/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan.h"
#include "json.h"
#include "ripc.h"
#include "setting.h"

#include <errno.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX 1048576

static const struct word node_types[] = {
	{"signal", NODE_SIGNAL},   {"file", NODE_FILE}, {"stdio", NODE_STDIO},
	{"socket", NODE_SOCKET},   {"ripc", NODE_RIPC}, {"zeromq", NODE_ZEROMQ},
	{"nanomsg", NODE_NANOMSG}, {NULL, 0},
};
static const struct word forms[] = {
	{"sine", SIGNAL_SINE},     {"square", SIGNAL_SQUARE},   {"triangle", SIGNAL_TRIANGLE},
	{"ramp", SIGNAL_RAMP},     {"counter", SIGNAL_COUNTER}, {"constant", SIGNAL_CONSTANT},
	{"random", SIGNAL_RANDOM}, {"mixed", SIGNAL_MIXED},     {NULL, 0},
};
static const struct word formats[] = {{"villas.human", TEXT_HUMAN}, {"csv", TEXT_CSV}, {NULL, 0}};
static const struct word eofs[] = {
	{"stop", EOF_STOP}, {"exit", EOF_STOP}, {"rewind", EOF_REWIND}, {NULL, 0}};
static const struct word modes[] = {{"any", 0}, {"all", 1}, {NULL, 0}};
static const struct word clocks[] = {
	{"local", RATE_LOCAL}, {"origin", RATE_ORIGIN}, {"received", RATE_RECEIVED}, {NULL, 0}};
static const struct word hook_types[] = {
	{"decimate", HOOK_DECIMATE},
	{"limit_rate", HOOK_LIMIT_RATE},
	{"skip_first", HOOK_SKIP_FIRST},
	{"stats", HOOK_STATS},
	{"ts", HOOK_TS},
	{"jitter", HOOK_JITTER},
	{NULL, 0},
};

static void read_hook(struct reader *r, const config_setting_t *s, struct hook_plan *hook)
{
	static const char *const keys[] = {"type", "ratio",   "renumber", "rate",
					   "mode", "samples", "seconds",  NULL};

	if (!config_setting_is_group(s) || !config_setting_get_member(s, "type")) {
		setting_fail(r, setting_line(s), "a hook must be a group with a type");
		return;
	}
	setting_check_keys(r, s, keys);
	hook->type = (enum hook_type)setting_word(r, s, "type", hook_types, 0);
	hook->ratio = 1;
	setting_integer(r, s, "ratio", 1, INT32_MAX, &hook->ratio);
	hook->renumber = setting_bool(r, s, "renumber", false);
	setting_number(r, s, "rate", 1e-3, 1e6, &hook->rate);
	if (hook->type == HOOK_LIMIT_RATE && hook->rate == 0)
		setting_fail(r, setting_line(s), "limit_rate needs a rate");
	hook->clock = (enum rate_clock)setting_word(r, s, "mode", clocks, RATE_LOCAL);
	setting_integer(r, s, "samples", 1, INT64_MAX, &hook->samples);
	setting_number(r, s, "seconds", 0, 1e6, &hook->seconds);
	if (hook->type == HOOK_SKIP_FIRST && !hook->samples && hook->seconds == 0)
		setting_fail(r, setting_line(s), "skip_first needs samples or seconds");
}

static void read_hooks(struct reader *r, const config_setting_t *group, struct hooks_plan *hooks)
{
	const config_setting_t *s = config_setting_get_member(group, "hooks");

	if (!s)
		return;
	if (!config_setting_is_list(s) || config_setting_length(s) > PLAN_HOOKS_MAX) {
		setting_fail(r, setting_line(s), "hooks must be a list of at most %d groups",
			     PLAN_HOOKS_MAX);
		return;
	}
	hooks->n = (unsigned)config_setting_length(s);
	for (unsigned i = 0; i < hooks->n; i++)
		read_hook(r, config_setting_get_elem(s, i), &hooks->hook[i]);
}

/* "HOST:PORT"; a host in brackets is an IPv6 address. */
static void split_address(struct reader *r, const config_setting_t *s, const char *text,
			  struct end_plan *end)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0, port_len = colon ? strlen(colon + 1) : 0;

	if (!port_len || port_len > 5 || strspn(colon + 1, "0123456789") != port_len ||
	    strtoul(colon + 1, NULL, 10) < 1 || strtoul(colon + 1, NULL, 10) > 65535) {
		setting_fail(r, setting_line(s),
			     "address \"%.255s\" must be HOST:PORT, with a port to 65535", text);
		return;
	}
	if (len > 2 && text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	}
	if (!len || (len == 1 && *text == '*')) {
		text = "0.0.0.0";
		len = strlen(text);
	}
	snprintf(end->host, sizeof(end->host), "%.*s", (int)len, text);
	snprintf(end->port, sizeof(end->port), "%s", colon + 1);
}

/* libconfig wraps integers above INT32_MAX, so an id may be a text, too. */
static void get_id(struct reader *r, const config_setting_t *s, const char *text, uint64_t *id)
{
	unsigned long long value;

	errno = 0;
	value = strtoull(text, NULL, 10);
	if (errno || !value || value >= INT64_MAX)
		setting_fail(r, setting_line(s), "service %s: an id is from 1 to %lld", text,
			     (long long)INT64_MAX - 1);
	else
		*id = value;
}

static void read_service(struct reader *r, const config_setting_t *s, struct end_plan *end)
{
	const config_setting_t *service = config_setting_get_member(s, "service");
	const char *text = service ? config_setting_get_string(service) : NULL;

	setting_integer(r, s, "group", 1, (int64_t)RIPC_GROUP_LIMIT - 2, &end->group);
	if (text && (!*text || strlen(text) > PLAN_TEXT_MAX))
		setting_fail(r, setting_line(service), "the name of a service has 1 to 255 bytes");
	else if (text && !text[strspn(text, "0123456789")])
		get_id(r, service, text, &end->id);
	else if (text)
		snprintf(end->service, sizeof(end->service), "%s", text);
	else
		setting_integer(r, s, "service", 1, INT64_MAX - 1, &end->id);
	if (!service && !end->group)
		setting_fail(r, setting_line(s),
			     "a node of type ripc needs a service or a group here");
}

/* A transport and an address of ZeroMQ or NNG, which check the address. */
static void read_url(struct reader *r, const config_setting_t *s, const char *key,
		     struct end_plan *end)
{
	const char *url = setting_text(r, s, key, PLAN_TEXT_MAX);

	if (!url)
		setting_fail(r, setting_line(s), "a node of this type needs the key %s here", key);
	else if (strncmp(url, "tcp://", 6) && strncmp(url, "ipc://", 6))
		setting_fail(r, setting_line(s),
			     "%s is \"%.63s\", but must begin with tcp:// or ipc://", key, url);
	else
		snprintf(end->url, sizeof(end->url), "%s", url);
}

static bool has_ends(const struct node_plan *node)
{
	return node->type == NODE_SOCKET || node->type == NODE_RIPC || node->type == NODE_ZEROMQ ||
	       node->type == NODE_NANOMSG;
}

static void read_end(struct reader *r, const config_setting_t *group, const char *key,
		     enum node_type type, struct end_plan *end, struct hooks_plan *hooks)
{
	static const char *const keys[] = {"address",   "service", "group",     "hooks",
					   "signals",   "builtin", "subscribe", "publish",
					   "endpoints", "spin",    NULL};
	const config_setting_t *s = config_setting_get_member(group, key);
	const char *address;

	if (!s)
		return;
	if (!config_setting_is_group(s)) {
		setting_fail(r, setting_line(s), "%s of a node must be a group", key);
		return;
	}
	setting_check_keys(r, s, keys);
	end->present = true;
	read_hooks(r, s, hooks);
	if (type == NODE_RIPC)
		read_service(r, s, end);
	if (type == NODE_ZEROMQ)
		read_url(r, s, !strcmp(key, "in") ? "subscribe" : "publish", end);
	if (type == NODE_NANOMSG)
		read_url(r, s, "endpoints", end);
	if (type != NODE_SOCKET) {
		end->spin = setting_bool(r, s, "spin", false);
		return;
	}
	address = setting_text(r, s, "address", PLAN_TEXT_MAX);
	if (address)
		split_address(r, s, address, end);
	else
		setting_fail(r, setting_line(s), "a node of type socket needs an address here");
}

static void read_signal(struct reader *r, const config_setting_t *s, struct node_plan *node)
{
	static const char *const keys[] = {"type",      "signal",    "values", "rate",
					   "frequency", "amplitude", "stddev", "offset",
					   "phase",     "limit",     "in",     NULL};
	uint64_t values = 1;

	setting_check_keys(r, s, keys);
	node->form = (enum signal_form)setting_word(r, s, "signal", forms, SIGNAL_MIXED);
	node->rate = 10;
	node->frequency = node->amplitude = 1;
	node->stddev = 0.2;
	setting_integer(r, s, "values", 1, SAMPLE_VALUES_MAX, &values);
	node->values = (unsigned)values;
	setting_number(r, s, "rate", 1e-3, 1e5, &node->rate);
	setting_number(r, s, "frequency", 1e-6, 1e6, &node->frequency);
	setting_number(r, s, "amplitude", -1e300, 1e300, &node->amplitude);
	setting_number(r, s, "stddev", 0, 1e300, &node->stddev);
	setting_number(r, s, "offset", -1e300, 1e300, &node->offset);
	setting_number(r, s, "phase", -1e6, 1e6, &node->phase);
	setting_integer(r, s, "limit", 1, INT64_MAX, &node->limit);
}

static void read_file(struct reader *r, const config_setting_t *s, struct node_plan *node)
{
	static const char *const keys[] = {"type", "uri",  "format", "in",
					   "out",  "rate", "eof",    NULL};
	const char *uri = setting_text(r, s, "uri", PLAN_TEXT_MAX);
	const config_setting_t *in = config_setting_get_member(s, "in");

	setting_check_keys(r, s, keys);
	node->format = (enum text_format)setting_word(r, s, "format", formats, TEXT_HUMAN);
	if (uri)
		snprintf(node->uri, sizeof(node->uri), "%s", uri);
	else if (node->type == NODE_FILE)
		setting_fail(r, setting_line(s), "a node of type file needs a uri");
	/* VILLASnode has these keys in the group in. */
	in = in && config_setting_is_group(in) ? in : s;
	setting_number(r, in, "rate", 0, 1e5, &node->rate);
	node->eof = (enum file_eof)setting_word(r, in, "eof", eofs, EOF_STOP);
}

static void read_node(struct reader *r, const config_setting_t *s)
{
	static const char *const ends[] = {"type", "in", "out", "layer", "format", NULL};
	struct node_plan *node = &r->plan->node[r->plan->nnodes];
	const char *name = config_setting_name(s);

	if (!config_setting_is_group(s) || !config_setting_get_member(s, "type")) {
		setting_fail(r, setting_line(s), "node %.63s must be a group with a type", name);
		return;
	}
	if (strlen(name) > PLAN_NAME_MAX) {
		setting_fail(r, setting_line(s), "the name of a node has at most %d bytes",
			     PLAN_NAME_MAX);
		return;
	}
	snprintf(node->name, sizeof(node->name), "%s", name);
	node->line = setting_line(s);
	node->type = (enum node_type)setting_word(r, s, "type", node_types, 0);
	if (node->type == NODE_SIGNAL)
		read_signal(r, s, node);
	else if (node->type == NODE_FILE || node->type == NODE_STDIO)
		read_file(r, s, node);
	else
		setting_check_keys(r, s, ends);
	if (has_ends(node)) {
		read_end(r, s, "in", node->type, &node->in, &node->in_hooks);
		read_end(r, s, "out", node->type, &node->out, &node->out_hooks);
	}
	r->plan->nnodes++;
}

static void read_nodes(struct reader *r, const config_setting_t *root)
{
	const config_setting_t *s = config_setting_get_member(root, "nodes");

	if (!s || !config_setting_is_group(s) || !config_setting_length(s)) {
		setting_fail(r, s ? setting_line(s) : 1,
			     "nodes must be a group with at least one node");
		return;
	}
	if (config_setting_length(s) > PLAN_NODES_MAX) {
		setting_fail(r, setting_line(s), "there are more than %d nodes", PLAN_NODES_MAX);
		return;
	}
	for (int i = 0; i < config_setting_length(s) && !r->failed; i++)
		read_node(r, config_setting_get_elem(s, (unsigned)i));
}

static unsigned find_node(struct reader *r, const config_setting_t *s, const char *name)
{
	for (unsigned i = 0; i < r->plan->nnodes; i++) {
		if (name && !strcmp(r->plan->node[i].name, name))
			return i;
	}
	setting_fail(r, setting_line(s), "there is no node \"%.63s\"", name ? name : "");
	return 0;
}

/* One name, or a list of names. Return: their number. */
static unsigned read_names(struct reader *r, const config_setting_t *path, const char *key,
			   unsigned *nodes)
{
	const config_setting_t *s = config_setting_get_member(path, key);
	int n;

	if (!s) {
		setting_fail(r, setting_line(path), "a path needs the key %s", key);
		return 0;
	}
	if (config_setting_type(s) == CONFIG_TYPE_STRING) {
		nodes[0] = find_node(r, s, config_setting_get_string(s));
		return 1;
	}
	n = config_setting_is_group(s) ? 0 : config_setting_length(s);
	if (n < 1 || n > PLAN_SOURCES_MAX) {
		setting_fail(r, setting_line(s), "%s must be a node or a list of 1 to %d nodes",
			     key, PLAN_SOURCES_MAX);
		return 0;
	}
	for (unsigned i = 0; i < (unsigned)n; i++) {
		nodes[i] = find_node(r, s, config_setting_get_string_elem(s, (int)i));
		for (unsigned k = 0; k < i; k++) {
			if (nodes[k] == nodes[i])
				setting_fail(r, setting_line(s), "node %s is twice in %s",
					     r->plan->node[nodes[i]].name, key);
		}
	}
	return (unsigned)n;
}

static void read_mask(struct reader *r, const config_setting_t *s, struct path_plan *path)
{
	unsigned masked[PLAN_SOURCES_MAX], n;

	path->mask = (1U << path->nin) - 1;
	if (!config_setting_get_member(s, "mask"))
		return;
	path->mask = 0;
	n = read_names(r, s, "mask", masked);
	for (unsigned i = 0; i < n; i++) {
		unsigned k = 0;

		while (k < path->nin && path->in[k] != masked[i])
			k++;
		if (k == path->nin)
			setting_fail(r, setting_line(s),
				     "node %s of the mask is no source of the path",
				     r->plan->node[masked[i]].name);
		else
			path->mask |= 1U << k;
	}
}

static void check_source(struct reader *r, unsigned line, const struct node_plan *node)
{
	if (has_ends(node) && !node->in.present)
		setting_fail(r, line, "node %s is a source, but has no group in", node->name);
}

static void check_sink(struct reader *r, unsigned line, const struct node_plan *node)
{
	if (node->type == NODE_SIGNAL)
		setting_fail(r, line, "node %s is of type signal and cannot be written to",
			     node->name);
	if (has_ends(node) && !node->out.present)
		setting_fail(r, line, "node %s is a destination, but has no group out", node->name);
}

static void add_reverse(struct reader *r, const struct path_plan *path)
{
	struct path_plan *back = &r->plan->path[r->plan->npaths];

	if (path->nin != 1 || path->nout != 1) {
		setting_fail(r, path->line,
			     "only a path with one source and one destination has a reverse");
		return;
	}
	if (r->plan->npaths == PLAN_PATHS_MAX) {
		setting_fail(r, path->line, "there are more than %d paths", PLAN_PATHS_MAX);
		return;
	}
	*back = *path;
	back->in[0] = path->out[0];
	back->out[0] = path->in[0];
	r->plan->npaths++;
}

static void read_path(struct reader *r, const config_setting_t *s)
{
	static const char *const keys[] = {"in",      "out",     "mode",  "mask", "rate",
					   "reverse", "enabled", "hooks", NULL};
	struct path_plan *path = &r->plan->path[r->plan->npaths];

	if (!config_setting_is_group(s)) {
		setting_fail(r, setting_line(s), "a path must be a group with the keys in and out");
		return;
	}
	setting_check_keys(r, s, keys);
	if (!setting_bool(r, s, "enabled", true))
		return;
	if (r->plan->npaths == PLAN_PATHS_MAX) {
		setting_fail(r, setting_line(s), "there are more than %d paths", PLAN_PATHS_MAX);
		return;
	}
	path->line = setting_line(s);
	path->nin = read_names(r, s, "in", path->in);
	path->nout = read_names(r, s, "out", path->out);
	path->all = setting_word(r, s, "mode", modes, 0);
	setting_number(r, s, "rate", 0, 1e5, &path->rate);
	read_mask(r, s, path);
	read_hooks(r, s, &path->hooks);
	r->plan->npaths++;
	if (setting_bool(r, s, "reverse", false))
		add_reverse(r, path);
}

static void read_paths(struct reader *r, const config_setting_t *root)
{
	const config_setting_t *s = config_setting_get_member(root, "paths");

	if (!s || !config_setting_is_list(s) || !config_setting_length(s)) {
		setting_fail(r, s ? setting_line(s) : 1,
			     "paths must be a list with at least one path");
		return;
	}
	for (int i = 0; i < config_setting_length(s) && !r->failed; i++)
		read_path(r, config_setting_get_elem(s, (unsigned)i));
	for (unsigned i = 0; i < r->plan->npaths && !r->failed; i++) {
		const struct path_plan *path = &r->plan->path[i];

		for (unsigned k = 0; k < path->nin; k++)
			check_source(r, path->line, &r->plan->node[path->in[k]]);
		for (unsigned k = 0; k < path->nout; k++)
			check_sink(r, path->line, &r->plan->node[path->out[k]]);
	}
}

static int parse(struct plan *plan, const char *file, const char *text, char *error)
{
	static const char *const keys[] = {"nodes", "paths", "affinity", "priority", NULL};
	struct reader r = {.plan = plan, .file = file, .error = error};
	uint64_t priority = 0;
	config_t config;

	memset(plan, 0, sizeof(*plan));
	config_init(&config);
	if (!config_read_string(&config, text)) {
		setting_fail(&r, (unsigned)config_error_line(&config), "%s",
			     config_error_text(&config));
	} else {
		const config_setting_t *root = config_root_setting(&config);

		setting_check_keys(&r, root, keys);
		setting_integer(&r, root, "affinity", 0, INT64_MAX, &plan->affinity);
		setting_integer(&r, root, "priority", 0, 99, &priority);
		plan->priority = (int)priority;
		read_nodes(&r, root);
		if (!r.failed)
			read_paths(&r, root);
	}
	config_destroy(&config);
	return r.failed ? -EINVAL : 0;
}

int plan_parse(struct plan *plan, const char *file, const char *text, char *error)
{
	char *translated;
	int rc;

	if (!json_begins(text))
		return parse(plan, file, text, error);
	rc = json_to_libconfig(file, text, &translated, error);
	if (rc)
		return rc;
	rc = parse(plan, file, translated, error);
	free(translated);
	return rc;
}

int plan_load(struct plan *plan, const char *file, char *error)
{
	FILE *in = fopen(file, "re");
	char *text = in ? malloc(FILE_MAX + 1) : NULL;
	size_t len;
	int rc;

	if (!text) {
		rc = in ? -ENOMEM : -errno;
		snprintf(error, PLAN_ERROR_MAX, "%.255s: %s", file, strerror(-rc));
		if (in)
			fclose(in);
		return rc;
	}
	len = fread(text, 1, FILE_MAX + 1, in);
	rc = ferror(in) ? -errno : len > FILE_MAX ? -EFBIG : 0;
	fclose(in);
	if (rc) {
		snprintf(error, PLAN_ERROR_MAX, "%.255s: %s", file, strerror(-rc));
	} else {
		text[len] = 0;
		rc = strlen(text) < len ? -EINVAL : plan_parse(plan, file, text, error);
		if (strlen(text) < len)
			snprintf(error, PLAN_ERROR_MAX, "%.255s: byte %zu is NUL: it is no text",
				 file, strlen(text) + 1);
	}
	free(text);
	return rc;
}
