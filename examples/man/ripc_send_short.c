/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A client that asks service 42 and repeats each request until it is answered. A return of 0 from
 * ripc_send_short() means only that the request has left: the reply confirms that the service has
 * processed it. A repeated request may arrive twice, so processing it twice must do no harm. Each
 * request carries a number, by which the client distinguishes its reply from a late reply to an
 * earlier request. The page ripc_receive(3) shows the service.
 */
#include <ripc.h>

#include <stdio.h>
#include <string.h>

static int is_reply(const struct ripc_message *m, uint64_t number)
{
	return m->source == 42 && m->nitems == 2 &&
	       m->items[0].iov_len == sizeof(number) &&
	       !memcmp(m->items[0].iov_base, &number, sizeof(number));
}

static int ask(struct ripc_service *me, uint64_t number, char *text)
{
	struct iovec request[2] = {{&number, sizeof(number)},
				   {text, strlen(text)}};
	struct ripc_message *m;
	int err = 0;

	for (int tries = 0; tries < 5; tries++) {
		err = ripc_send_short(me, 42, request, 2, NULL, 1000);
		while (!err && !(err = ripc_receive(me, &m, 1000))) {
			int found = is_reply(m, number);

			if (found)
				printf("%.*s\n", (int)m->items[1].iov_len,
				       (char *)m->items[1].iov_base);
			ripc_message_free(m);
			if (found)
				return 0;
		}
	}
	return err;
}

int main(void)
{
	char first[] = "good morning", second[] = "good night";
	struct ripc_service *me;

	if (ripc_service_register(NULL, RIPC_ANY_ID, 0, &me) ||
	    ask(me, 1, first) || ask(me, 2, second)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	return ripc_close(NULL) != 0;
}
