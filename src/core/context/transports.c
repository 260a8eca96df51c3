/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"
#include "core/context/transports.h"
#include "base/host.h"
#include "transport/sim/sim.h"

#include <stdio.h>
#include <string.h>

/* The built-in order of preference. */
static const struct ripc__transport_ops *const all_transports[] = {
	&ripc__transport_self, &ripc__transport_shm,   &ripc__transport_pcie,
#ifdef HAVE_VERBS
	&ripc__transport_ib,   &ripc__transport_iwarp,
#endif
	&ripc__transport_soft,
};
/* Opened only if they are named. */
static const struct ripc__transport_ops *const opt_in[] = {&ripc__transport_ring_sim};
static const struct ripc__transport_ops *const simulated[] = {&ripc__transport_self,
							      &ripc__transport_sim};

void ripc__transport_describe(uint8_t transport, const uint8_t *addr, size_t len, char *text,
			      size_t textlen)
{
	static const struct ripc__transport_ops *const known[] = {
#ifdef HAVE_VERBS
		&ripc__transport_ib,       &ripc__transport_iwarp,
#endif
		&ripc__transport_soft,     &ripc__transport_shm,   &ripc__transport_pcie,
		&ripc__transport_ring_sim, &ripc__transport_sim};
	int n;

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (known[i]->id != transport)
			continue;
		n = snprintf(text, textlen, "%s ", known[i]->name);
		if (n > 0 && (size_t)n < textlen)
			known[i]->describe(addr, len, text + n, textlen - (size_t)n);
		return;
	}
	snprintf(text, textlen, "transport %u", transport);
}

static int open_transport(struct ripc *ctx, const struct ripc__transport_ops *ops)
{
	struct ripc__transport_env env = {&ctx->opt, ctx->instance, ctx->hooks.arg, ctx->auth};
	struct ripc__tp *tp = &ctx->tp[ctx->ntp];
	int rc;

	tp->ops = ops;
	ctx->ntp++;
	rc = ops->probe(&env, tp->why, sizeof(tp->why));
	if (rc)
		return rc;
	rc = ops->open(&tp->t, &env);
	if (rc) {
		tp->t = NULL;
		snprintf(tp->why, sizeof(tp->why), "%s",
			 ripc__strip_prefix(ops->name, ripc_error_detail()));
		return rc;
	}
	ops->limits(tp->t, &tp->limits);
	/* Buffers that can be handed over are memfds, whose pages may be refused one by one. */
	if (tp->limits.caps & RIPC__CAP_EXPORT)
		ctx->memory.can_export = !ripc__host_no_overcommit();
	/* With keys they go over lanes, whose far end has shown that it has one. */
	if (ctx->auth) {
		tp->limits.eager_datagram = false;
		tp->limits.caps &= ~(unsigned)RIPC__CAP_MULTICAST;
	}
	if (tp->limits.eager_datagram) {
		ctx->datagrams = true;
		ctx->active_tps |= 1u << (tp - ctx->tp);
	}
	return 0;
}

static const struct ripc__transport_ops *group_by_name(const struct ripc__transport_ops *const *all,
						       unsigned count, const char *name)
{
	for (unsigned i = 0; i < count; i++)
		if (!strcmp(all[i]->name, name))
			return all[i];
	for (unsigned i = 0; i < sizeof(opt_in) / sizeof(opt_in[0]); i++)
		if (!strcmp(opt_in[i]->name, name))
			return opt_in[i];
	return NULL;
}

/*
 * Opens one, if it can be used. That a file which the user named for it is not there, or may not be
 * used, is a mistake, and no reason to go on without the transport. Return: such a mistake, or 0.
 */
static int try_transport(struct ripc *ctx, const struct ripc__transport_ops *ops, unsigned *open)
{
	int rc = open_transport(ctx, ops);
	bool shm = ops == &ripc__transport_shm && ctx->opt.shm_dir[0];
	bool pcie = ops == &ripc__transport_pcie && ctx->opt.pcie_device[0];

	*open += !rc;
	if (rc == -ENOTDIR)
		rc = -ENOENT;
	if ((shm || pcie) && (rc == -ENOENT || rc == -EACCES))
		return ripc__fail(rc, "%s: %s: %s",
				  shm ? "shm_dir (RIPC_SHM_DIR)" : "pcie_device (RIPC_PCIE_DEVICE)",
				  ops->name, ctx->tp[ctx->ntp - 1].why);
	return 0;
}

int ripc__transports_open(struct ripc *ctx)
{
	bool sim = ctx->hooks.now && ctx->hooks.arg;
	const struct ripc__transport_ops *const *all = sim ? simulated : all_transports;
	unsigned count = sim ? 2 : sizeof(all_transports) / sizeof(all_transports[0]), open = 0;
	bool any = !strcmp(ctx->opt.transports, "auto") || sim;
	char names[sizeof(ctx->opt.transports)], *save, *name;
	char why[600] = "";
	int rc;

	rc = open_transport(ctx, all[0]);
	if (rc)
		return rc;
	strcpy(names, any ? "" : ctx->opt.transports);
	if (any)
		for (unsigned i = 1; i < count && !rc; i++)
			rc = try_transport(ctx, all[i], &open);
	for (name = strtok_r(names, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
		const struct ripc__transport_ops *ops = group_by_name(all, count, name);

		if (!ops)
			return ripc__fail(-EINVAL, "transports=%s: %s cannot be used here",
					  ctx->opt.transports, name);
		for (unsigned k = 1; k < ctx->ntp; k++)
			if (ctx->tp[k].ops == ops)
				return ripc__fail(-EINVAL, "transports=%s: %s stands there twice",
						  ctx->opt.transports, name);
		/* The one that reaches ourselves is open already. */
		if (ops == all[0]) {
			open++;
			continue;
		}
		rc = try_transport(ctx, ops, &open);
		if (rc)
			return rc;
	}
	if (rc || open)
		return rc;
	for (unsigned i = 1; i < ctx->ntp; i++)
		snprintf(why + strlen(why), sizeof(why) - strlen(why), "%s%s: %s",
			 i > 1 ? "; " : "", ctx->tp[i].ops->name, ctx->tp[i].why);
	return ripc__fail(-ENODEV, "no transport can be used: %s", why);
}

void ripc__transports_close(struct ripc *ctx)
{
	for (unsigned i = 0; i < ctx->ntp; i++)
		if (ctx->tp[i].t) {
			ctx->tp[i].ops->close(ctx->tp[i].t);
			ctx->tp[i].t = NULL;
		}
}

int ripc__local_addrs(struct ripc *ctx, struct ripc__record_addr *addrs)
{
	int n = 0, rc = 0;

	for (unsigned i = 0; i < ctx->ntp && n < RIPC__RECORD_ADDRS_MAX; i++) {
		struct ripc__tp *tp = &ctx->tp[i];
		int len;

		if (!tp->t || tp->limits.caps & RIPC__CAP_SELF)
			continue;
		len = tp->ops->address(tp->t, addrs[n].addr, sizeof(addrs[n].addr));
		/* Its device may be gone. */
		if (len < 0) {
			rc = len;
			continue;
		}
		addrs[n].transport = tp->ops->id;
		addrs[n].len = (uint16_t)len;
		n++;
	}
	return n ? n : rc;
}

const char *ripc__strip_prefix(const char *transport, const char *text)
{
	size_t len = strlen(transport);

	return !strncmp(text, transport, len) && !strncmp(text + len, ": ", 2) ? text + len + 2
									       : text;
}

void ripc__local_addrs_changed(struct ripc *ctx)
{
	struct ripc__record_addr addrs[RIPC__RECORD_ADDRS_MAX];
	int n = ripc__local_addrs(ctx, addrs);

	if (n >= 0)
		ripc__resolver_readdress(ctx->resolver, addrs, (unsigned)n);
}
