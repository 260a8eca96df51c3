/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "numbers.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t first_id;

void numbers_setup(void)
{
	uint64_t rng = test_seed() + (uint64_t)getpid();

	first_id = (test_random(&rng) >> 2) + 1;
	setenv("RIPC_INTERFACES", "lo", 1);
	setenv("RIPC_TRANSPORTS", "iwarp/soft", 1);
}

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

int send_number(struct ripc_service *from, uint64_t to, uint64_t number)
{
	struct iovec item = {&number, sizeof(number)};

	return ripc_send_short(from, to, &item, 1, NULL, PATIENCE_MS);
}

int receive_number(struct ripc_service *s, uint64_t *number, int timeout_ms)
{
	struct ripc_message *m;
	int rc = ripc_receive(s, &m, timeout_ms);

	if (rc)
		return rc;
	memcpy(number, m->items[0].iov_base, sizeof(*number));
	ripc_message_free(m);
	return 0;
}

void *waiter_main(void *arg)
{
	struct waiter *w = arg;
	uint64_t start = now_ms();

	w->rc = receive_number(w->s, &w->number, w->timeout_ms);
	w->took_ms = now_ms() - start;
	w->done = true;
	return NULL;
}
