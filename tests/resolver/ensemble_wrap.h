/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The functions of resolver/ensemble.h, which a test replaces with its own (-Wl,--wrap), and the
 * reports that they give.
 */
#ifndef RIPC_TESTS_RESOLVER_ENSEMBLE_WRAP_H
#define RIPC_TESTS_RESOLVER_ENSEMBLE_WRAP_H

#include "harness.h"
#include "resolver/ensemble.h"

#include <stdlib.h>
#include <string.h>

int __wrap_ripc__ensemble_open(struct ripc__ensemble **e, const struct ripc__ensemble_env *env,
			       char *why, size_t whylen);
void __wrap_ripc__ensemble_close(struct ripc__ensemble *e);
int __wrap_ripc__ensemble_fd(const struct ripc__ensemble *e);
void __wrap_ripc__ensemble_report_node(struct ripc__ensemble *e, enum ripc__ensemble_kind kind,
				       uint64_t service, bool ours, int32_t version,
				       const void *bytes, size_t len);
int __wrap_ripc__ensemble_submit(struct ripc__ensemble *e, enum ripc__ensemble_command command,
				 uint64_t service, const uint8_t *bytes, size_t len,
				 const struct ripc__ensemble_report *found);
struct ripc__ensemble_report *__wrap_ripc__ensemble_next(struct ripc__ensemble *e, bool *lost);

/* A report, with an empty text behind its bytes. The reader frees it. */
static inline struct ripc__ensemble_report *report_new(enum ripc__ensemble_kind kind,
						       uint64_t service, bool ours, int32_t version,
						       const void *bytes, size_t len)
{
	struct ripc__ensemble_report *r = calloc(1, sizeof(*r) + len + 1);

	ck_assert_ptr_nonnull(r);
	r->kind = kind;
	r->service = service;
	r->ours = ours;
	r->version = version;
	r->len = len;
	if (len)
		memcpy(r->bytes, bytes, len);
	return r;
}

#endif
