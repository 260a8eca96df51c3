/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "node.h"
#include "path.h"
#include "../tool.h"

void node_deliver(struct node *node, struct sample *sample)
{
	struct gateway *gateway = node->gateway;
	const unsigned number = (unsigned)(node - gateway->nodes);

	sample->received_ns = gateway_now_ns();
	flow_add(&node->received, sample);
	if (!hooks_run(&node->in_hooks, sample, sample->received_ns))
		return;
	for (unsigned i = 0; i < gateway->plan.npaths; i++)
		path_deliver(&gateway->paths[i], number, sample);
}

void node_write(struct node *node, const struct sample *sample)
{
	struct sample copy = *sample;

	if (!hooks_run(&node->out_hooks, &copy, gateway_now_ns()))
		return;
	if (node->ops->write(node, &copy))
		node->not_sent++;
	else
		node->sent++;
}

void node_malformed(struct node *node, const char *why)
{
	const int64_t now = gateway_now_ns();

	node->malformed++;
	if (now < node->quiet_until_ns)
		return;
	node->quiet_until_ns = now + NODE_QUIET_S * INT64_C(1000000000);
	tool_error("node %s: dropped malformed input: %s; the next %d s are only counted",
		   node->plan->name, why, NODE_QUIET_S);
}
