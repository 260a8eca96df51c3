/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fast_messages.h"

#include "wire/bytes.h"

struct rig rig;

void few_buffers(struct ripc__sim_config *config)
{
	config->recv_depth = 8;
}

void fast_start(void (*change)(struct ripc__sim_config *config), const char *options)
{
	rig_start_with(&rig, 2, change, options);
	rig_exchange(&rig, 0, 1);
	rig_exchange(&rig, 1, 0);
}

void fast_teardown(void)
{
	rig_end(&rig);
}

struct rx_message rx_message(struct ripc__lane *lane, size_t len)
{
	struct rx_message a = {.m = ripc__message_room(rig.ctx[0])};
	uint8_t *p;

	ck_assert_ptr_nonnull(a.m);
	a.bytes = p = ripc__message_buf(a.m);
	ripc__header_put(p, RIPC__SHORT, lane ? 0 : RIPC__F_INSTANCE, 1, 0, RIG_ID(0), RIG_ID(1));
	if (lane) {
		ripc__header_stamp(p, lane->rx_seq, 0);
	} else {
		ripc__number_stamp(p, rig_peer(&rig, 0, 1)->lists->datagrams->received.run[0].last +
					      1);
		memcpy(p + RIPC__HEADER_LEN, rig_instance(&rig, 1), 16);
		p += 16;
	}
	ripc__put_le32(p + RIPC__HEADER_LEN, (uint32_t)len);
	rig_fill(p + RIPC__FAST_HEADER_LEN, len, len);
	a.ev = (struct ripc__event){
		.kind = lane ? RIPC__EV_RECV : RIPC__EV_DATAGRAM,
		.user = lane,
		.data = a.bytes,
		.len = (uint32_t)(p - a.bytes + RIPC__FAST_HEADER_LEN + len),
	};
	return a;
}

struct ripc__message *try_receive(const struct rx_message *a)
{
	enum ripc__fast fast =
		ripc__fast_receive(rig.ctx[0], rig.s[0], rig_lane(&rig, 0, 1)->tp, a->m, &a->ev);

	ck_assert_int_ne(fast, RIPC__FAST_DONE);
	return fast == RIPC__FAST_MESSAGE ? a->m : NULL;
}

void check_message(struct ripc__message *m, size_t len)
{
	ck_assert_ptr_nonnull(m);
	ck_assert_ptr_ne(rig.ctx[0]->message_cache, m);
	ck_assert_uint_eq(m->pub.source, RIG_ID(1));
	ck_assert_uint_eq(m->pub.dest, RIG_ID(0));
	ck_assert_mem_eq(m->pub.instance, rig_instance(&rig, 1), 16);
	ck_assert_uint_eq(m->pub.nitems, 1);
	ck_assert_uint_eq(m->pub.items[0].iov_len, len);
	rig_verify(m->pub.items[0].iov_base, len, len);
	ck_assert_int_eq(m->pub.placement[0], RIPC_IN_RECEIVE_BUFFER);
}

void received(struct ripc__message *m, size_t len)
{
	check_message(m, len);
	ck_assert_uint_eq((uintptr_t)m->pub.items[0].iov_base % 16, 0);
	ripc_message_free(&m->pub);
}

void refused(const struct rx_message *a)
{
	uint32_t seq = rig_lane(&rig, 0, 1)->rx_seq;

	ck_assert_ptr_null(try_receive(a));
	ck_assert_ptr_eq(rig.ctx[0]->message_cache, a->m);
	ck_assert_uint_eq(rig_lane(&rig, 0, 1)->rx_seq, seq);
}
