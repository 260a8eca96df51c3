/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S INT64_C(1000000000)
/* Offsets above one year are no times of receipt, and would overflow in nanoseconds. */
#define OFFSET_MAX_S 31557600.0

const char *text_header(enum text_format format)
{
	return format == TEXT_CSV ? "# secs,nsecs,offset,sequence,values\n"
				  : "# seconds.nanoseconds+offset(sequence)\tvalues\n";
}

size_t text_encode(enum text_format format, const struct sample *sample, char *line)
{
	const int64_t seconds = sample->origin_ns / NS_PER_S, ns = sample->origin_ns % NS_PER_S;
	const double offset = (double)(sample->received_ns - sample->origin_ns) * 1e-9;
	size_t len;

	if (format == TEXT_CSV)
		len = (size_t)snprintf(line, TEXT_LINE_MAX, "%" PRId64 ",%" PRId64 ",%.9f,%" PRIu64,
				       seconds, ns, offset, sample->sequence);
	else
		len = (size_t)snprintf(line, TEXT_LINE_MAX,
				       "%" PRId64 ".%09" PRId64 "%+e(%" PRIu64 ")", seconds, ns,
				       offset, sample->sequence);
	for (unsigned i = 0; i < sample->nvalues; i++)
		len += (size_t)snprintf(line + len, TEXT_LINE_MAX - len, "%c%.17g",
					format == TEXT_CSV ? ',' : '\t', sample->values[i]);
	line[len++] = '\n';
	line[len] = 0;
	return len;
}

/* A number without a sign. */
static bool take_unsigned(const char **p, uint64_t max, uint64_t *value)
{
	char *end;

	if (!isdigit((unsigned char)**p))
		return false;
	errno = 0;
	*value = strtoull(*p, &end, 10);
	*p = end;
	return !errno && *value <= max;
}

static bool take_char(const char **p, char c)
{
	if (**p != c)
		return false;
	++*p;
	return true;
}

static bool take_double(const char **p, double *value)
{
	char *end;

	*value = strtod(*p, &end);
	if (end == *p)
		return false;
	*p = end;
	return true;
}

/* The nanoseconds behind the point: 9 digits at most, fewer mean a fraction. */
static bool take_fraction(const char **p, uint64_t *ns)
{
	unsigned digits = 0;

	*ns = 0;
	for (; isdigit((unsigned char)**p); ++*p, digits++) {
		if (digits == 9)
			return false;
		*ns = *ns * 10 + (uint64_t)(**p - '0');
	}
	for (unsigned i = digits; i < 9; i++)
		*ns *= 10;
	return digits;
}

static const char *decode_times(enum text_format format, struct sample *sample, const char **p)
{
	uint64_t seconds, ns;
	double offset = 0;

	if (!take_unsigned(p, UINT32_MAX, &seconds))
		return "it does not begin with seconds from 0 to 4294967295";
	if (!take_char(p, format == TEXT_CSV ? ',' : '.'))
		return "no nanoseconds follow the seconds";
	if (format == TEXT_CSV ? !take_unsigned(p, 999999999, &ns) : !take_fraction(p, &ns))
		return "the nanoseconds are not from 0 to 999999999";
	if (format == TEXT_CSV && !take_char(p, ','))
		return "no offset follows the nanoseconds";
	if ((format == TEXT_CSV || **p == '+' || **p == '-') && !take_double(p, &offset))
		return "the offset is no number";
	if (!(fabs(offset) < OFFSET_MAX_S))
		offset = 0;
	sample->origin_ns = (int64_t)seconds * NS_PER_S + (int64_t)ns;
	sample->received_ns = sample->origin_ns + (int64_t)(offset * 1e9);
	return NULL;
}

static const char *decode_sequence(enum text_format format, struct sample *sample, const char **p)
{
	sample->sequence = 0;
	if (format == TEXT_HUMAN && **p != '(')
		return NULL;
	++*p;
	if ((*p)[-1] != (format == TEXT_CSV ? ',' : '(') ||
	    !take_unsigned(p, UINT64_MAX, &sample->sequence))
		return "the sequence is no number";
	if (format == TEXT_CSV)
		return NULL;
	if (!take_char(p, ')'))
		return "no ) follows the sequence";
	/* The mark of a new frame. */
	take_char(p, 'F');
	return NULL;
}

static const char *decode_values(enum text_format format, struct sample *sample, const char **p)
{
	sample->nvalues = 0;
	while (**p && **p != '\r') {
		if (!take_char(p, format == TEXT_CSV ? ',' : '\t'))
			return "a value is no number";
		if (sample->nvalues == SAMPLE_VALUES_MAX)
			return "it has more than 64 values";
		if (!take_double(p, &sample->values[sample->nvalues++]))
			return "a value is no number";
	}
	return NULL;
}

int text_decode(enum text_format format, struct sample *sample, const char *line, const char **why)
{
	const char *fault;

	if (!*line || *line == '#' || *line == '\r')
		return 0;
	fault = decode_times(format, sample, &line);
	if (!fault)
		fault = decode_sequence(format, sample, &line);
	if (!fault)
		fault = decode_values(format, sample, &line);
	if (!fault)
		return 1;
	*why = fault;
	return -1;
}
