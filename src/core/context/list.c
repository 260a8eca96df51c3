/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ripc_service_list(): asks the resolver for all services and waits for the answers. */
#include "base/host.h"
#include "base/log.h"
#include "base/text.h"
#include "core/group/group.h"
#include "core/context/context.h"
#include "core/progress/transports.h"
#include "resolver/listing.h"

enum { ROUNDS = 3 }; /* requests to all: at once, after a quarter, and after half of the time */

struct rows {
	const void *simulated; /* of the context, as the next two */
	uint8_t instance[16], host[16];
	ripc_service_list_fn *fn;
	void *arg;
	int n;
};

static void describe_addresses(const void *simulated, const struct ripc__record *record, char *text,
			       size_t len)
{
	size_t at = 0;

	for (unsigned i = 0; i < record->naddrs; i++) {
		const struct ripc__record_addr *a = &record->addrs[i];
		char one[160] = "";

		ripc__transport_describe(simulated, a->transport, a->addr, a->len, one,
					 sizeof(one));
		if (*one)
			at = ripc__append(text, len, at, "%s%s", at ? "; " : "", one);
	}
}

static void report(void *arg, const struct ripc__record *record)
{
	struct rows *rows = arg;
	struct ripc_service_info info = {
		.size = sizeof(info), .service = record->service, .age_ms = record->since_ms};

	/* The resolver's names of groups are no services. */
	if (ripc__group_is_name(record->service))
		return;
	memcpy(info.instance, record->instance, sizeof(info.instance));
	memcpy(info.host, record->host, sizeof(info.host));
	info.same_host = ripc__host_same(record->host, rows->host);
	info.own = !memcmp(record->instance, rows->instance, sizeof(record->instance));
	memcpy(info.name, record->name, sizeof(info.name));
	describe_addresses(rows->simulated, record, info.addresses, sizeof(info.addresses));
	rows->fn(rows->arg, &info);
	rows->n++;
}

/* Collects answers for @timeout_ms. Return: 0, and the caller frees *found; or a negative errno. */
static int collect(struct ripc *ctx, struct ripc__listing *found, int timeout_ms)
{
	const uint64_t start = ripc__now(ctx), deadline = ripc__deadline(ctx, timeout_ms);
	struct ripc__waitq nobody_wakes;
	unsigned round = 0;
	int rc = ripc__resolver_list_begin(ctx->resolver, found, start);

	if (rc)
		return rc;
	ripc__waitq_init(&nobody_wakes);
	while (ripc__now(ctx) < deadline && !ctx->closing) {
		uint64_t next = round + 1 < ROUNDS ? start + (deadline - start) * (round + 1) / 4
						   : deadline;

		if (ripc__now(ctx) < next) {
			(void)ripc__wait(ctx, &nobody_wakes, next);
			continue;
		}
		ripc__resolver_list_repeat(ctx->resolver, ripc__now(ctx));
		round++;
	}
	ripc__resolver_list_end(ctx->resolver);
	return 0;
}

int RIPC__NO_ANALYSIS ripc_service_list(struct ripc *ctx, ripc_service_list_fn *fn, void *arg,
					int timeout_ms)
{
	struct rows rows = {.fn = fn, .arg = arg};
	struct ripc__listing found;
	int rc;

	if (!fn || timeout_ms < 1)
		return ripc__fail(-EINVAL,
				  fn ? "timeout of %d ms: a list takes at least 1 ms"
				     : "no function to call for each service",
				  timeout_ms);
	rc = ripc__context_enter(&ctx);
	if (rc)
		return rc;
	rc = collect(ctx, &found, timeout_ms);
	if (rc) {
		ripc__unlock(ctx);
		return rc;
	}
	rows.simulated = ctx->hooks.transports;
	memcpy(rows.instance, ctx->instance, sizeof(rows.instance));
	memcpy(rows.host, ctx->host, sizeof(rows.host));
	if (ctx->closing)
		rc = ripc__fail(-ESHUTDOWN, "the context is being closed");
	ripc__unlock(ctx);
	if (!rc && !found.complete)
		ripc__log(
			RIPC_LOG_WARN,
			"the list of services lacks some: there are too many, or a context has not "
			"sent all of its services in %d ms; list them with a longer timeout",
			timeout_ms);
	if (!rc && ripc__listing_each(&found, report, &rows))
		rc = ripc__fail(-ENOMEM, "no memory for the list of services");
	ripc__listing_fini(&found);
	return rc ? rc : rows.n;
}
