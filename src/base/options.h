/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Settings of a context: defaults, then the environment, then the string given to ripc_open(). */
#ifndef RIPC_BASE_OPTIONS_H
#define RIPC_BASE_OPTIONS_H

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

enum ripc__mapped_mode { RIPC__MAPPED_ON, RIPC__MAPPED_OFF, RIPC__MAPPED_STRICT };

#define RIPC__GID_INDEX_AUTO UINT32_MAX
#define RIPC__INLINE_AUTO    UINT32_MAX

/* Setting "name" of the string is RIPC_NAME in the environment. Lists are comma-separated. */
struct ripc__options {
	/* transports allowed, best first; "auto": all, in the built-in order */
	char transports[128];
	/* resolver back ends, see base/resolver_chain.h; default "local,udp" */
	char resolver[480];
	char interfaces[256];      /* network interfaces used, by name; empty: all that are up */
	enum ripc__wait_mode wait; /* how a call waits */
	/* iWARP CRC32C; auto: off where both ends are one loopback and agree */
	enum ripc__crc_mode crc;
	/*
	 * "short": the path of short messages: connections (rdma), datagrams where the transport
	 * has them (udp), or the best of the transport (auto: datagrams over InfiniBand and RoCE,
	 * else connections)
	 */
	enum ripc__short_mode shorts;
	enum ripc__multicast_mode multicast; /* whether messages to groups may use multicast */
	/* type of connections for writes over InfiniBand and RoCE */
	enum ripc__ib_qp ib_qp;
	/* of connections there, at most; auto: the smaller of both ports */
	enum ripc__path_mtu path_mtu;
	/*
	 * verbs: inline sends up to so many bytes, if the device supports it; or RIPC__INLINE_AUTO
	 */
	uint32_t inline_bytes;
	/* verbs: one of so many sends has a completion; 0: one in each half of a send queue */
	uint32_t signal_every;
	/* RoCE: index of our address in the port's GID table, or RIPC__GID_INDEX_AUTO */
	uint32_t gid_index;
	uint16_t port;               /* UDP port of the resolver */
	uint32_t peer_timeout_ms;    /* silence after which a peer with work outstanding is dead */
	uint32_t resolve_timeout_ms; /* timeout of one look-up */
	uint32_t zookeeper_timeout_ms; /* silence after which ZooKeeper ends the session */
	char shm_dir[64];              /* directory of an additional socket of shm; empty: none */
	char pcie_device[128]; /* device or file of pcie; empty: a device that is ready for use */
	char key_file[256];    /* file of the cluster's keys, or empty */
	char zookeeper_auth_file[256]; /* user:password for ZooKeeper, or empty */
	/*
	 * whether buffers are exported to processes of this host, and imported from them; strict:
	 * memory that one peer has mapped serves no other purpose
	 */
	enum ripc__mapped_mode mapped_mode;
	uint32_t service_window; /* most bytes that a peer may have queued at one service */
	uint64_t pool_bytes;     /* most bytes of cached, unused buffer memory */
	int log_level;           /* enum ripc_log_level for standard error, or < 0: no log */
};

/*
 * Fills in *opt. @text may be NULL. An unknown RIPC_* variable of the environment, an unknown key
 * of @text, or an invalid value is an error. Return: 0, or -EINVAL with one sentence in why (at
 * most whylen bytes with the terminating 0) that names the variable, the value and the valid
 * values.
 */
int ripc__options_load(struct ripc__options *opt, const char *text, char *why, size_t whylen);

/* The index of @name in the comma-separated @list, or -1. */
int ripc__list_index(const char *list, const char *name);

#endif
