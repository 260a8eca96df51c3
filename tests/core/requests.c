/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "requests.h"

struct rig rig;
uint8_t *data;

void slow(struct ripc__sim_config *config)
{
	config->bandwidth = 200 * 1000 * 1000;
	/* Little is on its way at any time: what is withdrawn has not all been asked for. */
	config->read_depth = 2;
	config->rdma_max = 64 * KIB;
	config->queue_depth = 8;
}

void slow_no_read(struct ripc__sim_config *config)
{
	slow(config);
	config->caps_off = RIPC__CAP_READ;
}

void slow_no_credits(struct ripc__sim_config *config)
{
	slow(config);
	config->recv_depth = 3;
	config->queue_depth = 2;
}

void restart(unsigned n, void (*change)(struct ripc__sim_config *config))
{
	rig_end(&rig);
	rig_start(&rig, n, change);
}

void requests_setup(void)
{
	data = malloc(LARGE);
	rig_fill(data, LARGE, 1);
	rig_start(&rig, 2, NULL);
}

void requests_teardown(void)
{
	rig_end(&rig);
	free(data);
}
