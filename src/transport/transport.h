/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The contract between the core and a transport.
 *
 * A transport moves bytes and never interprets messages. The core drives it under its context's
 * lock: no two entries of one transport object run at once, none may block, none calls back into
 * the core. What happens is reported as events from progress(). Entries return 0 or a negative
 * errno, and explain an error with ripc__fail() (core/log.h).
 *
 * Life cycle: probe, open, { everything else }, close. An endpoint (`ep`) is one end of a
 * connection:
 *
 *   active:  connect() -> EV_ESTABLISHED(user, private data of the accepting side) or EV_CLOSED
 *   passive: EV_REQUEST(request, private data) -> accept() -> EV_ESTABLISHED, or EV_CLOSED
 *                                              -> reject(private data): the active side sees
 *                                                 EV_CLOSED with reject set and that private data
 *   later:   EV_CLOSED once, when the connection is lost or the peer closed it; the ep stays
 *            allocated, and every post on it fails, until the core calls ep_close(), which it must.
 *
 * Sends and writes may be posted only after EV_ESTABLISHED. On a connection, sends arrive in order
 * and exactly once while it lives; a send posted after a write arrives after the write's bytes
 * stand in the target. Work that is outstanding when EV_CLOSED is reported will report nothing
 * more.
 */
#ifndef RIPC_TRANSPORT_H
#define RIPC_TRANSPORT_H

#include "base/options.h"
#include "wire/address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

/* Capability bits: the core chooses by these, never by name. */
enum ripc__cap {
	RIPC__CAP_CONNECTED = 1 << 0, /* connect, accept, post */
	RIPC__CAP_DATAGRAM = 1 << 1,  /* post_datagram: unordered, lossy */
	RIPC__CAP_READ = 1 << 2,      /* post_read */
	RIPC__CAP_WRITE = 1 << 3,     /* post_write */
	RIPC__CAP_INLINE = 1 << 4,    /* sends up to inline_max cost no copy */
	RIPC__CAP_MULTICAST = 1 << 5, /* group_join, group_leave, post_group */
	/* reads and writes need the passive side to call progress() */
	RIPC__CAP_TARGET_PROGRESS = 1 << 6,
	RIPC__CAP_CHEAP_REG = 1 << 7, /* registration costs less than a microsecond: per transfer */
	RIPC__CAP_SAME_HOST = 1 << 8, /* reaches peers of the same host only */
	RIPC__CAP_SELF = 1 << 9,      /* reaches nobody but the context itself: in no record */
	/* export_fd(): memory objects can be given to the peer, which maps them */
	RIPC__CAP_EXPORT = 1 << 10,
	RIPC__CAP_SINK_WRITABLE =
		1 << 11, /* memory registered as the target of reads can be written by the peer */
	/* fewer bytes cost less: a header of 4 bytes beats one of 36 */
	RIPC__CAP_ELIDE_HEADER = 1 << 12,
};

/* Access rights of a registration; ask for the narrowest set. */
enum ripc__access {
	RIPC__ACCESS_LOCAL_WRITE = 1 << 0,  /* target of our own reads */
	RIPC__ACCESS_REMOTE_READ = 1 << 1,  /* peers may read it */
	RIPC__ACCESS_REMOTE_WRITE = 1 << 2, /* peers may write it */
	RIPC__ACCESS_RESIDENT = 1 << 3, /* no right: it is the pool's, and its pages are there */
};

#define RIPC__PRIVATE_MAX     192 /* bytes of private data a connection set-up carries at most */
#define RIPC__POST_HEADER_LEN 36  /* the most frequent length of the head given to post() */
#define RIPC__POST_ITEMS_MAX  64  /* items that one post() has at most */

struct ripc__transport; /* an open transport; each starts with struct ripc__transport_base */
struct ripc__ep;        /* an endpoint; opaque for the core */

/* Memory known to a transport. Filled by reg(). */
struct ripc__mr {
	void *base;      /* as registered */
	size_t len;      /* bytes */
	uint64_t addr;   /* what a peer gives as remote address to mean base */
	uint32_t key;    /* what a peer gives as remote key (rkey, STag); 0 if no remote access */
	unsigned access; /* of enum ripc__access */
	void *priv;      /* the transport's own */
};

/* Whether [local, local + len) lies within the region. */
static inline bool ripc__mr_covers(const struct ripc__mr *mr, const void *local, size_t len)
{
	uintptr_t base = (uintptr_t)mr->base, at = (uintptr_t)local;

	return !len || (at >= base && at - base <= mr->len && len <= mr->len - (at - base));
}

/* Sizes and depths; constant while the transport is open. */
struct ripc__transport_limits {
	unsigned caps; /* of enum ripc__cap */
	/* largest send in bytes, >= 2048 (RIPC__MSG_MIN_MAX); 0 without CONNECTED */
	uint32_t send_max;
	uint32_t datagram_max; /* largest datagram in bytes; 0 without DATAGRAM */
	uint32_t inline_max;   /* largest send that costs no copy; 0: none */
	/*
	 * sends that a peer may have in flight to one of our endpoints, >= 3; 0: the transport
	 * buffers and needs no credits
	 */
	uint32_t recv_depth;
	uint32_t read_depth; /* reads that may be outstanding on one endpoint, >= 1 with READ */
	uint64_t rdma_max;   /* largest single read or write in bytes */
	/* short messages go by post_datagram() where the peer has an address for it */
	bool eager_datagram;
};

enum ripc__ev_kind {
	RIPC__EV_NONE = 0,
	/* request, data/len = private data, text = who, source: accept() or reject() it */
	RIPC__EV_REQUEST,
	/* user, ep; active side: data/len = private data of the accepting side */
	RIPC__EV_ESTABLISHED,
	/* user, ep, status < 0 why; reject: data/len = the rejecting private data */
	RIPC__EV_CLOSED,
	RIPC__EV_RECV, /* user, ep, data/len, token: a send of the peer arrived */
	/* data/len, token; from/fromlen: address to answer to with post_datagram() */
	RIPC__EV_DATAGRAM,
	/* user, ep, wr_id, status: the source memory is ours again (not: arrived) */
	RIPC__EV_WRITE_DONE,
	RIPC__EV_READ_DONE, /* user, ep, wr_id, status: the bytes stand in the local memory */
	/*
	 * user, ep, data/size: a buffer of the peer's, mapped for reading; munmap() is the core's.
	 * wr_id: its number
	 */
	RIPC__EV_IMPORTED,
	RIPC__EV_SENDABLE, /* user, ep: after a post had returned -EAGAIN, posting works again */
	RIPC__EV_ADDRESS,  /* what address() says has changed */
	/*
	 * Descriptors run low: the core closes idle lanes. status: 0 a reserve is left
	 * (base/admission.h), or -EMFILE or the like: there are none.
	 */
	RIPC__EV_FD_LOW,
	/* text = who and why: input that is not of this protocol was dropped/closed */
	RIPC__EV_BAD_INPUT,
};

/*
 * One event. data, from and text point into the transport's memory: private data, from and text
 * until the next progress(); the data of RECV and DATAGRAM until release(token), if token is not
 * NULL, else until the next progress().
 */
struct ripc__event {
	enum ripc__ev_kind kind;
	int status;  /* 0 or a negative errno */
	bool reject; /* EV_CLOSED: the peer rejected us, data is its private data */
	void *user;  /* what the core gave to connect() or accept() */
	struct ripc__ep *ep;
	void *request; /* EV_REQUEST: handle for accept() or reject() */
	const uint8_t *data;
	uint32_t len;     /* bytes at data */
	uint32_t fromlen; /* bytes at from */
	const void *from;
	void *token;    /* for release(); NULL: nothing to release */
	uint64_t wr_id; /* as posted */
	uint64_t size;  /* EV_IMPORTED: bytes at data */
	/* EV_REQUEST: equal for requests of one address, process or port; 0: not known */
	uint64_t source;
	const char *text;
};

/* What a transport may use of the context that opens it. Valid until close(). */
struct ripc__transport_env {
	const struct ripc__options *opt;
	const uint8_t *instance;       /* 16 bytes, the context's instance id */
	void *arg;                     /* simulation: the simulated network; otherwise NULL */
	const struct ripc__auth *auth; /* the cluster's keys, or NULL: for ripc__auth_queue_key() */
};

struct ripc__transport_ops {
	const char *name; /* as in RIPC_TRANSPORTS, e.g. "iwarp/soft" */
	/* number in resolver records, see doc/protocol.md; never used again for another */
	uint8_t id;
	/*
	 * Numbers of other transports whose addresses connect() and describe() understand, ended by
	 * 0: what they speak on the wire is the same (iWARP by an adapter and in user space).
	 */
	uint8_t compat_ids[3];

	/*
	 * Whether open() has a chance: 0, or a negative errno with one sentence in why. Opens
	 * nothing that stays.
	 */
	int (*probe)(const struct ripc__transport_env *env, char *why, size_t whylen);

	/* Opens devices, listens. Errors: -ENODEV, -ENOMEM, -EMFILE, ... explained by ripc__fail(). */
	int (*open)(struct ripc__transport **t, const struct ripc__transport_env *env);

	/* Ends everything; all endpoints and registrations are gone. Never fails. */
	void (*close)(struct ripc__transport *t);

	void (*limits)(struct ripc__transport *t, struct ripc__transport_limits *limits);

	/*
	 * Our address for resolver records. Return: bytes written at buf (cap >=
	 * RIPC__ADDRESS_MAX), or < 0.
	 */
	int (*address)(struct ripc__transport *t, uint8_t *buf, size_t cap);

	/* The text of an address, for people. Any bytes: they may come from the network. */
	void (*describe)(const uint8_t *addr, size_t len, char *text, size_t textlen);

	/*
	 * Registers memory, for use on the endpoint ep: transfers posted there and, with remote
	 * access, its peer. ep NULL: local access, on any endpoint of the transport. (A transport
	 * may drive several devices, and a key is one device's.) May fail with -ENOMEM, -EPERM
	 * (memlock), and with ep -ENOTCONN. mr stays the caller's, and in place, until dereg(),
	 * which must come whether or not ep still exists.
	 */
	int (*reg)(struct ripc__transport *t, struct ripc__ep *ep, void *base, size_t len,
		   unsigned access, struct ripc__mr *mr);

	/* Ends remote access at once: when it returns no peer and no device touches the memory. */
	void (*dereg)(struct ripc__transport *t, struct ripc__mr *mr);

	/*
	 * Starts to connect to an address from a resolver record (bytes from the network:
	 * validate). EV_CLOSED with
	 * -ECONNREFUSED says that nobody listens wherever the peer may be: it is dead. Any other
	 * status says nothing of that.
	 */
	int (*connect)(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
		       const void *priv, size_t privlen, void *user, struct ripc__ep **ep);

	/* Answers EV_REQUEST; the handle is used up, also on error. */
	int (*accept)(struct ripc__transport *t, void *request, const void *priv, size_t privlen,
		      void *user, struct ripc__ep **ep);
	/*
	 * reject() with no private data: whoever asks is a stranger, and gets no answer if the
	 * network allows that.
	 */
	void (*reject)(struct ripc__transport *t, void *request, const void *priv, size_t privlen);

	/*
	 * Drops the endpoint. What was posted and already handed to the network may still arrive;
	 * sends held back are pushed first as far as that is possible without waiting. No event
	 * names it afterwards, no local memory posted on it is touched any more. Valid at any stage
	 * after connect()/accept().
	 */
	void (*ep_close)(struct ripc__ep *ep);

	/*
	 * Sends one message: head_len bytes at head (it may be 0), then n items (at most
	 * RIPC__POST_ITEMS_MAX). All of that memory is the caller's again on return: the bytes were
	 * sent or copied. With more set, or under load, the transport may hold the message back
	 * until flush(), progress() or a later post(). Return: 0 sent; 1 held back: somebody must
	 * call progress() within 1 ms or so; 2 sent, but the peer may sleep and not know of it:
	 * progress() or flush() within some milliseconds;
	 * -EAGAIN not sent, the queue is full: EV_SENDABLE will come;
	 * -EMSGSIZE longer than send_max; -ENOTCONN the endpoint is not established or has ended.
	 */
	int (*post)(struct ripc__ep *ep, const void *head, size_t head_len,
		    const struct iovec *items, unsigned n, bool more);

	/*
	 * Writes local memory to the peer's, or reads the peer's into local memory. The local range
	 * lies within mr. The memory belongs to the transport until WRITE_DONE/READ_DONE, EV_CLOSED
	 * or ep_close(). A read beyond read_depth or a full queue returns -EAGAIN, and EV_SENDABLE
	 * will come. -ENOTCONN or -ENODEV: the endpoint's end is on its way. Any other error: this
	 * one cannot be.
	 */
	int (*post_write)(struct ripc__ep *ep, const struct ripc__mr *mr, const void *local,
			  size_t len, uint64_t raddr, uint32_t rkey, uint64_t wr_id);
	int (*post_read)(struct ripc__ep *ep, const struct ripc__mr *mr, void *local, size_t len,
			 uint64_t raddr, uint32_t rkey, uint64_t wr_id);

	/*
	 * Sends one datagram to an address from a record or from EV_DATAGRAM. Memory as post().
	 * -EAGAIN: not sent, queue full or the way there is still being looked for: again in a
	 * millisecond. -EHOSTUNREACH: this peer takes no datagrams.
	 */
	int (*post_datagram)(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			     const struct iovec *iov, unsigned niov);

	/*
	 * With MULTICAST: hears, as EV_DATAGRAM, what anybody sends to the group; no more. Several
	 * groups may share what tells them apart on the network: what was not asked for may come as
	 * well. Errors are explained by ripc__fail().
	 */
	int (*group_join)(struct ripc__transport *t, uint64_t group);
	void (*group_leave)(struct ripc__transport *t, uint64_t group);

	/*
	 * Sends one datagram to all who hear the group; to ourselves, perhaps. Memory as post().
	 * -EAGAIN, -EMSGSIZE: not sent.
	 */
	int (*post_group)(struct ripc__transport *t, uint64_t group, const struct iovec *iov,
			  unsigned niov);

	/*
	 * With EXPORT: gives the peer a memory object, its first len bytes, under a number. The
	 * descriptor stays the caller's. The peer checks that nobody can make it smaller or write
	 * to it, and maps it: EV_IMPORTED there. What it does not want it drops without a word.
	 * -EAGAIN: not now; -EMSGSIZE.
	 */
	int (*export_fd)(struct ripc__ep *ep, int fd, size_t len, uint32_t number);

	/* Pushes what sends held back. */
	void (*flush)(struct ripc__transport *t);

	/*
	 * Moves data and reports at most max events. *deadline is lowered to the time (ns,
	 * monotonic) by which the transport wants progress() again even if its descriptor stays
	 * silent. Return: number of events; equal to max: call again.
	 */
	unsigned (*progress)(struct ripc__transport *t, struct ripc__event *events, unsigned max,
			     uint64_t now_ns, uint64_t *deadline_ns);

	/*
	 * Optional: one event of the endpoint, socket or queue that brought something last, or of
	 * one of a few beside it. A shorter way for between two calls of progress(), not instead of
	 * them: it looks at little, and what it leaves is for progress(). What it brings may lie in
	 * the caller's room, cap bytes, with no token; what it says without a token elsewhere is
	 * valid until the next poll_one() or progress(). Return: whether there is an event.
	 */
	bool (*poll_one)(struct ripc__transport *t, void *room, size_t cap, struct ripc__event *ev);

	/*
	 * Bytes that have come from the peer, or were acknowledged by it, so far. Optional: NULL
	 * where the transport cannot tell. Asked a few times a second at most, and only while the
	 * peer reports nothing.
	 */
	uint64_t (*bytes_transferred)(struct ripc__ep *ep);

	/* Gives the memory of a RECV or DATAGRAM event back. */
	void (*release)(struct ripc__transport *t, void *token);

	/*
	 * Prepares to sleep on fd(); what was held back is sent. Return: 0, or 1 if something is
	 * already there: call progress() first.
	 */
	int (*arm)(struct ripc__transport *t);

	/* Readable when progress() has something to do, once armed. Constant. Only for poll/epoll. */
	int (*fd)(struct ripc__transport *t);

	/* In the child of fork(): close descriptors, touch nothing else (async-signal-safe). */
	void (*forked)(struct ripc__transport *t);
};

/* Puts head before the items. all: room for 1 + n. Return: their bytes in all. */
static inline size_t ripc__post_gather(struct iovec *all, const void *head, size_t head_len,
				       const struct iovec *items, unsigned n)
{
	size_t len = head_len;

	all[0] = (struct iovec){(void *)head, head_len};
	for (unsigned i = 0; i < n; i++) {
		all[1 + i] = items[i];
		len += items[i].iov_len;
	}
	return len;
}

/* Copies head and items, one behind the other. Return: where they end. */
static inline uint8_t *ripc__post_copy(uint8_t *to, const void *head, size_t head_len,
				       const struct iovec *items, unsigned n)
{
	if (head_len)
		memcpy(to, head, head_len);
	to += head_len;
	for (unsigned i = 0; i < n; i++) {
		if (items[i].iov_len)
			memcpy(to, items[i].iov_base, items[i].iov_len);
		to += items[i].iov_len;
	}
	return to;
}

static inline size_t ripc__post_len(size_t head_len, const struct iovec *items, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		head_len += items[i].iov_len;
	return head_len;
}

/* First member of every open transport. */
struct ripc__transport_base {
	const struct ripc__transport_ops *ops;
};

/* transport/self: a context to itself */
extern const struct ripc__transport_ops ripc__transport_self;
/* transport/iwarp/verbs; with HAVE_VERBS */
extern const struct ripc__transport_ops ripc__transport_iwarp;
extern const struct ripc__transport_ops ripc__transport_ib;   /* transport/ib; with HAVE_VERBS */
extern const struct ripc__transport_ops ripc__transport_soft; /* transport/iwarp/soft */
/* transport/shm: peers of this host */
extern const struct ripc__transport_ops ripc__transport_shm;
/* transport/pcie: peers that see the memory of one device */
extern const struct ripc__transport_ops ripc__transport_pcie;
/* transport/shm with a simulated link: tests only */
extern const struct ripc__transport_ops ripc__transport_ring_sim;
extern const struct ripc__transport_ops ripc__transport_sim; /* transport/sim: tests only */

#endif
