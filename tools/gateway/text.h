/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Samples as lines of text, in the formats of VILLASnode:
 *
 *	villas.human	SECONDS.NANOSECONDS+OFFSET(SEQUENCE) TAB VALUE TAB VALUE ...
 *	csv		SECONDS,NANOSECONDS,OFFSET,SEQUENCE,VALUE,VALUE ...
 *
 * OFFSET is the time of receipt less the origin time, in seconds. Lines that begin with # are
 * comments. The functions do no I/O and keep no state.
 */
#ifndef RIPC_GATEWAY_TEXT_H
#define RIPC_GATEWAY_TEXT_H

#include "sample.h"

#include <stdbool.h>
#include <stddef.h>

enum text_format { TEXT_HUMAN, TEXT_CSV };

/* Room for a line of most values, with its newline and 0. */
#define TEXT_LINE_MAX (128 + 32 * SAMPLE_VALUES_MAX)

/* The first line of a file. */
const char *text_header(enum text_format format);

/* Writes a line with its newline. @line takes TEXT_LINE_MAX bytes. Return: its length. */
size_t text_encode(enum text_format format, const struct sample *sample, char *line);

/*
 * Reads one line without its newline.
 * Return: 1; 0 if the line is empty or a comment; -1 if it is malformed, *@why is a sentence then.
 */
int text_decode(enum text_format format, struct sample *sample, const char *line, const char **why);

#endif
