/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ripc-info --doctor: the common faults, each in one sentence with its remedy. doctor.c judges the
 * host and the transports, doctor_finding.c how services are found, doctor_port.c who else uses the
 * port of the resolver.
 */
#ifndef RIPC_TOOLS_DOCTOR_H
#define RIPC_TOOLS_DOCTOR_H

#include "info.h"

#define DOCTOR_TIMEOUT_MS 3000 /* for what needs an answer of the network */

enum doctor_level { DOCTOR_FAULT, DOCTOR_WARNING };

struct doctor {
	const struct info *info;
	const char *settings;
	unsigned found[2];  /* by level */
	bool no_interface;  /* none is up */
	bool no_loopback;   /* lo is down: what a host sends to itself over the network is lost */
	bool no_transport;  /* none leads out of this process */
	bool port_is_taken; /* the resolver cannot have its port */
};

/*
 * Prints what was found, one line each: "fault: NAME: sentence", "warning: ...", and at the end
 * what was looked at. @settings: as info_gather(); @service: one that is asked about, or 0;
 * @name: its name, or NULL. Return: the number of faults.
 */
unsigned doctor_print(const struct info *info, const char *settings, uint64_t service,
		      const char *name);

/* Prints one line and counts it. */
void doctor_report(struct doctor *d, enum doctor_level level, const char *name, const char *fmt,
		   ...) __attribute__((format(printf, 4, 5)));

/*
 * The value of a setting, or NULL. The last one given wins, and those of the command line stand
 * behind the environment's.
 */
const char *doctor_setting(const struct doctor *d, const char *name);

/* Whether a list with commas has this word, or this word and a colon. */
bool doctor_lists(const char *list, const char *word);

/* The port of the resolver. */
unsigned doctor_port(const struct doctor *d);

/* Whether a back end of the resolver works. */
bool doctor_resolver_works(const struct doctor *d, const char *name);

/* doctor_port.c: whether the resolver can have its port, and who else listens there. */
void doctor_check_port(struct doctor *d);

/* doctor_finding.c: the state of the resolver's back ends. */
void doctor_check_resolvers(struct doctor *d);
/* Whether requests sent to all come back, and which other hosts use this network. */
void doctor_check_broadcast(struct doctor *d);
/* Whether a service is found and can be reached. */
void doctor_check_service(struct doctor *d, uint64_t id, const char *name);

#endif
