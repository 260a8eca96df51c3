/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Answers of calls. The content of an answer has the number of its request. */
#ifndef RIPC_TESTS_STRESS_ANSWER_H
#define RIPC_TESTS_STRESS_ANSWER_H

#include "objects.h"
#include "request.h"

#include <errno.h>

#define ANSWER_ERROR EUCLEAN /* of ripc_reply_error() */

/* Answers a request, or does not. may_wait: for a long answer. The caller frees m. */
void answer_send(struct ripc_message *m, uint64_t number, bool may_wait);
/* As answer_send(), by ripc_reply_start(). Releases m before the answer is sent, or after it. */
void answer_start(struct context *c, struct ripc_message *m, uint64_t number,
		  void (*release)(struct context *c, struct ripc_message *m));
/* The answer to r. With context_use(). */
void answer_check(const struct request *r, const struct ripc_message *reply);

#endif
