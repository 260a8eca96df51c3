/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A service that receives long items into memory of its own.
 * A window takes one item.
 * When its message has come, the window is the program's again: it is set aside once more after
 * its bytes were used.
 * An item that fits no window lies in a buffer of the pool, so look at the placement.
 * An empty message ends the service.
 */
#include <ripc.h>

#include <stdio.h>

#define LEN ((size_t)1 << 20)

static char memory[2][LEN];

/* Uses the bytes, then sets the window aside once more. */
static int use(struct ripc_service *service, const struct ripc_message *m)
{
	char *base = (char *)m->items[0].iov_base;
	int in_window = m->placement[0] == RIPC_IN_WINDOW;

	printf("%zu bytes in %s\n", m->items[0].iov_len,
	       !in_window          ? "a buffer of the library"
	       : base == memory[0] ? "window 0"
				   : "window 1");
	fflush(stdout);
	return in_window ? ripc_window_add(NULL, service, base, LEN) : 0;
}

int main(void)
{
	struct ripc_service *service;
	struct ripc_message *m;
	int end = 0, err = 0;

	if (ripc_service_register(NULL, 43, 0, &service) ||
	    ripc_buf_register(NULL, memory, sizeof(memory)) ||
	    ripc_window_add(NULL, service, memory[0], LEN) ||
	    ripc_window_add(NULL, service, memory[1], LEN)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	printf("service 43 waits\n");
	fflush(stdout);
	while (!end && !err && !ripc_receive(service, &m, -1)) {
		end = !m->items[0].iov_len;
		err = end ? 0 : use(service, m);
		ripc_message_free(m);
	}
	if (!end)
		fprintf(stderr, "%s\n", ripc_error_detail());
	/* Take the windows back before the memory is used otherwise. */
	ripc_window_remove(NULL, memory[0]);
	ripc_window_remove(NULL, memory[1]);
	return ripc_buf_unregister(NULL, memory) || ripc_close(NULL);
}
