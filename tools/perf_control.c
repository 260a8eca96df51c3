/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "perf_control.h"

#include <endian.h>
#include <string.h>

#define MAGIC     "ripcperf2" /* ends in the version of these messages */
#define MAGIC_LEN 9
#define NUMBERS   15
#define TEXT_MAX  256
#define BODY_LEN  (NUMBERS * 8 + TEXT_MAX)

/* The order of the fields on the wire. */
static void list_fields(struct perf_control *c, uint64_t *field[NUMBERS])
{
	uint64_t *all[NUMBERS] = {&c->type,   &c->token,     &c->test,     &c->kind,
				  &c->size,   &c->count,     &c->verify,   &c->protocol,
				  &c->wait,   &c->port,      &c->received, &c->damaged,
				  &c->cpu_ns, &c->waited_ns, &c->returns};

	memcpy(field, all, sizeof(all));
}

int perf_control_send(struct ripc_service *service, uint64_t dest, const struct perf_control *c,
		      int timeout_ms)
{
	struct perf_control copy = *c;
	uint64_t *field[NUMBERS];
	unsigned char body[BODY_LEN];
	struct iovec items[2] = {
		{.iov_base = (void *)MAGIC, .iov_len = MAGIC_LEN},
		{.iov_base = body, .iov_len = sizeof(body)},
	};

	list_fields(&copy, field);
	for (unsigned i = 0; i < NUMBERS; i++) {
		uint64_t le = htole64(*field[i]);

		memcpy(body + i * 8, &le, 8);
	}
	copy.text[TEXT_MAX - 1] = 0;
	memset(body + NUMBERS * 8, 0, TEXT_MAX);
	memcpy(body + NUMBERS * 8, copy.text, strlen(copy.text));
	return ripc_send_short(service, dest, items, 2, NULL, timeout_ms);
}

bool perf_control_read(const struct ripc_message *m, struct perf_control *c)
{
	uint64_t *field[NUMBERS];
	const unsigned char *body;

	if (m->nitems != 2 || m->items[0].iov_len != MAGIC_LEN || m->items[1].iov_len != BODY_LEN ||
	    memcmp(m->items[0].iov_base, MAGIC, MAGIC_LEN))
		return false;
	body = m->items[1].iov_base;
	list_fields(c, field);
	for (unsigned i = 0; i < NUMBERS; i++) {
		uint64_t le;

		memcpy(&le, body + i * 8, 8);
		*field[i] = le64toh(le);
	}
	memcpy(c->text, body + NUMBERS * 8, TEXT_MAX);
	c->text[TEXT_MAX - 1] = 0;
	return true;
}
