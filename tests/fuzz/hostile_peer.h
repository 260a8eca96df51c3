/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A peer in a simulated network that sends its victim arbitrary input. It is properly connected,
 * and learns the memory and the calls that the victim announces.
 */
#ifndef RIPC_TESTS_FUZZ_HOSTILE_PEER_H
#define RIPC_TESTS_FUZZ_HOSTILE_PEER_H

#include "core/progress/context.h"
#include "transport/sim/sim.h"
#include "transport/transport.h"
#include "wire/header.h"

#include <stdlib.h>

#define ID(i)       (UINT64_C(1000) + (i)) /* service i of the victim and of honest contexts */
#define PEER_ID     UINT64_C(666)
#define PEER_MEMORY 65536
#define PEER_OTHERS 4 /* contexts that exist in its datagrams only */

/* The input of the fuzzer. Behind its end are zeros. */
struct input {
	const uint8_t *data;
	size_t size, at;
};

struct hostile_peer {
	struct input in;
	struct ripc__sim *net;
	struct ripc *victim;
	struct ripc__transport *t;
	struct ripc__ep *ep, *ep2;
	bool up;
	uint32_t seq;
	uint8_t instance[16];
	uint8_t memory[PEER_MEMORY];
	struct ripc__mr mr;
	struct ripc__desc events; /* the last memory announced by the victim */
	uint64_t call;            /* id of the victim's last call */
};

static inline void check(bool ok)
{
	if (!ok)
		abort();
}

static inline uint8_t take(struct input *in)
{
	return in->at < in->size ? in->data[in->at++] : 0;
}

static inline void take_bytes(struct input *in, uint8_t *p, size_t n)
{
	while (n--)
		*p++ = take(in);
}

/* Joins the network, to which the victim belongs. */
void peer_open(struct hostile_peer *peer, struct ripc__sim *net, struct ripc *victim);
void peer_close(struct hostile_peer *peer);
/* Connects to the victim unless the lane is up. */
void peer_up(struct hostile_peer *peer);
/* Closes the lane; the next message opens another one. */
void peer_down(struct hostile_peer *peer);

/*
 * The steps, with the arguments that each takes from the input.
 * Message: u8 kind, u8 bytes behind the header / 4, then header fields and those bytes; magic and
 * seq are put right.
 */
void peer_message(struct hostile_peer *peer);
/* u8 length, bytes: sent as they are. */
void peer_raw(struct hostile_peer *peer);
/* u8 kind and skew, u8 credits, u8 length, bytes: in place of a header. */
void peer_elided(struct hostile_peer *peer);
/*
 * u8 how: a datagram with a full header, in the name of the peer or of another context; with a
 * short one, or the answer to such; or any bytes.
 */
void peer_datagram(struct hostile_peer *peer);
/* 64 bytes: one more connection request. */
void peer_request(struct hostile_peer *peer);
/* u8 which: writes into announced memory, or elsewhere. */
void peer_write(struct hostile_peer *peer);

#endif
