/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gateway.h"
#include "node.h"
#include "path.h"
#include "../tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct node_ops *const ops_of[] = {
	[NODE_SIGNAL] = &node_signal,
	[NODE_FILE] = &node_file,
	[NODE_STDIO] = &node_file,
	[NODE_SOCKET] = &node_socket,
	[NODE_RIPC] = &node_ripc,
#ifdef HAVE_ZEROMQ
	[NODE_ZEROMQ] = &node_zeromq,
#endif
#ifdef HAVE_NNG
	[NODE_NANOMSG] = &node_nanomsg,
#endif
	/* the last type; NULL: configure found no library for it */
	[NODE_TYPES] = NULL,
};

int64_t gateway_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void gateway_source_ended(struct gateway *gateway)
{
	if (!--gateway->open_sources)
		uv_stop(&gateway->loop);
}

static bool is_in(unsigned number, const unsigned *numbers, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (numbers[i] == number)
			return true;
	}
	return false;
}

/* The clock of these begins with their start. */
static bool is_timed(const struct node *node)
{
	return node->plan->type == NODE_SIGNAL || node->plan->type == NODE_FILE;
}

static int no_memory(void)
{
	tool_error("out of memory");
	return -ENOMEM;
}

static int start_node(struct gateway *gateway, unsigned i, bool timed)
{
	struct node *node = &gateway->nodes[i];
	bool source = false, sink = false;
	int rc;

	for (unsigned k = 0; k < gateway->plan.npaths; k++) {
		const struct path_plan *path = &gateway->plan.path[k];

		source |= is_in(i, path->in, path->nin);
		sink |= is_in(i, path->out, path->nout);
	}
	if ((!source && !sink) || timed != (source && is_timed(node)))
		return 0;
	if (!node->ops) {
		tool_error("node %s: this gateway was built without %s", node->plan->name,
			   node->plan->type == NODE_ZEROMQ ? "ZeroMQ (libzmq3-dev)"
							   : "NNG (libnng-dev)");
		return -ENOTSUP;
	}
	if (!flow_init(&node->received) || !hooks_init(&node->in_hooks, &node->plan->in_hooks) ||
	    !hooks_init(&node->out_hooks, &node->plan->out_hooks))
		return no_memory();
	rc = node->ops->start(node, source, sink);
	return rc == -ENOMEM ? no_memory() : rc;
}

int gateway_start(struct gateway *gateway)
{
	int rc = uv_loop_init(&gateway->loop);

	if (rc) {
		tool_error("cannot make an event loop: %s", uv_strerror(rc));
		return rc;
	}
	gateway->has_loop = true;
	gateway->nodes = calloc(gateway->plan.nnodes, sizeof(*gateway->nodes));
	gateway->paths = calloc(gateway->plan.npaths, sizeof(*gateway->paths));
	if (!gateway->nodes || !gateway->paths)
		return no_memory();
	for (unsigned i = 0; i < gateway->plan.nnodes; i++) {
		gateway->nodes[i].plan = &gateway->plan.node[i];
		gateway->nodes[i].ops = ops_of[gateway->plan.node[i].type];
		gateway->nodes[i].gateway = gateway;
	}
	for (unsigned i = 0; !rc && i < gateway->plan.npaths; i++) {
		gateway->paths[i].plan = &gateway->plan.path[i];
		gateway->paths[i].gateway = gateway;
		rc = path_start(&gateway->paths[i]);
	}
	/* Generators come last: a service that is looked for would cost them steps. */
	for (unsigned i = 0; !rc && !tool_stopped && i < gateway->plan.nnodes; i++)
		rc = start_node(gateway, i, false);
	for (unsigned i = 0; !rc && !tool_stopped && i < gateway->plan.nnodes; i++)
		rc = start_node(gateway, i, true);
	return rc;
}

void gateway_flush(struct gateway *gateway)
{
	for (unsigned i = 0; i < gateway->plan.nnodes; i++) {
		struct node *node = &gateway->nodes[i];

		if (node->state && node->ops->flush)
			node->ops->flush(node);
	}
}

static void close_handle(uv_handle_t *handle, void *arg)
{
	(void)arg;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

void gateway_stop(struct gateway *gateway)
{
	if (!gateway->has_loop)
		return;
	uv_walk(&gateway->loop, close_handle, NULL);
	uv_run(&gateway->loop, UV_RUN_DEFAULT);
	for (unsigned i = 0; gateway->nodes && i < gateway->plan.nnodes; i++) {
		struct node *node = &gateway->nodes[i];

		if (node->ops)
			node->ops->stop(node);
		flow_free(&node->received);
		hooks_free(&node->in_hooks);
		hooks_free(&node->out_hooks);
	}
	for (unsigned i = 0; gateway->paths && i < gateway->plan.npaths; i++)
		path_stop(&gateway->paths[i]);
	uv_loop_close(&gateway->loop);
	free(gateway->nodes);
	free(gateway->paths);
}

void gateway_print(const struct gateway *gateway, FILE *out)
{
	char name[PLAN_NAME_MAX + 32];

	for (unsigned i = 0; i < gateway->plan.nnodes; i++) {
		const struct node *node = &gateway->nodes[i];

		snprintf(name, sizeof(name), "node %s", node->plan->name);
		if (node->received.samples)
			flow_print(&node->received, name, out);
		fprintf(out,
			"%s: %" PRIu64 " sent, %" PRIu64 " not sent, %" PRIu64
			" malformed, %" PRIu64 " steps missed, %" PRIu64 " late above 50 us\n",
			name, node->sent, node->not_sent, node->malformed, node->missed,
			node->late);
		hooks_print(&node->in_hooks, name, out);
		hooks_print(&node->out_hooks, name, out);
	}
	for (unsigned i = 0; i < gateway->plan.npaths; i++) {
		const struct path *path = &gateway->paths[i];

		snprintf(name, sizeof(name), "path %u", i + 1);
		fprintf(out,
			"%s: %" PRIu64 " forwarded, %" PRIu64 " dropped by hooks, %" PRIu64
			" values cut\n",
			name, path->forwarded, path->hooks.dropped, path->cut);
		hooks_print(&path->hooks, name, out);
	}
}

/* The counters of a node. A sample that comes late is no longer lost, so that lost is a gauge. */
static const struct {
	const char *name, *type, *suffix;
	size_t offset;
} metrics[] = {
	{"samples", "counter", "_total", offsetof(struct node, received.samples)},
	{"lost", "gauge", "", offsetof(struct node, received.lost)},
	{"reordered", "counter", "_total", offsetof(struct node, received.reordered)},
	{"duplicates", "counter", "_total", offsetof(struct node, received.duplicates)},
	{"restarts", "counter", "_total", offsetof(struct node, received.restarts)},
	{"sent", "counter", "_total", offsetof(struct node, sent)},
	{"not_sent", "counter", "_total", offsetof(struct node, not_sent)},
	{"malformed", "counter", "_total", offsetof(struct node, malformed)},
	{"missed", "counter", "_total", offsetof(struct node, missed)},
	{"late", "counter", "_total", offsetof(struct node, late)},
};

static void print_summary(const struct gateway *gateway, const char *metric, bool gap, FILE *out)
{
	fprintf(out, "# TYPE %s summary\n", metric);
	for (unsigned i = 0; i < gateway->plan.nnodes; i++) {
		const struct node *node = &gateway->nodes[i];

		if (node->received.samples)
			flow_quantiles(gap ? node->received.gap : node->received.latency, metric,
				       node->plan->name, out);
	}
}

void gateway_metrics(const struct gateway *gateway, FILE *out)
{
	for (size_t k = 0; k < sizeof(metrics) / sizeof(metrics[0]); k++) {
		fprintf(out, "# TYPE ripc_gateway_%s %s\n", metrics[k].name, metrics[k].type);
		for (unsigned i = 0; i < gateway->plan.nnodes; i++) {
			const struct node *node = &gateway->nodes[i];
			uint64_t value;

			memcpy(&value, (const char *)node + metrics[k].offset, sizeof(value));
			fprintf(out, "ripc_gateway_%s%s{node=\"%s\"} %" PRIu64 "\n",
				metrics[k].name, metrics[k].suffix, node->plan->name, value);
		}
	}
	print_summary(gateway, "ripc_gateway_latency_seconds", false, out);
	print_summary(gateway, "ripc_gateway_gap_seconds", true, out);
	fputs("# TYPE ripc_gateway_forwarded counter\n", out);
	for (unsigned i = 0; i < gateway->plan.npaths; i++)
		fprintf(out, "ripc_gateway_forwarded_total{path=\"%u\"} %" PRIu64 "\n", i + 1,
			gateway->paths[i].forwarded);
	fputs("# TYPE ripc_gateway_dropped counter\n", out);
	for (unsigned i = 0; i < gateway->plan.npaths; i++)
		fprintf(out, "ripc_gateway_dropped_total{path=\"%u\"} %" PRIu64 "\n", i + 1,
			gateway->paths[i].hooks.dropped);
	fputs("# EOF\n", out);
}
