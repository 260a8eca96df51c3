/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "return_buffers.h"

struct rig rig;
struct ripc *ctx;
uint8_t *buf;

void restart(void (*change)(struct ripc__sim_config *config), size_t len)
{
	rig_restart(&rig, 2, change);
	ctx = rig.ctx[0];
	buf = ripc_buf_alloc(ctx, len);
}

void send_with_return(size_t len)
{
	ck_assert_uint_eq(rig_send_return_buffer(&rig, 0, 1, buf, len), 1);
}

struct ripc__local_return *first_local_return(void)
{
	struct ripc__list *n = ripc__list_first(&ctx->memory->returns);

	return n ? ripc__list_entry(n, struct ripc__local_return, link) : NULL;
}

void return_buffers_setup(void)
{
	rig_start(&rig, 2, NULL);
	ctx = rig.ctx[0];
	buf = ripc_buf_alloc(ctx, 64 * KIB);
}

void return_buffers_teardown(void)
{
	rig_end(&rig);
}
