/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Receives, checks each message against the model, and does something with it. */
#ifndef RIPC_TESTS_STRESS_RECEIVE_H
#define RIPC_TESTS_STRESS_RECEIVE_H

#include "objects.h"

/* Receives some messages. */
void receive_some(struct service *s);
/* Receives until none comes. Return: whether one came. */
bool receive_all(struct service *s);
/* Checks once more, then answers or frees, a message that was received before. */
void receive_stored(struct context *c);
/* All of them. */
void receive_all_stored(struct context *c);

#endif
