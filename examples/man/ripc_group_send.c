/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sends the lines of the standard input to group 7, and prints how many members could not be
 * reached.
 * A return of 0 means that the message has left for at least one member.
 * A member that must not miss a message answers each one, and the sender repeats what was not
 * answered.
 */
#include <ripc.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
	struct ripc_group_stats stats;
	char line[RIPC_GROUP_MESSAGE_MAX + 1];
	struct ripc_service *me;

	if (ripc_service_register(NULL, RIPC_ANY_ID, 0, &me)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		struct iovec item = {line, strcspn(line, "\n")};

		if (ripc_group_send(me, 7, &item, 1, NULL, 5000))
			fprintf(stderr, "%s\n", ripc_error_detail());
	}
	stats.size = sizeof(stats);
	if (ripc_group_stats(NULL, 7, NULL, &stats)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	printf("%llu messages sent, %llu times a member was not reached\n",
	       (unsigned long long)stats.sent,
	       (unsigned long long)stats.unreached);
	return ripc_close(NULL) != 0;
}
