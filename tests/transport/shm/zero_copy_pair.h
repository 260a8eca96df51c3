/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* For tests of mapped zero copy: two contexts of this process over shm, and their messages. */
#ifndef RIPC_TESTS_TRANSPORT_SHM_ZERO_COPY_PAIR_H
#define RIPC_TESTS_TRANSPORT_SHM_ZERO_COPY_PAIR_H

#include "core/memory/buffer.h"
#include "core/progress/context.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KIB          ((size_t)1024)
#define LEN          (256 * KIB)
#define PATIENCE_MS  20000
#define MCAST_PROBES 5000 /* after a kept item, at most 1024 items are copied */

/* Two contexts of this process, and a service of each. */
struct two {
	struct ripc *a, *b;
	struct ripc_service *from, *to;
	uint64_t dest;
};

static inline struct ripc *open_one(const char *more)
{
	char options[160];
	struct ripc *ctx = NULL;

	snprintf(options, sizeof(options), "transports=shm resolver=local peer_timeout_ms=20000 %s",
		 more);
	ck_assert_msg(!ripc_open(&ctx, options), "%s", ripc_error_detail());
	return ctx;
}

static inline struct ripc_service *serve(struct ripc *ctx, uint64_t id)
{
	struct ripc_service *s = NULL;

	ck_assert_msg(!ripc_service_register(ctx, id, 0, &s), "%s", ripc_error_detail());
	return s;
}

static inline void open_two(struct two *w, const char *more_a, const char *more_b)
{
	w->a = open_one(more_a);
	w->b = open_one(more_b);
	w->dest = test_ids() + 1;
	w->from = serve(w->a, test_ids());
	w->to = serve(w->b, w->dest);
}

static inline void close_two(struct two *w)
{
	ck_assert_int_eq(ripc_close(w->a), 0);
	ck_assert_int_eq(ripc_close(w->b), 0);
}

static inline void fill(uint8_t *p, size_t len, uint64_t tag)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(tag * 31 + i + i / 251);
}

static inline bool holds(const uint8_t *p, size_t len, uint64_t tag)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (uint8_t)(tag * 31 + i + i / 251))
			return false;
	return true;
}

static inline uint8_t *buffer(struct ripc *ctx, size_t len, uint64_t tag)
{
	uint8_t *p = ripc_buf_alloc(ctx, len);

	ck_assert_ptr_nonnull(p);
	fill(p, len, tag);
	return p;
}

static inline struct ripc_request *start(struct two *w, void *base, size_t len)
{
	struct iovec item = {base, len};
	struct ripc_request *r = NULL;

	ck_assert_msg(!ripc_send_async(w->from, w->dest, &item, 1, NULL, &r), "%s",
		      ripc_error_detail());
	return r;
}

static inline void finish(struct ripc_request *r)
{
	ck_assert_msg(!ripc_request_wait(&r, PATIENCE_MS), "%s", ripc_error_detail());
}

static inline struct ripc_message *receive(struct ripc_service *s)
{
	struct ripc_message *m = NULL;

	ck_assert_msg(!ripc_receive(s, &m, PATIENCE_MS), "%s", ripc_error_detail());
	return m;
}

/* Sends until an item is mapped, and returns that message. Its request is not complete. */
static inline struct ripc_message *in_place(struct two *w, uint8_t *base, size_t len,
					    struct ripc_request **request)
{
	for (unsigned i = 0; i < MCAST_PROBES; i++) {
		struct ripc_request *r = start(w, base, len);
		struct ripc_message *m = receive(w->to);

		ck_assert_uint_eq(m->nitems, 1);
		ck_assert_uint_eq(m->items[0].iov_len, len);
		if (m->placement[0] == RIPC_IN_SENDER_MEMORY) {
			*request = r;
			return m;
		}
		ripc_message_free(m);
		finish(r);
	}
	ck_abort_msg("no message in place after %d", MCAST_PROBES);
	return NULL;
}

/* Mappings of memory objects in this process: the contexts' own and those of peers. */
static inline unsigned mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned n = 0;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:ripc-buffer") != NULL;
	fclose(f);
	return n;
}

/* The contexts' threads unmap later. */
static inline void await_mappings(unsigned want)
{
	AWAIT(mappings() == want);
}

static inline void send_whole(struct two *w, struct ripc_service *to, uint64_t dest, void *p,
			      size_t len)
{
	struct iovec item = {p, len};
	struct ripc_request *r = NULL;
	int rc = ripc_send_async(w->from, dest, &item, 1, NULL, &r);

	ck_assert_msg(!rc, "%s", ripc_error_detail());
	ripc_message_free(receive(to));
	finish(r);
}

#endif
