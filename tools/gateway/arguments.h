/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A configuration from the command line: one path from the node of the first argument to those of
 * the others. An argument is TYPE:MAIN[,KEY=VALUE]..., with MAIN the key that a node of the type
 * needs: a form (signal), a path (file), a host and port (socket), a name or id (ripc, group);
 * stdio has none.
 */
#ifndef RIPC_GATEWAY_ARGUMENTS_H
#define RIPC_GATEWAY_ARGUMENTS_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Writes the text of the configuration, with the node of argument i in line i, counted from 1.
 * Return: false: @error, of PLAN_ERROR_MAX bytes, is a sentence.
 */
bool arguments_write(FILE *out, unsigned n, char *const *arguments, char *error);

#endif
