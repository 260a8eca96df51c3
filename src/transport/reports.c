/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/reports.h"
#include "base/admission.h"

#include <errno.h>
#include <stdio.h>

void ripc__report_bad_input(struct ripc__reports *r, const char *who, const char *why)
{
	if (r->tail - r->head < RIPC__REPORTS_MAX)
		snprintf(r->bad_input[r->tail++ % RIPC__REPORTS_MAX], sizeof(r->bad_input[0]),
			 "%s: %s", who, why);
}

void ripc__report_descriptor(struct ripc__reports *r, int fd)
{
	bool none = fd == -EMFILE || fd == -ENFILE;

	if (fd < 0 ? !none : !ripc__descriptors_low(fd))
		return;
	r->fd_low = true;
	if (none)
		r->fd_status = fd;
}

unsigned ripc__reports_take(struct ripc__reports *r, struct ripc__event *events, unsigned max)
{
	unsigned n = 0;

	while (n < max && r->head != r->tail)
		events[n++] = (struct ripc__event){
			.kind = RIPC__EV_BAD_INPUT,
			.text = r->bad_input[r->head++ % RIPC__REPORTS_MAX],
		};
	if (r->address && n < max) {
		events[n++] = (struct ripc__event){.kind = RIPC__EV_ADDRESS};
		r->address = false;
	}
	if (r->fd_low && n < max) {
		events[n++] = (struct ripc__event){.kind = RIPC__EV_FD_LOW, .status = r->fd_status};
		r->fd_low = false;
		r->fd_status = 0;
	}
	return n;
}
