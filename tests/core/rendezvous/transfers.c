/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transfers.h"

struct rig rig;
uint8_t *data;

void read_slow(struct ripc__sim_config *config)
{
	config->bandwidth = 200 * 1000 * 1000;
	config->read_depth = 2;
	config->rdma_max = 64 * KIB;
	config->queue_depth = 8;
}

void read_slow_expensive(struct ripc__sim_config *config)
{
	read_slow(config);
	config->caps_off = RIPC__CAP_CHEAP_REG;
}

void grant_slow(struct ripc__sim_config *config)
{
	read_slow(config);
	config->caps_off = RIPC__CAP_READ;
}

void (*const configs[3])(struct ripc__sim_config *config) = {NULL, read_slow, grant_slow};

void transfers_setup(void)
{
	data = malloc(LARGE);
	rig_fill(data, LARGE, 1);
	rig_start(&rig, 2, NULL);
}

void transfers_teardown(void)
{
	rig_end(&rig);
	free(data);
}
