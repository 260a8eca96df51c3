/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "groups.h"
#include "wire/bytes.h"

bool hostile;

void join(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		OK(ripc_group_join(rig.s[i], GROUP, 10000));
	rig_run(&rig, 100);
}

struct ripc__group *group(unsigned i)
{
	return ripc__group_find(rig.ctx[i], GROUP);
}

struct ripc_group_stats stats(unsigned i)
{
	struct ripc_group_stats s = {.size = sizeof(s)};

	OK(ripc_group_stats(rig.ctx[i], GROUP, NULL, &s));
	return s;
}

void expect_member_count(unsigned from, unsigned to, unsigned want)
{
	for (unsigned i = from; i < to; i++)
		ck_assert_uint_eq(stats(i).members, want);
}

unsigned coordinators(unsigned from, unsigned to)
{
	unsigned n = 0;

	for (unsigned i = from; i < to; i++)
		n += group(i)->state == RIPC__GROUP_COORDINATING;
	return n;
}

void send_all(unsigned from, unsigned first, unsigned last)
{
	uint8_t data[40];

	rig_fill(data, sizeof(data), 9);
	OK(ripc_group_send(rig.s[from], GROUP, &(struct iovec){data, sizeof(data)}, 1, NULL, 5000));
	for (unsigned i = first; i < last; i++)
		rig_expect(&rig, i, sizeof(data), 9);
}

void inject(unsigned from, unsigned to, unsigned kind, uint64_t a, uint64_t b, const uint8_t *tail,
	    size_t len)
{
	uint8_t buf[2000], *p = ripc__header_put(buf, (uint8_t)kind, 0, kind == RIPC__GROUP, 0,
						 GROUP, RIG_ID(from));

	ripc__put_le64(p, a);
	p += 8;
	if (kind == RIPC__GROUP) {
		ripc__put_le32(p, (uint32_t)len);
		p += 4;
	} else if (kind != RIPC__MCAST_ACK) {
		ripc__put_le64(p, b);
		p += 8;
	}
	if (len)
		memcpy(p, tail, len);
	rig_inject(&rig, from, to, buf, (size_t)(p - buf) + len, 0);
	rig_run(&rig, 50);
}

void groups_teardown(void)
{
	for (unsigned i = 0; i < rig.n; i++)
		if (rig.ctx[i] && !hostile)
			ck_assert_uint_eq(rig_stats(&rig, i).bad_messages, 0);
	rig_end(&rig);
}
