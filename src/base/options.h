/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Settings of a context: defaults, then the environment, then the string given to ripc_open(). */
#ifndef RIPC_BASE_OPTIONS_H
#define RIPC_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ripc__wait_mode { RIPC__WAIT_ADAPTIVE, RIPC__WAIT_POLL, RIPC__WAIT_BLOCK };
enum ripc__crc_mode { RIPC__CRC_AUTO, RIPC__CRC_ON, RIPC__CRC_OFF };
enum ripc__short_mode { RIPC__SHORT_AUTO, RIPC__SHORT_RDMA, RIPC__SHORT_UDP };
enum ripc__multicast_mode { RIPC__MULTICAST_ON, RIPC__MULTICAST_OFF };
enum ripc__ib_qp { RIPC__IB_QP_RC, RIPC__IB_QP_UC };

/* Their numbers are those of verbs. */
enum ripc__path_mtu {
	RIPC__PATH_MTU_AUTO,
	RIPC__PATH_MTU_256,
	RIPC__PATH_MTU_512,
	RIPC__PATH_MTU_1024,
	RIPC__PATH_MTU_2048,
	RIPC__PATH_MTU_4096
};

enum ripc__mapped_mode { RIPC__MAPPED_ON, RIPC__MAPPED_OFF };

#define RIPC__GID_INDEX_AUTO UINT32_MAX
#define RIPC__INLINE_AUTO    UINT32_MAX

/* Setting "name" of the string is RIPC_NAME in the environment. Lists are comma-separated. */
struct ripc__options {
	char transports[128]; /* transports allowed, best first; "auto": all, in the built-in order */
	char resolver[480];   /* resolver back ends, see base/resolver_chain.h; default "local,udp" */
	char interfaces[256];      /* network interfaces used, by name; empty: all that are up */
	enum ripc__wait_mode wait; /* how a waiting call waits */
	enum ripc__crc_mode crc; /* iWARP CRC32C; auto: off where both ends are one loopback and agree */
	/* "short": what carries short messages: connections (rdma), datagrams where the transport has them (udp), or what
	 * suits the transport best (auto: datagrams over InfiniBand and RoCE, connections elsewhere) */
	enum ripc__short_mode shorts;
	enum ripc__multicast_mode multicast; /* whether messages to groups may go by multicast */
	enum ripc__ib_qp ib_qp;              /* what carries writes over InfiniBand and RoCE */
	enum ripc__path_mtu path_mtu; /* of connections there, at most; auto: what both ports have */
	uint32_t inline_bytes; /* verbs: sends of at most so many bytes go inline, where the device can; or RIPC__INLINE_AUTO */
	uint32_t signal_every; /* verbs: one of so many sends has a completion; 0: one in each half of a send queue */
	uint32_t gid_index; /* RoCE: entry of the port's table used as our address, or RIPC__GID_INDEX_AUTO */
	uint16_t port;               /* UDP port of the resolver */
	uint32_t peer_timeout_ms;    /* silence after which a peer with work outstanding is dead */
	uint32_t resolve_timeout_ms; /* how long one look-up tries before it reports failure */
	uint32_t zookeeper_timeout_ms; /* silence after which ZooKeeper ends our session */
	char shm_dir[64]; /* where shm has a socket besides its abstract one, or empty: nowhere */
	char pcie_device[128]; /* device or file of pcie, or empty: a device that is ready for use */
	char key_file[256];    /* the cluster's keys, or empty */
	char zookeeper_auth_file[256]; /* user:password for ZooKeeper, or empty */
	enum ripc__mapped_mode handover; /* whether buffers are handed over to processes of this host, and taken from them */
	uint32_t service_window; /* bytes a peer may have queued at one service */
	uint64_t pool_bytes;     /* cached, unused buffer memory kept at most */
	int log_level;           /* enum ripc_log_level for standard error, or < 0: not asked for */
};

/*
 * Fills *opt. @text may be NULL. Any RIPC_* variable of the environment and any key of @text that is not
 * a setting, and any value that makes no sense, is an error. Return: 0, or -EINVAL with one
 * sentence in why (at most whylen bytes with the terminating 0) that names the variable, the value, what is allowed.
 */
int ripc__options_load(struct ripc__options *opt, const char *text, char *why, size_t whylen);

/*
 * Whether @name stands in the comma-separated @list; its place (0 ..) or -1 if it does not.
 */
int ripc__list_index(const char *list, const char *name);

#endif
