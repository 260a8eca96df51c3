/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"
#include "core/progress/transports.h"

#include <stdio.h>
#include <string.h>

/*
 * Polls of the last active endpoints before a partial pass. They take about a round trip of a short
 * message, so that no pass, which takes longer, has to find the answer. With RIPC__CAP_POLL_CALL
 * fewer, because messages of other endpoints wait meanwhile.
 */
#define POLL_BUDGET_MEMORY 128
#define POLL_BUDGET_CALL   16

/* The built-in order of preference. */
static const struct ripc__transport_ops *const all_transports[] = {
	&ripc__transport_self, &ripc__transport_shm,   &ripc__transport_pcie,
#ifdef HAVE_VERBS
	&ripc__transport_ib,   &ripc__transport_iwarp,
#endif
	&ripc__transport_soft,
};
const struct ripc__transport_ops *ripc__test_transport;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The transport with this number in records, or NULL. simulated: up to a NULL, or NULL. */
static const struct ripc__transport_ops *find_by_id(
	uint8_t id, const struct ripc__transport_ops *const *simulated)
{
	for (unsigned i = 1; i < COUNT(all_transports); i++)
		if (all_transports[i]->id == id)
			return all_transports[i];
	if (ripc__test_transport && ripc__test_transport->id == id)
		return ripc__test_transport;
	for (; simulated && *simulated; simulated++)
		if ((*simulated)->id == id)
			return *simulated;
	return NULL;
}

void ripc__transport_describe(const void *simulated, uint8_t transport, const uint8_t *addr,
			      size_t len, char *text, size_t textlen)
{
	const struct ripc__transport_ops *ops = find_by_id(transport, simulated);
	int n;

	if (!ops) {
		snprintf(text, textlen, "transport %u", transport);
		return;
	}
	n = snprintf(text, textlen, "%s ", ops->name);
	if (n > 0 && (size_t)n < textlen)
		ops->describe(addr, len, text + n, textlen - (size_t)n);
}

static int open_transport(struct ripc *ctx, const struct ripc__transport_ops *ops)
{
	struct ripc__transport_env env = {&ctx->opt, ctx->instance, ctx->hooks.arg};
	struct ripc__tp *tp = &ctx->tp[ctx->ntp];
	int rc;

	tp->ops = ops;
	ctx->ntp++;
	rc = ops->open(&tp->t, &env);
	if (rc) {
		tp->t = NULL;
		snprintf(tp->why, sizeof(tp->why), "%s",
			 ripc__strip_prefix(ops->name, ripc_error_detail()));
		ripc__log(RIPC_LOG_DEBUG, "transport %s is unavailable: %s", ops->name, tp->why);
		return rc;
	}
	ripc__log(RIPC_LOG_DEBUG, "transport %s is open", ops->name);
	ops->limits(tp->t, &tp->limits);
	tp->poll_budget =
		tp->limits.caps & RIPC__CAP_POLL_CALL ? POLL_BUDGET_CALL : POLL_BUDGET_MEMORY;
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

static const struct ripc__transport_ops *find_by_name(const char *name)
{
	for (unsigned i = 0; i < COUNT(all_transports); i++)
		if (!strcmp(all_transports[i]->name, name))
			return all_transports[i];
	if (ripc__test_transport && !strcmp(ripc__test_transport->name, name))
		return ripc__test_transport;
	return NULL;
}

/*
 * Opens a transport if it can be used. A failure is logged if the user has named a file for it.
 * *shortage: the error, if no descriptor is left.
 * Return: 0; -ENOENT or -EACCES: that file does not exist or may not be used, so the context must
 * not go on without it.
 */
static int try_transport(struct ripc *ctx, const struct ripc__transport_ops *ops, unsigned *open,
			 int *shortage)
{
	int rc = open_transport(ctx, ops);
	const char *why = ctx->tp[ctx->ntp - 1].why, *setting = NULL;

	*open += !rc;
	if (rc == -EMFILE || rc == -ENFILE)
		*shortage = rc;
	if (ops == &ripc__transport_shm && ctx->opt.shm_dir[0])
		setting = "shm_dir (RIPC_SHM_DIR)";
	else if (ops == &ripc__transport_pcie && ctx->opt.pcie_device[0])
		setting = "pcie_device (RIPC_PCIE_DEVICE)";
	if (!rc || !setting)
		return 0;
	if (rc == -ENOTDIR)
		rc = -ENOENT;
	if (rc == -ENOENT || rc == -EACCES)
		return ripc__fail(rc, "%s: %s: %s", setting, ops->name, why);
	ripc__log(RIPC_LOG_WARN, "%s: %s: %s; the context does not use this transport", setting,
		  ops->name, why);
	return 0;
}

/* Opens those that the option names, in its order. */
static int open_named(struct ripc *ctx, unsigned *open, int *shortage)
{
	char names[sizeof(ctx->opt.transports)], *save, *name;
	int rc;

	strcpy(names, ctx->opt.transports);
	for (name = strtok_r(names, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
		const struct ripc__transport_ops *ops = find_by_name(name);

		if (!ops)
			return ripc__fail(-EINVAL, "transports=%s: %s cannot be used here",
					  ctx->opt.transports, name);
		for (unsigned k = 1; k < ctx->ntp; k++)
			if (ctx->tp[k].ops == ops)
				return ripc__fail(-EINVAL, "transports=%s: %s stands there twice",
						  ctx->opt.transports, name);
		/* The one that reaches ourselves is open already. */
		if (ops == all_transports[0]) {
			++*open;
			continue;
		}
		rc = try_transport(ctx, ops, open, shortage);
		if (rc)
			return rc;
	}
	return 0;
}

int ripc__transports_open(struct ripc *ctx)
{
	const struct ripc__transport_ops *const *simulated = ctx->hooks.transports;
	int shortage = -ENODEV;
	unsigned open = 0;
	char why[600] = "";
	int rc = open_transport(ctx, all_transports[0]);

	if (rc)
		return rc;
	if (simulated)
		for (; *simulated && !rc; simulated++)
			rc = try_transport(ctx, *simulated, &open, &shortage);
	else if (!strcmp(ctx->opt.transports, "auto"))
		for (unsigned i = 1; i < COUNT(all_transports) && !rc; i++)
			rc = try_transport(ctx, all_transports[i], &open, &shortage);
	else
		rc = open_named(ctx, &open, &shortage);
	if (rc || open)
		return rc;
	for (unsigned i = 1; i < ctx->ntp; i++)
		snprintf(why + strlen(why), sizeof(why) - strlen(why), "%s%s: %s",
			 i > 1 ? "; " : "", ctx->tp[i].ops->name, ctx->tp[i].why);
	return ripc__fail(shortage, "no transport can be used: %s", why);
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

	ripc__resolver_readdress(ctx->resolver, addrs, n < 0 ? 0 : (unsigned)n);
}
