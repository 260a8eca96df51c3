/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "resolver/sim.h"
#include "transport/sim/sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim {
	struct ripc__backend base;
	struct ripc__sim_port *port;
};

static int sim_open(struct ripc__backend *b, const struct ripc__backend_env *env, char *why,
		    size_t whylen)
{
	int rc = ripc__sim_port_open(env->sim, env->instance, &((struct sim *)b)->port);

	if (rc)
		snprintf(why, whylen, "the simulated network rejected the port: error %d", rc);
	return rc;
}

static void sim_close(struct ripc__backend *b)
{
	ripc__sim_port_close(((struct sim *)b)->port);
}

static void sim_send(struct ripc__backend *b, const struct ripc__backend_addr *to, uint64_t service,
		     const uint8_t *data, size_t len)
{
	(void)ripc__sim_port_send(((struct sim *)b)->port, to ? to->bytes : NULL, data, len);
}

static int sim_recv(struct ripc__backend *b, int fd, struct ripc__backend_addr *from, uint8_t *buf,
		    size_t cap)
{
	from->len = 16;
	from->reusable = true;
	return ripc__sim_port_recv(((struct sim *)b)->port, from->bytes, buf, cap);
}

static bool sim_describe_attempt(struct ripc__backend *b, uint64_t service, unsigned requests,
				 char *text, size_t len)
{
	snprintf(text, len, "sim (%u requests)", requests);
	return false;
}

static bool sim_describe(const struct ripc__backend *b, char *text, size_t len)
{
	snprintf(text, len, "a simulated network");
	return true;
}

static void sim_forked(struct ripc__backend *b)
{
}

const struct ripc__backend_ops ripc__backend_sim = {
	.name = "sim",
	.size = sizeof(struct sim),
	.open = sim_open,
	.close = sim_close,
	.send = sim_send,
	.recv = sim_recv,
	.describe_attempt = sim_describe_attempt,
	.describe = sim_describe,
	.forked = sim_forked,
};
