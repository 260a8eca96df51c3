/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A member of group 7 that prints what is sent to the group until the text "end" comes.
 * Messages to the service alone come from ripc_receive() as well: their group is 0.
 */
#include <ripc.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
	struct ripc_service *me;
	struct ripc_message *m;
	int end = 0;

	if (ripc_service_register(NULL, RIPC_ANY_ID, 0, &me) ||
	    ripc_group_join(me, 7, 5000)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	printf("a member of group 7\n");
	fflush(stdout);
	while (!end && !ripc_receive(me, &m, -1)) {
		const char *text = (const char *)m->items[0].iov_base;
		int len = (int)m->items[0].iov_len;

		if (m->group == 7)
			printf("%.*s\n", len, text);
		fflush(stdout);
		end = m->group == 7 && len == 3 && !memcmp(text, "end", 3);
		ripc_message_free(m);
	}
	if (!end || ripc_group_leave(me, 7)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	return ripc_close(NULL) != 0;
}
