/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Resolver records and messages: round trips, and every way to break them. */
#include "harness.h"
#include "wire/bytes.h"
#include "wire/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 24, NADDRS_AT = HEADER + 56, ADDRS_AT = HEADER + 57 };

static uint64_t rng;

/* A valid message; @naddrs addresses of random lengths. */
static void fill(struct ripc__resolver_msg *msg, enum ripc__resolver_kind kind, unsigned naddrs)
{
	uint8_t *id;

	memset(msg, 0, sizeof(*msg));
	id = msg->record.instance;
	msg->kind = kind;
	msg->service = test_random(&rng) >> 1 | 1;
	msg->nonce = test_random(&rng) | 1;
	msg->record.service = msg->service;
	for (unsigned i = 0; i < 16; i++) {
		id[i] = (uint8_t)(test_random(&rng) | 1);
		msg->record.host[i] = (uint8_t)test_random(&rng);
	}
	msg->record.generation = test_random(&rng);
	msg->record.ttl_ms = (uint32_t)test_random(&rng);
	msg->record.since_ms = (uint32_t)test_random(&rng);
	msg->record.naddrs = naddrs;
	for (unsigned i = 0; i < naddrs; i++) {
		struct ripc__record_addr *a = &msg->record.addrs[i];

		a->transport = (uint8_t)(10 + i);
		a->len = (uint16_t)(test_random(&rng) % (RIPC__ADDRESS_MAX + 1));
		for (unsigned k = 0; k < a->len; k++)
			a->addr[k] = (uint8_t)test_random(&rng);
	}
}

static int decode(const uint8_t *buf, size_t len)
{
	struct ripc__resolver_msg msg;
	const char *why = NULL;
	/* To its exact size, so that a sanitizer sees a read beyond it. */
	uint8_t *copy = malloc(len ? len : 1);
	int rc;

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, buf, len);
	rc = ripc__resolver_msg_decode(&msg, copy, len, &why);
	free(copy);
	ck_assert(rc == 0 || rc == -EPROTO || rc == -EPROTONOSUPPORT);
	ck_assert(!rc || (why && *why));
	return rc;
}

START_TEST(record__encode_and_decode)
{
	for (unsigned i = 0; i < 200; i++) {
		struct ripc__resolver_msg msg;
		struct ripc__record back;
		uint8_t buf[RIPC__RECORD_BYTES_MAX];
		const char *why;
		int len;

		fill(&msg, RIPC__RESOLVE_REPLY, i % (RIPC__RECORD_ADDRS_MAX + 1));
		len = ripc__record_encode(&msg.record, buf, sizeof(buf));
		ck_assert_int_ge(len, 57);
		ck_assert_int_eq(ripc__record_decode(&back, buf, (size_t)len, &why), 0);
		ck_assert_mem_eq(&back, &msg.record, sizeof(back));
		for (int cap = 0; cap < len; cap++)
			ck_assert_int_eq(ripc__record_encode(&msg.record, buf, (size_t)cap),
					 -EMSGSIZE);
	}
}
END_TEST

START_TEST(record__encode_rejects_invalid)
{
	struct ripc__resolver_msg msg;
	uint8_t buf[2048];

	fill(&msg, RIPC__RESOLVE_REPLY, 1);
	msg.record.addrs[0].len = RIPC__ADDRESS_MAX + 1;
	ck_assert_int_eq(ripc__record_encode(&msg.record, buf, sizeof(buf)), -EMSGSIZE);
	fill(&msg, RIPC__RESOLVE_REPLY, 1);
	msg.record.naddrs = RIPC__RECORD_ADDRS_MAX + 1;
	ck_assert_int_eq(ripc__record_encode(&msg.record, buf, sizeof(buf)), -EMSGSIZE);
}
END_TEST

START_TEST(record__is_compact)
{
	struct ripc__resolver_msg msg;
	uint8_t buf[RIPC__RECORD_BYTES_MAX];

	fill(&msg, RIPC__RESOLVE_REPLY, 1);
	msg.record.addrs[0].len = 24;
	ck_assert_int_eq(ripc__record_encode(&msg.record, buf, sizeof(buf)), 57 + 3 + 24);
}
END_TEST

/* The bytes themselves, so that a change of the format cannot pass for a round trip. */
START_TEST(msg__bytes)
{
	static const uint8_t expect[] = {
		'R',  'I',  'P', 'R', 1,    2,  1,  0, /* magic, version, REPLY, verdict */
		42,   0,    0,   0,   0,    0,  0,  0,  8,
		7,    6,    5,   4,   3,    2,  1, /* service, nonce */
		42,   0,    0,   0,   0,    0,  0,  0,  1,
		2,    3,    4,   5,   6,    7,  8, /* service, instance */
		9,    10,   11,  12,  13,   14, 15, 16, 0,
		0,    0,    0,   0,   0,    0,  0, /* host */
		0,    0,    0,   0,   0,    0,  0,  0,  1,
		0,    0,    0,   0,   0,    0,  0,         /* generation */
		0x60, 0xea, 0,   0,   0xe8, 3,  0,  0,  1, /* ttl, since, addresses */
		3,    4,    0,   127, 0,    0,  1,         /* transport, length, address */
	};
	struct ripc__resolver_msg msg = {.kind = RIPC__RESOLVE_REPLY,
					 .flags = RIPC__RESOLVE_VERDICT,
					 .service = 42,
					 .nonce = 0x0102030405060708};
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];

	msg.record = (struct ripc__record){
		.service = 42,
		.instance = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
		.generation = 1,
		.ttl_ms = 60000,
		.since_ms = 1000,
		.naddrs = 1,
		.addrs = {{.transport = 3, .len = 4, .addr = {127, 0, 0, 1}}}};
	ck_assert_int_eq(ripc__resolver_msg_encode(&msg, buf, sizeof(buf)), sizeof(expect));
	ck_assert_mem_eq(buf, expect, sizeof(expect));
}
END_TEST

START_TEST(msg__encode_and_decode)
{
	for (unsigned i = 0; i < 400; i++) {
		struct ripc__resolver_msg msg, back;
		uint8_t buf[RIPC__RESOLVER_MSG_MAX];
		const char *why;
		int len;

		fill(&msg, RIPC__RESOLVE_REQUEST + i % 4, i / 4 % (RIPC__RECORD_ADDRS_MAX + 1));
		memset(buf, 0xff, sizeof(buf));
		len = ripc__resolver_msg_encode(&msg, buf, sizeof(buf));
		ck_assert_int_gt(len, 0);
		memset(&back, 0, sizeof(back));
		ck_assert_int_eq(ripc__resolver_msg_decode(&back, buf, (size_t)len, &why), 0);
		ck_assert_mem_eq(&back, &msg, sizeof(back));
		for (int cap = 0; cap < len; cap++) {
			int rc = ripc__resolver_msg_encode(&msg, buf, (size_t)cap);

			ck_assert_int_eq(rc, -EMSGSIZE);
		}
	}
}
END_TEST

START_TEST(msg__largest_fits)
{
	struct ripc__resolver_msg msg;
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	int len;

	fill(&msg, RIPC__RESOLVE_REPLY, RIPC__RECORD_ADDRS_MAX);
	for (unsigned i = 0; i < RIPC__RECORD_ADDRS_MAX; i++)
		msg.record.addrs[i].len = RIPC__ADDRESS_MAX;
	len = ripc__resolver_msg_encode(&msg, buf, sizeof(buf));
	ck_assert_int_eq(len, HEADER + RIPC__RECORD_BYTES_MAX - 1 - RIPC__NAME_MAX);
	ck_assert_int_eq(decode(buf, (size_t)len), 0);
}
END_TEST

START_TEST(msg__every_truncation)
{
	struct ripc__resolver_msg msg;
	uint8_t buf[RIPC__RESOLVER_MSG_MAX + 1] = {0};

	for (unsigned naddrs = 0; naddrs <= RIPC__RECORD_ADDRS_MAX; naddrs++) {
		int len;

		fill(&msg, RIPC__RESOLVE_REQUEST, naddrs);
		len = ripc__resolver_msg_encode(&msg, buf, sizeof(buf));
		for (int cut = 0; cut < len; cut++)
			ck_assert_int_eq(decode(buf, (size_t)cut), -EPROTO);
		ck_assert_int_eq(decode(buf, (size_t)len), 0);
		ck_assert_int_eq(decode(buf, (size_t)len + 1), -EPROTO);
		ck_assert_int_eq(decode(buf, sizeof(buf)), -EPROTO);
	}
}
END_TEST

/* Every value of every byte: what is accepted must mean exactly these bytes. */
START_TEST(msg__every_mutation_of_a_byte)
{
	struct ripc__resolver_msg msg, back;
	uint8_t buf[RIPC__RESOLVER_MSG_MAX], again[RIPC__RESOLVER_MSG_MAX];
	const char *why;
	int len;
	int rc;

	fill(&msg, RIPC__RESOLVE_REQUEST + _i, 2);
	msg.record.addrs[0].len = 5;
	msg.record.addrs[1].len = 9;
	len = ripc__resolver_msg_encode(&msg, buf, sizeof(buf));
	for (int at = 0; at < len; at++) {
		uint8_t old = buf[at];

		for (unsigned v = 0; v < 256; v++) {
			buf[at] = (uint8_t)v;
			if (decode(buf, (size_t)len))
				continue;
			rc = ripc__resolver_msg_decode(&back, buf, (size_t)len, &why);
			ck_assert_int_eq(rc, 0);
			rc = ripc__resolver_msg_encode(&back, again, sizeof(again));
			ck_assert_int_eq(rc, len);
			ck_assert_mem_eq(again, buf, (size_t)len);
		}
		buf[at] = old;
	}
}
END_TEST

static uint8_t good[RIPC__RESOLVER_MSG_MAX];
static size_t good_len;

static void make_good(enum ripc__resolver_kind kind)
{
	struct ripc__resolver_msg msg;

	fill(&msg, kind, 2);
	msg.record.addrs[0].len = 4;
	msg.record.addrs[1].len = 4;
	good_len = (size_t)ripc__resolver_msg_encode(&msg, good, sizeof(good));
	ck_assert_int_eq(decode(good, good_len), 0);
}

START_TEST(decode__names_another_version)
{
	make_good(RIPC__RESOLVE_REQUEST);
	good[4] = 2;
	ck_assert_int_eq(decode(good, good_len), -EPROTONOSUPPORT);
	good[0] ^= 1;
	ck_assert_int_eq(decode(good, good_len), -EPROTO);
}
END_TEST

START_TEST(decode__refuses_header)
{
	static const struct {
		enum ripc__resolver_kind kind;
		int at;
		uint8_t value;
	} cases[] = {
		{RIPC__RESOLVE_REQUEST, 5, 0}, /* kind */
		{RIPC__RESOLVE_REQUEST, 5, 5},
		{RIPC__RESOLVE_REQUEST, 6, RIPC__RESOLVE_VERDICT}, /* flag of a reply */
		{RIPC__RESOLVE_REPLY, 6, 2},
		{RIPC__RESOLVE_REPLY, 7, 1}, /* reserved */
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make_good(cases[i].kind);
		good[cases[i].at] = cases[i].value;
		ck_assert_int_eq(decode(good, good_len), -EPROTO);
	}
}
END_TEST

START_TEST(decode__refuses_services)
{
	int rc;

	for (unsigned kind = RIPC__RESOLVE_REQUEST; kind <= RIPC__RESOLVE_GONE; kind++) {
		make_good(kind);
		memset(good + 8, 0, 8);
		ck_assert_int_eq(decode(good, good_len), -EPROTO);
		memset(good + 8, 0xff, 8);
		ck_assert_int_eq(decode(good, good_len), -EPROTO);
		make_good(kind);
		memset(good + HEADER, 0xff, 8);
		ck_assert_int_eq(decode(good, good_len), -EPROTO);
		/* Only a request is about another service than its record. */
		make_good(kind);
		good[HEADER] ^= 2;
		rc = decode(good, good_len);
		ck_assert_int_eq(rc, kind == RIPC__RESOLVE_REQUEST ? 0 : -EPROTO);
		make_good(kind);
		memset(good + 16, 0, 8);
		ck_assert_int_eq(
			decode(good, good_len),
			kind == RIPC__RESOLVE_REQUEST || kind == RIPC__RESOLVE_PROBE ? -EPROTO : 0);
	}
}
END_TEST

START_TEST(decode__refuses_record)
{
	make_good(RIPC__RESOLVE_REPLY);
	memset(good + HEADER + 8, 0, 16);
	ck_assert_int_eq(decode(good, good_len), -EPROTO); /* no instance */
	make_good(RIPC__RESOLVE_REPLY);
	good[NADDRS_AT] = RIPC__RECORD_ADDRS_MAX + 1;
	ck_assert_int_eq(decode(good, good_len), -EPROTO);
	make_good(RIPC__RESOLVE_REPLY);
	good[NADDRS_AT] = 1;
	ck_assert_int_eq(decode(good, good_len), -EPROTO); /* bytes left over */
	make_good(RIPC__RESOLVE_REPLY);
	good[ADDRS_AT] = good[ADDRS_AT + 7];
	ck_assert_int_eq(decode(good, good_len), -EPROTO); /* one transport twice */
	make_good(RIPC__RESOLVE_REPLY);
	ripc__put_le16(good + ADDRS_AT + 1, RIPC__ADDRESS_MAX + 1);
	ck_assert_int_eq(decode(good, sizeof(good)), -EPROTO); /* address too long */
	make_good(RIPC__RESOLVE_REPLY);
	ripc__put_le16(good + ADDRS_AT + 1, 12);
	ck_assert_int_eq(decode(good, good_len), -EPROTO); /* address beyond the end */
}
END_TEST

START_TEST(decode__random_bytes)
{
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];

	for (unsigned i = 0; i < 20000; i++) {
		size_t len = test_random(&rng) % sizeof(buf);

		make_good(RIPC__RESOLVE_REQUEST + i % 4);
		for (size_t k = 0; k < len; k++)
			buf[k] = (uint8_t)test_random(&rng);
		/* Half of them get past the header. */
		if (i & 1)
			memcpy(buf, good, len < HEADER ? len : HEADER);
		(void)decode(buf, len);
	}
}
END_TEST

/* --- names and lists --- */

static void set_name(struct ripc__record *record, const char *name)
{
	record->name_len = (uint8_t)strlen(name);
	strcpy(record->name, name);
}

START_TEST(name__encode_and_decode)
{
	struct ripc__resolver_msg msg, back;
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	char name[RIPC__NAME_MAX + 1];
	const char *why;
	int len;

	for (unsigned n = 1; n <= RIPC__NAME_MAX; n++) {
		fill(&msg, RIPC__RESOLVE_REPLY, n % 3);
		memset(name, 'n', n);
		name[n] = 0;
		set_name(&msg.record, name);
		len = ripc__resolver_msg_encode(&msg, buf, sizeof(buf));
		ck_assert_int_gt(len, 0);
		memset(&back, 0, sizeof(back));
		ck_assert_int_eq(ripc__resolver_msg_decode(&back, buf, (size_t)len, &why), 0);
		ck_assert_mem_eq(&back, &msg, sizeof(back));
		for (int cut = 0; cut < len; cut++)
			ck_assert_int_eq(decode(buf, (size_t)cut), -EPROTO);
		ck_assert_int_eq(decode(buf, (size_t)len + 1), -EPROTO);
	}
}
END_TEST

/* Bit 7 of the number of addresses, and behind them the length and the bytes of the name. */
START_TEST(name__bytes)
{
	struct ripc__resolver_msg msg;
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	int len;

	fill(&msg, RIPC__RESOLVE_REPLY, 1);
	msg.record.addrs[0].len = 4;
	set_name(&msg.record, "cam");
	len = ripc__resolver_msg_encode(&msg, buf, sizeof(buf));
	ck_assert_int_eq(len, ADDRS_AT + 3 + 4 + 1 + 3);
	ck_assert_uint_eq(buf[NADDRS_AT], 0x81);
	ck_assert_mem_eq(buf + len - 4, "\3cam", 4);
	buf[len - 4] = 0; /* no name behind the flag */
	ck_assert_int_eq(decode(buf, (size_t)len - 3), -EPROTO);
	buf[len - 4] = 4; /* beyond the end */
	ck_assert_int_eq(decode(buf, (size_t)len), -EPROTO);
	buf[len - 4] = 3;
	buf[len - 1] = 0; /* a NUL byte */
	ck_assert_int_eq(decode(buf, (size_t)len), -EPROTO);
	buf[len - 1] = 0xff; /* no UTF-8 */
	ck_assert_int_eq(decode(buf, (size_t)len), -EPROTO);
	buf[len - 1] = 'n';
	ck_assert_int_eq(decode(buf, (size_t)len), 0);
}
END_TEST

/* A page with three services, 42, 43 with a name, and 99. Return: its length. */
static int make_page(uint8_t *buf, uint8_t *entries)
{
	struct ripc__record listed[] = {
		{.service = 42, .generation = 1, .since_ms = 5},
		{.service = 43, .generation = 2, .name_len = 3, .name = "cam"},
		{.service = 99, .generation = 3, .since_ms = UINT32_MAX},
	};
	struct ripc__resolver_msg msg;

	fill(&msg, RIPC__RESOLVE_LISTED, 1);
	msg.service = 42;
	msg.record.service = 0;
	msg.record.addrs[0].len = 4;
	msg.flags = RIPC__RESOLVE_MORE;
	msg.listed = entries;
	for (unsigned i = 0; i < 3; i++)
		msg.listed_len +=
			(size_t)ripc__listed_encode(&listed[i], entries + msg.listed_len, 100);
	return ripc__resolver_msg_encode(&msg, buf, RIPC__RESOLVER_MSG_MAX);
}

START_TEST(listed__encode_and_decode)
{
	uint8_t buf[RIPC__RESOLVER_MSG_MAX], entries[300];
	const int first = ADDRS_AT + 3 + 4;
	struct ripc__resolver_msg msg;
	struct ripc__record listed;
	const char *why;
	int len = make_page(buf, entries);

	ck_assert_int_eq(len, first + 3 * 21 + 3);
	ck_assert_int_eq(ripc__resolver_msg_decode(&msg, buf, (size_t)len, &why), 0);
	ck_assert_uint_eq(msg.listed_len, 3 * 21 + 3);
	ck_assert_mem_eq(msg.listed, entries, msg.listed_len);
	for (int cap = first; cap <= len; cap++) {
		uint8_t again[RIPC__RESOLVER_MSG_MAX];

		ck_assert_int_eq(ripc__resolver_msg_encode(&msg, again, (size_t)cap),
				 cap < len ? -EMSGSIZE : len);
	}
	len = ripc__listed_decode(&listed, msg.listed + 21, msg.listed_len - 21, &why);
	ck_assert_int_eq(len, 24);
	len = make_page(buf, entries);
	ck_assert_uint_eq(listed.service, 43);
	ck_assert_uint_eq(listed.generation, 2);
	ck_assert_str_eq(listed.name, "cam");
	/* Cut between two services it is a shorter page; elsewhere it is none. */
	for (int cut = 0; cut < len; cut++)
		ck_assert_int_eq(decode(buf, (size_t)cut),
				 cut == first + 21 || cut == first + 45 ? 0 : -EPROTO);
	ck_assert_int_eq(decode(buf, (size_t)len + 1), -EPROTO);
	ck_assert_int_eq(ripc__listed_encode(&listed, entries, 23), -EMSGSIZE);
}
END_TEST

START_TEST(listed__refuses)
{
	uint8_t buf[RIPC__RESOLVER_MSG_MAX], entries[300];
	const int first = ADDRS_AT + 3 + 4;
	int len = make_page(buf, entries);

	buf[8] = 43; /* a service below the one asked for */
	ck_assert_int_eq(decode(buf, (size_t)len), -EPROTO);
	buf[8] = 41;
	ck_assert_int_eq(decode(buf, (size_t)len), 0);
	buf[first + 21] = 42; /* one service twice */
	ck_assert_int_eq(decode(buf, (size_t)len), -EPROTO);
	buf[first + 21] = 43;
	memset(buf + first + 45, 0xff, 8); /* no possible id */
	ck_assert_int_eq(decode(buf, (size_t)len), -EPROTO);
	make_page(buf, entries);
	buf[first + 21 + 22] = 0xff; /* a name that is not UTF-8 */
	ck_assert_int_eq(decode(buf, (size_t)len), -EPROTO);
	make_page(buf, entries);
	memset(buf + 16, 0, 8); /* no nonce */
	ck_assert_int_eq(decode(buf, (size_t)len), -EPROTO);
	make_page(buf, entries);
	buf[HEADER] = 1; /* a record of a service */
	ck_assert_int_eq(decode(buf, (size_t)len), -EPROTO);
	make_page(buf, entries);
	buf[6] = RIPC__RESOLVE_VERDICT; /* a flag of REPLY */
	ck_assert_int_eq(decode(buf, (size_t)len), -EPROTO);
	make_page(buf, entries);
	ck_assert_int_eq(decode(buf, (size_t)first), -EPROTO); /* more, behind an empty page */
	buf[6] = 0;
	ck_assert_int_eq(decode(buf, (size_t)first), 0);
	buf[5] = RIPC__RESOLVE_LIST; /* services in a question */
	ck_assert_int_eq(decode(buf, (size_t)len), -EPROTO);
	ck_assert_int_eq(decode(buf, (size_t)first), 0);
}
END_TEST

START_TEST(listed__every_mutation_of_a_byte)
{
	uint8_t buf[RIPC__RESOLVER_MSG_MAX], again[RIPC__RESOLVER_MSG_MAX], entries[300];
	struct ripc__resolver_msg msg;
	const char *why;
	int rc, len = make_page(buf, entries);

	for (int at = 0; at < len; at++) {
		uint8_t old = buf[at];

		for (unsigned v = 0; v < 256; v++) {
			buf[at] = (uint8_t)v;
			if (decode(buf, (size_t)len))
				continue;
			rc = ripc__resolver_msg_decode(&msg, buf, (size_t)len, &why);
			ck_assert_int_eq(rc, 0);
			rc = ripc__resolver_msg_encode(&msg, again, sizeof(again));
			ck_assert_int_eq(rc, len);
			ck_assert_mem_eq(again, buf, (size_t)len);
		}
		buf[at] = old;
	}
}
END_TEST

static void setup(void)
{
	rng = test_seed();
}

int main(void)
{
	Suite *suite = suite_create("wire/record");
	TCase *tc = tcase_create("record");

	test_seed();
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, record__encode_and_decode);
	tcase_add_test(tc, record__encode_rejects_invalid);
	tcase_add_test(tc, record__is_compact);
	tcase_add_test(tc, msg__bytes);
	tcase_add_test(tc, msg__encode_and_decode);
	tcase_add_test(tc, msg__largest_fits);
	tcase_add_test(tc, msg__every_truncation);
	tcase_add_loop_test(tc, msg__every_mutation_of_a_byte, 0, 4);
	tcase_add_test(tc, decode__names_another_version);
	tcase_add_test(tc, decode__refuses_header);
	tcase_add_test(tc, decode__refuses_services);
	tcase_add_test(tc, decode__refuses_record);
	tcase_add_test(tc, decode__random_bytes);
	tcase_add_test(tc, name__encode_and_decode);
	tcase_add_test(tc, name__bytes);
	tcase_add_test(tc, listed__encode_and_decode);
	tcase_add_test(tc, listed__refuses);
	tcase_add_test(tc, listed__every_mutation_of_a_byte);
	suite_add_tcase(suite, tc);
	return test_main("wire/record", suite);
}
