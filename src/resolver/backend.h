/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The contract between the resolver and a back end, which carries its messages. The context's lock
 * is held; no entry blocks or calls back. A datagram may be lost: the core repeats requests.
 */
#ifndef RIPC_RESOLVER_BACKEND_H
#define RIPC_RESOLVER_BACKEND_H

#include "resolver/core.h"
#include "resolver/holder.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

struct ripc__backend_env {
	const struct ripc__options *opt;
	const uint8_t *instance; /* 16 bytes */
	const char *arg;         /* argument after the name in the chain, or "" */
	const char *secret;      /* credentials for it, or "" */
	/* the cluster's keys, or NULL; for messages of the back end itself */
	struct ripc__auth *auth;
	const uint8_t *host; /* 16 bytes, as in records */
	bool local;          /* the kernel of this host enforces one holder per id */
	bool only_udp;       /* no other back end of the chain receives UDP */
	int epoll_fd;        /* a back end adds its descriptors here, with tag */
	uint64_t tag;        /* data.u64 of its entries is tag | descriptor */
	void *sim;           /* with resolver_env.backend: its simulated network */
};

/* First member of every open back end. */
struct ripc__backend {
	const struct ripc__backend_ops *ops;
};

struct ripc__backend_ops {
	const char *name; /* as in RIPC_RESOLVER */
	size_t size;      /* bytes of an open back end */
	bool inet; /* it can answer a sender whose address is an IPv4 or IPv6 socket address */

	/*
	 * Fills in @b, size bytes that are zero but for ops. The caller frees them.
	 * -EINVAL: a setting is invalid. With a path in arg, -ENOENT and -EACCES: the file does not
	 * exist, or may not be read. Other errors: the back end cannot work on this machine. One
	 * sentence in why. After an error nothing stays open.
	 */
	int (*open)(struct ripc__backend *b, const struct ripc__backend_env *env, char *why,
		    size_t whylen);
	void (*close)(struct ripc__backend *b);

	/* The next five are entries of the back end local only; the others leave them NULL. */

	/* Acquires the name of a service. -EADDRINUSE, -EMFILE, ... explained by ripc__fail(). */
	int (*acquire)(struct ripc__backend *b, uint64_t service);
	/* After -EADDRINUSE of acquire(): the user that holds the name. */
	void (*owner)(struct ripc__backend *b, uint64_t service, struct ripc__holder *who);
	/*
	 * Asks the process that holds the name for its record. Return: a descriptor for answer(),
	 * which becomes readable with the answer; or a negative errno: no process holds the name.
	 */
	int (*ask)(struct ripc__backend *b, uint64_t service);
	/*
	 * Reads the answer, if it has arrived, and closes the descriptor. *record is zeroed without
	 * an answer, or if keys are in use and the answer is not authenticated.
	 */
	void (*answer)(struct ripc__backend *b, int fd, uint64_t service,
		       struct ripc__record *record, struct ripc__holder *who);
	/*
	 * Forwards a datagram to the other context of this host that has the name of @service, if
	 * any, as from @from; 0: a LIST, to all other contexts of this host.
	 */
	void (*pass_on)(struct ripc__backend *b, const struct ripc__backend_addr *from,
			uint64_t service, const uint8_t *data, size_t len);

	/* The service is released: drops its name or its record. NULL: nothing to do. */
	void (*drop)(struct ripc__backend *b, uint64_t service);

	/* Sends to all possible holders of @service, or to one. May lose the datagram silently. */
	void (*send)(struct ripc__backend *b, const struct ripc__backend_addr *to, uint64_t service,
		     const uint8_t *data, size_t len);

	/*
	 * Sends a LIST to all contexts, or answers it from the back end's own knowledge. @data: not
	 * sealed for the back end that keeps records. NULL: send() to all does it.
	 */
	void (*list)(struct ripc__backend *b, const uint8_t *data, size_t len);

	/*
	 * Receives one datagram from a descriptor (-1: the back end has none). Does not set
	 * from->backend. Return: bytes; -EAGAIN: none; -EBADMSG: dropped for its sender or size;
	 * -ENOMSG: dropped silently; -ESTALE: the back end has lost the records that it keeps: send
	 * those of all held services again, with higher generations.
	 */
	int (*recv)(struct ripc__backend *b, int fd, struct ripc__backend_addr *from, uint8_t *buf,
		    size_t cap);

	/*
	 * The next two are entries of the back end that keeps records (zookeeper) only. It builds
	 * its messages from data that it has authenticated.
	 *
	 * Whether a registration of @service need not wait for this back end any longer.
	 */
	bool (*settled)(const struct ripc__backend *b, uint64_t service);
	/* The record of this instance led to no connection. */
	void (*suspect)(struct ripc__backend *b, uint64_t service, const uint8_t instance[16]);

	/* Often while services are looked up: may read its settings again. NULL: nothing to do. */
	void (*refresh)(struct ripc__backend *b, uint64_t now_ns);

	/* Whether it reaches beyond this host. NULL: yes; local: not called. */
	bool (*remote)(const struct ripc__backend *b);

	/*
	 * Describes the attempt of a look-up, as a phrase: "udp (5 requests on lo port 7475)".
	 * Return: whether a holder exists that does not answer.
	 */
	bool (*describe_attempt)(struct ripc__backend *b, uint64_t service, unsigned requests,
				 char *text, size_t len);

	/* Describes its state, as a phrase. Return: whether it can find services at present. */
	bool (*describe)(const struct ripc__backend *b, char *text, size_t len);

	/* In the child of fork(): closes descriptors and touches nothing else. */
	void (*forked)(struct ripc__backend *b);
};

/*
 * Adds a descriptor of a back end to the epoll set. ok: false: its set-up failed, with errno.
 * Return: fd; or a negative errno: it is closed.
 */
static inline int ripc__backend_watch(int epoll_fd, uint64_t tag, int fd, bool ok)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = tag | (unsigned)fd};
	int err;

	if (ok && !epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev))
		return fd;
	err = errno;
	close(fd);
	return -err;
}

extern const struct ripc__backend_ops ripc__backend_local;
extern const struct ripc__backend_ops ripc__backend_udp;
extern const struct ripc__backend_ops ripc__backend_file;
extern const struct ripc__backend_ops ripc__backend_zookeeper; /* with HAVE_ZOOKEEPER */

#endif
