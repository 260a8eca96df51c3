/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of services: 1 to 255 bytes of UTF-8, compared byte by byte, and the id that a name stands
 * for. doc/protocol.md 3.6 defines the hash; it may never change.
 */
#ifndef RIPC_BASE_NAME_H
#define RIPC_BASE_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIPC__NAME_MAX     255                 /* bytes of a name at most */
#define RIPC__NAME_BIT     (UINT64_C(1) << 62) /* set in every id of a name; bit 63 is clear */
#define RIPC__NAMES_RECENT 64

/* Return: NULL, or the fault of the name as a constant phrase. */
const char *ripc__name_fault(const char *name, size_t len);

/* The id of a name without a fault. */
uint64_t ripc__name_id(const char *name, size_t len);

/*
 * The names that ripc_id() was asked for last, at most RIPC__NAMES_RECENT, for error texts: an id
 * does not show its name. The process shares them. They take no lock that can wait: a name may be
 * missing. ripc__name_recall(): copies the name to @name of RIPC__NAME_MAX + 1 bytes. Return:
 * whether it is known.
 */
void ripc__name_remember(uint64_t id, const char *name, size_t len);
bool ripc__name_recall(uint64_t id, char *name);

/* Copies a name for people: control characters become '?'. @text takes RIPC__NAME_MAX + 1 bytes. */
void ripc__name_text(const char *name, char *text);

/*
 * "service 42", or "service 42 ("camera/left")". @name: NULL: one of those that ripc_id() was asked
 * for last, if any. Valid until the next but one call in this thread.
 */
const char *ripc__id_text(uint64_t id, const char *name);

#endif
