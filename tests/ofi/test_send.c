/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sends to a peer that is a program on libripc. */
#include "ofi/address.h"
#include "ofi/wire.h"
#include "ripc.h"
#include "side.h"

#include <stdlib.h>

/* The unread contents at a service after which libripc leaves further ones at their sender. */
#define UNREAD_MAX (64 << 20)
#define SHORT      100000

static struct side a;
static struct ripc *ctx;
static struct ripc_service *main_service, *data;

static fi_addr_t insert_peer(struct side *s)
{
	uint8_t address[OFI_ADDRESS_LEN] = "ripc\1\0\0";
	fi_addr_t addr;

	ofi_put64(address + 8, ripc_service_id(main_service));
	ck_assert_int_eq(fi_av_insert(s->av, address, 1, &addr, 0, NULL), 1);
	return addr;
}

/* Contents are read by the peer: they are not mapped, and not in the message. */
static void begin(void)
{
	setenv("RIPC_TRANSPORTS", "iwarp/soft", 1);
	side_open(&a, NULL, FI_WAIT_NONE);
	ck_assert_int_eq(ripc_open(&ctx, NULL), 0);
	ck_assert_int_eq(ripc_service_register(ctx, RIPC_ANY_ID, 0, &main_service), 0);
	ck_assert_int_eq(ripc_service_register(ctx, RIPC_ANY_ID, 0, &data), 0);
}

static void end(void)
{
	unsetenv("RIPC_TRANSPORTS");
	side_close(&a);
	ripc_close(ctx);
}

/* The next envelope for the peer; s sends it. Return: the service that it is from. */
static uint64_t next_envelope(struct side *s, struct ofi_envelope *e)
{
	struct ripc_message *m;
	uint64_t source;

	AWAIT((side_progress(s), !ripc_receive(main_service, &m, 0)));
	ck_assert_uint_ne(ofi_envelope_get(m->items[0].iov_base, m->items[0].iov_len, e), 0);
	source = m->source;
	ripc_message_free(m);
	return source;
}

static void ask_for_contents(uint64_t dest, const struct ofi_envelope *rts, uint8_t mark)
{
	const struct ofi_envelope e = {
		.kind = OFI_CTS,
		.flags = OFI_F_TAGGED | OFI_F_LEN | OFI_F_ID,
		.mark = mark,
		.tag = ripc_service_id(main_service),
		.len = rts->len,
		.id = rts->id,
	};
	uint8_t bytes[OFI_ENVELOPE_MAX];
	struct iovec item = {bytes, ofi_envelope_put(bytes, &e)};

	ck_assert_int_eq(ripc_send_long(data, dest, &item, 1, NULL, TEST_PATIENCE_MS), 0);
}

/* Has more contents than it announces. */
static void send_something_wrong(uint64_t dest)
{
	const struct ofi_envelope e = {.kind = OFI_EAGER, .flags = OFI_F_LEN, .len = 1};
	const struct ripc_send_options reliable = {.size = sizeof(reliable),
						   .flags = RIPC_RELIABLE};
	uint8_t bytes[OFI_ENVELOPE_MAX + 2] = {0};
	struct iovec item = {bytes, ofi_envelope_put(bytes, &e) + 2};

	ck_assert_int_eq(ripc_send_short(main_service, dest, &item, 1, &reliable, -1), 0);
}

static unsigned queued(void)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	ck_assert_int_eq(ripc_service_stats(data, &stats), 0);
	return (unsigned)stats.queued;
}

/*
 * An endpoint gives up a peer that is alive, while contents for it are under way. Other endpoints
 * of the two processes keep their connection.
 */
START_TEST(contents_for_a_lost_peer__keep_the_lane)
{
	static const size_t lengths[] = {UNREAD_MAX + 1, SHORT};
	struct ripc_stats stats = {.size = sizeof(stats)};
	uint8_t *out = malloc(lengths[0]);
	struct ofi_envelope e;
	uint64_t source = 0;
	fi_addr_t to_peer;
	struct side other;

	ck_assert_ptr_nonnull(out);
	memset(out, 1, lengths[0]);
	to_peer = insert_peer(&a);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(fi_tsend(a.ep, out, lengths[i], NULL, to_peer, i, out + i), 0);
		source = next_envelope(&a, &e);
		ck_assert_int_eq(e.kind, OFI_RTS);
		ask_for_contents(source, &e, (uint8_t)i);
	}
	AWAIT((side_progress(&a), queued() == 1));
	ck_assert_ptr_eq(side_wait(&a, NULL).op_context, out);
	send_something_wrong(source);
	ck_assert_ptr_eq(side_wait_error(&a, NULL).op_context, out + 1);

	side_open(&other, &a, FI_WAIT_NONE);
	ck_assert_int_eq(fi_inject(other.ep, "x", 1, insert_peer(&other)), 0);
	while (next_envelope(&other, &e) == source)
		;
	ck_assert_int_eq(ripc_context_stats(ctx, &stats), 0);
	ck_assert_uint_eq(stats.lanes_lost, 0);
	ck_assert_uint_eq(stats.lanes_opened, 1);
	side_close(&other);
	free(out);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ofi/send");
	TCase *tc = tcase_create("send");

	tcase_add_checked_fixture(tc, begin, end);
	/* The peer may be fast enough by chance. */
	tcase_add_loop_test(tc, contents_for_a_lost_peer__keep_the_lane, 0, 5);
	suite_add_tcase(s, tc);
	return test_main("ofi/send", s);
}
