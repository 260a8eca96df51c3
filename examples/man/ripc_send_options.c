/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Return buffers: a request names the buffers for its answer.
 * Client and service are in one program here, in a context each, as if they were two processes.
 *
 * The sender of a message offers registered or allocated buffers with it.
 * The peer needs to know nothing of their addresses: it answers with a long message to the service
 * that offered them.
 * The page ripc_send_long(3) specifies which item lands in which buffer.
 * So offer buffers in the order of the items that you expect, and look at the placement.
 * Return buffers that were not used stay on offer until they are freed.
 */
#include <ripc.h>

#include <stdio.h>
#include <string.h>

#define TABLE_LEN 100000

/* The service: its answer has a head and a table. */
static int serve(struct ripc_service *service)
{
	static char head[] = "table of 1", table[TABLE_LEN];
	struct iovec answer[2] = {{head, strlen(head)}, {table, TABLE_LEN}};
	struct ripc_message *request;
	struct ripc_request *sent;
	int err = ripc_receive(service, &request, 2000);

	if (err)
		return err;
	memset(table, '1', TABLE_LEN);
	printf("the client offers %u buffers\n", request->nreturn_buffers);
	/* Long: ripc_send() would send a small answer as a short message. */
	err = ripc_send_async(service, request->source, answer, 2, NULL,
			      &sent);
	ripc_message_free(request);
	return err ? err : ripc_request_wait(&sent, 2000);
}

static int ask(struct ripc *ctx, struct ripc_service *me)
{
	char *buf = (char *)ripc_buf_alloc(ctx, 1000 + TABLE_LEN);
	char text[] = "table, please";
	struct iovec item = {text, strlen(text)};
	struct iovec returns[2] = {{buf, 1000}, {buf + 1000, TABLE_LEN}};
	struct ripc_send_options options;

	memset(&options, 0, sizeof(options));
	options.size = sizeof(options);
	options.nreturn_buffers = 2;
	options.return_buffers = returns;
	return buf ? ripc_send(me, 42, &item, 1, &options, 2000) : -1;
}

static int print_answer(struct ripc *ctx, struct ripc_service *me)
{
	struct ripc_message *m;
	int err = ripc_receive(me, &m, 2000);

	if (err)
		return err;
	for (unsigned i = 0; i < m->nitems; i++)
		printf("item %u: %zu bytes, %s\n", i, m->items[i].iov_len,
		       m->placement[i] == RIPC_IN_RETURN_BUFFER
			       ? "in a return buffer"
			       : "elsewhere");
	/* The buffer is the program's again: it outlives the message. */
	if (m->placement[0] == RIPC_IN_RETURN_BUFFER)
		err = ripc_buf_free(ctx, m->items[0].iov_base);
	ripc_message_free(m);
	return err;
}

int main(void)
{
	struct ripc *client, *server;
	struct ripc_service *me, *service;

	if (ripc_open(&client, NULL) || ripc_open(&server, NULL) ||
	    ripc_service_register(client, RIPC_ANY_ID, 0, &me) ||
	    ripc_service_register(server, 42, 0, &service) ||
	    ask(client, me) || serve(service) || print_answer(client, me) ||
	    ripc_close(client) || ripc_close(server)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	return 0;
}
