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
	struct iovec item = {"x", 1}, back = {buf, len};
	struct ripc_send_options options = {
		.size = sizeof(options), .nreturn_buffers = 1, .return_buffers = &back};
	struct ripc_message *m;

	OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, &options, 5000));
	m = rig_take(&rig, 1);
	ck_assert_uint_eq(m->nreturn_buffers, 1);
	ripc_message_free(m);
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
