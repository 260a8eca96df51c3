/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/host.h"
#include "core/memory/buffer.h"
#include "core/memory/mapped.h"

#include <stdlib.h>

void ripc__memory_init(struct ripc *ctx)
{
	struct ripc__memory *m = ctx->memory;

	for (unsigned i = 0; i <= RIPC__CLASS_MAX; i++) {
		ripc__list_init(&m->classes[i]);
		ripc__list_init(&m->shared[i]);
	}
	ripc__list_init(&m->lru);
	ripc__list_init(&m->recv_windows);
	ripc__list_init(&m->returns);
	ripc__list_init(&m->unread);
	ripc__table_init(&m->call_returns, 0);
	ripc__table_init(&m->return_ids, 0);
	m->next_return_id = 1;
	/* Exported buffers are memfds, whose pages may be refused one by one. */
	for (unsigned i = 0; i < ctx->ntp; i++)
		if (ctx->tp[i].t && ctx->tp[i].limits.caps & RIPC__CAP_EXPORT)
			m->can_export = !ripc__host_no_overcommit();
}

void ripc__memory_fini(struct ripc *ctx)
{
	struct ripc__memory *m = ctx->memory;
	union ripc__ref *ref;

	while ((ref = m->free_refs)) {
		m->free_refs = ref->next_free;
		free(ref);
	}
	ripc__table_fini(&m->call_returns);
	ripc__table_fini(&m->return_ids);
	for (size_t i = 0; i < m->nregions; i++) {
		struct ripc__region *r = m->regions[i];

		for (unsigned k = 0; k < RIPC__TP_MAX; k++)
			free(r->cached_mr[k]);
		ripc__list_free(&r->import_refs, struct ripc__import_ref, link);
		ripc__list_free(&r->returns, struct ripc__local_return, region_link);
		if (r->state != RIPC__REGION_USER)
			ripc__pool_unmap(ctx, r);
		free(r);
	}
	free(m->regions);
	memset(m, 0, sizeof(*m));
}
