/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Processes that may be killed at any moment: servers that answer, clients that call them. */
#ifndef RIPC_TESTS_CORE_CALL_MORTAL_H
#define RIPC_TESTS_CORE_CALL_MORTAL_H

#include "board.h"

#define SERVERS 2 /* processes 0 .. SERVERS - 1; the others are clients */

/* Service of a process, the same in each of its lives. */
uint64_t mortal_id(unsigned process);

/* A life of a process, until its end. Return: its exit code. */
int mortal_server(unsigned process, const char *options, uint64_t seed);
int mortal_client(unsigned process, const char *options, uint64_t seed);

#endif
