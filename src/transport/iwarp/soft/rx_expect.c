/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The Write that the receiving half of the engine expects next: its payload is received in its
 * target, before its header is known. If another FPDU comes, its bytes are copied back.
 */
#include "base/copy.h"
#include "transport/iwarp/soft/engine.h"

#include <string.h>

#define EXPECT_MIN   (16u << 10) /* payload of a Write from which the next one is expected */
#define EXPECT_LEAD  1024u       /* bytes in front of it at most */
#define EXPECT_TRUST 4u          /* receptions without a Write until none is expected */
#define EXPECT_PAUSE 8u /* long Writes that are not expected after another one than expected */

void ripc__rx_learn(struct ripc__engine_rx *rx, const struct ripc__ddp *ddp, uint32_t payload,
		    uint64_t offset)
{
	size_t lead;

	if (ddp->op != RIPC__RDMAP_WRITE || payload < EXPECT_MIN || !rx->fresh)
		return;
	lead = (size_t)(rx->p - rx->fresh) + RIPC__FPDU_LEN + ddp->len;
	if (lead > EXPECT_LEAD)
		return;
	if (rx->unlearned) {
		rx->unlearned--;
		return;
	}
	rx->pattern = (struct ripc__rx_pattern){
		.lead = (uint32_t)lead,
		.payload = payload,
		.offset = offset,
		.last = ddp->last,
		.trust = EXPECT_TRUST,
	};
	rx->fresh = NULL;
}

bool ripc__rx_expects(const struct ripc__engine_rx *rx, const struct ripc__region *region,
		      size_t len)
{
	const struct ripc__rx_pattern *p = &rx->pattern;

	return region && !region->begun && p->lead && !rx->stash_len && !rx->placing &&
	       rx->read_head == rx->read_tail && p->offset + p->payload <= region->len &&
	       len >= p->lead + p->payload + RIPC__BULK_PEEK;
}

unsigned ripc__rx_expect(struct ripc__engine_rx *rx, const struct ripc__region *region,
			 struct iovec iov[RIPC__RX_IOV])
{
	const struct ripc__rx_pattern *p = &rx->pattern;
	uint8_t *space = rx->space;
	const size_t next =
		RIPC__FPDU_CRC + RIPC__SHORT_SEGMENTS + RIPC__FPDU_LEN + RIPC__DDP_TAGGED;

	rx->expected = region;
	iov[0] = (struct iovec){space, p->lead};
	iov[1] = (struct iovec){region->base + p->offset, p->payload};
	iov[2] = (struct iovec){space + p->lead, p->last ? RIPC__BULK_PEEK : next};
	return 3;
}

/*
 * Whether the FPDU whose header ends lead bytes behind space is a Write to the expected payload,
 * and has at least n bytes of it.
 */
static bool is_expected(const struct ripc__engine_rx *rx, size_t n)
{
	const struct ripc__rx_pattern *pattern = &rx->pattern;
	const struct ripc__region *region = rx->expected;
	const uint8_t *p = rx->space, *end = p + pattern->lead;
	const size_t head = RIPC__FPDU_LEN + RIPC__DDP_TAGGED;
	struct ripc__ddp ddp;
	size_t ulpdu;

	while ((size_t)(end - p) > head) {
		size_t whole = ripc__fpdu_size(ripc__get_be16(p));

		if (whole > (size_t)(end - p))
			return false;
		p += whole;
	}
	if ((size_t)(end - p) != head)
		return false;
	ulpdu = ripc__get_be16(p);
	return ulpdu >= RIPC__DDP_TAGGED + n && p[2] & RIPC__DDP_T &&
	       !ripc__ddp_get(&ddp, p + RIPC__FPDU_LEN, ulpdu) && ddp.op == RIPC__RDMAP_WRITE &&
	       ddp.stag == region->stag && ddp.to == region->addr + pattern->offset;
}

size_t ripc__rx_received_ahead(struct ripc__engine_rx *rx, size_t n)
{
	struct ripc__rx_pattern *p = &rx->pattern;
	size_t lead = p->lead, ahead = n > lead ? n - lead : 0, tail;
	const uint8_t *payload = rx->expected->base + p->offset;
	bool is = ahead && is_expected(rx, MIN(ahead, p->payload));

	rx->fresh = rx->space;
	rx->expected = NULL;
	ahead = MIN(ahead, p->payload);
	tail = n > lead ? n - lead - ahead : 0;
	if (is) {
		rx->ahead = (uint32_t)ahead;
		rx->ahead_at = rx->space + lead;
		return lead + tail;
	}
	if (!--p->trust || ahead)
		p->lead = 0;
	if (ahead)
		rx->unlearned = EXPECT_PAUSE;
	if (tail)
		memmove(rx->space + lead + ahead, rx->space + lead, tail);
	if (ahead)
		ripc__copy(rx->space + lead, payload, ahead);
	return n;
}
