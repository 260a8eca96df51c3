/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations that send messages. Errors that the model does not permit are faults. */
#ifndef RIPC_TESTS_STRESS_SEND_H
#define RIPC_TESTS_STRESS_SEND_H

#include "objects.h"

void send_short(struct service *s);
void send_reliable(struct service *s);
/* Waits for all reliable messages of s. For the end of a run. */
void flush_all(struct service *s);
/* async: ripc_send_async(), which leaves a request. */
void send_long(struct service *s, bool async);
void send_group(struct service *s);
void group_change(struct service *s);
/* Sends a message on, or a long one back that may lie in the return buffers which came with it. */
void send_on(struct service *s, const struct ripc_message *m);

#endif
