/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Groups: their members, and the role of this context in them. One member coordinates: it holds the
 * group's name, an id of the resolver that no service can have, and announces all changes to the
 * members.
 *
 *   SEARCHING --a member claims the name--> CLAIMING --it got it--> COORDINATING
 *   SEARCHING --the name is held, or a sender--> JOINING --the list of members--> JOINED
 *   CLAIMING --held by another--> JOINING      COORDINATING --an older coordinator--> JOINING
 *   JOINED --a sender becomes a member--> JOINING
 *   JOINING, JOINED --the coordinator is gone, or resigned--> SEARCHING
 *   COORDINATING --the last local member left--> SEARCHING
 *
 * ripc__group_set_state() asserts that a transition is in the table of group.c.
 *
 * membership.c: the list of members. coordinator.c: the coordinator. local_member.c: services that
 * join and leave. multicast_send.c, multicast_receive.c: messages.
 */
#ifndef RIPC_CORE_GROUP_GROUP_H
#define RIPC_CORE_GROUP_GROUP_H

#include "core/progress/context.h"
#include "core/peer/replay.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct ripc__lane;

/* Ids from here on are names of groups in the resolver; RIPC_ANY_ID draws lower ones. */
#define RIPC__GROUP_BASE        (RIPC_ID_LIMIT | RIPC_GROUP_LIMIT)
#define RIPC__MEMBERS_MAX       2048 /* contexts in one group, members or senders */
#define RIPC__MCAST_SENDERS_MAX 4096 /* senders per group with a duplicate filter */
/* the same of all groups, from which nothing has come over a lane: datagrams may be forged */
#define RIPC__UNVERIFIED_SENDERS_MAX 2048
#define RIPC__MCAST_DEDUP_WINDOW \
	2048 /* numbers per sender in the duplicate filter; a power of two */

enum ripc__group_state {
	RIPC__GROUP_SEARCHING,    /* no coordinator is known */
	RIPC__GROUP_CLAIMING,     /* the resolver looks for a holder of the name */
	RIPC__GROUP_JOINING,      /* a holder exists: JOIN was sent, or waits for a lane */
	RIPC__GROUP_JOINED,       /* the coordinator has sent the list of members */
	RIPC__GROUP_COORDINATING, /* this context coordinates */
	RIPC__GROUP_STATES,
};

enum ripc__group_role { RIPC__ROLE_NONE, RIPC__ROLE_SENDER, RIPC__ROLE_MEMBER };

/*
 * Another context of the group. Only the coordinator knows contexts that send without being
 * members.
 */
struct ripc__member {
	UT_hash_handle hh;
	uint8_t instance[16];
	enum ripc__group_role role;
	uint64_t expires_ns;       /* time of its removal; RIPC__NEVER: none */
	bool listed;               /* announced since our last JOIN */
	uint64_t sent;             /* number of the last message sent to it or dropped for it */
	uint64_t mcast_until_ns;   /* multicast reaches it until then, by its MCAST_ACK */
	uint64_t backoff_until_ns; /* it was unreachable: no attempt before then */
	bool moved;                /* its record changed: the next connection uses it */
	struct ripc__peer *wanted; /* peer to which a sender waits for a lane */
	uint16_t record_len;
	uint8_t record[]; /* as encoded in messages */
};

/* Duplicate filter and statistics of one sender. */
struct ripc__mcast_sender {
	UT_hash_handle hh;
	struct ripc__list lru; /* in group->lru */
	uint8_t instance[16];
	bool unverified;      /* no message has come over a lane */
	bool was_absent;      /* we were no member since its last message: gaps do not count */
	uint64_t last_ack_ns; /* last MCAST_ACK */
	uint64_t received, lost, duplicates;
	struct ripc__replay replay;
	uint64_t seen[RIPC__REPLAY_WORDS(RIPC__MCAST_DEDUP_WINDOW)];
};

/* A service of this context in a group. */
struct ripc__local_member {
	struct ripc__list link; /* in group->local_members */
	struct ripc_service *service;
};

struct ripc__group {
	UT_hash_handle hh;
	uint64_t id;
	struct ripc *ctx;
	enum ripc__group_state state;    /* ripc__group_set_state() */
	struct ripc__list local_members; /* struct ripc__local_member: our members */
	unsigned users;                  /* threads in a call on it */
	bool sending;                    /* one of them is sending a message */
	struct ripc__dest *pinned;       /* the coordinator's destination, or NULL */
	/* version of the list of members, counted by the coordinator */
	uint64_t version;
	uint64_t join_version; /* version in the last JOIN */
	/* JOINING, JOINED: instance of the coordinator that was asked last */
	uint8_t coordinator[16];
	uint64_t next_ns;  /* when group_step() has work */
	uint64_t lost_ns;  /* when the last silent member was removed: the network may be split */
	uint64_t claim_ns; /* COORDINATING, lost_ns: time of the next claim of the name */
	uint64_t join_sent_ns;              /* time of the last JOIN; JOINING: 0: none sent */
	enum ripc__group_role joined_role;  /* role in that JOIN */
	unsigned failures;                  /* failed searches for a coordinator in a row */
	int claim_error;                    /* of the last attempt to claim the name, or 0 */
	uint64_t used_ns;                   /* last send */
	uint64_t number;                    /* number of the next message */
	struct ripc__member *members;       /* uthash by instance */
	struct ripc__mcast_sender *senders; /* uthash by instance */
	unsigned unacked;      /* multicasts without a valid MCAST_ACK, since the last one */
	struct ripc__list lru; /* the same entries, the most recent at the end */
	struct ripc__waitq waitq;
	struct ripc_group_stats stats;
};

/* The resolver's name of a group, and whether an id is such a name. */
static inline uint64_t ripc__group_name(uint64_t group)
{
	return RIPC__GROUP_BASE | group;
}

static inline bool ripc__group_is_name(uint64_t id)
{
	return id >= RIPC__GROUP_BASE;
}

/* Whether a group may have this id: its name is not RIPC_ANY_ID, which the resolver refuses. */
static inline bool ripc__group_is_id(uint64_t group)
{
	return group && group < RIPC_GROUP_LIMIT - 1;
}

/* Finds a group. Return: NULL: this context does not use it. */
struct ripc__group *ripc__group_find(struct ripc *ctx, uint64_t id);
/* As ripc__group_find(), created if needed. Return: NULL: out of memory. */
struct ripc__group *ripc__group_get(struct ripc *ctx, uint64_t id);

/* JOINING: no JOIN is sent yet. */
void ripc__group_set_state(struct ripc__group *g, enum ripc__group_state to);
/* Runs the group's timer at the next pass. */
void ripc__group_kick(struct ripc__group *g);

static inline enum ripc__group_role ripc__group_role(const struct ripc__group *g)
{
	return ripc__list_empty((struct ripc__list *)&g->local_members) ? RIPC__ROLE_SENDER
									: RIPC__ROLE_MEMBER;
}

/* Whether the list of members is known: as coordinator, or from one. */
static inline bool ripc__group_members_known(const struct ripc__group *g)
{
	return g->state >= RIPC__GROUP_JOINED;
}

/* The peer of a member, with its addresses. Return: NULL: out of memory. */
struct ripc__peer *ripc__member_peer(struct ripc *ctx, struct ripc__member *m);

/* Resolver events for the name of a group. */
void ripc__group_claimed(struct ripc *ctx, uint64_t name);
void ripc__group_conflict(struct ripc *ctx, uint64_t name);
/* Whether a group waits for such an event. */
bool ripc__groups_claiming(const struct ripc *ctx);

/* JOIN, MEMBER or COORDINATOR arrived. Return: 0, or -EPROTO with *why. */
int ripc__group_control(struct ripc__lane *lane, const struct ripc__header *h, const char **why);

/* Whether the peer coordinates, or is a member or sender of, a group of this context. */
bool ripc__groups_include(struct ripc *ctx, const struct ripc__peer *p);
/*
 * Checks the arguments of a call on a group, before the lock. Return: 0 and *ctx, or a negative
 * errno, explained.
 */
int ripc__check_group(struct ripc_service *s, uint64_t group, struct ripc **ctx);

void ripc__groups_lane_gone(struct ripc *ctx, const struct ripc__peer *p);
/*
 * The lane took the place of another one, because connections crossed. Control messages on that one
 * may be lost: JOIN and the list of members are sent again.
 */
void ripc__groups_lane_replaced(struct ripc__lane *lane);
/* A service is being closed: it leaves all groups (local_member.c). */
void ripc__groups_service_gone(struct ripc_service *s);
void ripc__groups_timers(struct ripc *ctx);
/* ripc_close(): leaves all groups, then frees them. */
void ripc__groups_leave(struct ripc *ctx);
void ripc__groups_free(struct ripc *ctx);

/* A message to a group arrived, over a lane or (lane NULL) as a datagram (multicast_receive.c). */
void ripc__group_receive(struct ripc *ctx, unsigned tp, struct ripc__lane *lane,
			 const struct ripc__header *h);
/*
 * Each local member gets its own copy. A member that does not receive loses messages and blocks
 * nobody.
 */
void ripc__group_deliver(struct ripc__group *g, const uint8_t instance[16], uint64_t source,
			 const struct iovec *items, unsigned nitems, uint64_t bytes);
void ripc__mcast_acked(struct ripc__lane *lane, const struct ripc__header *h);
/* The first local member came, or the last one left: the group's multicast is received, or not. */
void ripc__mcast_listen(struct ripc__group *g, bool on);

/* ripc_group_stats() with the lock. *stats: zeros. */
int ripc__group_stats(struct ripc *ctx, uint64_t group, const uint8_t *sender,
		      struct ripc_group_stats *stats);

#endif
