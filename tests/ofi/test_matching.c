/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Matching of receives and messages: order, wildcards, claims, and a comparison with a model. */
#include "harness.h"
#include "ofi/matching.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES 64

static struct ofi_matching m;
static struct ofi_posted posted[ENTRIES];
static struct ofi_arrived arrived[ENTRIES];

static struct ofi_posted *receive(unsigned i, uint64_t source, uint64_t tag, uint64_t ignore)
{
	posted[i] = (struct ofi_posted){
		.source = source, .tag = tag, .ignore = ignore, .context = &posted[i]};
	return &posted[i];
}

static struct ofi_arrived *message(unsigned i, uint64_t source, uint64_t tag)
{
	arrived[i] = (struct ofi_arrived){.source = source, .tag = tag};
	return &arrived[i];
}

/* A message arrives that nothing takes. */
static void keep(struct ofi_arrived *a)
{
	ck_assert_ptr_null(ofi_matching_find(&m, a));
	ofi_matching_keep(&m, a);
}

START_TEST(receives__in_order_of_posting)
{
	ck_assert_ptr_null(ofi_matching_post(&m, receive(0, 0, 1, 0)));
	ck_assert_ptr_null(ofi_matching_post(&m, receive(1, 0, 1, 0)));
	ck_assert_ptr_null(ofi_matching_post(&m, receive(2, 7, 0, UINT64_MAX)));
	ck_assert_ptr_eq(ofi_matching_find(&m, message(0, 7, 1)), &posted[0]);
	ck_assert_ptr_eq(ofi_matching_find(&m, message(1, 7, 1)), &posted[1]);
	ck_assert_ptr_eq(ofi_matching_find(&m, message(2, 7, 1)), &posted[2]);
	ck_assert_ptr_null(ofi_matching_find(&m, message(3, 7, 1)));
}
END_TEST

START_TEST(messages__in_order_of_arrival)
{
	keep(message(0, 5, 10));
	keep(message(1, 6, 10));
	keep(message(2, 5, 11));
	ck_assert_ptr_eq(ofi_matching_post(&m, receive(0, 6, 10, 0)), &arrived[1]);
	ck_assert_ptr_eq(ofi_matching_post(&m, receive(1, 0, 10, 1)), &arrived[0]);
	ck_assert_ptr_eq(ofi_matching_post(&m, receive(2, 0, 10, 1)), &arrived[2]);
	ck_assert_ptr_null(ofi_matching_post(&m, receive(3, 0, 10, 1)));
}
END_TEST

START_TEST(source_and_tag__both_count)
{
	ck_assert_ptr_null(ofi_matching_post(&m, receive(0, 3, 8, 0)));
	ck_assert_ptr_null(ofi_matching_find(&m, message(0, 4, 8)));
	ck_assert_ptr_null(ofi_matching_find(&m, message(1, 3, 9)));
	ck_assert_ptr_eq(ofi_matching_find(&m, message(2, 3, 8)), &posted[0]);
}
END_TEST

START_TEST(claim__takes_a_message_out_of_matching)
{
	int context, other;

	keep(message(0, 1, 4));
	keep(message(1, 1, 4));
	ck_assert_ptr_eq(ofi_matching_peek(&m, 0, 4, 0), &arrived[0]);
	ofi_matching_claim(&m, &arrived[0], &context);
	ck_assert_ptr_eq(ofi_matching_peek(&m, 0, 4, 0), &arrived[1]);
	ck_assert_ptr_null(ofi_matching_take_claimed(&m, &other));
	ck_assert_ptr_eq(ofi_matching_take_claimed(&m, &context), &arrived[0]);
	ck_assert_ptr_null(ofi_matching_take_claimed(&m, &context));
	ofi_matching_remove(&m, &arrived[1]);
	ck_assert_ptr_null(ofi_matching_peek(&m, 0, 4, 0));
}
END_TEST

START_TEST(cancel__withdraws_the_earliest)
{
	ofi_matching_post(&m, receive(0, 0, 1, 0));
	ofi_matching_post(&m, receive(1, 0, 1, 0));
	posted[1].context = posted[0].context;
	ck_assert_ptr_eq(ofi_matching_cancel(&m, posted[0].context), &posted[0]);
	ck_assert_ptr_eq(ofi_matching_find(&m, message(0, 9, 1)), &posted[1]);
	ck_assert_ptr_null(ofi_matching_cancel(&m, posted[0].context));
}
END_TEST

/* The model: entries with the number of their turn; 0: in no list. */
START_TEST(random_sequences__as_the_model)
{
	uint64_t random = test_seed();
	unsigned long post_turn[ENTRIES] = {0}, arrive_turn[ENTRIES] = {0};

	for (unsigned long turn = 1; turn < 200000; turn++) {
		uint64_t r = test_random(&random);
		unsigned i = r % ENTRIES, best = ENTRIES;
		uint64_t source = r >> 8 & 3, tag = r >> 16 & 7;

		if (r >> 32 & 1) {
			if (post_turn[i])
				continue;
			receive(i, source, tag, r >> 40 & 7);
			for (unsigned k = 0; k < ENTRIES; k++)
				if (arrive_turn[k] && (!source || source == arrived[k].source) &&
				    !((tag ^ arrived[k].tag) & ~posted[i].ignore) &&
				    (best == ENTRIES || arrive_turn[k] < arrive_turn[best]))
					best = k;
			ck_assert_ptr_eq(ofi_matching_post(&m, &posted[i]),
					 best == ENTRIES ? NULL : &arrived[best]);
			if (best == ENTRIES)
				post_turn[i] = turn;
			else
				arrive_turn[best] = 0;
		} else {
			if (arrive_turn[i])
				continue;
			message(i, source + 1, tag);
			for (unsigned k = 0; k < ENTRIES; k++)
				if (post_turn[k] &&
				    (!posted[k].source || posted[k].source == source + 1) &&
				    !((tag ^ posted[k].tag) & ~posted[k].ignore) &&
				    (best == ENTRIES || post_turn[k] < post_turn[best]))
					best = k;
			if (best != ENTRIES) {
				ck_assert_ptr_eq(ofi_matching_find(&m, &arrived[i]), &posted[best]);
				post_turn[best] = 0;
			} else {
				keep(&arrived[i]);
				arrive_turn[i] = turn;
			}
		}
	}
}
END_TEST

static void begin(void)
{
	memset(&m, 0, sizeof(m));
}

int main(void)
{
	Suite *s = suite_create("ofi/matching");
	TCase *tc = tcase_create("matching");

	tcase_add_checked_fixture(tc, begin, NULL);
	tcase_add_test(tc, receives__in_order_of_posting);
	tcase_add_test(tc, messages__in_order_of_arrival);
	tcase_add_test(tc, source_and_tag__both_count);
	tcase_add_test(tc, claim__takes_a_message_out_of_matching);
	tcase_add_test(tc, cancel__withdraws_the_earliest);
	tcase_add_test(tc, random_sequences__as_the_model);
	suite_add_tcase(s, tc);
	return test_main("ofi/matching", s);
}
