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
	if (!node->malformed++)
		tool_error("node %s: dropped malformed input: %s; later ones are only counted",
			   node->plan->name, why);
}
