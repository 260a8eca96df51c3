/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ripc-info --doctor: the common faults, each in one sentence with its remedy. */
#ifndef RIPC_TOOLS_DOCTOR_H
#define RIPC_TOOLS_DOCTOR_H

#include "info.h"

/*
 * Prints what was found, one line each: "fault: NAME: sentence", "warning: ...", and at the end what was looked at.
 * @settings: as info_gather(); @service: one that is asked about, or 0. Return: the number of faults.
 */
unsigned doctor_print(const struct info *info, const char *settings, uint64_t service);

#endif
