/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which of a peer's long messages are over: a bit for each id of a window, which begins where all below it are. */
#include "core/peer/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool ripc__peer_finished(const struct ripc__peer *p, uint64_t id)
{
	if (id < p->finished_below)
		return true;
	if (!p->finished)
		return false;
	id %= RIPC__REQUESTS_MAX;
	return p->finished[id / 8] & 1u << id % 8;
}

int ripc__peer_finish(struct ripc__peer *p, uint64_t id)
{
	if (!p->finished) {
		p->finished = calloc(1, RIPC__REQUESTS_MAX / 8);
		if (!p->finished)
			return -ENOMEM;
	}
	id %= RIPC__REQUESTS_MAX;
	p->finished[id / 8] |= (uint8_t)(1u << id % 8);
	return 0;
}

void ripc__peer_finish_below(struct ripc__peer *p, uint64_t below)
{
	if (below <= p->finished_below)
		return;
	if (p->finished) {
		if (below - p->finished_below >= RIPC__REQUESTS_MAX) {
			memset(p->finished, 0, RIPC__REQUESTS_MAX / 8);
		} else {
			for (uint64_t id = p->finished_below; id < below; id++) {
				unsigned bit = id % RIPC__REQUESTS_MAX;

				p->finished[bit / 8] &= (uint8_t) ~(1u << bit % 8);
			}
		}
	}
	p->finished_below = below;
}
