/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The contract between the core and a transport.
 *
 * A transport moves bytes and never interprets messages. The core calls it under the lock of the
 * context: no two entries of one transport object run at once, none may block, none calls back into
 * the core. progress() reports events. Entries return 0 or a negative errno, and explain an error
 * with ripc__fail() (base/log.h).
 *
 * Life cycle: open, { all other entries }, close. An endpoint (`ep`) is one end of a
 * connection:
 *
 *   active:  connect() -> EV_ESTABLISHED(user, private data of the accepting side) or EV_CLOSED
 *   passive: EV_REQUEST(request, private data) -> accept() -> EV_ESTABLISHED, or EV_CLOSED
 *                                              -> reject(private data): the active side sees
 *                                                 EV_CLOSED with reject set and that private data
 *   later:   EV_CLOSED once, when the connection is lost or the peer closed it. The ep stays
 *            allocated, and every post on it fails, until the core calls ep_close(), which it must.
 *
 * Sends and writes may be posted only after EV_ESTABLISHED. While a connection lives, its sends
 * arrive in order and exactly once. A send posted after a write arrives after the bytes of the
 * write are in the target. Work that is outstanding at EV_CLOSED reports no further event.
 */
#ifndef RIPC_TRANSPORT_H
#define RIPC_TRANSPORT_H

#include "base/copy.h"
#include "base/options.h"
#include "wire/address.h"
#include "wire/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

/* Capability bits: the core selects transports by these, never by name. */
enum ripc__cap {
	RIPC__CAP_CONNECTED = 1 << 0, /* connect, accept, post */
	RIPC__CAP_DATAGRAM = 1 << 1,  /* post_datagram: unordered, lossy */
	RIPC__CAP_READ = 1 << 2,      /* transfer() */
	RIPC__CAP_WRITE = 1 << 3,     /* transfer() */
	RIPC__CAP_MULTICAST = 1 << 5, /* group_join, group_leave, post_group */
	/* reads and writes need the passive side to call progress() */
	RIPC__CAP_TARGET_PROGRESS = 1 << 6,
	RIPC__CAP_CHEAP_REG = 1 << 7, /* registration takes less than 1 us: register per transfer */
	RIPC__CAP_SAME_HOST = 1 << 8, /* reaches peers of the same host only */
	RIPC__CAP_SELF = 1 << 9,      /* reaches only the context itself: in no record */
	/* export_fd(): the peer can map memory objects of this context */
	RIPC__CAP_EXPORT = 1 << 10,
	/* the peer can write memory that is registered as the target of reads */
	RIPC__CAP_SINK_WRITABLE = 1 << 11,
	RIPC__CAP_WRITTEN = 1 << 13, /* written() */
	RIPC__CAP_STANDING =
		1 << 12, /* of a hello, not of a transport: STANDING_GRANT is understood */
	RIPC__CAP_DATAGRAM_CONTEXT =
		1 << 14, /* of a hello, not of a transport: DATAGRAM_CONTEXT is understood */
	RIPC__CAP_WRITE_IMM = 1 << 15, /* transfer(), and EV_WRITTEN at the peer */
	RIPC__CAP_POLL_CALL = 1 << 16, /* poll_one() makes system calls */
	RIPC__CAP_FLOW_END = 1 << 17,  /* of a hello, not of a transport: FLOW_END is understood */
};

/* Access rights of a registration; request the narrowest set. */
enum ripc__access {
	RIPC__ACCESS_LOCAL_WRITE = 1 << 0,  /* target of own reads */
	RIPC__ACCESS_REMOTE_READ = 1 << 1,  /* peers may read it */
	RIPC__ACCESS_REMOTE_WRITE = 1 << 2, /* peers may write it */
	RIPC__ACCESS_RESIDENT = 1 << 3, /* no right: memory of the pool, whose pages are present */
};

#define RIPC__PRIVATE_MAX           192 /* most bytes of private data of a connection set-up */
#define RIPC__POST_HEADER_LEN       36  /* the most frequent head_len of post(), bytes */
#define RIPC__POST_SHORT_HEADER_LEN 4   /* head_len of a message with an elided header, bytes */
#define RIPC__POST_CALL_HEADER_LEN  20  /* the same, of a call */
#define RIPC__POST_ITEMS_MAX        64  /* most items of one post() */

struct ripc__transport; /* an open transport; opaque for the core, as is ... */
struct ripc__ep;        /* ... an endpoint: each transport has its own */

/* Memory known to a transport. Filled by reg(). */
struct ripc__mr {
	void *base;      /* as registered */
	size_t len;      /* bytes */
	uint64_t addr;   /* remote address of base, for peers */
	uint32_t key;    /* remote key (rkey, STag) for peers; 0: no remote access */
	unsigned access; /* of enum ripc__access */
	void *priv;      /* of the transport */
};

/* Sizes, depths and the descriptor; constant while the transport is open. */
struct ripc__transport_limits {
	int fd;        /* for poll: once armed, readable when progress() has work; < 0: none */
	unsigned caps; /* of enum ripc__cap */
	/* largest send in bytes, >= 2048 (RIPC__MSG_MIN_MAX); 0 without CONNECTED */
	uint32_t send_max;
	uint32_t datagram_max; /* largest datagram in bytes; 0 without DATAGRAM */
	/*
	 * sends that a peer may have in flight to one endpoint, >= 3; 0: the transport buffers and
	 * needs no credits
	 */
	uint32_t recv_depth;
	uint32_t read_depth; /* reads that may be outstanding on one endpoint, >= 1 with READ */
	uint64_t rdma_max;   /* largest single read or write in bytes */
	/* send short messages with post_datagram() if the peer has an address for it */
	bool eager_datagram;
};

enum ripc__ev_kind {
	RIPC__EV_NONE = 0,
	/* request, data/len = private data, text = peer, source: accept() or reject() it */
	RIPC__EV_REQUEST,
	/* user, ep; active side: data/len = private data of the accepting side */
	RIPC__EV_ESTABLISHED,
	/* user, ep, status < 0: cause; reject: data/len = private data of the rejecting side */
	RIPC__EV_CLOSED,
	RIPC__EV_RECV, /* user, ep, data/len, token: a send of the peer arrived */
	/* user, ep, len, imm: a RIPC__WRITE_IMM arrived, its bytes are in the target */
	RIPC__EV_WRITTEN,
	/* data/len, token; from/fromlen: address for an answer by post_datagram() */
	RIPC__EV_DATAGRAM,
	/* user, ep, wr_id, status: the source memory is free again; it need not have arrived */
	RIPC__EV_WRITE_DONE,
	RIPC__EV_READ_DONE, /* user, ep, wr_id, status: the bytes are in the local memory */
	/*
	 * user, ep, data/size: a buffer of the peer, mapped for reading; the core calls munmap().
	 * status: its descriptor, which the core closes; wr_id: its number
	 */
	RIPC__EV_IMPORTED,
	RIPC__EV_SENDABLE, /* user, ep: posting works again after a post returned -EAGAIN */
	RIPC__EV_ADDRESS,  /* the result of address() has changed */
	/*
	 * Descriptors run low: the core closes idle lanes. status: 0: a reserve is left
	 * (base/admission.h); -EMFILE or the like: none is left.
	 */
	RIPC__EV_FD_LOW,
	/* text = source and cause: malformed input was dropped or its connection closed */
	RIPC__EV_BAD_INPUT,
};

/*
 * One event. data, from and text point into memory of the transport. Private data, from and text
 * are valid until the next progress(). The data of RECV and DATAGRAM is valid until release(token),
 * or until the next progress() if token is NULL.
 */
struct ripc__event {
	enum ripc__ev_kind kind;
	int status;  /* 0 or a negative errno */
	bool reject; /* EV_CLOSED: rejected by the peer, data is its private data */
	void *user;  /* as passed to connect() or accept() */
	struct ripc__ep *ep;
	void *request; /* EV_REQUEST: handle for accept() or reject() */
	const uint8_t *data;
	uint32_t len;     /* bytes at data; EV_WRITTEN: bytes of the write */
	uint32_t fromlen; /* bytes at from */
	const void *from;
	void *token;    /* for release(); NULL: nothing to release */
	uint64_t wr_id; /* as posted */
	uint64_t size;  /* EV_IMPORTED: bytes at data */
	uint32_t imm;   /* EV_WRITTEN: as posted */
	/* EV_REQUEST: equal for requests of one address, process or port; 0: unknown */
	uint64_t source;
	const char *text;
};

enum ripc__transfer_kind {
	RIPC__READ,  /* with READ */
	RIPC__WRITE, /* with WRITE */
	/*
	 * With WRITE_IMM: a write that is a message as well. It is ordered among the sends, uses a
	 * receive of the peer as they do, and arrives there as EV_WRITTEN with imm. Its length is
	 * not 0.
	 */
	RIPC__WRITE_IMM,
};

/* A read or write of memory of the peer. */
struct ripc__transfer {
	enum ripc__transfer_kind kind;
	uint32_t imm;              /* WRITE_IMM */
	const struct ripc__mr *mr; /* contains the local range */
	uint8_t *local;            /* target of a read, source of a write */
	size_t len;                /* bytes */
	uint64_t raddr;
	uint32_t rkey;
	uint64_t wr_id;
};

/* The parts of a context that its transports may use. Valid until close(). */
struct ripc__transport_env {
	const struct ripc__options *opt;
	const uint8_t *instance; /* 16 bytes, the context's instance id */
	void *arg;               /* simulation: the simulated network; otherwise NULL */
};

/*
 * Entries are required, but for those of a capability that the transport does not have, and those
 * that are optional: NULL.
 */
struct ripc__transport_ops {
	const char *name; /* as in RIPC_TRANSPORTS, e.g. "iwarp/soft" */
	/* number in resolver records, see doc/protocol.md; never reused for another transport */
	uint8_t id;
	/*
	 * Number of another transport whose addresses connect() and describe() accept, because the
	 * wire protocol is the same (iWARP by an adapter and in user space); 0: none.
	 */
	uint8_t compat_id;

	/*
	 * Opens devices and listens. Errors, explained by ripc__fail(): -ENODEV: it cannot be used
	 * on this host; -ENOMEM, -EMFILE, ...
	 */
	int (*open)(struct ripc__transport **t, const struct ripc__transport_env *env);

	/* Closes the transport. The core has ended all endpoints and registrations. Never fails. */
	void (*close)(struct ripc__transport *t);

	void (*limits)(struct ripc__transport *t, struct ripc__transport_limits *limits);

	/*
	 * Encodes the own address for resolver records. Return: bytes written to buf (cap >=
	 * RIPC__ADDRESS_MAX), or -ENODEV: none of its devices or addresses is left.
	 */
	int (*address)(struct ripc__transport *t, uint8_t *buf, size_t cap);

	/* Formats an address for log lines. Any bytes: they may come from the network. */
	void (*describe)(const uint8_t *addr, size_t len, char *text, size_t textlen);

	/*
	 * Registers memory for transfers posted on the endpoint ep and, with remote access, for its
	 * peer. ep NULL: local access, on any endpoint of the transport. (A transport may use
	 * several devices, and a key belongs to one device.) Errors: -ENOMEM, -EPERM (memlock), and
	 * with ep -ENOTCONN, or -ENODEV if its device was removed; EV_CLOSED follows. The caller
	 * owns mr and must not move it until dereg(), which it must call even if ep no longer
	 * exists.
	 */
	int (*reg)(struct ripc__transport *t, struct ripc__ep *ep, void *base, size_t len,
		   unsigned access, struct ripc__mr *mr);

	/* Ends remote access: on return no peer and no device accesses the memory. */
	void (*dereg)(struct ripc__transport *t, struct ripc__mr *mr);

	/*
	 * With WRITTEN: bytes from the start of registered memory that the peer has written without
	 * a gap. The core delivers memory with an earlier owner's data only as far as that.
	 */
	uint64_t (*written)(struct ripc__transport *t, const struct ripc__mr *mr);

	/*
	 * Starts to connect to an address from a resolver record. The bytes come from the network:
	 * validate them. privlen, here and below: at most RIPC__PRIVATE_MAX. EV_CLOSED with
	 * -ECONNREFUSED, and an error of connect() other than -EMFILE, -ENFILE, -ENOMEM and
	 * -ENOBUFS, mean that the address leads to no process. If that holds for all addresses of
	 * the peer, it is dead. Other values of status leave that open.
	 */
	int (*connect)(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
		       const void *priv, size_t privlen, void *user, struct ripc__ep **ep);

	/* Accepts an EV_REQUEST. The handle is invalid afterwards, also on error. */
	int (*accept)(struct ripc__transport *t, void *request, const void *priv, size_t privlen,
		      void *user, struct ripc__ep **ep);
	/*
	 * Rejects an EV_REQUEST. Without private data the peer is unauthenticated and gets no
	 * answer if the network allows that.
	 */
	void (*reject)(struct ripc__transport *t, void *request, const void *priv, size_t privlen);

	/*
	 * Closes the endpoint, at any time after connect() or accept(). Delayed sends are flushed
	 * first as far as that is possible without waiting; posted sends may still arrive.
	 * Afterwards no event refers to the endpoint, and no local memory posted on it is accessed.
	 */
	void (*ep_close)(struct ripc__ep *ep);

	/* Optional: there was no traffic for a second. Frees memory that only traffic needs. */
	void (*trim)(struct ripc__ep *ep);

	/*
	 * Sends one message: head_len bytes at head (it may be 0), then n items (at most
	 * RIPC__POST_ITEMS_MAX). The memory is the caller's again on return: the bytes were sent or
	 * copied. With more set, or under load, the transport may delay the message until
	 * progress() or a later post(). Return:
	 *   0          sent
	 *   1          delayed: the core must call progress() within about 1 ms; with wait=poll
	 *              some milliseconds, if the application stops to poll
	 *   2          sent, but the peer may be asleep and not notified: the core must call
	 *              progress() within some milliseconds
	 *   -EAGAIN    not sent, the queue is full: EV_SENDABLE follows
	 *   -EMSGSIZE  longer than send_max
	 *   -EFAULT    not sent, an item cannot be read; an item that is copied raises SIGSEGV
	 *   -ENOTCONN  the endpoint is not established or has ended
	 */
	int (*post)(struct ripc__ep *ep, const void *head, size_t head_len,
		    const struct iovec *items, unsigned n, bool more);

	/*
	 * Reads memory of the peer into local memory, or writes local memory to memory of the peer.
	 * The transport owns the local memory until WRITE_DONE or READ_DONE, EV_CLOSED or
	 * ep_close(). A WRITE may be delayed until progress() or the next post() on the endpoint:
	 * the core must call one of them within about 1 ms. A read beyond read_depth or a
	 * full queue returns -EAGAIN, and EV_SENDABLE follows. -ENOTCONN or -ENODEV: EV_CLOSED
	 * follows. Any other error: this transfer is impossible; -ENOMEM and -EPERM are explained
	 * by ripc__fail().
	 */
	int (*transfer)(struct ripc__ep *ep, const struct ripc__transfer *x);

	/*
	 * With DATAGRAM: sends one datagram to an address from a record or from EV_DATAGRAM. Memory
	 * as post(). -EAGAIN: not sent, because the queue is full or the path is being resolved:
	 * repeat after 1 ms. -EMSGSIZE: the path takes less. -EFAULT as post(). -EHOSTUNREACH or
	 * another error: this peer accepts no datagrams.
	 */
	int (*post_datagram)(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			     const struct iovec *iov, unsigned niov);

	/*
	 * With MULTICAST: receives, as EV_DATAGRAM, all messages to the group, until group_leave().
	 * Several groups may share one network address, so messages to other groups may come as
	 * well. Errors are explained by ripc__fail().
	 */
	int (*group_join)(struct ripc__transport *t, uint64_t group);
	void (*group_leave)(struct ripc__transport *t, uint64_t group);

	/*
	 * Sends one datagram to all receivers of the group, which may include this context. Memory
	 * as post(). -EAGAIN, -EMSGSIZE: not sent, or not on every interface.
	 */
	int (*post_group)(struct ripc__transport *t, uint64_t group, const struct iovec *iov,
			  unsigned niov);

	/*
	 * With EXPORT: sends the peer a memory object, its first len bytes, under a number. The
	 * caller keeps the descriptor. The peer checks that the object cannot shrink or be written,
	 * and maps it: EV_IMPORTED there. It drops an unsuitable object silently. -EAGAIN: repeat
	 * later; -EMSGSIZE.
	 */
	int (*export_fd)(struct ripc__ep *ep, int fd, size_t len, uint32_t number);

	/*
	 * Moves data and reports at most max events. *deadline_ns is lowered to the time
	 * (monotonic) by which the transport needs progress() again, even if its descriptor is not
	 * readable. Return: number of events; equal to max: call again.
	 */
	unsigned (*progress)(struct ripc__transport *t, struct ripc__event *events, unsigned max,
			     uint64_t now_ns, uint64_t *deadline_ns);

	/*
	 * Optional: whether progress() has received payload since the last call, of an operation
	 * that is not complete and therefore no event.
	 */
	bool (*receiving)(struct ripc__transport *t);

	/*
	 * Optional: polls for one event of the endpoint, socket or queue with the last event, or of
	 * a few others. A fast path between two calls of progress(), which it does not replace:
	 * progress() reports the other events. The data may be in room (cap bytes), without a
	 * token. Other data without a token is valid until the next poll_one() or progress().
	 * Return: whether there is an event.
	 */
	bool (*poll_one)(struct ripc__transport *t, void *room, size_t cap, struct ripc__event *ev);

	/*
	 * Optional: bytes received from the peer or acknowledged by it so far. The core calls it
	 * once in a sixteenth of peer_timeout_ms, while it has work outstanding.
	 */
	uint64_t (*bytes_transferred)(struct ripc__ep *ep);

	/* Frees the memory of a RECV or DATAGRAM event. */
	void (*release)(struct ripc__transport *t, void *token);

	/*
	 * Prepares to sleep on the descriptor and sends delayed messages. Return: 0, or 1 if events
	 * are pending: call progress() first.
	 */
	int (*arm)(struct ripc__transport *t);

	/* Optional: in the child of fork(), closes descriptors alone. Async-signal-safe. */
	void (*forked)(struct ripc__transport *t);
};

/* Gathers head and items in all, which has room for 1 + n entries. Return: the sum of bytes. */
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

/* Copies head and items in sequence. Return: the end of the copy. */
static inline uint8_t *ripc__post_copy(uint8_t *to, const void *head, size_t head_len,
				       const struct iovec *items, unsigned n)
{
	if (head_len)
		memcpy(to, head, head_len);
	to += head_len;
	for (unsigned i = 0; i < n; i++) {
		ripc__copy_pieces(to, items[i].iov_base, items[i].iov_len);
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

/* transport/self: a context to itself */
extern const struct ripc__transport_ops ripc__transport_self;
/* transport/iwarp/verbs; with HAVE_VERBS */
extern const struct ripc__transport_ops ripc__transport_iwarp;
extern const struct ripc__transport_ops ripc__transport_ib;   /* transport/ib; with HAVE_VERBS */
extern const struct ripc__transport_ops ripc__transport_soft; /* transport/iwarp/soft */
/* transport/shm: peers on this host */
extern const struct ripc__transport_ops ripc__transport_shm;
/* transport/pcie: peers that share the memory of one device */
extern const struct ripc__transport_ops ripc__transport_pcie;

#endif
