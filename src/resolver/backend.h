/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The contract between the resolver and what carries its messages. Driven under the context's lock; nothing blocks,
 * nothing calls back. A datagram may be lost at any time: the core repeats what matters.
 */
#ifndef RIPC_RESOLVER_BACKEND_H
#define RIPC_RESOLVER_BACKEND_H

#include "resolver/core.h"
#include "resolver/holder.h"

struct ripc__backend_env {
	const struct ripc__options *opt;
	const uint8_t *instance; /* 16 bytes */
	const char *arg;         /* what stands behind its name in the chain, or "" */
	const char *secret;      /* credentials for it, or "" */
	struct ripc__auth *auth; /* the cluster's keys, or NULL; for what a back end says by itself */
	const uint8_t *host;     /* 16 bytes, as in records */
	bool local;              /* the kernel of this host sees to it that an id is held once */
	bool only_udp;           /* nothing else in the chain hears UDP */
	int epoll_fd;            /* where a back end adds its descriptors, with tag */
	uint64_t tag;            /* data.u64 of its entries is tag | descriptor */
	void *sim;               /* the simulated network */
	uint64_t now_ns;
};

/* First member of every open back end. */
struct ripc__backend {
	const struct ripc__backend_ops *ops;
};

struct ripc__backend_ops {
	const char *name; /* as in RIPC_RESOLVER */
	bool trusted; /* its messages are made by itself, from what it has checked in its own way */
	bool inet;    /* it can answer a sender whose bytes are a socket address of IPv4 or IPv6 */

	/* Errors: -EINVAL for a setting that makes no sense here; with a path in arg, -ENOENT and
	 * -EACCES: the file that it names is not there, or may not be read; others: it cannot work on
	 * this machine. One sentence in why. Nothing is left behind. */
	int (*open)(struct ripc__backend **b, const struct ripc__backend_env *env, char *why,
		    size_t whylen);
	void (*close)(struct ripc__backend *b);

	/* A service is about to be ours. -EADDRINUSE, -EMFILE, ... explained by ripc__fail(). NULL: nothing to do. */
	int (*acquire)(struct ripc__backend *b, uint64_t service);
	void (*drop)(struct ripc__backend *b, uint64_t service);

	/*
	 * After -EADDRINUSE of hold(): the user who has the name. Return: whether it is known. NULL:
	 * never asked.
	 */
	bool (*owner)(struct ripc__backend *b, uint64_t service, struct ripc__holder *who);
	/*
	 * Asks the process that has the name who it is. Return: a descriptor that is readable when the
	 * answer has come, for answer(); or a negative errno: nobody has it.
	 */
	int (*ask)(struct ripc__backend *b, uint64_t service);
	/*
	 * Takes the answer, if it has come, and closes the descriptor. *record is zeroed if there is
	 * none, or if with keys it does not prove to have one.
	 */
	void (*answer)(struct ripc__backend *b, int fd, uint64_t service,
		       struct ripc__record *record, struct ripc__holder *who);

	/* Sends to all who may hold @service, or to one. The datagram may be lost, and says so to nobody. */
	void (*send)(struct ripc__backend *b, const struct ripc__mcast_sender *to, uint64_t service,
		     const uint8_t *data, size_t len);

	/* Takes one datagram from one of its descriptors (-1: it has none). from->backend is left alone. Return: bytes, -EAGAIN:
	 * none; -EBADMSG: one that was dropped for its sender or size. */
	int (*recv)(struct ripc__backend *b, int fd, struct ripc__mcast_sender *from, uint8_t *buf,
		    size_t cap);

	/* Whether it has nothing more to say to a registration of @service, or cannot for now. NULL: never has. */
	bool (*settled)(const struct ripc__backend *b, uint64_t service);

	/* Whether all services held are to be said to it anew, with higher generations: asked once. NULL: never. */
	bool (*reannounce)(struct ripc__backend *b);

	/* The record of this instance led nowhere. NULL: nothing to do. */
	void (*suspect)(struct ripc__backend *b, uint64_t service, const uint8_t instance[16]);

	/* Hands a datagram that came to this host to the context of this host that holds @service, as from @from. NULL: cannot. */
	void (*pass_on)(struct ripc__backend *b, const struct ripc__mcast_sender *from,
			uint64_t service, const uint8_t *data, size_t len);

	/* A look-up is under way: a chance to look for new interfaces. NULL: nothing to do. */
	void (*refresh)(struct ripc__backend *b, uint64_t now_ns);

	/* Whether it reaches beyond this host. */
	bool (*remote)(const struct ripc__backend *b);

	/* Describes what a look-up of @service tried, as a phrase: "udp (5 requests on lo port 7475)".
	 * Return: whether there is a holder all the same, which does not answer. */
	bool (*describe_attempt)(struct ripc__backend *b, uint64_t service, unsigned requests,
				 char *text, size_t len);

	/* What it is doing, as a phrase. Return: whether it can find anything at present. */
	bool (*describe)(const struct ripc__backend *b, char *text, size_t len);

	/* In the child of fork(): closes descriptors, touches nothing else. */
	void (*forked)(struct ripc__backend *b);
};

extern const struct ripc__backend_ops ripc__backend_local;
extern const struct ripc__backend_ops ripc__backend_udp;
extern const struct ripc__backend_ops ripc__backend_file;
extern const struct ripc__backend_ops ripc__backend_zookeeper; /* with HAVE_ZOOKEEPER */
extern const struct ripc__backend_ops ripc__backend_sim;

#endif
