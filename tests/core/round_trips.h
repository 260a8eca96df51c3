/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the tests of what a reply carries: long messages from context 0 that context 1 answers.
 */
#ifndef RIPC_TESTS_CORE_ROUND_TRIPS_H
#define RIPC_TESTS_CORE_ROUND_TRIPS_H

#include "core/rendezvous/delayed_ack.h"
#include "core/rig.h"

#define ROUND_TRIP_MAX 8192u

extern struct rig rig;
extern uint8_t data[ROUND_TRIP_MAX]; /* of tag 1 */

/* Around each test: two contexts that are connected. */
void round_trips_setup(void);
void round_trips_teardown(void);
/* Others, on another network. */
void restart(void (*change)(struct ripc__sim_config *config));

/* Messages that context i has sent to the other. */
uint32_t sent(unsigned i);
/* Whether context i delays an ACK. */
bool is_delayed(unsigned i);
/* Quick replies of context i in a row. */
int reply_streak(unsigned i);

/* A long message from context 0 that context 1 has received and not answered. */
struct ripc_request *ping(size_t len);
/* A short message back, with which the first one is done. */
void answer(struct ripc_request **r);
/*
 * There and back. When the answer is there the first message is done, if its ACK came with it.
 */
void round_trip(size_t len);
/* Context 1 knows that its application answers; then context 0 holds nothing. */
void fill_streak(void);

#endif
