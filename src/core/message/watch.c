/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The public functions of watches. */
#include "core/message/send.h"
#include "core/watch/watch.h"

/* ripc_watch() and ripc_unwatch(). */
static int RIPC__NO_ANALYSIS change(struct ripc_service *s, uint64_t dest, bool begin)
{
	struct ripc *ctx;
	int rc = ripc__check_call(s, dest, &ctx);

	if (!rc)
		rc = ripc__service_lock(s, ctx);
	if (rc)
		return rc;
	if (begin)
		rc = ripc__watch_begin(s, dest);
	else
		ripc__watch_stop(s, dest);
	ripc__service_unlock(s, ctx);
	return rc;
}

int ripc_watch(struct ripc_service *service, uint64_t dest)
{
	return change(service, dest, true);
}

int ripc_unwatch(struct ripc_service *service, uint64_t dest)
{
	return change(service, dest, false);
}
