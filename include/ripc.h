/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libripc: messages to services, not addresses, over the fastest network that is there.
 *
 * Every function that can fail returns 0 (or a count) or a negative errno; ripc_strerror() names the
 * number and ripc_error_detail() names in one sentence which peer, service, transport and cause it was.
 * Every function that can wait takes a timeout in milliseconds: -1 waits for ever, 0 never waits. Four
 * have bounds of their own, which their comments give: ripc_open(), ripc_service_register(),
 * ripc_service_unregister() and ripc_close().
 * All functions may be called from any thread, unless their comment states otherwise.
 * One thread may close a context, or unregister a service, while others call the library: see
 * ripc_close().
 * A child made by fork() may not use its parent's contexts: calls on them return -EOWNERDEAD.
 * The id of a name (ripc_id()) is the same in every version.
 * Later versions may append members to struct ripc_route, ripc_service_info, ripc_limits,
 * ripc_stats, ripc_group_stats and ripc_send_options. Their first member is size, which the
 * program sets to the sizeof of the struct. A function fills a result up to that size and clears
 * bytes that it does not know. It refuses options with bytes that it does not know and that are
 * not zero.
 */
#ifndef RIPC_H
#define RIPC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RIPC_VERSION_MAJOR 0
#define RIPC_VERSION_MINOR 1
#define RIPC_VERSION_PATCH 0

/** Asks ripc_service_register() to draw a free random id from the upper half of the number space. */
#define RIPC_ANY_ID UINT64_MAX
/** Ids below this are the application's to choose; 0 is no service. */
#define RIPC_ID_LIMIT (UINT64_C(1) << 63)
/** Bytes of a name of a service at most, see ripc_id(). */
#define RIPC_NAME_MAX 255
/** Short messages up to this many bytes (the sum of their items) fit every lane. */
#define RIPC_SHORT_GUARANTEED 512
/** Most items in one message. */
#define RIPC_ITEMS_MAX 64
/** Group ids are from 1 to below this; they have nothing to do with service ids. */
#define RIPC_GROUP_LIMIT (UINT64_C(1) << 62)
/** Messages to groups have at most this many bytes, the sum of their items. */
#define RIPC_GROUP_MESSAGE_MAX 1024
/** Most return buffers offered with one message. */
#define RIPC_RETURN_BUFFERS_MAX 16

/** One instance of the library. Where one is taken, NULL means the default context of the process. */
struct ripc;
/** A service id with its receive queue. */
struct ripc_service;
/** A long send under way. */
struct ripc_request;

/** Flags of ripc_service_register() and of struct ripc_send_options. */
enum ripc_flags {
	/** ripc_send*(): acknowledged, in order, exactly once; see ripc_flush(). */
	RIPC_RELIABLE = 1 << 0,
	/** ripc_send*(): more messages follow at once; this one may be held back until the next call
	 *  without this flag, or until the library next has something else to do. */
	RIPC_MORE = 1 << 1,
	/** ripc_service_register(): take the id over from its present holder, if there is one. */
	RIPC_TAKEOVER = 1 << 2
};

/** Where a received item lies, and so what becomes of it when its message is freed. */
enum ripc_placement {
	/** In a receive buffer shared with other messages: gone with the message. */
	RIPC_IN_RECEIVE_BUFFER = 0,
	/** In a buffer of the pool: gone with the message, or kept with ripc_message_detach(). */
	RIPC_IN_POOL = 1,
	/** In a window the receiver had set aside: the application's again. */
	RIPC_IN_WINDOW = 2,
	/** In a return buffer the receiver had offered: the application's again. */
	RIPC_IN_RETURN_BUFFER = 3,
	/** In the memory of its sender, a process of the same host, mapped read-only: gone with the
	 *  message, or copied with ripc_message_detach(). ripc_buf_alloc() has the conditions. */
	RIPC_IN_SENDER_MEMORY = 4
};

/**
 * A received message. Read-only for the application; valid until ripc_message_free() or ripc_close().
 * Items keep the number, order and lengths they were sent with; an empty item has length 0 and
 * a base that must not be used. Items of short messages have no alignment; items in the pool begin
 * at a multiple of 64 bytes. nreturn_buffers counts the return buffers that came with the message and that
 * long items sent back to source may land in (see ripc_send_long()), over every transport alike.
 */
struct ripc_message {
	uint64_t source;      /* service it came from */
	uint64_t dest;        /* service it was sent to */
	uint8_t instance[16]; /* instance id of the sending context */
	uint32_t is_long;     /* 1 if it was sent as a long message, else 0 */
	uint32_t nitems;      /* 1 .. RIPC_ITEMS_MAX */
	uint32_t nreturn_buffers; /* return buffers its sender offered with it, 0 .. RIPC_RETURN_BUFFERS_MAX */
	const struct iovec *items; /* nitems of them */
	const uint8_t *placement;  /* nitems of enum ripc_placement */
	uint64_t group; /* group it was sent to, of which dest is a member; 0: to dest alone */
};

/** Options of a send. Set size and zero the rest; NULL means all zero. */
struct ripc_send_options {
	size_t size;              /* bytes of this struct: sizeof(struct ripc_send_options) */
	unsigned flags;           /* of enum ripc_flags */
	unsigned nreturn_buffers; /* return buffers offered, 0 .. RIPC_RETURN_BUFFERS_MAX */
	const struct iovec *return_buffers; /* nreturn_buffers registered or allocated buffers, see ripc_send_long() */
};

/** How a service is reached, or why it is not. Strings are terminated, cut if need be. */
struct ripc_route {
	size_t size;      /* bytes of this struct, set by the caller: sizeof(struct ripc_route) */
	uint64_t service; /* the service asked for */
	uint8_t instance[16]; /* instance id of the context that holds it; zero: none is known */
	uint64_t short_max; /* largest short message in bytes, the sum of its items; 0: not connected */
	uint32_t connected; /* 1 if a lane is up, else 0 */
	char transport[24]; /* the lane's transport, empty if there is none */
	char address[96];   /* the peer's address on it */
	char reason[512];   /* why this one, why each that was tried failed, why others were not */
	char name[256];     /* the name it was registered by; empty: none, or not known */
};

/** A service that ripc_service_list() found. Strings are terminated, cut if need be. */
struct ripc_service_info {
	size_t size;           /* bytes of this struct as the library knows it */
	uint64_t service;      /* its id */
	uint8_t instance[16];  /* instance id of the context that holds it */
	uint8_t host[16];      /* id of its host (boot and network namespace); zeros: not known */
	uint32_t same_host;    /* 1 if that is the host of the caller, else 0 */
	uint32_t own;          /* 1 if the caller's context holds it, else 0 */
	uint64_t age_ms;       /* milliseconds since it was registered; 0: just now, or not known */
	char name[256];        /* the name it was registered by; empty: by its id alone */
	char addresses[512];   /* transports with their addresses, "; " between two */
};

/** Receives one service. Must not call the library. */
typedef void ripc_service_list_fn(void *arg, const struct ripc_service_info *info);

/** Sizes that bind a sender. */
struct ripc_limits {
	size_t size; /* bytes of this struct, set by the caller: sizeof(struct ripc_limits) */
	uint64_t short_max; /* largest short message to this destination, sum of its items, in bytes */
	uint64_t long_max;           /* largest long message, sum of its items, in bytes */
	uint32_t items_max;          /* most items in one message */
	uint32_t return_buffers_max; /* most return buffers offered with one message */
};

/**
 * Counters since the start of what they count for. All of them only grow, except the gauges at the end.
 * One message to a group is one short message sent, however many members it has, and one received at each of them.
 */
struct ripc_stats {
	size_t size; /* bytes of this struct, set by the caller: sizeof(struct ripc_stats) */
	uint64_t short_sent, short_received; /* messages handed to a transport / put into a queue */
	uint64_t long_sent,
		long_received; /* messages whose delivery was confirmed / put into a queue */
	uint64_t bytes_sent, bytes_received; /* payload of these */
	uint64_t credit_stalls;              /* times a send found no credit */
	uint64_t queue_stalls;               /* times a send found the transport's queue full */
	uint64_t dropped_no_service;         /* messages received for a service that is not here */
	uint64_t dropped_no_memory;          /* messages received that no memory could be had for */
	uint64_t dropped_queue_full; /* datagrams received for a service whose queue was full */
	uint64_t dropped_unread;     /* messages in a queue when its service was unregistered */
	uint64_t datagrams_lost;     /* datagrams missing in a peer's sequence numbers */
	uint64_t duplicates;         /* messages received again and dropped */
	uint64_t bad_messages;       /* messages that broke the protocol */
	uint64_t bad_peers;          /* connections or datagrams refused: not libripc, or broken */
	uint64_t unauthenticated; /* messages and connections refused for their key, or want of one */
	uint64_t cancelled;       /* long sends cancelled or timed out */
	uint64_t return_buffer_writes;     /* long items written into a return buffer of the peer */
	uint64_t window_items;             /* long items received into a window */
	uint64_t pool_items;               /* long items received into a buffer of the pool */
	uint64_t lanes_opened, lanes_lost; /* lanes that came up / broke */
	uint64_t peers_lost;               /* peers declared dead with work outstanding */
	uint64_t service_conflicts; /* times a service was found to have another holder too: a network that was split */
	uint64_t services_lost; /* services that another context took over, or has held for longer */
	uint64_t peers;         /* gauge: peers known */
	uint64_t lanes;         /* gauge: lanes up */
	uint64_t queued;        /* gauge: messages waiting to be received */
	uint64_t pool_bytes;    /* gauge: bytes of buffers held, in use or cached */
	uint64_t registered_bytes; /* gauge: bytes of application memory registered */
	uint64_t resent;           /* reliable short messages sent again after a lane was lost */
	uint64_t reliable_unknown; /* of these, those of which it is not known whether they arrived */
};

/** Counters of one group in one context; all but the gauges only grow, and lost may shrink: what was late is not lost. */
struct ripc_group_stats {
	size_t size; /* bytes of this struct, set by the caller: sizeof(struct ripc_group_stats) */
	uint64_t sent;       /* messages sent to it by services of this context */
	uint64_t multicasts; /* of these, also sent as one datagram to all who hear multicast */
	uint64_t unreached; /* members that could not be reached in time, summed up over messages sent */
	uint64_t received;   /* messages of other contexts, each counted once */
	uint64_t lost;       /* messages missing in the numbers of their senders */
	uint64_t duplicates; /* messages that came again, by another way, and were dropped */
	uint64_t dropped; /* not put into the full queue of a member here, or for want of memory */
	uint64_t members; /* gauge: contexts with members, as far as is known here, ours included */
	uint64_t senders; /* gauge: other contexts from which messages came */
};

/** Levels of the log. */
enum ripc_log_level {
	RIPC_LOG_ERROR = 0,
	RIPC_LOG_WARN = 1,
	RIPC_LOG_INFO = 2,
	RIPC_LOG_DEBUG = 3
};

/** Receives one line of the log, without a newline. Must not call the library. */
typedef void ripc_log_fn(void *arg, enum ripc_log_level level, const char *line);

/**
 * ripc_open - open a context
 * @ctx: where the new context is stored
 * @options: settings as "key=value key=value", separated by blanks, or NULL for none
 *
 * Opens one instance of the library: its transports, its resolver and its background thread. Nothing
 * needs to be configured. A setting may stand in @options or, with its name in capital letters after
 * RIPC_, in the environment (RIPC_WAIT=poll); @options win. ripc(7) lists them.
 *
 * The call waits for no peer and no server: an ensemble is connected to in the background. It waits
 * at most one second, for a free place in the memory of pcie if all 128 are taken.
 *
 * Return: 0, or a negative errno.
 * Errors:
 * -EINVAL: a setting is unknown or has a value that makes no sense; ripc_error_detail() names it
 * -ENOENT, -EACCES: a file, directory or device that a setting names is not there or may not be
 *   used, or is a key file that others may read
 * -ENODEV: no transport could be opened; ripc_error_detail() gives the reason of each
 * -ENOMEM, -EMFILE: out of memory or descriptors; nothing is left behind
 */
int ripc_open(struct ripc **ctx, const char *options);

/**
 * ripc_close - close a context
 * @ctx: the context, or NULL for the default one
 *
 * Unregisters its services, fails what is outstanding, and ends its thread. Buffers, messages and
 * requests of the context are gone afterwards. Registered memory, and that of sends under way, is
 * the application's again. In a child made by fork() it only forgets the context.
 *
 * Other threads may be in calls on the context, its services and its requests, and may begin
 * further ones, at any moment. A call that waits returns -ESHUTDOWN before ripc_close() returns.
 * A call that has begun and is not done, and one that begins later, returns -ESHUTDOWN and does
 * nothing, even after ripc_close() has returned: a handle that has ended is never used again for
 * anything else. ripc_request_test(), ripc_request_wait() and ripc_request_cancel() then set the
 * request to NULL.
 *
 * The program must see to two things. No other thread uses a buffer or a received message of the
 * context, or calls ripc_message_free() or ripc_message_detach(), from the call of ripc_close() on:
 * their memory goes with the context. And no request is used by two threads at a time, as ever.
 *
 * The call waits at most 200 ms for messages in the transports' queues to leave, and 50 ms for peers
 * on ib to be notified. A ripc_service_register() of another thread may take 500 ms to end, see there. With
 * resolver=zookeeper the call also waits until the connection to the ensemble is closed: at most one
 * second for each name server of resolv.conf(5) that does not answer, and three seconds for a server
 * that does not read.
 *
 * Return: 0, or -EINVAL if there is no default context, or the context is closed already or being
 * closed.
 */
int ripc_close(struct ripc *ctx);

/**
 * ripc_service_register - become the holder of a service id
 * @ctx: the context, or NULL for the default one, which is opened if need be
 * @id: 1 .. RIPC_ID_LIMIT-1, or RIPC_ANY_ID
 * @flags: 0 or RIPC_TAKEOVER
 * @service: where the new service is stored
 *
 * Probes the network for another holder of @id, then answers for it. An id drawn for RIPC_ANY_ID is
 * not probed: the call does not wait, and sends nothing.
 *
 * The call waits at most resolve_timeout_ms, see ripc(7): 60 ms if nobody objects, longer for an
 * ensemble that does not answer and for a former holder on this host that is stopped. To name a holder
 * on this host in ripc_error_detail() it waits at most another 500 ms.
 *
 * With RIPC_TAKEOVER a present holder has to give the id up: those who send to it follow to the new holder by themselves. The
 * former holder receives what had arrived, or had begun to arrive, and then -ESHUTDOWN; each long message is delivered to one of the
 * two, exactly once.
 *
 * Where nobody answers in time (the network is split, an ensemble is away) @id is taken to be free. If it turns out later that it had a
 * holder, the one who has held it for longer keeps it, and the other receives -ESHUTDOWN.
 *
 * Return: 0, or a negative errno.
 * Errors:
 * -EADDRINUSE: another service holds the id; ripc_error_detail() names the holder
 * -EINVAL: the id is 0 or in the half reserved for RIPC_ANY_ID
 * -EOPNOTSUPP: a flag that this version does not know to serve
 * -ENOMEM, -EMFILE: out of memory or descriptors
 */
int ripc_service_register(struct ripc *ctx, uint64_t id, unsigned flags,
			  struct ripc_service **service);

/**
 * ripc_id - the service id that a name stands for
 * @name: 1 to RIPC_NAME_MAX bytes of UTF-8, such as "camera/left"
 *
 * The id is a hash of the bytes of the name, the same on every machine and in every version. Bit 63
 * is clear and bit 62 is set: ids that an application chooses below 2^62 are never ids of names.
 * Names are compared byte by byte. Use the id wherever a service id is taken.
 *
 * The hash is SipHash-2-4, cut to 62 bits. Any two of n names have the same id with probability
 * n^2 / 2^63: 10^-13 for a thousand names, 10^-7 for a million. Its key is public, so an attacker
 * can construct such names. ripc_register_name() detects two names with the same id.
 *
 * Return: the id, or 0 (no service) with ripc_error_detail() filled: the name is empty, too long or
 * not UTF-8.
 */
uint64_t ripc_id(const char *name);

/**
 * ripc_register_name - become the holder of a service with a name
 * @ctx: the context, or NULL for the default one, which is opened if need be
 * @name: the name, see ripc_id(); copied
 * @flags: 0 or RIPC_TAKEOVER
 * @service: where the new service is stored
 *
 * As ripc_service_register() with the id ripc_id(@name). The resolver's record also carries the
 * name: ripc_route_lookup() and ripc_service_list() report it.
 *
 * If another name with the same id is registered, the call fails even with RIPC_TAKEOVER, and
 * ripc_error_detail() has both names. A service that was registered by the id alone counts as the
 * service of this name.
 *
 * Return: 0, or a negative errno.
 * Errors: those of ripc_service_register(), and
 * -EADDRINUSE: the name, or another name with the same id, is registered
 * -EINVAL: the name is NULL, empty, too long or not UTF-8
 * -EMSGSIZE: name and addresses of this context are too long for one message of the resolver
 */
int ripc_register_name(struct ripc *ctx, const char *name, unsigned flags,
		       struct ripc_service **service);

/**
 * ripc_service_list - list the services that are registered on the network
 * @ctx: the context, or NULL
 * @fn: called once for each service of each holder, with rising ids, before the call returns
 * @arg: passed to @fn
 * @timeout_ms: how long to collect answers, at least 1
 *
 * Asks all contexts that the resolver reaches: with udp those of the broadcast domain, with local
 * those of this host, with file those of its hosts, with zookeeper all that have a node. For tools
 * and tests: the list costs every context of the network work, and is out of date at once. It may
 * lack services whose answers were lost or late; 500 ms suffice for a few thousand services. A
 * context sends at most 64 answers per second, each with 4 to 62 services.
 *
 * Return: the number of services found, at most 65536, or a negative errno.
 * Errors:
 * -EINVAL: no function, or no time
 * -EBUSY: another thread lists the services with this context
 * -ENOMEM: out of memory
 * -ESHUTDOWN: the context is being closed
 */
int ripc_service_list(struct ripc *ctx, ripc_service_list_fn *fn, void *arg, int timeout_ms);

/**
 * ripc_service_unregister - give a service id up
 * @service: the service, which has ended afterwards
 *
 * Messages still in its queue are dropped and counted; its long sends under way are cancelled; calls that
 * wait on it return -ESHUTDOWN; its windows and return buffers are the application's again. Messages
 * already received stay valid. Other threads may be in calls on the service, and may begin
 * further ones: all of them return -ESHUTDOWN, as after ripc_close(). The call waits at most 100 ms
 * for peers to stop using the service's memory; then it closes the lanes to those that have not.
 *
 * Return: 0, or a negative errno (-EINVAL: no service; -ESHUTDOWN: another thread has
 * unregistered it or closed the context, or does).
 */
int ripc_service_unregister(struct ripc_service *service);

/**
 * ripc_service_id - the id of a service
 * @service: the service
 *
 * Return: its id; the one drawn, if RIPC_ANY_ID was asked for; 0 if the service has ended.
 */
uint64_t ripc_service_id(const struct ripc_service *service);

/**
 * ripc_service_fd - a descriptor for an event loop
 * @service: the service
 *
 * The descriptor is readable (level-triggered) exactly when ripc_receive() would not block. Wait for it
 * with poll(2) or the like; never read, write or close it. It ends with the service.
 *
 * Return: the descriptor, or a negative errno (-EMFILE, -ENOMEM).
 */
int ripc_service_fd(struct ripc_service *service);

/**
 * ripc_buf_alloc - allocate a registered buffer
 * @ctx: the context, or NULL
 * @len: bytes, at least 1
 *
 * The buffer comes from a cache of registered memory. Its pages are present, and it is aligned to
 * 64 bytes. It belongs to the caller until ripc_buf_free(). A child of fork() may read, but must
 * not write it.
 *
 * Adapters read long items from the buffer itself. Items of up to 64 KiB are copied first, because
 * that takes less time than to register them for the message.
 *
 * A receiver on the same host reads an item in the memory of its sender (RIPC_IN_SENDER_MEMORY) if all of
 * these conditions hold. If one does not, the item is copied.
 *
 * - Sender and receiver are processes of the same user that are connected by shm, the
 *   kernel is Linux 5.1 or later, and neither side has the setting handover=off.
 *
 * - The buffer has more than 32 KiB and the item 16 KiB or more. Memory of ripc_buf_register() is
 *   always copied.
 *
 * - The buffer is one of the first 64 of more than 32 KiB that exist in the context, those in its
 *   cache included.
 *
 * - The last two long messages with items from this buffer went to the same peer. So a buffer that
 *   is allocated for each message, and one that is sent to two peers in turn, is always copied.
 *   When a buffer that one peer has mapped is sent to another peer, the number of messages that
 *   are copied first doubles, up to 1024.
 *
 * - No window lies in the buffer, and no part of it is offered as a return buffer.
 *
 * - The item is all of the buffer, if the memory of the buffer belonged to another buffer before,
 *   or if the buffer was taken back from a peer: for a window, a return buffer, another peer, or
 *   because the peer kept a message for too long. Later items may be parts of it.
 *
 * - The item fits no return buffer that the receiver offers, and no window that it has set aside.
 *
 * - The receiver freed the last such message in time, which is 0.2 ms and 1 ns for each 8 bytes.
 *   After one that it keeps for longer, the next 8 messages to the service are copied, then 16, up
 *   to 1024, until it frees one in time.
 *
 * - The peer reads less than 256 MiB, and has mapped fewer than 256 buffers, of this context.
 *
 * Return: the buffer, or NULL with errno set and ripc_error_detail() filled (ENOMEM, EINVAL).
 */
void *ripc_buf_alloc(struct ripc *ctx, size_t len);

/**
 * ripc_buf_realloc - change the size of a buffer
 * @ctx: the context, or NULL
 * @buf: a buffer of ripc_buf_alloc(), or NULL to allocate one
 * @len: bytes, at least 1
 *
 * Contents are kept up to the smaller size. The buffer may move. On failure the old one is untouched.
 *
 * Return: the buffer, or NULL with errno set (ENOMEM; EINVAL: not a buffer of this context; EBUSY:
 * it is in use by a send or offered as a return buffer).
 */
void *ripc_buf_realloc(struct ripc *ctx, void *buf, size_t len);

/**
 * ripc_buf_free - give a buffer back
 * @ctx: the context, or NULL
 * @buf: any address inside a buffer of ripc_buf_alloc(), up to the last byte that was asked for;
 *       NULL does nothing
 *
 * A buffer offered as a return buffer is withdrawn first: memory is used again only when no peer can write
 * into it. A buffer set aside as a window is removed from the windows.
 *
 * Return: 0, or a negative errno.
 * Errors:
 * -EINVAL: the address is in no buffer of this context, or the buffer was freed before
 * -EBUSY: a send that is under way reads from it
 */
int ripc_buf_free(struct ripc *ctx, void *buf);

/**
 * ripc_buf_register - let the application's own memory travel without a copy
 * @ctx: the context, or NULL
 * @base: start of the memory
 * @len: bytes, at least 1
 *
 * The memory stays the application's; it must stay mapped until ripc_buf_unregister(). Regions may not
 * overlap one another. Over RDMA adapters items of up to 64 KiB are copied all the same: see ripc_buf_alloc().
 *
 * Return: 0, or a negative errno.
 * Errors:
 * -EINVAL: no length, 2^47 bytes or more, or the range wraps round
 * -EEXIST: it overlaps a region registered before
 * -ENOMEM: out of memory or over the memlock limit; ripc_error_detail() gives the limit found and needed
 */
int ripc_buf_register(struct ripc *ctx, void *base, size_t len);

/**
 * ripc_buf_unregister - take registered memory back
 * @ctx: the context, or NULL
 * @base: the start of a region, as registered
 *
 * Return: 0, or a negative errno.
 * Errors:
 * -EINVAL: no region begins there
 * -EBUSY: a send under way reads from it, or it is offered to a peer or set aside as a window
 */
int ripc_buf_unregister(struct ripc *ctx, void *base);

/**
 * ripc_window_add - set memory aside as the target of incoming long items
 * @ctx: the context, or NULL
 * @service: the service whose items may land there, or NULL for any of the context
 * @base: registered or allocated memory
 * @len: bytes, at least 1 and no more than were registered or asked for behind @base
 *
 * Each window takes one item and is then used up: it comes back as the item's memory. An item takes the
 * first window that it fits into, of its service first, then of the context; without one, a buffer
 * of the pool.
 *
 * Return: 0, or a negative errno (-EINVAL: memory not registered, or no length; -EBUSY: it
 * overlaps a window, a return buffer or a send under way; -ENOMEM).
 */
int ripc_window_add(struct ripc *ctx, struct ripc_service *service, void *base, size_t len);

/**
 * ripc_window_remove - take a window back
 * @ctx: the context, or NULL
 * @base: the start of a window
 *
 * Return: 0, or a negative errno (-EINVAL: no window begins there, it may have been used; -EBUSY: an
 * item is just arriving in it).
 */
int ripc_window_remove(struct ripc *ctx, void *base);

/**
 * ripc_send_short - send a short message
 * @service: the service it is from
 * @dest: the service it is for
 * @items: its items, at most ripc_route_limits short_max bytes together; free to use again on return
 * @nitems: 1 .. RIPC_ITEMS_MAX
 * @options: flags and return buffers, or NULL
 * @timeout_ms: how long to wait for the service to be found, for a connection, and for credit
 *
 * A short message has the lowest latency. It is delivered at most once, whole or not at all.
 * Messages between two services keep their order on connected transports.
 *
 * A return of 0 means only that the message was handed to the network. The message is lost if the
 * connection ends before it has arrived, or the receiving process before ripc_receive() has taken
 * it; on datagram transports it may be lost like any datagram. The sender is not notified.
 *
 * A sender that has to know more waits for an answer: the receiver sends one when it has processed
 * the message, and the sender repeats the message when no answer comes within a timeout of its
 * own. The first message may have been processed and its answer lost. So make requests that may be
 * processed twice without harm, or number them and let the receiver answer a number that it knows
 * without processing it again.
 *
 * Return: 0 when the message was handed to the network, which does not mean that it arrived, or a
 * negative errno.
 * Errors:
 * -EHOSTUNREACH: nobody holds @dest, or its holder cannot be reached; ripc_error_detail() explains what was tried
 * -EMSGSIZE: longer than the limit, which ripc_error_detail() gives
 * -EAGAIN: @timeout_ms is 0 and the destination is not yet known, or there is no credit
 * -ETIMEDOUT: no credit, or no room in the transport's queue, within the timeout
 * -EINVAL: no item, too many items or return buffers, an item of 2^47 bytes or more, a long item
 *   that reaches beyond the end of an allocated buffer, or a return buffer that is not registered
 * -EBUSY: a return buffer is in use by a send or is offered already
 * -EOPNOTSUPP: a flag that this version does not know to serve
 * -ESHUTDOWN: the service or its context is being closed
 */
int ripc_send_short(struct ripc_service *service, uint64_t dest, const struct iovec *items,
		    unsigned nitems, const struct ripc_send_options *options, int timeout_ms);

/**
 * ripc_send_long - send a long message and wait until it has arrived
 * @service: the service it is from
 * @dest: the service it is for
 * @items: its items, of any length; the library reads them until the call returns
 * @nitems: 1 .. RIPC_ITEMS_MAX
 * @options: flags and return buffers, or NULL
 * @timeout_ms: how long it may take
 *
 * Reliable, whole, exactly once. Registered and allocated memory travels without a copy (but see
 * ripc_buf_alloc() for up to 64 KiB over RDMA adapters), other memory is registered for this one transfer or copied.
 *
 * Return buffers offered in @options are memory for the answer. Each item of a long message that
 * the peer sends to @service lands in the first of them, in the order in which they were offered,
 * that is unused and long enough. The item begins where the buffer begins, and uses it up. Empty
 * items, those that fit none, and those of short messages lie elsewhere. The peer may write the
 * buffers until they come back as items, or are withdrawn by ripc_buf_free() or ripc_service_unregister().
 *
 * A return of 0 means that the message is in the memory of the receiving process, in order, for
 * ripc_receive(). It does not mean that the application has received or processed it: a process
 * that is killed loses what is in its queue. Only an answer of the application, sent when the work
 * is done, notifies the sender. ripc_send_short() describes how to wait for answers and repeat.
 *
 * Return: 0 when the message stands in the receiver's memory, not yet processed, or a negative
 * errno. The items are the caller's again in every case. When the time is up the message is
 * withdrawn, which may take up to 100 ms more.
 * Errors: those of ripc_send_short() without -EMSGSIZE, and
 * -EAGAIN: @timeout_ms is 0: nothing was sent, as delivery cannot be known without waiting; see ripc_send_async()
 * -ETIMEDOUT: not delivered in time; it was withdrawn and will not be delivered
 * -EPIPE: the peer died or became unreachable, and it is not known whether it was delivered
 * -ENOBUFS: the receiver could not find memory for it
 * -ENOMEM: out of memory, or over the memlock limit
 */
int ripc_send_long(struct ripc_service *service, uint64_t dest, const struct iovec *items,
		   unsigned nitems, const struct ripc_send_options *options, int timeout_ms);

/**
 * ripc_send - send a message, short if it fits, else long
 * @service: the service it is from
 * @dest: the service it is for
 * @items: its items
 * @nitems: 1 .. RIPC_ITEMS_MAX
 * @options: flags and return buffers, or NULL
 * @timeout_ms: how long it may take
 *
 * Sends a short message if the items have at most as many bytes as ripc_route_limits() gives for @dest,
 * else a long one. A program that does not look at the size cannot know which of the two was used.
 * Then a return of 0 means no more than that of ripc_send_short(): the message may still be lost.
 *
 * Return: as ripc_send_short() or ripc_send_long(); 0 does not mean that the message was processed.
 */
int ripc_send(struct ripc_service *service, uint64_t dest, const struct iovec *items,
	      unsigned nitems, const struct ripc_send_options *options, int timeout_ms);

/**
 * ripc_flush - wait until reliable short messages were delivered
 * @service: the service that has sent them
 * @dest: the service they are for
 * @timeout_ms: how long to wait
 *
 * A short message that is sent with RIPC_RELIABLE is acknowledged by its receiver. The sending call
 * returns when the library has taken the message; it waits while 1024 messages or 256 KiB to one
 * peer are not acknowledged. Such messages from one service to another are delivered in order and
 * exactly once, also when connections are lost or the service moves to another process. They are
 * always sent over a connection, never as datagrams, and take at most 64 KiB. They may overtake
 * long messages.
 *
 * Delivered means that the message is in the memory of the receiving process, for ripc_receive().
 * If a receiver dies, messages to it may be lost. Then one call returns the error: ripc_flush(), or
 * the next reliable send to @dest, which then sends nothing. Later messages are sent as before.
 *
 * Return: 0 when all that were sent before are delivered, or a negative errno.
 * Errors:
 * -EPIPE: the receiver died or became unreachable, and it is not known whether a message was
 *   delivered
 * -EHOSTUNREACH: the service has ended before a message arrived, and nobody else has taken it over
 *   within peer_timeout_ms; the message was not delivered
 * -ETIMEDOUT: not all are acknowledged in time; with @timeout_ms 0: -EAGAIN
 * -EINVAL, -ESHUTDOWN: as ripc_send_short()
 */
int ripc_flush(struct ripc_service *service, uint64_t dest, int timeout_ms);

/**
 * ripc_send_async - start to send a long message
 * @service: the service it is from
 * @dest: the service it is for
 * @items: its items; the array may go, but the memory is the library's until the request is done
 * @nitems: 1 .. RIPC_ITEMS_MAX
 * @options: flags and return buffers, or NULL
 * @request: where the request is stored
 *
 * Never waits. The transfer goes on while the application computes. Several may be under way; they
 * complete in any order, but messages from @service to @dest are delivered in the order they were
 * started.
 *
 * A return of 0 says that the request exists, and nothing of the message. When the request is
 * done, ripc_request_test(), ripc_request_wait() or ripc_request_cancel() returns the result.
 * There, 0 means that the message is in the memory of the receiver, not that the application
 * has processed it: see ripc_send_long().
 *
 * Return: 0 when the request exists, or a negative errno (-EINVAL, -EBUSY, -ENOMEM, -EOPNOTSUPP, -ESHUTDOWN as ripc_send_long()).
 */
int ripc_send_async(struct ripc_service *service, uint64_t dest, const struct iovec *items,
		    unsigned nitems, const struct ripc_send_options *options,
		    struct ripc_request **request);

/**
 * ripc_request_test - ask whether a request is done
 * @request: the request; set to NULL when it is done, and gone
 *
 * Return: -EINPROGRESS, or what ripc_send_long() would have returned. If nobody holds the destination,
 * the request goes on trying: cancel it to give up.
 */
int ripc_request_test(struct ripc_request **request);

/**
 * ripc_request_wait - wait for a request
 * @request: the request; set to NULL when it is done, and gone
 * @timeout_ms: how long to wait
 *
 * Return: -ETIMEDOUT if it is still under way, or what ripc_send_long() would have returned.
 * -ESHUTDOWN: the context is being closed; the memory is the caller's when ripc_close() has
 * returned.
 */
int ripc_request_wait(struct ripc_request **request, int timeout_ms);

/**
 * ripc_request_cancel - withdraw a request
 * @request: the request; set to NULL, and gone
 * @timeout_ms: how long to wait for the peer to let go of the memory; then the lane to it is closed
 *
 * On return the memory is the caller's in every case.
 *
 * Return: -ECANCELED if the message was withdrawn and will not be delivered, 0 if it was already delivered, or
 * the error it had failed with (-EPIPE: not known).
 */
int ripc_request_cancel(struct ripc_request **request, int timeout_ms);

/**
 * ripc_receive - take the next message of a service
 * @service: the service
 * @message: where the message is stored
 * @timeout_ms: how long to wait for one
 *
 * Short messages of one sender come in the order they were sent, its long ones in the order they were started; a
 * short message may overtake a long one that is still on its way.
 * A long message that is lost leaves a gap: its sender is notified, and where the sender died, those that were already here in full
 * are delivered although one before them was cut short.
 *
 * Return: 0, or a negative errno.
 * Errors:
 * -EAGAIN: @timeout_ms is 0 and there is none
 * -ETIMEDOUT: none came in time
 * -ESHUTDOWN: the service or its context is being closed, or another context took the service over, or has held it for longer (both
 *   registered it while the network was split), and all messages that were for this one are received
 */
int ripc_receive(struct ripc_service *service, struct ripc_message **message, int timeout_ms);

/**
 * ripc_group_join - make a service a member of a group
 * @service: the service
 * @group: 1 .. RIPC_GROUP_LIMIT-1
 * @timeout_ms: how long to wait until the other members are known
 *
 * From now on the service receives what anybody sends to the group, with ripc_receive(), in the order of arrival among its
 * other messages. Any number of services in any number of contexts may be members; nobody owns a group, and
 * nothing has to be set up. Senders that are at work learn of a new member within moments: what they send before, it does
 * not get. A context that dies drops out within about peer_timeout_ms.
 *
 * Return: 0, or a negative errno.
 * Errors:
 * -EINVAL: no such id
 * -EALREADY: it is a member
 * -EAGAIN, -ETIMEDOUT: the other members could not be found within @timeout_ms; the service is no member. 0 is rarely
 *   long enough
 * -ENOMEM: out of memory
 * -ESHUTDOWN: the service or its context is being closed
 */
int ripc_group_join(struct ripc_service *service, uint64_t group, int timeout_ms);

/**
 * ripc_group_leave - make a service no member any more
 * @service: the service
 * @group: the group
 *
 * Messages that have come stay in the queue. ripc_service_unregister() leaves all groups.
 *
 * Return: 0, or a negative errno (-ENOENT: it is no member; -EINVAL, -ESHUTDOWN).
 */
int ripc_group_leave(struct ripc_service *service, uint64_t group);

/**
 * ripc_group_send - send a short message to all members of a group
 * @service: the service it is from; it need not be a member
 * @group: the group
 * @items: its items, at most RIPC_GROUP_MESSAGE_MAX bytes together; free to use again on return
 * @nitems: 1 .. RIPC_ITEMS_MAX
 * @options: flags (RIPC_MORE), or NULL; return buffers cannot be offered to a group
 * @timeout_ms: how long to wait for members to be found, for connections, and for room on them
 *
 * Every member gets the message at most once, whole or not at all, the sending service too if it
 * is one. Messages of one sender keep their order, except when it changes between lanes and
 * multicast.
 *
 * A return of 0 means that the message was handed to the network for at least one member. It does
 * not mean that any member received or processed it. A member on a lane loses a message with the
 * connection, and if its queue is full; where multicast carries the message, it may be lost like
 * any datagram. Members that could not be reached are counted as missed by the sender, and lost
 * messages by the members that miss them: see ripc_group_stats().
 *
 * A sender that needs the work of every member has to know its members, collects an answer from
 * each, and repeats the message with ripc_send() to those that did not answer. A member must be
 * able to receive a repeated message without harm, for example by its number.
 *
 * Return: 0 when the message was handed to the network for all members that could be reached
 * within @timeout_ms, at least one, which says nothing of its arrival. Or a negative errno.
 * Errors:
 * -EHOSTUNREACH: there are no members, or none can be reached
 * -EMSGSIZE: longer than RIPC_GROUP_MESSAGE_MAX
 * -EAGAIN: @timeout_ms is 0, and the members are not yet known, or none is connected
 * -ETIMEDOUT: another thread of this context was sending to the group all the time
 * -EINVAL: no such id, no item, or too many items
 * -EOPNOTSUPP: return buffers, or a flag that this version does not know to serve
 * -ENOMEM: out of memory
 * -ESHUTDOWN: the service or its context is being closed
 */
int ripc_group_send(struct ripc_service *service, uint64_t group, const struct iovec *items,
		    unsigned nitems, const struct ripc_send_options *options, int timeout_ms);

/**
 * ripc_group_stats - the counters of a group
 * @ctx: the context, or NULL
 * @group: the group
 * @sender: 16 bytes, the instance id of a context that sends (struct ripc_message): received, lost and duplicates of its
 *          messages alone, the others 0. Or NULL: of all
 * @stats: where they are stored
 *
 * They begin anew when a context that has left a group, or sends nothing to it for half a minute, uses it again.
 *
 * Return: 0, or -ENOENT: the context has nothing to do with the group, or nothing has come from @sender.
 */
int ripc_group_stats(struct ripc *ctx, uint64_t group, const uint8_t *sender,
		     struct ripc_group_stats *stats);

/**
 * ripc_message_detach - keep one item of a message
 * @message: the message
 * @item: index of an item whose placement is RIPC_IN_POOL or RIPC_IN_SENDER_MEMORY
 *
 * The buffer becomes the caller's, as if it came from ripc_buf_alloc(), and outlives the message. What is RIPC_IN_SENDER_MEMORY is
 * copied, and the item lies in the copy from then on.
 *
 * Return: the buffer, to be freed with ripc_buf_free(), or NULL with errno set (EINVAL).
 */
void *ripc_message_detach(struct ripc_message *message, unsigned item);

/**
 * ripc_message_free - give a message back
 * @message: the message; NULL does nothing
 *
 * Its receive and pool buffers are used again. A message that is kept keeps its memory, but stops nobody.
 */
void ripc_message_free(struct ripc_message *message);

/**
 * ripc_route_lookup - find a service and connect to it
 * @ctx: the context, or NULL
 * @dest: the service
 * @route: where the way to it is stored, or NULL
 * @timeout_ms: how long to wait
 *
 * Sending does this by itself; ahead of time it saves the first message the wait.
 *
 * Return: 0 when a lane to its holder is up, or a negative errno (-EHOSTUNREACH, -EAGAIN as
 * ripc_send_short()).
 */
int ripc_route_lookup(struct ripc *ctx, uint64_t dest, struct ripc_route *route, int timeout_ms);

/**
 * ripc_route_get - how a service is reached at this moment
 * @ctx: the context, or NULL
 * @dest: the service
 * @route: where the answer is stored
 *
 * Sends nothing and never waits.
 *
 * Return: 0, or -ENOENT if nothing is known of the service.
 */
int ripc_route_get(struct ripc *ctx, uint64_t dest, struct ripc_route *route);

/**
 * ripc_route_limits - the sizes that bind a sender
 * @ctx: the context, or NULL
 * @dest: a destination, or 0 for what holds for every one
 * @limits: where they are stored
 *
 * Return: 0, or -ENOENT if @dest is not connected (ripc_route_lookup() does that).
 */
int ripc_route_limits(struct ripc *ctx, uint64_t dest, struct ripc_limits *limits);

/**
 * ripc_context_stats - the counters of a context
 * @ctx: the context, or NULL
 * @stats: where they are stored
 *
 * Return: 0, or a negative errno.
 */
int ripc_context_stats(struct ripc *ctx, struct ripc_stats *stats);

/**
 * ripc_service_stats - the counters of a service
 * @service: the service
 * @stats: where they are stored; what is not counted per service is 0
 *
 * Return: 0, or a negative errno.
 */
int ripc_service_stats(struct ripc_service *service, struct ripc_stats *stats);

/**
 * ripc_peer_stats - the counters of the peer that holds a service
 * @ctx: the context, or NULL
 * @dest: the service
 * @stats: where they are stored; what is not counted per peer is 0
 *
 * Return: 0, or -ENOENT if nothing is known of the service.
 */
int ripc_peer_stats(struct ripc *ctx, uint64_t dest, struct ripc_stats *stats);

/**
 * ripc_transport_info - which transports there are, and why others are not
 * @ctx: the context, or NULL
 * @index: 0, 1, 2 ...
 * @name: where its name is stored
 * @text: where its address is described or, if it is unavailable, the reason is given
 * @len: bytes at @text
 *
 * Return: 1 if it is open, 0 if it is unavailable, -ENOENT after the last.
 */
int ripc_transport_info(struct ripc *ctx, unsigned index, const char **name, char *text, size_t len);

/**
 * ripc_resolver_info - how services are found here, and what keeps them from being found
 * @ctx: the context, or NULL
 * @index: 0, 1, 2 ...
 * @name: where its name is stored; valid until the context is closed
 * @text: where its state at present is described or, if it is left out, the reason is given
 * @len: bytes at @text
 *
 * The back ends of the setting resolver: those in use, with their addresses, what they know and, with ZooKeeper, the
 * session; then those that cannot be used here. Behind them "cache", what is known by way of all of them, and
 * "keys", if there are any.
 *
 * Return: 1 if it works, 0 if it is left out or can find nothing at present (an ensemble is down), -ENOENT after the last.
 */
int ripc_resolver_info(struct ripc *ctx, unsigned index, const char **name, char *text, size_t len);

/**
 * ripc_log_set - send the log to a function
 * @fn: the function, or NULL for none
 * @arg: passed to it
 * @level: the highest level it wants
 *
 * For all contexts of the process. Without it the library logs nothing. The setting
 * log=error|warn|info|debug sends it to the standard error stream.
 */
void ripc_log_set(ripc_log_fn *fn, void *arg, enum ripc_log_level level);

/**
 * ripc_strerror - the text of an error number
 * @error: what a function returned, negative or positive
 *
 * Return: a constant string.
 */
const char *ripc_strerror(int error);

/**
 * ripc_error_detail - what went wrong in the calling thread's last failed call
 *
 * Return: one sentence that names service, peer, transport and cause; empty if no call failed yet. Valid until
 * the thread's next failed call.
 */
const char *ripc_error_detail(void);

/**
 * ripc_version - the version of the library in use
 *
 * Return: a constant string such as "0.1.0".
 */
const char *ripc_version(void);

#ifdef __cplusplus
}
#endif

#endif
