/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the tests of the core: contexts on a simulated network, with access to their internals.
 * One thread, virtual time; a failed check ends the test, so no function here returns an error.
 */
#ifndef RIPC_TESTS_CORE_RIG_H
#define RIPC_TESTS_CORE_RIG_H

#include "core/memory/buffer.h"
#include "core/progress/context.h"
#include "core/peer/lane.h"
#include "core/memory/message.h"
#include "core/peer/peer.h"
#include "core/rendezvous/receiver.h"
#include "core/rendezvous/sender.h"
#include "core/message/service.h"
#include "harness.h"
#include "core/sim/world.h"
#include "transport/sim/sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

#define RIG_CONTEXTS 8

/* Service i of context i has the id RIG_ID(i). */
#define RIG_ID(i) (UINT64_C(1000) + (i))

struct rig {
	struct ripc__sim *net;
	struct ripc__sim_config config;
	struct ripc *ctx[RIG_CONTEXTS];
	struct ripc_service *s[RIG_CONTEXTS];
	unsigned n;
};

/* The result of a call that must succeed, or fail in this way. */
#define RC(want, call)                                                              \
	do {                                                                        \
		int rc_ = (call);                                                   \
		ck_assert_msg(rc_ == (want), "%s returned %d (%s): %s", #call, rc_, \
			      ripc_strerror(rc_), ripc_error_detail());             \
	} while (0)
#define OK(call) RC(0, call)

/* A network; its configuration may be changed by change() before. */
void rig_init(struct rig *rig, void (*change)(struct ripc__sim_config *config));
/* One more context with its service. Return: its index. */
unsigned rig_open(struct rig *rig, const char *options);
/* The usual: a network with n contexts. */
void rig_start(struct rig *rig, unsigned n, void (*change)(struct ripc__sim_config *config));
/* The same with these options of each context. */
void rig_start_with(struct rig *rig, unsigned n, void (*change)(struct ripc__sim_config *config),
		    const char *options);
/* A change(): short messages travel as datagrams, with the option "short=udp". */
void rig_datagrams(struct ripc__sim_config *config);
void rig_close(struct rig *rig, unsigned i);
/*
 * Closes all and checks that nothing is left: endpoints, regions, packets, breaches of the
 * contract.
 */
void rig_end(struct rig *rig);
/* Ends it, and starts another one. */
void rig_restart(struct rig *rig, unsigned n, void (*change)(struct ripc__sim_config *config));
void rig_run(struct rig *rig, unsigned ms);
const uint8_t *rig_instance(const struct rig *rig, unsigned i);
/* All contexts are open: no two of them are apart any more, and no link breaks by plan. */
void rig_heal_links(struct rig *rig);

/* The memory of a context is as it must be at any time. */
void rig_check_memory(const struct ripc *ctx);

struct ripc_stats rig_stats(const struct rig *rig, unsigned i);
/*
 * Context j as context i knows it, the lane between them, service j as i sends to it; NULL if there
 * is none.
 */
struct ripc__peer *rig_peer(const struct rig *rig, unsigned i, unsigned j);
struct ripc__lane *rig_lane(const struct rig *rig, unsigned i, unsigned j);
struct ripc__dest *rig_dest(const struct rig *rig, unsigned i, unsigned j);
/* How many long messages to a service are in this state. */
unsigned rig_waiting(const struct ripc_service *s, enum ripc__rndv_state state);
/* Connects i to the service of j. */
void rig_connect(struct rig *rig, unsigned i, unsigned j);
/* The lane between i and j fails at i. */
void rig_fail_lane(struct rig *rig, unsigned i, unsigned j);

/* Bytes that depend on tag. */
void rig_fill(void *p, size_t len, uint64_t tag);
void rig_verify(const void *p, size_t len, uint64_t tag);

/* A message of one item, from service i to service j. */
int rig_short(struct rig *rig, unsigned i, unsigned j, size_t len, uint64_t tag, int timeout_ms);
int rig_long(struct rig *rig, unsigned i, unsigned j, size_t len, uint64_t tag, int timeout_ms);
/* Starts a long message of one item that lies at p. */
struct ripc_request *rig_begin(struct rig *rig, unsigned i, unsigned j, void *p, size_t len);
/* The next message of service i, which must come. */
struct ripc_message *rig_take(struct rig *rig, unsigned i);
/* The same: it has one item with these bytes. It is freed. Return: its placement. */
enum ripc_placement rig_expect(struct rig *rig, unsigned i, size_t len, uint64_t tag);
void rig_expect_none(struct rig *rig, unsigned i);
/*
 * A short message from i to j, which is received, has this memory as a return buffer. Return: how
 * many j got: 1, or 0 if it has too many.
 */
unsigned rig_send_return_buffer(struct rig *rig, unsigned i, unsigned j, void *base, size_t len);
/* One short and one long message there and back. */
void rig_exchange(struct rig *rig, unsigned i, unsigned j);
/* Contexts 0 and 1 have one lane up, and it is the same one. */
void rig_expect_one_lane(struct rig *rig);

/*
 * Puts a message on the lane from i to j, behind what was sent. It carries seq i's lane would use
 * next, plus skew.
 */
void rig_inject(struct rig *rig, unsigned i, unsigned j, uint8_t *message, size_t len, int skew);

#endif
