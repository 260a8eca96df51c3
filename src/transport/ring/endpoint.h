/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the transports over rings, above the engine: endpoints and their states, exposed
 * memory, posts, passes over all endpoints, sleeping. A back end (shm, pcie) provides memory, a
 * doorbell, and the exchange of a request and its answer: struct ripc__ring_setup_ops. Its own
 * transport and endpoint begin with struct ripc__transport and struct ripc__ep.
 *
 *   passive   INCOMING -> REQUESTED --accept()--> OPEN
 *   active    CONNECTING ----------answer-------> OPEN
 *   both      CONNECTING, OPEN --failure, rejection, end of the peer--> CLOSED
 *             any state --ep_close() or reject()--> freed
 *
 * ripc__ring_ep_set_state() asserts that a transition is in the table of endpoint.c.
 *
 * An open endpoint is active or idle. Each pass polls the active ones, and one of the idle ones:
 * these have had no traffic for some passes, have no work, and are armed, so that their peer kicks.
 */
#ifndef RIPC_RING_ENDPOINT_H
#define RIPC_RING_ENDPOINT_H

#include "base/list.h"
#include "base/slab.h"
#include "transport/ring/ring.h"
#include "transport/transport.h"

enum ripc__ep_state {
	RIPC__EP_INCOMING,   /* the request has not arrived */
	RIPC__EP_REQUESTED,  /* the request was reported */
	RIPC__EP_CONNECTING, /* the answer has not arrived */
	RIPC__EP_OPEN,
	RIPC__EP_CLOSED, /* reported */
	RIPC__EP_STATES,
};

/* State of the set-up, and data that are reported before an endpoint is open, or when it opens. */
struct ripc__ring_ep_setup {
	int failed;           /* CONNECTING, < 0: to be reported as closed with this status */
	uint64_t accepted_ns; /* shm: INCOMING since then */
	char text[160];       /* why, with failed; or the peer's name, in REQUESTED */
	uint32_t private_len;
	uint8_t private[RIPC__PRIVATE_MAX];
};

struct ripc__ep {
	struct ripc__list link; /* in eps or idle of its transport, then in deferred_free */
	struct ripc__transport *t;
	void *user;
	enum ripc__ep_state state : 8;
	bool idle;
	bool established;                  /* to be reported as such */
	bool lost;                         /* the peer is gone, for the reason in ring.why */
	unsigned empty_polls;              /* passes without traffic */
	struct ripc__ring_ep_setup *setup; /* NULL: was idle once */
	struct ripc__ring ring;
};

/* How a back end begins and ends a connection. */
struct ripc__ring_setup_ops {
	size_t ep_size; /* bytes of an endpoint */
	/*
	 * Makes an endpoint with ripc__ring_ep_new() and sends the request; the back end's progress
	 * calls ripc__ring_ep_open() or ripc__ring_ep_fail() for it. Return: 0 or a negative errno,
	 * explained; -ECONNREFUSED: no process listens at the address.
	 */
	int (*connect)(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
		       const void *priv, size_t privlen, struct ripc__ep **ep);
	/*
	 * Sends the answer, and calls ripc__ring_ep_open(). Return: 0; or a negative errno,
	 * explained: the caller removes the endpoint.
	 */
	int (*accept)(struct ripc__ep *ep, const void *priv, size_t privlen);
	/* Sends the answer. The caller removes the endpoint. */
	void (*reject)(struct ripc__ep *ep, const void *priv, size_t privlen);
	/* Releases memory and doorbell, in any state; the engine has ended. */
	void (*release)(struct ripc__ep *ep);
};

struct ripc__transport {
	const struct ripc__transport_ops *ops;
	const struct ripc__ring_setup_ops *setup;
	unsigned caps; /* of enum ripc__cap */
	int fd;        /* of limits(); the back end's */
	bool may_idle; /* kicks arrive: endpoints may become idle */
	struct ripc__list eps, idle;
	struct ripc__list *idle_next; /* the idle endpoint that the next pass polls; or the head */
	/* the endpoint that received last, active; or NULL */
	struct ripc__ep *last_rx;
	struct ripc__list deferred_free; /* closed since the last pass: events may point there */
	unsigned neps[RIPC__EP_STATES];  /* endpoints by state */
	struct ripc__slab_pool pool;     /* memory of received messages */
	uint8_t *scratch;                /* receives one message of a pass when there is no slab */
	bool scratch_used;               /* by an event of this pass */
};

/*
 * Allocates a transport of @size bytes, zeros behind its shared part. @caps: of the back end,
 * beside CONNECTED, READ, CHEAP_REG and TARGET_PROGRESS. Return: it, or NULL, with -ENOMEM
 * explained.
 */
void *ripc__ring_transport_new(size_t size, const struct ripc__transport_ops *ops,
			       const struct ripc__ring_setup_ops *setup, unsigned caps);
/* Closes all endpoints, and frees all but the transport itself. All messages were released. */
void ripc__ring_transport_fini(struct ripc__transport *t);

/* ---- for the set-up of a back end ---- */

/* Return: an endpoint in this state, or NULL: out of memory. */
struct ripc__ep *ripc__ring_ep_new(struct ripc__transport *t, enum ripc__ep_state state);
void ripc__ring_ep_set_state(struct ripc__ep *ep, enum ripc__ep_state state);
/*
 * Both segments are there: starts the engine. The next pass reports it, on the active side with the
 * private data of the answer, which the back end has put into ep->setup.
 */
void ripc__ring_ep_open(struct ripc__ep *ep, const struct ripc__ring_backend *be,
			const struct ripc__ring_layout *layout, uint8_t epoch);
/* The event for an endpoint in REQUESTED, whose setup has private data and text. */
struct ripc__event ripc__ring_ep_request(struct ripc__ep *ep, uint64_t source);
/* The next pass reports the end of a CONNECTING endpoint; -ECONNREFUSED: with private, rejected. */
void ripc__ring_ep_fail(struct ripc__ep *ep, int status, const char *why);
/* Removes an endpoint in any state; the next pass frees it. */
void ripc__ring_ep_defer_free(struct ripc__ep *ep);
/* The peer is gone: to be reported when its last messages are. */
static inline void ripc__ring_ep_lost(struct ripc__ep *ep, const char *why)
{
	ep->lost = true;
	/* A failed engine has a reason. */
	if (!ep->ring.status)
		ep->ring.why = why;
}

/* Traffic, or a kick: each pass polls the endpoint again. */
void ripc__ring_ep_activate(struct ripc__ep *ep);
/* The endpoint is armed and has nothing to do. */
void ripc__ring_ep_make_idle(struct ripc__ep *ep);

/* Endpoints that are not open yet. */
static inline unsigned ripc__ring_setups(const struct ripc__transport *t)
{
	const unsigned *n = t->neps;

	return n[RIPC__EP_INCOMING] + n[RIPC__EP_REQUESTED] + n[RIPC__EP_CONNECTING];
}

/* ---- for progress() and arm() of a back end ---- */

/* Begins a pass: events of the last one do not point into memory any more. */
void ripc__ring_transport_begin(struct ripc__transport *t);
/*
 * Polls the endpoints. *more is set if another pass would find work at once: the back end lowers
 * its deadline to the present time. Return: events, at most max.
 */
unsigned ripc__ring_transport_poll(struct ripc__transport *t, struct ripc__event *events,
				   unsigned max, bool *more);
/*
 * Prepares to sleep: sends all, and with @kicks asks the peers for a kick. Return: whether
 * something is to be done first.
 */
bool ripc__ring_transport_arm(struct ripc__transport *t, bool kicks);

/* ---- entries of the vtable ---- */

void ripc__ring_limits(struct ripc__transport *t, struct ripc__transport_limits *limits);
int ripc__ring_connect(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
		       const void *priv, size_t privlen, void *user, struct ripc__ep **out);
int ripc__ring_accept(struct ripc__transport *t, void *request, const void *priv, size_t privlen,
		      void *user, struct ripc__ep **out);
void ripc__ring_reject(struct ripc__transport *t, void *request, const void *priv, size_t privlen);
void ripc__ring_ep_close(struct ripc__ep *ep);
int ripc__ring_mr_reg(struct ripc__transport *t, struct ripc__ep *ep, void *base, size_t len,
		      unsigned access, struct ripc__mr *mr);
void ripc__ring_mr_dereg(struct ripc__transport *t, struct ripc__mr *mr);
int ripc__ring_post(struct ripc__ep *ep, const void *head, size_t head_len,
		    const struct iovec *items, unsigned n, bool more);
int ripc__ring_transfer(struct ripc__ep *ep, const struct ripc__transfer *x);
void ripc__ring_release(struct ripc__transport *t, void *token);
bool ripc__ring_poll_one(struct ripc__transport *t, void *buf, size_t cap, struct ripc__event *ev);

/* The entries that need nothing of the back end. poll_one is its choice. */
#define RIPC__RING_TRANSPORT_OPS                                                                   \
	.limits = ripc__ring_limits, .connect = ripc__ring_connect, .accept = ripc__ring_accept,   \
	.reject = ripc__ring_reject, .reg = ripc__ring_mr_reg, .dereg = ripc__ring_mr_dereg,       \
	.ep_close = ripc__ring_ep_close, .post = ripc__ring_post, .transfer = ripc__ring_transfer, \
	.release = ripc__ring_release

#endif
