/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gives each message of a lane that has no items for a service to the module of its kind. */
#ifndef RIPC_CORE_MESSAGE_CONTROL_H
#define RIPC_CORE_MESSAGE_CONTROL_H

struct ripc__header;
struct ripc__lane;

/* May close the lane, if the message is malformed or is a BYE. */
void ripc__control_receive(struct ripc__lane *lane, const struct ripc__header *h);

#endif
