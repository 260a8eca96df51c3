/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The end of a long message at its receiver. Its items become those of a message, which is
 * delivered behind the earlier ones of its sender; or the message is dropped. The ACK leaves in
 * both cases, or with the RELEASE of its items.
 */
#ifndef RIPC_CORE_RENDEZVOUS_DELIVERY_H
#define RIPC_CORE_RENDEZVOUS_DELIVERY_H

#include "core/rendezvous/receiver.h"

/* All items have arrived: delivers the message after those before it. */
void ripc__rndv_ready(struct ripc__rndv *r);
/* The same if no read is posted, no grant is open and nothing remains to be posted. */
void ripc__rndv_ready_if_complete(struct ripc__rndv *r);
/*
 * Delivers a message of one item, which stays in the sender's memory; nothing is before it.
 * ack_now: the ACK does not wait for RELEASE.
 */
void ripc__mapped_deliver(struct ripc__lane *lane, struct ripc__message *m,
			  struct ripc__import_ref *ref, bool ack_now);
/* Drops a message, and sends status to the peer unless it is 0. No read is posted. */
void ripc__rndv_drop(struct ripc__rndv *r, int status);
/*
 * Drops a complete message of a service that ends. The sender of a request has its ACK: it learns
 * that the service has not received it.
 */
void ripc__rndv_drop_ready(struct ripc__rndv *r);
/* As ripc__rndv_drop(), after the posted reads and the granted writes have ended. */
void ripc__rndv_fail(struct ripc__rndv *r, int status);

/*
 * Sends ACK with a status. If it is -EHOSTUNREACH, later messages are refused until the sender has
 * received it.
 */
void ripc__rndv_ack_failed(struct ripc__lane *lane, struct ripc__flow *flow, uint64_t word,
			   int status);
/* Sends ACK: the message was delivered, and a RELEASE follows for each item that stays in place. */
void ripc__rndv_ack_kept(struct ripc__lane *lane, uint64_t word);
/*
 * ACK_REQUEST arrived: the ACK of the message does not wait for RELEASE after its delivery; those
 * that wait are sent now.
 */
void ripc__rndv_ack_request(struct ripc__lane *lane, uint64_t id);
/* Sends the ACKs that wait for a RELEASE. */
void ripc__rndv_acks_send(struct ripc__lane *lane);

#endif
