/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/lane_control.h"
#include "wire/bytes.h"

void ripc__lane_post_credit(struct ripc__lane *lane)
{
	uint8_t buf[RIPC__CONTROL_MAX];
	size_t len = ripc__control_put(buf, RIPC__CREDIT, 0, 0, 0, 0);

	ripc__lane_post(lane, buf, len, NULL, 0, false);
}

/* One queued PING is enough: forged requests in the name of the peer could cause many. */
void ripc__lane_ping(struct ripc__lane *lane)
{
	uint64_t now = ripc__now(lane->ctx);
	struct ripc__control *c;

	ripc__list_for_each_entry (c, &lane->control, link) {
		if (c->bytes[3] == RIPC__PING && ripc__get_le64(c->bytes + RIPC__HEADER_LEN)) {
			ripc__put_le64(c->bytes + RIPC__HEADER_LEN, now);
			return;
		}
	}
	ripc__lane_notify(lane, RIPC__PING, 0, 0, now, 0);
}

void ripc__lane_barrier(struct ripc__lane *lane)
{
	lane->barriers++;
	ripc__lane_notify(lane, RIPC__PING, 0, 0, 0, 0);
}

bool ripc__lane_answer_goaway(struct ripc__lane *lane)
{
	uint8_t buf[RIPC__CONTROL_MAX];
	size_t len = ripc__control_put(buf, RIPC__GOAWAY, 0, 0, 1, 0);

	return ripc__lane_has_credit(lane, false) &&
	       !ripc__lane_post(lane, buf, len, NULL, 0, false);
}
