/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libripc: messages to services, not addresses, over the fastest network of the host.
 *
 * Errors: a function that can fail returns 0 (or a count) or a negative errno. ripc_strerror()
 * names the number. ripc_error_detail() names the peer, service, transport and cause in one
 * sentence. Each function lists its own errors. Any function may also fail with -EINVAL (a pointer
 * is NULL, or the size of a struct is not set), -ESHUTDOWN (the context or service is closed or
 * being closed), -EOWNERDEAD (fork(), below), and, if it opens the default context, with the errors
 * of ripc_open(). -ENFILE is possible wherever -EMFILE is.
 *
 * Timeouts: a function that can wait takes a timeout in milliseconds: -1 waits for ever, 0 never
 * waits. A timeout of 100 ms or more may end 10 ms late. Four functions have fixed bounds instead,
 * which their comments give: ripc_open(), ripc_service_register(), ripc_service_unregister() and
 * ripc_close().
 *
 * Threads: any thread may call any function, unless the comment of the function states otherwise.
 * One thread may close a context, or unregister a service, while others call the library: see
 * ripc_close(). No thread may be cancelled in a call, which would keep its locks:
 * pthread_setcancelstate(3) prevents that.
 *
 * Signals: a signal does not end a call: it goes on when the handler has returned, without -EINTR.
 * No function may be called in a signal handler. A program that ends by a signal waits with a
 * timeout, or in an event loop (ripc_service_fd()) that also sees the signal.
 *
 * fork(): a child may not use its parent's contexts: calls on them return -EOWNERDEAD. Their
 * descriptors are closed in it. fork() waits until other threads have opened or closed theirs, at
 * most one second.
 *
 * Versions: the id of a name (ripc_id()) is the same in every version. Later versions may append
 * members to struct ripc_route, ripc_service_info, ripc_limits, ripc_stats, ripc_group_stats,
 * ripc_send_options, ripc_call_options and ripc_completion. Their first member is size; the program
 * sets it to the sizeof of the struct. A function fills a result up to that size and clears bytes
 * that it does not know. It rejects options in which a byte that it does not know is not zero.
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

/** Makes ripc_service_register() draw a free random id from the upper half of the id space. */
#define RIPC_ANY_ID UINT64_MAX
/** The application chooses service ids from 1 to below this limit; 0 is no service. */
#define RIPC_ID_LIMIT (UINT64_C(1) << 63)
/** Bytes of a name of a service at most, see ripc_id(). */
#define RIPC_NAME_MAX 255
/** Bytes of a short message, the sum of its items, that every lane can carry. */
#define RIPC_SHORT_GUARANTEED 512
/** Most items in one message. */
#define RIPC_ITEMS_MAX 64
/** Group ids are from 1 to this limit less 2. They are independent of service ids. */
#define RIPC_GROUP_LIMIT (UINT64_C(1) << 62)
/** Most bytes of a message to a group, the sum of its items. */
#define RIPC_GROUP_MESSAGE_MAX 1024
/** Most return buffers of one message. */
#define RIPC_RETURN_BUFFERS_MAX 16

/** One instance of the library. A context argument of NULL means the process's default one. */
struct ripc;
/** A service id with its receive queue. */
struct ripc_service;
/** A long send under way. */
struct ripc_request;

/** Flags of registrations, sends and calls. */
enum ripc_flags {
	/** ripc_send*(): acknowledged, in order, exactly once; see ripc_flush(). */
	RIPC_RELIABLE = 1 << 0,
	/** ripc_send*(): more messages follow at once. The library may delay this one until the
	 *  next call without the flag, or until it has nothing else to do. */
	RIPC_MORE = 1 << 1,
	/** ripc_service_register(): take the id over from its present holder, if there is one. */
	RIPC_TAKEOVER = 1 << 2,
	/** ripc_call*(): the request may be executed more than once. */
	RIPC_IDEMPOTENT = 1 << 3,
	/** ripc_send_long(), ripc_send_async(): a message that was sent frees its items, buffers of
	 *  ripc_buf_alloc(). A failed one does not. */
	RIPC_FREE_ITEMS = 1 << 4
};

/** Events of ripc_watch(), in struct ripc_message. */
enum ripc_event {
	/** No event: the message was sent by a service. */
	RIPC_EVENT_NONE = 0,
	/** The context that held the service was closed, died, cannot be reached, or could not
	 *  reach this context and gave it up. */
	RIPC_EVENT_DIED = 1,
	/** The context that held the service lives, but has closed it, or another context has taken
	 *  it over. */
	RIPC_EVENT_MOVED = 2,
	/** No context held the service when the watch began. */
	RIPC_EVENT_NOT_FOUND = 3
};

/** Where the memory of a received item is, and its owner after ripc_message_free(). */
enum ripc_placement {
	/** In a receive buffer shared with other messages: freed with the message. */
	RIPC_IN_RECEIVE_BUFFER = 0,
	/** In a buffer of the pool: freed with the message, or kept with ripc_message_detach(). */
	RIPC_IN_POOL = 1,
	/** In a window of the receiver: the application's again. */
	RIPC_IN_WINDOW = 2,
	/** In a return buffer of the receiver: the application's again. */
	RIPC_IN_RETURN_BUFFER = 3,
	/** In the memory of its sender, a process on the same host, mapped read-only: unmapped
	 *  with the message, or copied with ripc_message_detach(). ripc_buf_alloc() has the
	 *  conditions. */
	RIPC_IN_SENDER_MEMORY = 4
};

/**
 * A received message. The application may only read it; it is valid until ripc_message_free() or
 * ripc_close(). Items keep the number, order and lengths with which they were sent. An empty item
 * has length 0 and a base that must not be used. Items of short messages have no alignment; items
 * in the pool begin at a multiple of 64 bytes.
 */
struct ripc_message {
	/** service that sent it */
	uint64_t source;
	/** service to which it was sent */
	uint64_t dest;
	/** instance id of the sending context */
	uint8_t instance[16];
	/** 1 if it was sent as a long message, else 0 */
	uint32_t is_long;
	/** number of items, 1 .. RIPC_ITEMS_MAX */
	uint32_t nitems;
	/** return buffers that came with it, 0 .. RIPC_RETURN_BUFFERS_MAX, over every transport;
	 *  long items sent back to source may land in them, see ripc_send_long() */
	uint32_t nreturn_buffers;
	/** enum ripc_event: RIPC_EVENT_NONE, or what ripc_watch() reports */
	uint32_t event;
	/** array of nitems items */
	const struct iovec *items;
	/** array of nitems values of enum ripc_placement */
	const uint8_t *placement;
	/** group to which it was sent and of which dest is a member; 0: to dest alone */
	uint64_t group;
	/** id of the call whose request it is, see ripc_reply(); 0: it is none */
	uint64_t call;
};

/** Options of a send. Set size and zero the rest; NULL means all zero. */
struct ripc_send_options {
	/** bytes of this struct: sizeof(struct ripc_send_options) */
	size_t size;
	/** bits of enum ripc_flags */
	unsigned flags;
	/** number of return buffers, 0 .. RIPC_RETURN_BUFFERS_MAX */
	unsigned nreturn_buffers;
	/** array of nreturn_buffers registered or allocated buffers, see ripc_send_long() */
	const struct iovec *return_buffers;
	/** ripc_send_async(), ripc_reply_start(): comes back in struct ripc_completion */
	void *data;
};

/** Options of a call. Set size and zero the rest; NULL means all zero. */
struct ripc_call_options {
	/** bytes of this struct: sizeof(struct ripc_call_options) */
	size_t size;
	/** 0 or RIPC_IDEMPOTENT */
	unsigned flags;
	/** buffers for the answer, 0 .. RIPC_RETURN_BUFFERS_MAX */
	unsigned nreply_buffers;
	/** array of nreply_buffers registered or allocated buffers, see ripc_call() */
	const struct iovec *reply_buffers;
	/** ripc_call_start(): comes back in struct ripc_completion */
	void *data;
};

/** Kinds of completions. Ignore a kind that you do not know. */
enum ripc_completion_kind {
	/** A request or a call is done: get its result with timeout 0. */
	RIPC_COMPLETION_REQUEST = 1,
	/** A call on dest returned -EAGAIN: repeat it now. It may return -EAGAIN again. */
	RIPC_COMPLETION_SENDABLE = 2
};

/** A request that is done, or a destination that takes messages again. */
struct ripc_completion {
	/** bytes of this struct, set by the caller: sizeof(struct ripc_completion) */
	size_t size;
	/** enum ripc_completion_kind */
	uint32_t kind;
	/** the service to which the request goes, or to which a message can be sent again */
	uint64_t dest;
	/** the request that is done; NULL with RIPC_COMPLETION_SENDABLE */
	struct ripc_request *request;
	/** member data of the options with which the request was started, or NULL */
	void *data;
};

/** The route to a service, or why there is none. Strings are terminated, cut if too long. */
struct ripc_route {
	/** bytes of this struct, set by the caller: sizeof(struct ripc_route) */
	size_t size;
	/** the service */
	uint64_t service;
	/** instance id of the context that holds it; zero: none is known */
	uint8_t instance[16];
	/** largest short message in bytes, the sum of its items; 0: not connected */
	uint64_t short_max;
	/** 1 if a lane is up, else 0 */
	uint32_t connected;
	/** transport of the lane, empty if there is none */
	char transport[24];
	/** address of the peer on this transport */
	char address[96];
	/** why this transport, why each one that was tried failed, why others were not tried */
	char reason[512];
	/** the name it was registered by; empty: none, or not known */
	char name[256];
};

/** A service that ripc_service_list() found. Strings are terminated, cut if too long. */
struct ripc_service_info {
	/** bytes of this struct as the library knows it */
	size_t size;
	/** its id */
	uint64_t service;
	/** instance id of the context that holds it */
	uint8_t instance[16];
	/** id of its host (boot and network namespace); zeros: not known */
	uint8_t host[16];
	/** 1 if that is the host of the caller, else 0 */
	uint32_t same_host;
	/** 1 if the caller's context holds it, else 0 */
	uint32_t own;
	/** milliseconds since it was registered; 0: less than one, or not known */
	uint64_t age_ms;
	/** the name it was registered by; empty: by its id alone */
	char name[256];
	/** transports with their addresses, "; " between two */
	char addresses[512];
};

/** Receives one service. Must not call the library. */
typedef void ripc_service_list_fn(void *arg, const struct ripc_service_info *info);

/** Limits of the messages to a destination. */
struct ripc_limits {
	/** bytes of this struct, set by the caller: sizeof(struct ripc_limits) */
	size_t size;
	/** largest short message to this destination in bytes, the sum of its items */
	uint64_t short_max;
	/** largest long message in bytes, the sum of its items */
	uint64_t long_max;
	/** most items in one message */
	uint32_t items_max;
	/** most return buffers of one message */
	uint32_t return_buffers_max;
};

/**
 * Counters of a context, service or peer since it began. All of them only grow, except the gauges.
 * One message to a group counts as one short message sent, whatever the number of members, and as
 * one received at each member.
 */
struct ripc_stats {
	/** bytes of this struct, set by the caller: sizeof(struct ripc_stats) */
	size_t size;
	/** short messages passed to a transport / put into a queue */
	uint64_t short_sent, short_received;
	/** long messages whose delivery was confirmed / put into a queue */
	uint64_t long_sent, long_received;
	/** bytes of payload of these messages */
	uint64_t bytes_sent, bytes_received;
	/** sends that found no credit */
	uint64_t credit_stalls;
	/** sends that found the queue of the transport full */
	uint64_t queue_stalls;
	/** messages received for a service that is not registered here */
	uint64_t dropped_no_service;
	/** messages received and dropped for want of memory */
	uint64_t dropped_no_memory;
	/** datagrams received for a service whose queue was full */
	uint64_t dropped_queue_full;
	/** messages in the queue of a service when it was unregistered */
	uint64_t dropped_unread;
	/** datagrams missing in the sequence numbers of a peer */
	uint64_t datagrams_lost;
	/** messages received again and dropped */
	uint64_t duplicates;
	/** messages that violated the protocol */
	uint64_t bad_messages;
	/** connections or datagrams rejected: not libripc, or malformed */
	uint64_t bad_peers;
	/** messages and connections rejected because their key was wrong or missing */
	uint64_t unauthenticated;
	/** long sends cancelled or timed out */
	uint64_t cancelled;
	/** long items written into a return buffer of the peer; over shm and within one context
	 *  the receiver copies them there: they are not counted */
	uint64_t return_buffer_writes;
	/** long items received into a window */
	uint64_t window_items;
	/** long items received into a buffer of the pool */
	uint64_t pool_items;
	/** lanes that came up / broke */
	uint64_t lanes_opened, lanes_lost;
	/** peers declared dead with work outstanding */
	uint64_t peers_lost;
	/** services found to have a second holder, because the network had been split */
	uint64_t service_conflicts;
	/** services that another context took over or had held for longer */
	uint64_t services_lost;
	/** gauge: peers known */
	uint64_t peers;
	/** gauge: lanes up */
	uint64_t lanes;
	/** gauge: messages waiting to be received */
	uint64_t queued;
	/** gauge: bytes of pool buffers, in use or cached */
	uint64_t pool_bytes;
	/** gauge: bytes of application memory registered */
	uint64_t registered_bytes;
	/** reliable short messages sent again after a lane was lost */
	uint64_t resent;
	/** of these, messages whose arrival is unknown */
	uint64_t reliable_unknown;
	/** calls started */
	uint64_t calls;
	/** requests dropped before the service received them, because their callers had given up */
	uint64_t calls_expired;
	/** answers dropped because their calls had ended */
	uint64_t late_replies;
	/** datagrams dropped because the context of their short header is not known any more */
	uint64_t dropped_no_context;
};

/** Counters of one group in one context. They only grow, except the gauges and lost. */
struct ripc_group_stats {
	/** bytes of this struct, set by the caller: sizeof(struct ripc_group_stats) */
	size_t size;
	/** messages sent to the group by services of this context */
	uint64_t sent;
	/** of these, messages sent also as one multicast datagram */
	uint64_t multicasts;
	/** members that could not be reached in time, summed over the messages sent */
	uint64_t unreached;
	/** messages of other contexts, each counted once */
	uint64_t received;
	/** messages missing in the sequence numbers of their senders; shrinks if one is late */
	uint64_t lost;
	/** messages received again, over another path, and dropped */
	uint64_t duplicates;
	/** messages dropped because a local member's queue was full or memory was short */
	uint64_t dropped;
	/** gauge: contexts known to have members, this one included */
	uint64_t members;
	/** gauge: other contexts from which messages came */
	uint64_t senders;
};

/** Levels of the log. */
enum ripc_log_level {
	RIPC_LOG_ERROR = 0,
	RIPC_LOG_WARN = 1,
	RIPC_LOG_INFO = 2,
	RIPC_LOG_DEBUG = 3
};

/** Receives one line of the log, without a newline. It must not call the library. */
typedef void ripc_log_fn(void *arg, enum ripc_log_level level, const char *line);

/**
 * ripc_open - open a context
 * @ctx: where the new context is stored
 * @options: settings "key=value", separated by blanks, or NULL for none
 *
 * Opens one instance of the library: its transports, its resolver and its progress thread. It
 * needs no configuration. A setting stands in @options or, with its name in capital letters after
 * RIPC_, in the environment (RIPC_WAIT=poll). @options take precedence. ripc(7) lists the
 * settings.
 *
 * The call waits for no peer and no server: the connection to a ZooKeeper ensemble is made in the
 * background. It waits at most one second, if all 128 slots in the memory of pcie are taken, until
 * one is free.
 *
 * Return: 0, or a negative errno.
 * Errors:
 * -EINVAL: a setting is unknown or its value is invalid; ripc_error_detail() names it
 * -ENOENT, -EACCES: a file, directory or device that a setting names does not exist or may not be
 *   used, or other users may read the key file
 * -ENODEV: no transport could be opened; ripc_error_detail() gives the reason of each
 * -ENOMEM, -EMFILE: out of memory or descriptors
 * -ENOSPC: the limit of waits on descriptors, fs.epoll.max_user_watches, is reached
 * -EAGAIN: the limit of threads is reached
 * -EIO: the kernel's random source failed
 */
int ripc_open(struct ripc **ctx, const char *options);

/**
 * ripc_close - close a context
 * @ctx: the context, or NULL for the default one
 *
 * Unregisters its services, fails its outstanding operations, and ends its thread. It frees the
 * buffers, messages and requests of the context. Registered memory, and the memory of sends under
 * way, is the application's again. In a child made by fork() the call only invalidates the
 * context.
 *
 * Other threads may be in calls on the context, its services and its requests, and may begin
 * further ones, at any moment. A call that waits returns -ESHUTDOWN before ripc_close() returns. A
 * call that is not done, and one that begins later, returns -ESHUTDOWN and does nothing. This holds
 * even after ripc_close() has returned: a closed handle is never reused. ripc_request_test(),
 * ripc_request_wait() and ripc_request_cancel() then set the request to NULL.
 *
 * The program has two duties. From the call of ripc_close() on, no other thread may use a buffer or
 * a received message of the context, which is freed with the context. Calls of ripc_message_free()
 * and ripc_message_detach() count as use. So end threads that receive before: after
 * ripc_service_unregister() their calls return -ESHUTDOWN, and their messages stay valid. Two
 * threads may never use one request at the same time.
 *
 * The call waits until the transports have sent their queued messages: until none has passed for
 * 200 ms, and at most for 200 ms and peer_timeout_ms. It waits at most 50 ms to notify peers on ib,
 * and 500 ms for a ripc_service_register() of another thread. With resolver=zookeeper it also waits
 * until the connection to the ensemble is closed. That takes at most one second for each name
 * server of resolv.conf(5) that does not answer, and three seconds for a server that does not read.
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
 * Probes the network for another holder of @id. If there is none, the context answers requests for
 * it. For RIPC_ANY_ID the call does not probe: it does not wait, and sends nothing.
 *
 * The call waits at most resolve_timeout_ms, see ripc(7). If no holder answers, it waits 60 ms, or
 * 500 ms if this context knows a holder. It waits longer for an ensemble that does not answer or a
 * stopped former holder on this host. It waits at most another 500 ms to name a holder on this host
 * in ripc_error_detail().
 *
 * With RIPC_TAKEOVER a present holder loses the id, and senders switch to the new holder without
 * any action of the application. The former holder still receives messages that had arrived or
 * begun to arrive, and then -ESHUTDOWN. Each long message is delivered to one of the two, exactly
 * once. A sender sends long messages to the new holder when the former one has received or refused
 * all earlier ones, so they keep their order. It waits up to peer_timeout_ms for a former holder
 * that does not answer. A short message that is sent before the sender is notified may reach the
 * former holder too late, and is then lost, unless it is sent with RIPC_RELIABLE.
 *
 * If no holder answers in time (the network is split, an ensemble is unreachable) @id is taken to
 * be free. If a second holder is found later, the one that has held the id for longer keeps it,
 * and the other receives -ESHUTDOWN.
 *
 * Messages may arrive before the call returns. If another holder keeps the id after that, the call
 * returns 0, and the service receives these messages and then -ESHUTDOWN.
 *
 * Return: 0, or a negative errno.
 * Errors:
 * -EADDRINUSE: another service holds the id; ripc_error_detail() names the holder
 * -EINVAL: the id is 0 or in the half reserved for RIPC_ANY_ID
 * -EOPNOTSUPP: a flag other than RIPC_TAKEOVER
 * -ENOMEM, -EMFILE: out of memory or descriptors
 * -EIO: the kernel's random source, which draws ids for RIPC_ANY_ID, failed
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
 * Asks all contexts that the resolver reaches. These are with udp those of the broadcast domain,
 * with local those of this host, with file those of its hosts, with zookeeper all that have a node.
 * For tools and tests: the list costs every context of the network work, and is out of date at
 * once. The call asks all contexts three times. It asks a context again for each further answer
 * that the context has announced. The list may still lack services whose answers were lost or late;
 * if an announced answer is missing, the log has a warning. 500 ms suffice for a few thousand
 * services. A context sends at most 64 answers per second, each with 4 to 62 services.
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
 * ripc_service_unregister - end a service
 * @service: the service; the handle is invalid afterwards
 *
 * The call drops and counts the messages in the queue of the service, and cancels its long sends.
 * Its windows and return buffers are the application's again. Windows that hold items of an answer
 * are excepted: they are in use (-EBUSY) until ripc_call_wait() has returned the answer. Received
 * messages stay valid. Other threads may be in calls on the service, and may begin further ones:
 * all of them return -ESHUTDOWN, as after ripc_close(). The call waits at most 100 ms for peers to
 * stop using the memory of the service. Then it closes the lanes to the peers that have not. The
 * results of long sends on these lanes are -EPIPE in place of -ECANCELED.
 *
 * Return: 0, or a negative errno (-EINVAL: no service; -ESHUTDOWN: another thread has unregistered
 * it or closed the context, or is doing so).
 */
int ripc_service_unregister(struct ripc_service *service);

/**
 * ripc_service_id - the id of a service
 * @service: the service
 *
 * Return: its id, for RIPC_ANY_ID the one drawn; 0 if the service has ended.
 */
uint64_t ripc_service_id(const struct ripc_service *service);

/**
 * ripc_service_fd - a descriptor for an event loop
 * @service: the service
 *
 * The descriptor is readable (level-triggered) exactly when ripc_receive() would not block. Wait
 * for it with poll(2) or the like; never read, write or close it. The library owns it and closes it
 * with the service. Then poll(2) in another thread returns, but epoll_wait(2) does not, because the
 * kernel takes a closed descriptor out of the epoll instance.
 *
 * When ripc_receive() with timeout 0 has returned -EAGAIN, a thread of the library receives for the
 * program, so a wait for the descriptor ends with the next message. After another call the next
 * message may be some milliseconds late. A program that repeats the call without a message counts
 * as polling, and may get its next message late as well.
 *
 * ripc_receive() drops a request whose caller has given up while it was queued. If there is nothing
 * else, it returns -EAGAIN although the descriptor was readable. So call it with timeout 0.
 *
 * Return: the descriptor, or a negative errno (-EMFILE, -ENOMEM).
 */
int ripc_service_fd(struct ripc_service *service);

/**
 * ripc_completion_fd - a descriptor for an event loop
 * @ctx: the context, or NULL
 *
 * The descriptor is readable (level-triggered) while ripc_completion_next() has something to
 * report. Together with ripc_service_fd() of each service, it covers all that a program waits for.
 * Never read, write or close it. The library owns it and closes it with the context, as that of a
 * service.
 *
 * Return: the descriptor, or a negative errno (-EMFILE, -ENOMEM, -ESHUTDOWN).
 */
int ripc_completion_fd(struct ripc *ctx);

/**
 * ripc_completion_next - get the next request that is done, or the next destination that has room
 * @ctx: the context, or NULL
 * @completion: where it is stored
 * @timeout_ms: how long to wait for one
 *
 * A request of ripc_send_async(), ripc_call_start() or ripc_reply_start() is reported once, when it
 * is done. The request stays the caller's: ripc_request_wait() or ripc_call_wait() returns its
 * result at once, and frees it. A request whose result was fetched before is not reported.
 *
 * Destinations are reported too, from the first call of this function or of ripc_completion_fd()
 * on. A destination is reported after ripc_send(), ripc_send_short() or ripc_route_lookup() with
 * timeout 0 returned -EAGAIN for it. It is reported once for any number of such calls, when there
 * is room, or when the attempt to find and reach it has failed. -EHOSTUNREACH announces no report.
 *
 * Return: 0, or a negative errno.
 * Errors:
 * -EAGAIN: @timeout_ms is 0 and nothing is complete
 * -ETIMEDOUT: nothing was complete in time
 * -EINVAL: member size is not set
 * -ESHUTDOWN: the context is being closed
 */
int ripc_completion_next(struct ripc *ctx, struct ripc_completion *completion, int timeout_ms);

/**
 * ripc_buf_alloc - allocate a registered buffer
 * @ctx: the context, or NULL
 * @len: bytes, at least 1
 *
 * The buffer comes from a cache of registered memory. Its pages are present, and it is aligned to
 * 64 bytes. The caller owns it until ripc_buf_free(). A child of fork() may read, but must not
 * write it.
 *
 * Adapters read long items directly from the buffer. Items of up to 64 KiB are copied first,
 * because a copy takes less time than the registration for the message.
 *
 * A receiver on the same host reads an item in the memory of its sender (RIPC_IN_SENDER_MEMORY) if
 * all of these conditions hold. Otherwise the item is copied.
 *
 * - Sender and receiver are processes of the same user that are connected by shm, the kernel is
 *   Linux 5.1 or later, and both sides allow it: the setting "handover" in ripc(7).
 *
 * - The buffer has more than 32 KiB and the item 16 KiB or more. Memory of ripc_buf_register() is
 *   always copied.
 *
 * - The buffer is one of the last 64 of more than 32 KiB that exist in the context, those in its
 *   cache included.
 *
 * - The receiver has mapped the memory of the buffer. It begins to do so when a message out of it
 *   is sent for the second time, or at once if it has mapped others of this context, or with
 *   ripc_buf_alloc_for(). Freed memory keeps its mappings, and serves the next buffers, preferably
 *   those for the same receiver. Therefore a program that allocates, sends and frees a buffer for
 *   each message has all but the first few read in place.
 *
 * - No window lies in the buffer, and no part of it is a return buffer.
 *
 * - The item fits no return buffer and no window of the receiver.
 *
 * - The receiver freed the last such message in time, which is 0.2 ms plus 1 ns for each 8 bytes.
 *   A message that it keeps for longer costs the sender a copy if it sends out of the same buffer
 *   again. After the fifth in a row, 8 such messages to the service are copied, then 16, up to
 *   1024, until the receiver frees one in time. Buffers that are freed after each message are not
 *   concerned.
 *
 * - The peer has mapped fewer than 256 buffers of this context and is reading less than 256 MiB.
 *
 * An application may send on a received item that was read in place. The next services read it in
 * place, too, unless the process has imported more than 64 buffers. Sent back to its sender, it is
 * read in place if the sender has freed the buffer, best by RIPC_FREE_ITEMS, and is copied else.
 * With this flag a sender does not wait until the receiver has freed the message.
 *
 * An item may lie in other memory: in a smaller buffer, in memory of ripc_buf_register(), in a
 * received message that was copied, or in any of the application. The sending call copies such an
 * item into a large buffer of the library's own, and the receiver reads the copy in place. This
 * applies to items of more than 16 KiB and at most 16 MiB for which the first condition (processes)
 * and the fourth (mapping) hold. The sender waits only until the message has arrived. The receiver
 * copies the first two items to a service, and those beyond 128 MiB that it reads in place.
 *
 * A process that has mapped memory can read all that is written there later, also in buffers for
 * other services. The setting "handover=strict" excludes that. The last two messages out of the
 * buffer must then have gone to the same peer. Each change of the peer doubles the number of
 * messages that are copied first, up to 1024. If the memory belonged to another buffer before, the
 * item must be all of the buffer. Memory that was mapped is not recycled, and items are not passed
 * on in place.
 *
 * Return: the buffer, or NULL with errno set and ripc_error_detail() filled (ENOMEM, EINVAL).
 */
void *ripc_buf_alloc(struct ripc *ctx, size_t len);

/**
 * ripc_buf_alloc_for - allocate a registered buffer for messages to one service
 * @ctx: the context, or NULL
 * @len: bytes, at least 1
 * @dest: the service to which the buffer will be sent
 *
 * As ripc_buf_alloc(), and the buffer is, if possible, one that the process of the service has
 * mapped before, or begins to map now. So the first message out of it can be read in place. That
 * needs a connection to the service, which ripc_route_lookup() or an earlier message has made. A
 * program that allocates a buffer for each message, and sends them to several services, gets more
 * of them read in place than with ripc_buf_alloc(). It never waits for the service; the buffer may
 * be sent to other services, too.
 *
 * Return: the buffer, or NULL with errno set and ripc_error_detail() filled (ENOMEM, EINVAL).
 */
void *ripc_buf_alloc_for(struct ripc *ctx, size_t len, uint64_t dest);

/**
 * ripc_buf_realloc - change the size of a buffer
 * @ctx: the context, or NULL
 * @buf: any address inside a buffer of ripc_buf_alloc(), as for ripc_buf_free(), or NULL to
 *   allocate one
 * @len: bytes from the start of the buffer, at least 1
 *
 * The contents are kept up to the smaller size. The buffer may move. On failure the old buffer is
 * unchanged and stays the caller's.
 *
 * Return: the buffer, or NULL with errno set (ENOMEM; EINVAL: not a buffer of this context; EBUSY:
 * as ripc_buf_free(), or it is a window or a return buffer).
 */
void *ripc_buf_realloc(struct ripc *ctx, void *buf, size_t len);

/**
 * ripc_buf_free - free a buffer
 * @ctx: the context, or NULL
 * @buf: any address inside a buffer of ripc_buf_alloc(), up to the last byte requested; NULL does
 *   nothing
 *
 * A return buffer is withdrawn first: its memory is reused only when no peer can write into it. A
 * buffer that is a window is removed from the windows.
 *
 * Return: 0, or a negative errno.
 * Errors:
 * -EINVAL: the address is in no buffer of this context, or the buffer was freed before
 * -EBUSY: a send that is under way reads from it, or an item of a message or an answer that
 *   ripc_receive() or ripc_call_wait() has not returned yet lies in it
 */
int ripc_buf_free(struct ripc *ctx, void *buf);

/**
 * ripc_buf_register - send from and receive into memory of the application without a copy
 * @ctx: the context, or NULL
 * @base: start of the memory
 * @len: bytes, at least 1
 *
 * The application keeps the memory; it must stay mapped until ripc_buf_unregister(). Regions may
 * not overlap. Over RDMA adapters items of up to 64 KiB are still copied: see ripc_buf_alloc().
 *
 * Return: 0, or a negative errno.
 * Errors:
 * -EINVAL: @len is 0, or 2^47 or more, or the range exceeds the address space
 * -EEXIST: it overlaps a region registered before
 * -ENOMEM: out of memory or over the memlock limit; ripc_error_detail() gives the limit found and
 *   the limit needed
 */
int ripc_buf_register(struct ripc *ctx, void *base, size_t len);

/**
 * ripc_buf_unregister - end the registration of memory
 * @ctx: the context, or NULL
 * @base: the start of a region, as registered
 *
 * Return buffers in the region are withdrawn first. While a peer may still write into one, the call
 * returns -EBUSY: repeat it.
 *
 * Return: 0, or a negative errno.
 * Errors:
 * -EINVAL: no region begins there
 * -EBUSY: as ripc_buf_free(), it is a window, or a peer may still write into it
 */
int ripc_buf_unregister(struct ripc *ctx, void *base);

/**
 * ripc_window_add - provide memory as the target of incoming long items
 * @ctx: the context, or NULL
 * @service: the service whose items may land there, or NULL for all of the context
 * @base: registered or allocated memory
 * @len: bytes, at least 1 and at most the bytes registered or allocated from @base on
 *
 * Each window takes one item and is then used up. The window returns to the application as the
 * memory of the item, when ripc_receive() or ripc_call_wait() returns the message. From then on it
 * may be added again, and the next message may overwrite it, even before ripc_message_free().
 *
 * The items of a message take windows in their order. An item takes the first window that it fits
 * into, of its service first, then of the context. If it fits into none, it takes a buffer of the
 * pool.
 *
 * Return: 0, or a negative errno.
 * Errors:
 * -EINVAL: the memory is not registered, or @len is 0
 * -EBUSY: it overlaps a window, a return buffer, a send under way, or an item of a message or an
 *   answer that was not received yet
 * -ENOMEM: out of memory, or there are 65536 windows
 */
int ripc_window_add(struct ripc *ctx, struct ripc_service *service, void *base, size_t len);

/**
 * ripc_window_remove - remove a window
 * @ctx: the context, or NULL
 * @base: the start of a window
 *
 * Return: 0, or a negative errno (-EINVAL: no window begins there, or it is used up; -EBUSY: an
 * item is arriving in it).
 */
int ripc_window_remove(struct ripc *ctx, void *base);

/**
 * ripc_send_short - send a short message
 * @service: the service it is from
 * @dest: the service it is for
 * @items: its items, at most short_max bytes (ripc_route_limits()) together; the caller's again on
 *   return
 * @nitems: 1 .. RIPC_ITEMS_MAX
 * @options: flags and return buffers, or NULL
 * @timeout_ms: how long to wait for the service to be found, for a connection, and for credit
 *
 * A short message has the lowest latency. It is delivered at most once, whole or not at all.
 * Messages between two services keep their order on connected transports.
 *
 * A return of 0 means only that the message was passed to the network. The message is lost if the
 * connection ends before it has arrived, if its service has ended or moved when it arrives, or if
 * the receiving process ends before ripc_receive() has returned it. So a sender that ends without
 * ripc_close() may lose the last messages. On datagram transports it may be lost like any datagram.
 * The sender is not notified.
 *
 * A sender that must know more waits for an answer, which the receiver sends when it has processed
 * the message. Without an answer within a timeout of its own the sender repeats the message. The
 * first message may have been processed and its answer lost. Therefore make requests that may be
 * processed twice without harm, or number them and let the receiver answer a known number without
 * processing it again.
 *
 * Return: 0 when the message was passed to the network, which does not mean that it arrived, or a
 * negative errno.
 * Errors:
 * -EHOSTUNREACH: no context holds @dest, or its holder cannot be reached; ripc_error_detail()
 *   lists the attempts. With @timeout_ms 0: the last attempt failed. This call starts the next one,
 *   at most one a second: repeat it
 * -EMSGSIZE: longer than short_max of ripc_route_limits(), which ripc_error_detail() gives
 * -EAGAIN: @timeout_ms is 0, and the first attempt to find and reach @dest has not ended, or there
 *   is no credit; ripc_completion_next() reports when to repeat the call
 * -ETIMEDOUT: no credit, or no room in the transport's queue, within the timeout
 * -EINVAL: no item, too many items or return buffers, 2^47 bytes or more, a long item that reaches
 *   beyond the end of an allocated buffer, or a return buffer that is not registered
 * -EFAULT: an item cannot be read; ripc_error_detail() names it. This is not certain: where the
 *   library copies the item, the process gets SIGSEGV
 * -EBUSY: a return buffer is in use by a send, came with another message already, or holds an item
 *   that was not received yet
 * -EOPNOTSUPP: a flag that the function does not take, or a short message with RIPC_RELIABLE and
 *   return buffers
 * -ENOMEM: out of memory
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
 * The message is delivered reliably, whole and exactly once. Registered and allocated memory is
 * sent without a copy; ripc_buf_alloc() describes items of up to 64 KiB over RDMA adapters. Other
 * memory is registered for this one transfer or copied.
 *
 * With RIPC_FREE_ITEMS each item lies in a buffer of ripc_buf_alloc() of its own, without window or
 * return buffer. When the message was sent, the library frees the buffers as soon as no receiver
 * reads them: the caller must not use them any more. It does not wait for a receiver on the same
 * host that reads them in place.
 *
 * The return buffers in @options are memory for the answer. Each item of a long message that the
 * peer sends to @service lands in the first of them, in the order in which they were sent, that is
 * unused and long enough. The item begins where the buffer begins, and uses it up. Empty items,
 * items that fit none, and items of short messages and of answers lie elsewhere. The peer may write
 * the buffers until they return as items, or are withdrawn by ripc_buf_free(),
 * ripc_buf_unregister() or ripc_service_unregister(). A call or request that fails withdraws its
 * buffers; they are in use (-EBUSY) until the peer has confirmed that.
 *
 * A return of 0 means that the message is in the memory of the receiving process, in order, for
 * ripc_receive(). It does not mean that the application has received or processed it: a process
 * that is killed loses what is in its queue. Only an answer of the application, sent when the work
 * is done, notifies the sender. ripc_send_short() describes how to wait for answers and repeat.
 *
 * Return: 0 when the message is in the receiver's memory, not yet processed, or a negative errno.
 * The items are the caller's again, unless the call returns 0 and has RIPC_FREE_ITEMS. When the
 * timeout expires the message is withdrawn, which may take up to 100 ms more. If the peer does not
 * confirm that in time, the lane to it is closed and the result is -EPIPE.
 * Errors: those of ripc_send_short() without -EMSGSIZE, and
 * -EINVAL: with RIPC_FREE_ITEMS, an item in other memory than a buffer of ripc_buf_alloc(), or in a
 *   buffer with a window or return buffer
 * -EAGAIN: @timeout_ms is 0; nothing was sent, because delivery cannot be known without waiting;
 *   see ripc_send_async()
 * -ETIMEDOUT: not delivered in time; it was withdrawn and will not be delivered
 * -EPIPE: the peer died or became unreachable, and it is unknown whether the message was delivered
 * -ENOBUFS: the receiver had no memory for it
 * -EIO: the receiver refused it for a reason that this version does not know
 * -ENOMEM, -EPERM: out of memory, or over the memlock limit
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
 * Sends a short message if the items have at most short_max bytes (ripc_route_limits() of @dest),
 * else a long one. A program that does not check the size cannot know which of the two was used.
 * For such a program a return of 0 means no more than that of ripc_send_short(): the message may
 * still be lost.
 *
 * Return: as ripc_send_short() or ripc_send_long(), but never -EMSGSIZE; 0 does not mean that the
 * message was processed.
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
 * always sent over a connection, never as datagrams. They have at most 65536 bytes, or fewer where
 * a lane of the transport takes less (-EMSGSIZE); short_max bytes always fit. They may overtake
 * long messages.
 *
 * Delivered means that the message is in the memory of the receiving process, for ripc_receive().
 * If a receiver dies, messages to it may be lost. Then one call returns the error: ripc_flush(), or
 * the next reliable send to @dest, which then sends nothing. Later messages are sent as before. An
 * error that no call has returned is forgotten when @service ends, or when 1024 newer pairs of
 * services are in use; each error is logged.
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
 * @items: its items; the array may be freed on return, but the memory is the library's until the
 *   request is done
 * @nitems: 1 .. RIPC_ITEMS_MAX
 * @options: flags and return buffers, or NULL
 * @request: where the request is stored
 *
 * The call never waits. The transfer continues while the application computes. Several requests
 * may be under way. They complete in any order, but messages from @service to @dest are delivered
 * in the order in which they were started.
 *
 * A return of 0 means only that the request exists. When the request is done, ripc_request_test(),
 * ripc_request_wait() or ripc_request_cancel() returns the result. There, 0 means that the message
 * is in the memory of the receiver, not that the application has processed it: see
 * ripc_send_long().
 *
 * Return: 0 when the request exists, or a negative errno (-EINVAL, -EBUSY, -ENOMEM, -EOPNOTSUPP,
 * -ESHUTDOWN as ripc_send_long()).
 */
int ripc_send_async(struct ripc_service *service, uint64_t dest, const struct iovec *items,
		    unsigned nitems, const struct ripc_send_options *options,
		    struct ripc_request **request);

/**
 * ripc_request_test - test whether a request is done
 * @request: the request; freed and set to NULL when it is done
 *
 * Return: -EINPROGRESS, or the result as ripc_request_wait() returns it. If no context holds the
 * destination, the request continues to search for it until it is cancelled.
 */
int ripc_request_test(struct ripc_request **request);

/**
 * ripc_request_wait - wait for a request
 * @request: the request; freed and set to NULL when it is done
 * @timeout_ms: how long to wait
 *
 * Return: -ETIMEDOUT if it is still under way (*request is then not NULL), or the result as
 * ripc_send_long() or, of a call, ripc_call() returns it.
 * -ECANCELED: the service that sends was unregistered; the message will not be delivered.
 * -ESHUTDOWN: the context is being closed; the memory is the caller's when ripc_close() has
 * returned.
 */
int ripc_request_wait(struct ripc_request **request, int timeout_ms);

/**
 * ripc_request_cancel - withdraw a request
 * @request: the request; freed and set to NULL
 * @timeout_ms: how long to wait until the peer stops using the memory; then the lane to it is
 *   closed
 *
 * On return the memory is the caller's in every case. When the lane is closed, short messages that
 * are on their way over it are lost, except reliable ones. So give the peer time: 100 ms suffice
 * for one that runs.
 *
 * Return: -ECANCELED if the message was withdrawn and will not be delivered, 0 if it was already
 * delivered, or the error with which it had failed (-EPIPE: delivery is unknown).
 */
int ripc_request_cancel(struct ripc_request **request, int timeout_ms);

/**
 * ripc_call - send a request and wait for its answer
 * @service: the service that calls
 * @dest: the service that is called
 * @items: the items of the request, of any length; free to use again on return
 * @nitems: 1 .. RIPC_ITEMS_MAX
 * @options: flags and buffers for the answer, or NULL
 * @reply: where the answer is stored; NULL if there is none. Give it back with ripc_message_free()
 * @timeout_ms: how long the whole call may take, -1: for ever
 *
 * The request reaches the service like any message, and ripc_receive() returns it with its member
 * call set. The service answers with ripc_reply() or ripc_reply_error(), at any time, in any order
 * and from any thread. The answer is delivered to this call and not to the queue of @service. An
 * answer that comes too late is dropped; no other call ever gets it.
 *
 * A request is executed at most once, where executed means that the service has received it. If its
 * holder ends, or gives the service up, before that, the request goes to the next holder. With
 * RIPC_IDEMPOTENT it is also sent again if the holder was lost and may have executed it.
 *
 * The time that is left travels with the request. The service can ask for it. A request whose time
 * is up before the service receives it is dropped. When the time is up, the call requests from the
 * holder whether the service has received the request. That takes up to 100 ms more if the holder
 * does not answer.
 *
 * Each item of the answer lands in the first of @options->reply_buffers that is unused and long
 * enough: its placement is RIPC_IN_RETURN_BUFFER. No other message uses these buffers. They are the
 * caller's again when the call is done. With such buffers the request is a long message.
 *
 * Return: 0 and the answer; the error of ripc_reply_error(), with a message without content; or a
 * negative errno. *reply is not NULL if and only if the service has answered, or has freed the
 * request.
 * Errors:
 * -EHOSTUNREACH: not executed: nobody holds @dest, or its holder cannot be reached
 * -ETIMEDOUT: not executed: the time was up before the service received the request
 * -ETIME: the time was up, and the request may have been executed
 * -EPIPE: not known: the holder died, became unreachable, or could not send the answer
 * -ECANCELED: the service has freed the request without an answer
 * -EINVAL, -EBUSY, -EOPNOTSUPP, -EFAULT, -ENOBUFS, -EIO, -ENOMEM, -EPERM, -ESHUTDOWN: as
 *   ripc_send_long()
 */
int ripc_call(struct ripc_service *service, uint64_t dest, const struct iovec *items,
	      unsigned nitems, const struct ripc_call_options *options, struct ripc_message **reply,
	      int timeout_ms);

/**
 * ripc_call_start - send a request and get its answer later
 * @service: the service that calls
 * @dest: the service that is called
 * @items: the items of the request; the array may go. If @nitems items have more than
 *         RIPC_SHORT_GUARANTEED bytes together, or there are buffers for the answer, their memory
 *         is the library's until the call is done
 * @nitems: 1 .. RIPC_ITEMS_MAX
 * @options: flags and buffers for the answer, or NULL
 * @timeout_ms: how long the whole call may take, -1: for ever
 * @request: where the call is stored
 *
 * Never waits. Any number of calls may be under way, up to 1048576 in a context; they end in any
 * order. ripc_call_wait() returns the result. ripc_request_cancel() gives the call up: the service
 * is notified, and the result is -ECANCELED if the request was not executed, -ETIME if it may have
 * been. ripc_request_test() and ripc_request_wait() drop the answer.
 *
 * Return: 0 when the call exists, or a negative errno (-EINVAL, -ENOMEM, -EOPNOTSUPP, -ESHUTDOWN).
 */
int ripc_call_start(struct ripc_service *service, uint64_t dest, const struct iovec *items,
		    unsigned nitems, const struct ripc_call_options *options, int timeout_ms,
		    struct ripc_request **request);

/**
 * ripc_call_wait - wait for the answer of a call
 * @request: the call; set to NULL when it is done, and gone
 * @reply: where the answer is stored, or NULL to drop it
 * @timeout_ms: how long to wait; 0 only asks
 *
 * Return: -EINPROGRESS if the call is still under way, else as ripc_call(). -EINVAL: not a call.
 * -ESHUTDOWN: the context is being closed; if @request is not NULL, the memory of the call is the
 * caller's when ripc_close() has returned.
 */
int ripc_call_wait(struct ripc_request **request, struct ripc_message **reply, int timeout_ms);

/**
 * ripc_reply - answer a request
 * @request: the message, whose member call is not 0; it stays the caller's to free
 * @items: the items of the answer, of any length; free to use again on return
 * @nitems: 1 .. RIPC_ITEMS_MAX
 * @timeout_ms: how long a long answer may take; a short one never waits
 *
 * A request is answered once. If it is freed without an answer, its caller gets -ECANCELED, or, if
 * its time is up, -ETIME.
 *
 * Return: 0: the answer is sent, and sent again if connections are lost; a long one is delivered.
 * Or a negative errno.
 * Errors:
 * -EINVAL: the message is not the request of a call; or as ripc_send_long(), and the request can
 *   still be answered
 * -EALREADY: it was answered before
 * -ECANCELED: its caller does not wait any more, or is gone; the answer is dropped
 * -EAGAIN: @timeout_ms is 0 and the answer is long; nothing was sent: see ripc_reply_start()
 * -ETIMEDOUT, -EHOSTUNREACH, -EPIPE, -ENOBUFS, -EIO, -EFAULT: as ripc_send_long(); the caller gets
 *   -EPIPE
 * -ENOMEM, -EPERM: out of memory, or over the memlock limit; if the next call returns -EALREADY,
 *   the caller gets -EPIPE
 * -ESHUTDOWN: the context is being closed; or the answer is long, and the service that answers was
 *   closed: the caller gets -EPIPE
 */
int ripc_reply(struct ripc_message *request, const struct iovec *items, unsigned nitems,
	       int timeout_ms);

/**
 * ripc_reply_start - start to answer a request with a long message
 * @message: the request; it stays the caller's to free
 * @items: the items of the answer; the array may go, but the memory is the library's until @request
 *         is done
 * @nitems: 1 .. RIPC_ITEMS_MAX
 * @options: data for ripc_completion_next(), or NULL; no flags, no return buffers
 * @request: where the request that sends the answer is stored: see ripc_send_async()
 *
 * Never waits. For event loops and servers that answer many requests at once.
 *
 * Return: 0 when the request exists, or a negative errno as ripc_reply().
 */
int ripc_reply_start(struct ripc_message *message, const struct iovec *items, unsigned nitems,
		     const struct ripc_send_options *options, struct ripc_request **request);

/**
 * ripc_reply_error - refuse a request
 * @request: the message, whose member call is not 0; it stays the caller's to free
 * @error: an errno of 1 to 4095, or the negative of one: ripc_call() returns it as a negative errno
 *
 * Return: as ripc_reply(); -EINVAL also for another @error.
 */
int ripc_reply_error(struct ripc_message *request, int error);

/**
 * ripc_message_deadline - the time that the caller of a request still waits
 * @message: the message
 *
 * Return: milliseconds, rounded up; 0: its time is up; -1: it waits for ever, or the message is not
 * the request of a call.
 */
int ripc_message_deadline(const struct ripc_message *message);

/**
 * ripc_message_cancelled - whether the caller of a request does not wait any more
 * @message: the message
 *
 * Return: 1: its time is up, it has cancelled the call, or it is gone. 0: it waits, or the message
 * is not the request of a call. Or a negative errno (-EINVAL, -EOWNERDEAD).
 */
int ripc_message_cancelled(const struct ripc_message *message);

/**
 * ripc_receive - take the next message of a service
 * @service: the service
 * @message: where the message is stored
 * @timeout_ms: how long to wait for one
 *
 * Short messages of one sender arrive in the order in which they were sent, its long messages in
 * the order in which they were started. A short message may overtake a long one that is still
 * under way. A long message that is lost leaves a gap, and its sender is notified. When a sender
 * dies, its messages that have arrived in full are delivered, even if an earlier one is
 * incomplete.
 *
 * Return: 0, or a negative errno.
 * Errors:
 * -EAGAIN: @timeout_ms is 0 and there is no message
 * -ETIMEDOUT: no message came in time
 * -ESHUTDOWN: the service or its context is being closed; or another context took the service
 *   over, or has held it for longer (both registered it while the network was split), and all
 *   messages of this one are received
 */
int ripc_receive(struct ripc_service *service, struct ripc_message **message, int timeout_ms);

/**
 * ripc_watch - be notified when the holder of a service dies or gives the service up
 * @service: the service that is notified
 * @dest: the service to watch
 *
 * Never waits. It finds @dest and connects to its holder, if need be, and detects the end of the
 * holder from then on. When the holder is lost, ripc_receive() returns a message of its own kind.
 * Its event is not 0, source is @dest, and instance is the context that held @dest (zeros if none
 * did). The one item is a text that names the cause. The message comes after all messages from that
 * holder that have arrived.
 *
 * The watch ends with its event. To go on, call ripc_watch() again: it watches the present holder.
 * Each call gives one event. A holder that does not answer is lost after peer_timeout_ms; so is one
 * that the resolver names, but to which no connection comes up. A holder that was lost because the
 * network is split may be alive, and send further messages when the network heals. If it watches a
 * service of this context, it then gets an event, too, even if it did not miss this context. A
 * service that its holder closes and registers again while the connection to it is lost gives no
 * event.
 *
 * Return: 0, or a negative errno (-EINVAL, -ENOMEM, -ESHUTDOWN as ripc_send_short()).
 */
int ripc_watch(struct ripc_service *service, uint64_t dest);

/**
 * ripc_unwatch - end the watches of a service
 * @service: the service that is notified
 * @dest: the service that is watched
 *
 * An event that waits to be received stays in the queue. Without a watch the call does nothing.
 *
 * Return: 0, or a negative errno (-EINVAL, -ESHUTDOWN as ripc_send_short()).
 */
int ripc_unwatch(struct ripc_service *service, uint64_t dest);

/**
 * ripc_group_join - make a service a member of a group
 * @service: the service
 * @group: 1 .. RIPC_GROUP_LIMIT-2
 * @timeout_ms: how long to wait until the other members are known
 *
 * From now on ripc_receive() returns every message that any service sends to the group, in the
 * order of arrival among the other messages. Any number of services in any number of contexts may
 * be members. A group has no owner and needs no setup. An active sender learns of a new member
 * within moments; the member does not receive earlier messages. A context that dies leaves the
 * group within about peer_timeout_ms, or after 16 seconds if its host falls silent and no message
 * to it waits.
 *
 * If the network is split, each part of the group goes on as a group of its own. When the network
 * heals, the parts stay apart until one of their coordinating members announces the group again. It
 * does so every 5 seconds; after a minute, at intervals of an eighth of the time since it lost a
 * member.
 *
 * Return: 0, or a negative errno.
 * Errors:
 * -EINVAL: @group is out of range
 * -EALREADY: it is a member
 * -EAGAIN, -ETIMEDOUT: the other members could not be found within @timeout_ms; the service is no
 *   member. 0 is rarely long enough
 * -ENOMEM: out of memory
 * -ESHUTDOWN: the service or its context is being closed
 */
int ripc_group_join(struct ripc_service *service, uint64_t group, int timeout_ms);

/**
 * ripc_group_leave - end the membership of a service in a group
 * @service: the service
 * @group: the group
 *
 * Messages that have arrived stay in the queue. ripc_service_unregister() leaves all groups.
 *
 * Return: 0, or a negative errno (-ENOENT: it is no member; -EINVAL, -ESHUTDOWN).
 */
int ripc_group_leave(struct ripc_service *service, uint64_t group);

/**
 * ripc_group_send - send a short message to all members of a group
 * @service: the service it is from; it need not be a member
 * @group: the group
 * @items: its items, at most RIPC_GROUP_MESSAGE_MAX bytes together; the caller's again on return
 * @nitems: 1 .. RIPC_ITEMS_MAX
 * @options: flags (RIPC_MORE), or NULL; return buffers are not allowed
 * @timeout_ms: how long to wait until members are found and connected and have credit
 *
 * Every member receives the message at most once, whole or not at all. So does the sending service
 * if it is a member. Messages of one sender keep their order, except when it changes between lanes
 * and multicast.
 *
 * A return of 0 means that the message was passed to the network for at least one member. It does
 * not mean that any member received or processed it. A member on a lane loses a message with the
 * connection, and if its queue is full. A message sent by multicast may be lost like any datagram.
 * The sender counts members that it could not reach; members count messages that they miss: see
 * ripc_group_stats().
 *
 * A sender that needs the work of every member has to know its members. It collects an answer from
 * each, and repeats the message with ripc_send() to those that did not answer. A member must be
 * able to receive a repeated message without harm, for example by its number.
 *
 * Return: 0 when the message was passed to the network for all members that could be reached within
 * @timeout_ms, at least one. That does not mean that the message arrived. Or a negative errno.
 * Errors:
 * -EHOSTUNREACH: there are no members, or none can be reached
 * -EMSGSIZE: longer than RIPC_GROUP_MESSAGE_MAX
 * -EAGAIN: @timeout_ms is 0, and the members are not yet known, or none is connected
 * -ETIMEDOUT: other threads of this context were sending to the group all the time
 * -EINVAL: @group is out of range, no item, or too many items
 * -EOPNOTSUPP: return buffers, or a flag other than RIPC_MORE
 * -EFAULT: an item cannot be read, as with ripc_send_short()
 * -ENOMEM: out of memory
 * -ESHUTDOWN: the service or its context is being closed
 */
int ripc_group_send(struct ripc_service *service, uint64_t group, const struct iovec *items,
		    unsigned nitems, const struct ripc_send_options *options, int timeout_ms);

/* In C++ the function hides the constructor of the struct, of which g++ warns. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

/**
 * ripc_group_stats - the counters of a group
 * @ctx: the context, or NULL
 * @group: the group
 * @sender: 16 bytes, the instance id of a sending context (struct ripc_message), for received,
 *   lost and duplicates of its messages alone and 0 in the others; or NULL for all senders
 * @stats: where they are stored
 *
 * The context uses the group while it has members, and for 30 seconds after it has sent to the
 * group. Then the counters are lost, so read those of a member before ripc_group_leave().
 *
 * Return: 0, or -ENOENT if the context does not use the group, or no message has come from @sender.
 */
int ripc_group_stats(struct ripc *ctx, uint64_t group, const uint8_t *sender,
		     struct ripc_group_stats *stats);

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/**
 * ripc_message_detach - keep one item of a message
 * @message: the message
 * @item: index of an item whose placement is RIPC_IN_POOL or RIPC_IN_SENDER_MEMORY
 *
 * The caller owns the buffer as if it came from ripc_buf_alloc(); it outlives the message. An item
 * that is RIPC_IN_SENDER_MEMORY is copied, and the message then refers to the copy.
 *
 * Return: the buffer, to be freed with ripc_buf_free(), or NULL with errno set and
 * ripc_error_detail() filled (EINVAL; ENOMEM: no memory for the copy, and the item stays as it is).
 */
void *ripc_message_detach(struct ripc_message *message, unsigned item);

/**
 * ripc_message_free - free a message
 * @message: the message; NULL does nothing
 *
 * The library reuses its receive and pool buffers. An unfreed message pins only its own memory and
 * blocks no sender.
 */
void ripc_message_free(struct ripc_message *message);

/**
 * ripc_route_lookup - find a service and connect to it
 * @ctx: the context, or NULL
 * @dest: the service
 * @route: where the route to it is stored, or NULL
 * @timeout_ms: how long to wait
 *
 * A send does this too. A call ahead of time saves the first message the wait.
 *
 * Return: 0 when a lane to its holder is up, or a negative errno (-EHOSTUNREACH, -EAGAIN, -EINVAL,
 * -ENOMEM as ripc_send_short()). After the first two @route has the reason.
 */
int ripc_route_lookup(struct ripc *ctx, uint64_t dest, struct ripc_route *route, int timeout_ms);

/**
 * ripc_route_get - get the present route to a service
 * @ctx: the context, or NULL
 * @dest: the service
 * @route: where the route is stored
 *
 * The call sends nothing and never waits.
 *
 * Return: 0, or -ENOENT if nothing is known of the service.
 */
int ripc_route_get(struct ripc *ctx, uint64_t dest, struct ripc_route *route);

/**
 * ripc_route_limits - get the limits of messages to a destination
 * @ctx: the context, or NULL
 * @dest: a destination, or 0 for the limits that hold for every destination
 * @limits: where they are stored
 *
 * Return: 0, or -ENOENT if @dest is not connected; ripc_route_lookup() connects it.
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
 * @stats: where they are stored; counters that are not kept per service are 0
 *
 * Return: 0, or a negative errno.
 */
int ripc_service_stats(struct ripc_service *service, struct ripc_stats *stats);

/**
 * ripc_peer_stats - the counters of the peer that holds a service
 * @ctx: the context, or NULL
 * @dest: the service
 * @stats: where they are stored; counters that are not kept per peer are 0
 *
 * Return: 0, or -ENOENT if nothing is known of the service.
 */
int ripc_peer_stats(struct ripc *ctx, uint64_t dest, struct ripc_stats *stats);

/**
 * ripc_transport_info - list the transports, open and unavailable
 * @ctx: the context, or NULL
 * @i: index in the list: 0, 1, 2 ...
 * @name: where its name is stored; valid until the context is closed
 * @text: where its address or, if it is unavailable, the reason is stored
 * @len: bytes at @text
 *
 * Return: 1 if it is open, 0 if it is unavailable, -ENOENT after the last, -EINVAL if @len is 0.
 */
int ripc_transport_info(struct ripc *ctx, unsigned i, const char **name, char *text, size_t len);

/**
 * ripc_resolver_info - list the back ends of the resolver and their state
 * @ctx: the context, or NULL
 * @i: index in the list: 0, 1, 2 ...
 * @name: where its name is stored; valid until the context is closed
 * @text: where its present state or, if it is not in use, the reason is stored
 * @len: bytes at @text
 *
 * First come the back ends of the setting resolver that are in use, with their addresses, the
 * number of records and, with ZooKeeper, the session. Then come those that cannot be used here,
 * "cache" for the records of all of them, and "keys" if there are any.
 *
 * Return: 1 if it works, 0 if it is not in use or can find nothing at present (an ensemble is
 * down), -ENOENT after the last, -EINVAL if @len is 0.
 */
int ripc_resolver_info(struct ripc *ctx, unsigned i, const char **name, char *text, size_t len);

/**
 * ripc_log_set - send the log to a function
 * @fn: the function, or NULL for none
 * @arg: passed to it
 * @level: the highest level to send
 *
 * The function serves all contexts of the process. Without it the library logs nothing. The
 * setting log=error|warn|info|debug sends the log to the standard error stream.
 *
 * The log names a service by its number, with its name if the context knows it. It names a peer by
 * the first four bytes of its instance id in hexadecimal, as ripc-ping prints it.
 */
void ripc_log_set(ripc_log_fn *fn, void *arg, enum ripc_log_level level);

/**
 * ripc_strerror - the text of an error number
 * @error: an error number, negative or positive
 *
 * Return: a constant string.
 */
const char *ripc_strerror(int error);

/**
 * ripc_error_detail - explain the last failed call of the calling thread
 *
 * Return: one sentence that names service, peer, transport and cause; empty if no call has failed.
 * The library owns it; it is valid until the thread's next failed call.
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
