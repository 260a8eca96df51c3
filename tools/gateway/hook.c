/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hook.h"

#include <math.h>

bool hooks_init(struct hooks *hooks, const struct hooks_plan *plan)
{
	hooks->n = plan->n;
	for (unsigned i = 0; i < plan->n; i++) {
		hooks->hook[i].plan = &plan->hook[i];
		if (plan->hook[i].type == HOOK_STATS && !flow_init(&hooks->hook[i].flow))
			return false;
	}
	return true;
}

void hooks_free(struct hooks *hooks)
{
	for (unsigned i = 0; i < hooks->n; i++)
		flow_free(&hooks->hook[i].flow);
}

static bool decimate(struct hook *h, struct sample *sample)
{
	if (h->seen % h->plan->ratio)
		return false;
	if (h->plan->renumber)
		sample->sequence = h->passed;
	return true;
}

static bool limit_rate(struct hook *h, const struct sample *sample, int64_t now_ns)
{
	const int64_t at = h->plan->clock == RATE_ORIGIN     ? sample->origin_ns
			   : h->plan->clock == RATE_RECEIVED ? sample->received_ns
							     : now_ns;

	if (h->passed && (double)(at - h->last_ns) * h->plan->rate < 1e9)
		return false;
	h->last_ns = at;
	return true;
}

static bool skip_first(struct hook *h, int64_t now_ns)
{
	if (h->plan->samples)
		return h->seen >= h->plan->samples;
	if (!h->seen)
		h->first_ns = now_ns;
	return (double)(now_ns - h->first_ns) >= h->plan->seconds * 1e9;
}

/* RFC 3550, 6.4.1: the mean change of the latency, over about 16 samples. */
static void jitter(struct hook *h, const struct sample *sample)
{
	const int64_t latency = sample->received_ns - sample->origin_ns;

	if (h->seen)
		h->jitter_ns += (fabs((double)(latency - h->last_ns)) - h->jitter_ns) / 16;
	h->last_ns = latency;
}

static bool run(struct hook *h, struct sample *sample, int64_t now_ns)
{
	switch (h->plan->type) {
	case HOOK_DECIMATE:
		return decimate(h, sample);
	case HOOK_LIMIT_RATE:
		return limit_rate(h, sample, now_ns);
	case HOOK_SKIP_FIRST:
		return skip_first(h, now_ns);
	case HOOK_STATS:
		flow_add(&h->flow, sample);
		return true;
	case HOOK_TS:
		sample->origin_ns = sample->received_ns;
		return true;
	case HOOK_JITTER:
		jitter(h, sample);
		return true;
	}
	return true;
}

bool hooks_run(struct hooks *hooks, struct sample *sample, int64_t now_ns)
{
	for (unsigned i = 0; i < hooks->n; i++) {
		struct hook *h = &hooks->hook[i];
		const bool pass = run(h, sample, now_ns);

		h->seen++;
		h->passed += pass;
		if (!pass) {
			hooks->dropped++;
			return false;
		}
	}
	return true;
}

void hooks_print(const struct hooks *hooks, const char *name, FILE *out)
{
	char title[PLAN_NAME_MAX + 32];

	for (unsigned i = 0; i < hooks->n; i++) {
		const struct hook *h = &hooks->hook[i];

		snprintf(title, sizeof(title), "%s, hook %u", name, i + 1);
		if (h->plan->type == HOOK_STATS)
			flow_print(&h->flow, title, out);
		else if (h->plan->type == HOOK_JITTER)
			fprintf(out, "%s: jitter %.1f us\n", title, h->jitter_ns * 1e-3);
	}
}
