/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Configurations of ripc-gateway and lines of its files: what is accepted lies within its limits,
 * what is not has a sentence with the line. The first byte selects the decoder.
 */
#include "fuzz.h"
#include "../tools/gateway/plan.h"

#include <stdlib.h>
#include <string.h>

static struct plan plan;

/* The scanner of libconfig 1.5 leaks the begun text of a syntax error. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libconfig.so\n";
}

static void check(int ok)
{
	if (!ok)
		abort();
}

static void check_path(const struct path_plan *path)
{
	check(path->nin >= 1 && path->nin <= PLAN_SOURCES_MAX);
	check(path->nout >= 1 && path->nout <= PLAN_SOURCES_MAX);
	check(path->mask && path->mask < 1U << path->nin && path->hooks.n <= PLAN_HOOKS_MAX);
	for (unsigned i = 0; i < path->nin; i++)
		check(path->in[i] < plan.nnodes);
	for (unsigned i = 0; i < path->nout; i++)
		check(path->out[i] < plan.nnodes);
	for (unsigned i = 0; i < path->hooks.n; i++)
		check(path->hooks.hook[i].ratio >= 1);
}

static void configuration(const char *text)
{
	char error[PLAN_ERROR_MAX] = "";

	/* @include reads files. */
	if (strchr(text, '@'))
		return;
	if (plan_parse(&plan, "file", text, error)) {
		check(!strncmp(error, "file:", 5) && strlen(error) > 7);
		return;
	}
	check(plan.nnodes >= 1 && plan.nnodes <= PLAN_NODES_MAX);
	check(plan.npaths <= PLAN_PATHS_MAX);
	for (unsigned i = 0; i < plan.npaths; i++)
		check_path(&plan.path[i]);
}

static void line(enum text_format format, const char *text)
{
	char out[TEXT_LINE_MAX];
	const char *why = NULL;
	struct sample s, again;
	int rc = text_decode(format, &s, text, &why);

	check(rc >= 0 || (why && *why));
	if (rc <= 0)
		return;
	check(s.nvalues <= SAMPLE_VALUES_MAX);
	check(text_encode(format, &s, out) < sizeof(out));
	out[strlen(out) - 1] = 0;
	check(text_decode(format, &again, out, &why) == 1);
	check(again.origin_ns == s.origin_ns && again.sequence == s.sequence);
	check(again.nvalues == s.nvalues);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (!size || size > 65536)
		return 0;
	text = malloc(size);
	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = 0;
	if (*data == 'h')
		line(TEXT_HUMAN, text);
	else if (*data == 'c')
		line(TEXT_CSV, text);
	else
		configuration(text);
	free(text);
	return 0;
}
