/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The straight road of core/message/fast_path.c, where a network lies on it: plain messages that travel as datagrams, or over a lane on which
 * each of them takes a receive buffer of the peer.
 */
#ifndef RIPC_CORE_MESSAGE_NETWORK_PEER_H
#define RIPC_CORE_MESSAGE_NETWORK_PEER_H

#include "core/peer/lane.h"
#include "wire/header.h"

struct ripc__message;

/* What a plain message of a lane says, in either form. */
struct ripc__fast_header {
	uint64_t dest, source;
	uint32_t credits; /* receive buffers given back */
	uint32_t head;    /* bytes before the payload */
	uint32_t len;     /* bytes of it */
};

/* Whether a send that has come over a lane is plain, and the next one of its sender. What that says was not checked. */
static inline bool ripc__fast_header(struct ripc__fast_header *h, const struct ripc__lane *lane,
				     const struct ripc__event *ev)
{
	const uint8_t *data = ev->data;
	uint64_t last;
	uint32_t word;

	if (ev->len < RIPC__ELIDED_LEN)
		return false;
	word = ripc__get_le32(data);
	if ((word & 0xff) == RIPC__ELIDED_MAGIC) {
		*h = (struct ripc__fast_header){
			.dest = lane->rx_last.dest,
			.source = lane->rx_last.source,
			.credits = word >> 8 & 0xff,
			.head = RIPC__ELIDED_LEN,
			.len = ev->len - RIPC__ELIDED_LEN,
		};
		return lane->rx_last.known && word >> 16 == (uint16_t)lane->rx_seq;
	}
	if (ev->len < RIPC__FAST_HEADER_LEN || ripc__get_le64(data) != RIPC__FAST_HEADER_WORD)
		return false;
	last = ripc__get_le64(data + 24);
	*h = (struct ripc__fast_header){
		.dest = ripc__get_le64(data + 8),
		.source = ripc__get_le64(data + 16),
		.credits = (uint32_t)(last >> 32),
		.head = RIPC__FAST_HEADER_LEN,
		.len = ev->len - RIPC__FAST_HEADER_LEN,
	};
	/* Above the credits stand the return buffers. */
	return (uint32_t)last == lane->rx_seq && h->credits <= UINT16_MAX &&
	       ripc__get_le32(data + RIPC__HEADER_LEN) == h->len;
}

/*
 * The message that an event of take() brought, if it is a plain one for s, whose queue is empty. m: the next one of the cache, in whose
 * room it may lie. Lock held. Return: m with it, taken out of the cache; NULL: nothing was done.
 */
struct ripc__message *ripc__network_receive(struct ripc_service *s, unsigned tp,
					    struct ripc__message *m, const struct ripc__event *ev);

#endif
