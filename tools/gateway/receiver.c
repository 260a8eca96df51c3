/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "receiver.h"
#include "ticker.h"
#include "wire.h"
#include "../tool.h"

#include <stddef.h>
#include <unistd.h>

/* Time for which the receiver polls after the last message. */
#define SPIN_NS 2000000

static void on_readable(uv_poll_t *poll, int status, int events);

static void on_spin(uv_idle_t *spin)
{
	struct receiver *r = spin->data;
	const unsigned n = r->fn(r->poll.data);
	const int64_t now = gateway_now_ns();

	if (n)
		r->last_ns = now;
	/* A clock that was set back ends it, too. The descriptor of ZeroMQ needs an empty queue. */
	if (n || r->always || (now - r->last_ns < SPIN_NS && now >= r->last_ns))
		return;
	r->gap_ns = SPIN_NS;
	uv_idle_stop(&r->spin);
	uv_poll_start(&r->poll, UV_READABLE, on_readable);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct receiver *r = (struct receiver *)((char *)poll - offsetof(struct receiver, poll));
	const unsigned n = r->fn(poll->data);
	const int64_t now = gateway_now_ns();

	(void)status;
	(void)events;
	if (!n)
		return;
	r->gap_ns += ((now - r->last_ns) / n - r->gap_ns) / 16;
	r->last_ns = now;
	if (n == RECEIVER_BATCH || (r->may_spin && r->gap_ns < 1000000000 / TICKER_SPIN_HZ)) {
		uv_poll_stop(&r->poll);
		uv_idle_start(&r->spin, on_spin);
	}
}

int receiver_start(struct receiver *r, struct node *node, int fd, receiver_fn *fn)
{
	uv_loop_t *loop = &node->gateway->loop;
	int rc;

	node->gateway->open_sources++;
	r->fn = fn;
	r->gap_ns = SPIN_NS;
	r->may_spin = sysconf(_SC_NPROCESSORS_ONLN) > 1;
	rc = uv_poll_init(loop, &r->poll, fd);
	if (rc) {
		tool_error("node %s: cannot wait for samples: %s", node->plan->name,
			   uv_strerror(rc));
		return rc;
	}
	r->poll.data = node;
	uv_idle_init(loop, &r->spin);
	r->spin.data = r;
	r->always = node->plan->in.spin;
	if (r->always)
		return uv_idle_start(&r->spin, on_spin);
	return uv_poll_start(&r->poll, UV_READABLE, on_readable);
}

bool receiver_deliver(struct node *node, const void *data, size_t len)
{
	struct sample sample;

	if (wire_decode(&sample, data, len))
		return false;
	node_deliver(node, &sample);
	return true;
}

void receiver_malformed(struct node *node, size_t len, const char *from)
{
	char why[PLAN_TEXT_MAX + 160];

	snprintf(why, sizeof(why),
		 "%s: %zu bytes: a sample has 16 and 8 per value, up to 64 values, and an origin "
		 "time from 1970 to 2106",
		 from, len);
	node_malformed(node, why);
}
