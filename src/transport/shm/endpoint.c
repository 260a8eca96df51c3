/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the core does with an endpoint: memory, posts, the end. And the back end of the engine. */
#define _GNU_SOURCE
#include "base/log.h"
#include "transport/ring/fast_path.h"
#include "transport/shm/shm.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define MINCORE_PAGES 4096u /* asked for at once */

/* ---- the back end ---- */

void ripc__shm_kick(void *arg)
{
	struct ripc__ep *ep = arg;
	ssize_t n;

	/* A full socket holds kicks enough; a closed one is noticed elsewhere. */
	n = send(ep->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)n;
}

int ripc__shm_peer_read(const struct ripc__ep *ep, void *to, uint64_t addr, size_t len)
{
	while (len) {
		struct iovec local = {to, len}, remote = {(void *)(uintptr_t)addr, len};
		ssize_t n = process_vm_readv(ep->pid, &local, 1, &remote, 1, 0);

		if (n <= 0)
			return n ? -errno : -EFAULT;
		to = (uint8_t *)to + n;
		addr += (size_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int shm_read(void *arg, void *to, uint64_t addr, size_t len)
{
	struct ripc__ep *ep = arg;
	int rc = ripc__shm_peer_read(ep, to, addr, len);
	char byte;

	if (rc)
		return rc;
	/* While its socket is open the peer lives, and its number is nobody else's. */
	if (recv(ep->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		return -ECONNRESET;
	return 0;
}

const struct ripc__ring_backend_ops ripc__shm_ops = {.kick = ripc__shm_kick, .read = shm_read};

/* ---- memory ---- */

/*
 * Whether all pages of our memory are there. A peer that reads it directly waits for those that
 * are not, in a system call that only SIGKILL ends: for the handler of a userfaultfd, a FUSE daemon
 * or a file server. It holds its context's lock meanwhile. So what is not there is served through
 * the ring: then our own thread touches it. For a mapped file that the process neither owns nor may
 * write, mincore() answers that all pages are there (Linux 5.2 and later); /proc/self/pagemap does
 * not, and takes 20 times as long.
 */
static bool resident(const void *base, size_t len)
{
	uintptr_t page = (uintptr_t)getpagesize(), at = (uintptr_t)base & ~(page - 1);
	uintptr_t end = (uintptr_t)base + len;
	unsigned char there[MINCORE_PAGES];

	while (at < end) {
		size_t n = (end - at + page - 1) / page;

		n = n < MINCORE_PAGES ? n : MINCORE_PAGES;
		if (mincore((void *)at, n * page, there))
			return false;
		for (size_t i = 0; i < n; i++)
			if (!(there[i] & 1))
				return false;
		at += n * page;
	}
	return true;
}

int ripc__shm_reg(struct ripc__transport *tr, struct ripc__ep *ep, void *base, size_t len,
		  unsigned access, struct ripc__mr *mr)
{
	struct ripc__ring_region *region = NULL;

	if (access & (RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE)) {
		if (!ep || ep->state != SHM_OPEN)
			return ripc__fail(-ENOTCONN, "%s: no connection to expose memory to",
					  tr ? ((struct shm *)tr)->base.ops->name : "");
		bool served = (access & (RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_RESIDENT)) ==
				      RIPC__ACCESS_REMOTE_READ &&
			      ep->ring.be.caps & RIPC__RING_CAP_READ && !resident(base, len);

		region = ripc__ring_reg(&ep->ring, base, len,
					access | (served ? RIPC__RING_ACCESS_SERVED : 0));
		if (!region)
			return ripc__fail(
				-ENOMEM, "%s: out of memory, or %u regions are exposed to one peer",
				ep->t->base.ops->name, RIPC__RING_REGIONS_MAX);
		region->next = ep->t->regions;
		region->at = &ep->t->regions;
		if (region->next)
			region->next->at = &region->next;
		ep->t->regions = region;
	}
	*mr = (struct ripc__mr){
		.base = base,
		.len = len,
		.addr = region ? region->addr : 0,
		.key = region ? region->key : 0,
		.access = access,
		.priv = region,
	};
	return 0;
}

void ripc__shm_dereg(struct ripc__transport *tr, struct ripc__mr *mr)
{
	struct ripc__ring_region *region = mr->priv;

	mr->priv = NULL;
	mr->key = 0;
	if (!region)
		return;
	*region->at = region->next;
	if (region->next)
		region->next->at = region->at;
	if (region->table)
		ripc__ring_dereg((struct ripc__ring *)(void *)((char *)region->table -
							       offsetof(struct ripc__ring, regions)),
				 region);
	else
		ripc__ring_region_remove(region);
}

/* ---- posts ---- */

/* Several items, a peer that was idle or is gone, a ring without room, or a simulated link. */
static int __attribute__((noinline)) post_slow(struct ripc__ep *ep, const void *head, size_t head_len,
					       const struct iovec *items, unsigned n, bool more)
{
	struct iovec all[1 + RIPC__POST_ITEMS_MAX];
	size_t len;
	int rc;

	if (ep->state != SHM_OPEN)
		return -ENOTCONN;
	ripc__shm_activate(ep);
	len = ripc__post_gather(all, head, head_len, items, n);
	rc = ripc__ring_send(&ep->ring, all, 1 + n, len, more);
	/* The simulated link moves when somebody makes progress. */
	return rc >= 0 && ep->t->simulated ? 1 : rc;
}

int ripc__shm_post(struct ripc__ep *ep, const void *head, size_t head_len,
		   const struct iovec *items, unsigned n, bool more)
{
	if (__builtin_expect(head_len != RIPC__POST_HEADER_LEN || n != 1 || ep->state != SHM_OPEN ||
				     ep->idle || !ripc__ring_fits_fast(&ep->ring, items->iov_len),
			     0))
		return post_slow(ep, head, head_len, items, n, more);
	ep->empty_polls = 0;
	return ripc__ring_send_fast(&ep->ring, head, items->iov_base, items->iov_len, more);
}

static bool local_range(const struct ripc__mr *mr, const void *local, size_t len)
{
	uintptr_t base = (uintptr_t)mr->base, at = (uintptr_t)local;

	return !len || (at >= base && at - base <= mr->len && len <= mr->len - (at - base));
}

int ripc__shm_post_write(struct ripc__ep *ep, const struct ripc__mr *mr, const void *local,
			 size_t len, uint64_t raddr, uint32_t rkey, uint64_t wr_id)
{
	if (ep->state != SHM_OPEN)
		return -ENOTCONN;
	if (!local_range(mr, local, len))
		return -EINVAL;
	ripc__shm_activate(ep);
	return ripc__ring_write(&ep->ring, local, len, raddr, rkey, wr_id);
}

int ripc__shm_post_read(struct ripc__ep *ep, const struct ripc__mr *mr, void *local, size_t len,
			uint64_t raddr, uint32_t rkey, uint64_t wr_id)
{
	if (ep->state != SHM_OPEN)
		return -ENOTCONN;
	if (!local_range(mr, local, len))
		return -EINVAL;
	ripc__shm_activate(ep);
	return ripc__ring_read(&ep->ring, local, len, raddr, rkey, wr_id);
}

void ripc__shm_ep_close(struct ripc__ep *ep)
{
	if (ep->state == SHM_OPEN) {
		ripc__ring_send_bye(&ep->ring);
		while (ep->t->simulated && ripc__sim_ntb_step(&ep->link, 1000))
			;
	}
	ripc__shm_defer_free(ep);
}
