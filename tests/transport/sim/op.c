/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One operation on its way. */
#include "transport/sim/net.h"

#include <stdlib.h>
#include <string.h>

struct sim_op *ripc__sim_op(enum sim_op_kind kind, const void *data, size_t len)
{
	struct sim_op *op = calloc(1, sizeof(*op));

	if (!op)
		return NULL;
	op->kind = kind;
	op->len = len;
	if (data && len) {
		op->data = malloc(len);
		if (!op->data) {
			free(op);
			return NULL;
		}
		memcpy(op->data, data, len);
	}
	return op;
}

void ripc__sim_op_free(struct sim_op *op)
{
	ripc__sim_region_put(op->region);
	ripc__sim_region_put(op->dest);
	free(op->data);
	free(op);
}
