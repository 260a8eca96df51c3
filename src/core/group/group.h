/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Groups: who is a member, and what this context has to do with that. One member of each group is its keeper: it holds the
 * group's name, an id of the resolver that no service can have, and tells all others who is a member.
 *
 *            claim the name --- it is ours ---------> KEEPING
 *   LOOKING <                                            | somebody older has it (a partition healed), or we left
 *      ^     it is held by another --> ASKING --> JOINED |
 *      +---------- the keeper is gone, or no keeper -----+
 *
 * member.c: the list of members. keeper.c: what its keeper does. seat.c: services that join and leave. groupcast.c: messages that are sent.
 * sender.c: messages that arrive.
 */
#ifndef RIPC_CORE_GROUP_GROUP_H
#define RIPC_CORE_GROUP_GROUP_H

#include "core/context/context.h"
#include "core/peer/replay.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct ripc__lane;

/* Ids from here on are the names of groups for the resolver; RIPC_ANY_ID draws lower ones. */
#define RIPC__GROUP_BASE        (RIPC_ID_LIMIT | RIPC_GROUP_LIMIT)
#define RIPC__MEMBERS_MAX       2048 /* contexts in one group, members or senders */
#define RIPC__MCAST_SENDERS_MAX 4096 /* whose numbers are remembered per group */
#define RIPC__MCAST_DEDUP_WINDOW \
	2048 /* numbers back to which it is known what has come; a power of two */

enum ripc__group_state {
	RIPC__GROUP_SEARCHING,    /* no keeper is known */
	RIPC__GROUP_CLAIMING,     /* the resolver asks whether anybody keeps it */
	RIPC__GROUP_JOINING,      /* somebody does: JOIN is sent, or will be when there is a lane */
	RIPC__GROUP_JOINED,       /* the keeper has told all members */
	RIPC__GROUP_COORDINATING, /* we are the keeper */
};

enum ripc__group_role { RIPC__ROLE_NONE, RIPC__ROLE_SENDER, RIPC__ROLE_MEMBER };

/* A context of the group, not ourselves. Only the keeper knows those that merely send. */
struct ripc__member {
	UT_hash_handle hh;
	uint8_t instance[16];
	enum ripc__group_role role;
	uint64_t expires_ns;       /* then it is forgotten, RIPC__NEVER: not so far */
	uint64_t joined_ns;        /* keeper: when it last said that it is here */
	bool listed;               /* it was told since our last JOIN */
	uint64_t sent;             /* number of the last message handed over for it, or given up */
	uint64_t mcast_until_ns;   /* it confirmed that multicast reaches it */
	uint64_t backoff_until_ns; /* it could not be reached: not tried before then */
	struct ripc__peer *wanted; /* a sender waits for a lane to it */
	uint16_t record_len;
	uint8_t record[]; /* as it stands in messages */
};

/* The numbers of one sender, and what became of them. */
struct ripc__mcast_sender {
	UT_hash_handle hh;
	struct ripc__list lru; /* in group->recent */
	uint8_t instance[16];
	uint64_t last_ack_ns; /* last MCAST_ACK */
	uint64_t received, lost, duplicates;
	struct ripc__replay replay;
	uint64_t seen[RIPC__REPLAY_WORDS(RIPC__MCAST_DEDUP_WINDOW)];
};

/* A service of ours in a group. */
struct ripc__local_member {
	struct ripc__list link; /* in group->seats */
	struct ripc_service *service;
};

struct ripc__group {
	UT_hash_handle hh;
	uint64_t id;
	struct ripc *ctx;
	enum ripc__group_state state;
	struct ripc__list local_members; /* struct ripc__local_member: our members */
	unsigned users;                  /* threads in a call on it */
	bool sending;                    /* one of them hands a message over */
	bool listening;                  /* transports listen to its multicast */
	bool pinned;                     /* the keeper's destination is kept from being forgotten */
	uint64_t version;                /* of the list of members, as the keeper counts */
	uint64_t join_version;           /* that the last JOIN named */
	uint8_t coordinator[16];         /* ASKING, JOINED: who was asked last */
	uint64_t next_ns;                /* when group_step() has something to do */
	uint64_t join_sent_ns;           /* when JOIN was sent last; ASKING: 0 if it was not */
	enum ripc__group_role joined_role;  /* what it said */
	unsigned failures;                  /* in a row, of finding a keeper */
	uint64_t used_ns;                   /* last send */
	uint64_t number;                    /* of the next message */
	struct ripc__member *members;       /* uthash by instance */
	struct ripc__mcast_sender *senders; /* uthash by instance */
	struct ripc__list lru;              /* the same, the one heard last at the end */
	struct ripc__waitq waitq;
	struct ripc_group_stats stats;
};

/* The name of a group for the resolver, and whether an id is one. */
static inline uint64_t ripc__group_name(uint64_t group)
{
	return RIPC__GROUP_BASE | group;
}

static inline bool ripc__group_is_name(uint64_t id)
{
	return id >= RIPC__GROUP_BASE;
}

/* The group, NULL if this context has nothing to do with it. */
struct ripc__group *ripc__group_find(struct ripc *ctx, uint64_t id);
/* The same, created if need be. NULL: out of memory. */
struct ripc__group *ripc__group_get(struct ripc *ctx, uint64_t id);

/* Wants ripc__groups_timers() to look at it at once. */
void ripc__group_kick(struct ripc__group *g);

/* What this context is in it. */
static inline enum ripc__group_role ripc__group_role(const struct ripc__group *g)
{
	return ripc__list_empty((struct ripc__list *)&g->local_members) ? RIPC__ROLE_SENDER
									: RIPC__ROLE_MEMBER;
}

/* Whether the members are known: as a keeper, or from one. */
static inline bool ripc__group_members_known(const struct ripc__group *g)
{
	return g->state >= RIPC__GROUP_JOINED;
}

/* The peer of a member, with its addresses; NULL: out of memory. */
struct ripc__peer *ripc__member_peer(struct ripc *ctx, const struct ripc__member *m);

/* Events of the resolver about the name of a group. */
void ripc__group_claimed(struct ripc *ctx, uint64_t name);
void ripc__group_conflict(struct ripc *ctx, uint64_t name);
/* Whether one waits for such an event. */
bool ripc__groups_claiming(const struct ripc *ctx);

/* JOIN, MEMBER, COORDINATOR arrived. Return: 0, or -EPROTO with *why. */
int ripc__group_control(struct ripc__lane *lane, const struct ripc__header *h, const char **why);

/* The lane to a peer is gone. */
void ripc__groups_lane_gone(struct ripc *ctx, const struct ripc__peer *p);
/* seat.c: a service is being closed: leaves all groups. */
void ripc__groups_service_gone(struct ripc_service *s);
void ripc__groups_timers(struct ripc *ctx);
/* ripc_close(): says good-bye to all keepers and members; then frees all. */
void ripc__groups_leave(struct ripc *ctx);
void ripc__groups_free(struct ripc *ctx);

/* sender.c: a message to a group arrived, over a lane or (lane NULL) as a datagram. */
void ripc__group_receive(struct ripc *ctx, unsigned tp, struct ripc__lane *lane,
			 const struct ripc__header *h);
/* sender.c: each member of ours gets a copy of its own. One that does not receive loses messages, and stops nobody. */
void ripc__group_deliver(struct ripc__group *g, const uint8_t instance[16], uint64_t source,
			 const struct iovec *items, unsigned nitems, uint64_t bytes);
/* groupcast.c: MCAST_ACK arrived. */
void ripc__mcast_acked(struct ripc__lane *lane, const struct ripc__header *h);
/* Listens to multicast for a group that has members here, and no longer when there is none. */
void ripc__mcast_listen(struct ripc__group *g);

#endif
