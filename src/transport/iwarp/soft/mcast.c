/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Multicast to groups, as events. */
#include "base/log.h"
#include "transport/iwarp/soft/soft.h"

#include <errno.h>

/* Opens the sockets on first use. A failure is final: lanes carry all messages then. */
static int ready(struct ripc__transport *t)
{
	int rc;

	if (t->mcast.n)
		return 0;
	if (!t->multicast)
		return ripc__fail(-EOPNOTSUPP,
				  "iwarp/soft: multicast is off after an earlier failure");
	rc = ripc__mcast_open(&t->mcast);
	for (unsigned i = 0; !rc && i < RIPC__MCAST_FAMILIES; i++)
		if (t->mcast.rx_fd[i] >= 0)
			rc = ripc__soft_watch(t, t->mcast.rx_fd[i], soft_source(SOFT_MCAST, i));
	if (rc) {
		ripc__mcast_fini(&t->mcast);
		t->multicast = false;
	}
	return rc;
}

int ripc__soft_group_join(struct ripc__transport *t, uint64_t group)
{
	int rc = ready(t);

	return rc ? rc : ripc__mcast_join(&t->mcast, group);
}

void ripc__soft_group_leave(struct ripc__transport *t, uint64_t group)
{
	ripc__mcast_leave(&t->mcast, group);
}

int ripc__soft_post_group(struct ripc__transport *t, uint64_t group, const struct iovec *iov,
			  unsigned niov)
{
	int rc = ready(t);

	return rc ? rc : ripc__mcast_send(&t->mcast, group, iov, niov);
}

unsigned ripc__soft_groups(struct ripc__transport *t, int fd, struct ripc__event *events,
			   unsigned max)
{
	unsigned n = 0;

	for (unsigned tries = 0; n < max && tries < RIPC__UDP_EVENTS_MAX; tries++) {
		uint8_t *space;
		int got;

		if (!ripc__slab_reserve(&t->pool, RIPC__MCAST_MAX, &space))
			break;
		got = ripc__mcast_receive(&t->mcast, fd, space);
		if (got == -EMSGSIZE)
			continue;
		if (got < 0)
			break;
		events[n++] = (struct ripc__event){
			.kind = RIPC__EV_DATAGRAM,
			.data = space,
			.len = (uint32_t)got,
			.token = t->pool.current,
		};
		t->pool.current->refs++;
		ripc__slab_use(&t->pool, got ? (size_t)got : 1);
	}
	return n;
}
