/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits a minute at most for the end of service 42, and prints the reason.
 */
#include <ripc.h>

#include <stdio.h>

static const char *event_text(enum ripc_event event)
{
	switch (event) {
	case RIPC_EVENT_DIED:
		return "died";
	case RIPC_EVENT_MOVED:
		return "moved";
	case RIPC_EVENT_NOT_FOUND:
		return "was not found";
	default:
		return "has ended";
	}
}

int main(void)
{
	struct ripc_service *me;
	struct ripc_message *m;
	int err;

	if (ripc_service_register(NULL, RIPC_ANY_ID, 0, &me) ||
	    ripc_watch(me, 42)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	printf("watching service 42\n");
	fflush(stdout);
	err = ripc_receive(me, &m, 60000);
	if (err) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		ripc_unwatch(me, 42);
	} else {
		if (m->event)
			printf("service %llu %s: %.*s\n",
			       (unsigned long long)m->source,
			       event_text((enum ripc_event)m->event),
			       (int)m->items[0].iov_len,
			       (const char *)m->items[0].iov_base);
		ripc_message_free(m);
	}
	return ripc_close(NULL) || err;
}
