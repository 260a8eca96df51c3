/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * shm, inside: rings in memory that two processes of one host map. Connections are set up over a
 * Unix socket, which stays open for kicks, and whose end is the end of the peer. The rest is
 * shared: ring/endpoint.h.
 */
#ifndef RIPC_SHM_H
#define RIPC_SHM_H

#include "transport/reports.h"
#include "transport/ring/endpoint.h"
#include "transport/shm/address.h"
#include "transport/shm/segment.h"

/* INCOMING connections at most; base/admission.h chooses the one that gives way */
#define SHM_INCOMING_MAX 64u
#define SHM_SETUP_NS     UINT64_C(3000000000) /* after which an INCOMING connection is closed */

#define SHM_DOORBELL_AFTER 8u
#define SHM_DOORBELLS_MAX  32u
/* Events of an eventfd have this bit in the address of their endpoint. */
#define SHM_DOORBELL_TAG 1u

/*
 * Segments are in ep.ring.be from when they are mapped, before the engine starts: inbox, ours, and
 * map, the peer's.
 */
struct shm_ep {
	struct ripc__ep ep;
	int fd;
	/* eventfds of doorbell.c, ours and the peer's; -1: kicks go over the socket */
	int doorbell, peer_doorbell;
	/* the peer's process, at most PID_MAX_LIMIT, 1 << 22; 0: not in our PID namespace */
	unsigned pid : 23;
	unsigned kicks : 8;     /* that came over the socket, up to a maximum */
	bool can_read_peer : 1; /* we can read the peer's memory */
	uint64_t probe;         /* the peer reads it to find out whether it can read our memory */
};

struct shm {
	struct ripc__transport r; /* fd: epoll */
	int listeners[2];         /* abstract, path; -1: none */
	struct ripc__shm_address address;
	bool zero_copy;      /* memory objects may be exported and imported */
	bool armed;          /* slept since the sockets were last polled */
	bool scan_deferred;  /* by one pass, which had messages */
	uint64_t scanned_ns; /* when the sockets were last polled */
	/* no descriptors are left: the listeners are not polled until then; 0: they are */
	uint64_t accept_resume_ns;
	unsigned doorbells, peer_doorbells; /* endpoints that have one */
	struct ripc__reports reports;
};

static inline struct shm_ep *shm_ep(struct ripc__ep *ep)
{
	return (struct shm_ep *)ep;
}

static inline struct shm *shm_of(const struct ripc__ep *ep)
{
	return (struct shm *)ep->t;
}

/* listen.c */
int ripc__shm_listen(struct shm *t, const struct ripc__options *opt);
void ripc__shm_unlisten(struct shm *t);

/* setup.c */
extern const struct ripc__ring_setup_ops ripc__shm_setup;
void ripc__shm_accept_all(struct shm *t, int listener, uint64_t now_ns);
/* The socket of an endpoint that is not open yet is readable. Return: number of events, 0 or 1. */
unsigned ripc__shm_setup_step(struct ripc__ep *ep, struct ripc__event *ev);

/* shm.c */
/* arg: struct shm_ep. The second is for peers whose memory cannot be read. */
extern const struct ripc__ring_backend_ops ripc__shm_ops, ripc__shm_unreadable_ops;
/* Reads len bytes of the peer's memory. Return: 0 or a negative errno. */
int ripc__shm_peer_read(const struct shm_ep *ep, void *to, uint64_t addr, size_t len);

/* doorbell.c */
/* A kick came over the socket. */
void ripc__shm_doorbell_kicked(struct shm_ep *ep);
/* A packet of n bytes with the descriptor fd, or -1. Return: whether fd, a doorbell, was taken. */
bool ripc__shm_doorbell_take(struct shm_ep *ep, const uint8_t *packet, size_t n, int fd);
/* Wakes the peer of a struct shm_ep: kick() of the back end. */
void ripc__shm_doorbell_ring(void *ep);
/* Closes both descriptors. forked: in a child, which shares the epoll set with its parent. */
void ripc__shm_doorbell_close(struct shm_ep *ep, bool forked);

/* packet.c */
/* Sends one packet, with the descriptor fd unless it is -1. Return: 0 or a negative errno. */
int ripc__shm_send(int sock, const struct iovec *iov, size_t niov, int fd);
/*
 * Receives one packet. *fd: its descriptor, the caller's, or -1; *flags: as of recvmsg(). Return:
 * bytes, 0 at the end, or a negative errno; -EAGAIN: none.
 */
ssize_t ripc__shm_receive(int sock, struct iovec *iov, size_t niov, int *fd, int *flags);
int ripc__shm_export(struct ripc__ep *ep, int fd, size_t len, uint32_t number);
/*
 * Receives one packet from the socket of an open endpoint: a memory object, an eventfd, or a kick.
 * Return: 0; 1: *ev is a memory object; -ECONNRESET: it is closed.
 */
int ripc__shm_import(struct ripc__ep *ep, struct ripc__event *ev);

#endif
