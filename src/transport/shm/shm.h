/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * shm, inside: the window engine between processes of one host. Connections are set up over a Unix
 * socket, which stays as doorbell and as the sign that the peer lives: one end's file, shm.c the
 * vtable and progress, listen.c and setup.c from a socket to mapped memory, endpoint.c what is
 * posted.
 *
 * The same code with a simulated link in place of the mapping is ring/sim, for tests.
 */
#ifndef RIPC_SHM_H
#define RIPC_SHM_H

#include "transport/transport.h"
#include "transport/shm/address.h"
#include "transport/ring/ring.h"
#include "transport/ring/delivery.h"
#include "transport/ring/sim_ntb.h"
#include "transport/shm/segment.h"

#define SHM_SLAB_MEMORY (64u << 20) /* bytes of received messages held at most */
#define SHM_INCOMING_MAX \
	64u /* connections without a request at most: base/admission.h says which goes */
#define SHM_SETUP_NS   UINT64_C(3000000000) /* how long they may take to */
#define SHM_READ_DEPTH 8u

enum shm_state {
	SHM_INCOMING,   /* passive: the request has not come */
	SHM_REQUESTED,  /* passive: reported, waits for the core's answer */
	SHM_CONNECTING, /* active: the answer has not come */
	SHM_OPEN,
	SHM_CLOSED, /* reported; only to be freed */
};

struct ripc__ep {
	/* in shm.eps or shm.cold, rings with a head of the transport's */
	struct ripc__ep *next, *prev;
	struct shm *t;
	void *user;
	int fd;
	enum shm_state state;
	bool idle;            /* in shm.cold */
	unsigned empty_polls; /* rounds without anything from it */
	bool established;     /* to be reported as such */
	bool hung_up;         /* the peer closed the socket */
	int failed;           /* < 0: to be reported as closed with this status */
	char why[128];        /* with failed */
	uint64_t accepted_ns; /* INCOMING: when it came */
	struct ripc__ring ring;
	struct ripc__segment inbox, outbox; /* ours, the peer's */
	struct ripc__sim_ntb link;          /* ring/sim */
	int pid;                            /* the peer's; 0: not in our PID namespace */
	uint64_t probe;     /* what the peer reads to see whether it can read our memory */
	bool can_read_peer; /* memory of the peer can be read by us */
	uint8_t private[RIPC__PRIVATE_MAX]; /* to be reported */
	uint32_t private_len;
};

struct shm {
	struct ripc__transport_base base;
	/*
	 * Endpoints that are looked at in every round, and those that are not: silent for some
	 * time, they have nothing to do and are armed, so that their peers ring before they are
	 * heard.
	 */
	struct ripc__ep eps, idle;  /* heads of the rings */
	struct ripc__ep *idle_next; /* of cold, the next one to be looked at; its head: the first */
	/* the one that brought something last, open and not cold; NULL: none since we last slept */
	struct ripc__ep *last_rx;
	/* all that are registered: they may outlive their connection */
	struct ripc__ring_region *regions;
	/* closed since the last progress(): events may still point into them; by next */
	struct ripc__ep *deferred_free;
	unsigned neps, nincoming, nsetups; /* nsetups: INCOMING, REQUESTED, CALLING */
	int epoll_fd;
	int listeners[2]; /* abstract, path; -1: none */
	struct ripc__shm_address address;
	bool simulated;      /* ring/sim */
	bool zero_copy;      /* buffers may be handed over, to us and by us */
	bool armed;          /* slept since the descriptors were last looked at */
	uint64_t scanned_ns; /* when they were */
	/* no descriptors left: the listeners are not looked at; 0: they are */
	uint64_t accept_resume_ns;
	bool low;       /* EV_LOW is to be reported */
	int low_status; /* its status */
	uint64_t seed;
	struct ripc__ring_delivery delivery;
	char bad_input[160];          /* to be reported; "": nothing */
	char bad_input_reported[160]; /* being reported */
};

static inline void ripc__shm_list_del(struct ripc__ep *ep)
{
	if (ep->t->idle_next == ep)
		ep->t->idle_next = ep->next;
	ep->prev->next = ep->next;
	ep->next->prev = ep->prev;
}

static inline void ripc__shm_list_add(struct ripc__ep *head, struct ripc__ep *ep)
{
	ep->next = head;
	ep->prev = head->prev;
	ep->prev->next = ep;
	head->prev = ep;
}

/* Something is to be done for it, or came from it: from now on it is looked at. */
static inline void ripc__shm_activate(struct ripc__ep *ep)
{
	ep->empty_polls = 0;
	if (!ep->idle)
		return;
	ep->idle = false;
	ripc__shm_list_del(ep);
	ripc__shm_list_add(&ep->t->eps, ep);
}

/* listen.c */
int ripc__shm_listen(struct shm *t, const struct ripc__options *opt);
void ripc__shm_unlisten(struct shm *t);

/* setup.c */
void ripc__shm_accept_all(struct shm *t, int listener, uint64_t now_ns);
/* The socket of an endpoint that is not open yet is readable. Return: number of events, 0 or 1. */
unsigned ripc__shm_setup_step(struct ripc__ep *ep, struct ripc__event *ev);
int ripc__shm_connect(struct ripc__transport *tr, const uint8_t *addr, size_t addrlen,
		      const void *priv, size_t privlen, void *user, struct ripc__ep **out);
int ripc__shm_accept(struct ripc__transport *tr, void *request, const void *priv, size_t privlen,
		     void *user, struct ripc__ep **out);
void ripc__shm_reject(struct ripc__transport *tr, void *request, const void *priv, size_t privlen);
/* Takes an endpoint out of everything; it is freed by the next progress(). */
void ripc__shm_defer_free(struct ripc__ep *ep);
/* Who it is, for people. */
void ripc__shm_peer_name(const struct ripc__ep *ep, char *text, size_t len);

/* endpoint.c */
extern const struct ripc__ring_backend_ops ripc__shm_ops; /* arg: struct ripc__ep */
void ripc__shm_kick(void *arg);
int ripc__shm_reg(struct ripc__transport *tr, struct ripc__ep *ep, void *base, size_t len,
		  unsigned access, struct ripc__mr *mr);
void ripc__shm_dereg(struct ripc__transport *tr, struct ripc__mr *mr);
void ripc__shm_ep_close(struct ripc__ep *ep);
int ripc__shm_post(struct ripc__ep *ep, const void *head, size_t head_len,
		   const struct iovec *items, unsigned n, bool more);
int ripc__shm_post_write(struct ripc__ep *ep, const struct ripc__mr *mr, const void *local,
			 size_t len, uint64_t raddr, uint32_t rkey, uint64_t wr_id);
int ripc__shm_post_read(struct ripc__ep *ep, const struct ripc__mr *mr, void *local, size_t len,
			uint64_t raddr, uint32_t rkey, uint64_t wr_id);
/* Reads len bytes of the peer's memory. Return: 0 or a negative errno. */
int ripc__shm_peer_read(const struct ripc__ep *ep, void *to, uint64_t addr, size_t len);

/* handover.c */
int ripc__shm_export(struct ripc__ep *ep, int fd, size_t len, uint32_t number);
/*
 * Takes one packet from the socket of an open endpoint. Return: 0; 1: *ev is a buffer; -ECONNRESET:
 * it is closed.
 */
int ripc__shm_import(struct ripc__ep *ep, struct ripc__event *ev);

#endif
