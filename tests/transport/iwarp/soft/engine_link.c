/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "engine_link.h"

#include <string.h>

struct engine_end a, b;
uint8_t *source_bytes, *target_bytes;
uint8_t pipe_buf[1 << 20];

struct ripc__mpa_terms terms(bool crc, bool soft)
{
	return (struct ripc__mpa_terms){
		.crc = crc,
		.soft = soft,
		.read_depth = 32,
		.serve_depth = 32,
	};
}

void open_pair(const struct ripc__mpa_terms *t, uint32_t segment)
{
	static uint8_t pattern[SOURCE]; /* computed once: a test opens thousands of pairs */

	engine_end_open(&a, t, true, segment);
	engine_end_open(&b, t, false, segment);
	if (!pattern[1])
		for (size_t i = 0; i < SOURCE; i++)
			pattern[i] = (uint8_t)(i * 7 + i / 251);
	source_bytes = malloc(SOURCE);
	target_bytes = calloc(1, SOURCE);
	memcpy(source_bytes, pattern, SOURCE);
}

void close_pair(void)
{
	engine_end_close(&a);
	engine_end_close(&b);
	free(source_bytes);
	free(target_bytes);
}

bool move(struct engine_end *from, struct engine_end *to, size_t cap)
{
	size_t n = engine_end_take(from, pipe_buf, cap < sizeof(pipe_buf) ? cap : sizeof(pipe_buf));

	engine_end_feed(to, pipe_buf, n);
	engine_end_events(from);
	return n;
}

void settle(uint64_t *rng, size_t most)
{
	for (;;) {
		size_t one = rng ? test_random(rng) % most + 1 : most,
		       two = rng ? test_random(rng) % most + 1 : most;
		bool ab = move(&a, &b, one), ba = move(&b, &a, two);

		if (!ab && !ba)
			return;
		ck_assert_int_eq(a.e.status, 0);
		ck_assert_int_eq(b.e.status, 0);
	}
}

void post_send(struct engine_end *end, const uint8_t *p, size_t len)
{
	struct iovec iov[3] = {
		{(void *)p, len / 3}, {NULL, 0}, {(void *)(p + len / 3), len - len / 3}};

	ck_assert_int_eq(ripc__engine_send(&end->e, iov, 3, len), 0);
}

void post_direct(struct engine_end *from, struct engine_end *to, const uint8_t *p, size_t len,
		 size_t n)
{
	uint8_t head[RIPC__SEND_HEADER], tail[RIPC__TRAILER_MAX];
	struct iovec iov[3] = {{head, sizeof(head)}, {(void *)p, len}, {tail, 0}};
	size_t whole;

	ck_assert(ripc__engine_idle(&from->e));
	iov[2].iov_len = ripc__engine_frame(&from->e, iov + 1, 1, len, head, tail);
	whole = sizeof(head) + len + iov[2].iov_len;
	memcpy(pipe_buf, head, sizeof(head));
	memcpy(pipe_buf + sizeof(head), p, len);
	memcpy(pipe_buf + sizeof(head) + len, tail, iov[2].iov_len);
	engine_end_feed(to, pipe_buf, n < whole ? n : whole);
	if (n < whole)
		ck_assert_int_eq(ripc__engine_queue_sent(&from->e, iov, 3, n), 0);
}

void write_and_announce(const struct ripc__region *from, const struct ripc__region *to, size_t len,
			size_t announcement)
{
	ck_assert_int_eq(engine_write(&a.e, (struct ripc__region *)from, source_bytes, len,
				      to->addr, to->stag, 1),
			 0);
	post_send(&a, source_bytes, announcement);
}

struct ripc__region *begin_read(const struct ripc__mpa_terms *t, uint32_t len)
{
	struct ripc__region *from, *dst;
	int rc;

	open_pair(t, 1448);
	from = ripc__region_add(&b.regions, source_bytes, SOURCE, RIPC__ACCESS_REMOTE_READ);
	dst = ripc__region_add(&a.regions, target_bytes, SOURCE, RIPC__ACCESS_LOCAL_WRITE);
	rc = engine_read(&a.e, dst, target_bytes, len, from->addr, from->stag, 1);
	ck_assert_int_eq(rc, 0);
	return from;
}
