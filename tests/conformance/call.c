/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reliable short messages and calls. */
#include "conf.h"

static const struct ripc_send_options reliable = {.size = sizeof(reliable), .flags = RIPC_RELIABLE};

/* All arrive, once and in order, also where datagrams are lost. */
static void reliable_short(struct conf *c)
{
	enum { N = 200 };
	static uint8_t buf[RIPC_SHORT_GUARANTEED];
	struct conf_plan plan;
	struct conf_pair p;

	conf_pair(c, &p);
	for (unsigned i = 0; i < N; i++) {
		struct iovec item = {buf, conf_random(c, sizeof(buf) + 1)};

		conf_fill(buf, item.iov_len, i);
		EXPECT_OK(i & 1 ? ripc_send(p.sa, p.idb, &item, 1, &reliable, c->patience_ms)
				: ripc_send_short(p.sa, p.idb, &item, 1, &reliable, c->patience_ms));
		conf_plan_one(&plan, item.iov_len, i);
		if (i % 16 == 15)
			EXPECT_OK(ripc_flush(p.sa, p.idb, c->patience_ms));
		conf_expect(c, p.sb, &plan, p.ida, false);
	}
	EXPECT_OK(ripc_flush(p.sa, p.idb, c->patience_ms));
	conf_expect_none(c, p.sb);
}

static void reliable_errors(struct conf *c)
{
	struct ripc_send_options options = reliable;
	struct ripc_route route = {.size = sizeof(route)};
	struct iovec item = {NULL, 0}, buffer;
	struct conf_pair p;
	void *big;

	conf_pair(c, &p);
	EXPECT_ERROR(-EHOSTUNREACH,
		     ripc_send_short(p.sa, conf_id(c), &item, 1, &reliable, CONF_NO_ANSWER_MS));
	EXPECT_OK(ripc_flush(p.sa, conf_id(c), 0));
	EXPECT_ERROR(-EINVAL, ripc_flush(p.sa, 0, 0));
	EXPECT_OK(ripc_route_lookup(p.a, p.idb, &route, c->patience_ms));
	big = calloc(1, MIB);
	item = (struct iovec){big, MIB};
	EXPECT_ERROR(-EMSGSIZE, ripc_send_short(p.sa, p.idb, &item, 1, &reliable, c->patience_ms));
	free(big);
	buffer = (struct iovec){ripc_buf_alloc(p.a, 100), 100};
	options.nreturn_buffers = 1;
	options.return_buffers = &buffer;
	item = (struct iovec){"x", 1};
	EXPECT_ERROR(-EOPNOTSUPP, ripc_send_short(p.sa, p.idb, &item, 1, &options, c->patience_ms));
	EXPECT_OK(ripc_buf_free(p.a, buffer.iov_base));
	conf_expect_none(c, p.sb);
}

const struct conf_case conf_call[] = {
	{"reliable_short", reliable_short, 0},
	{"reliable_errors", reliable_errors, 0},
	{NULL, NULL, 0},
};
