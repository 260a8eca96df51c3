/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * RDMA devices: finding and opening them, and what they report by themselves. Shared by the transports that drive devices.
 * None of these calls waits for the network. Under the context's lock like the rest of a transport.
 */
#ifndef RIPC_RDMA_DEVICE_H
#define RIPC_RDMA_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIPC__VERBS_DEVICES_MAX 8 /* devices of one transport */

/* What a transport can drive. */
enum ripc__verbs_kind {
	RIPC__VERBS_IB,    /* InfiniBand and RoCE */
	RIPC__VERBS_IWARP, /* iWARP adapters and SoftiWARP */
};

/* What a device may report by itself. */
enum ripc__verbs_async {
	RIPC__VERBS_NONE,         /* nothing that matters */
	RIPC__VERBS_PORT_DOWN,    /* port: it is not active any more */
	RIPC__VERBS_PORT_UP,      /* port: it is active again */
	RIPC__VERBS_PORT_CHANGED, /* port: its LID or GIDs are others now */
	RIPC__VERBS_QP_FATAL,     /* qp: in error */
	RIPC__VERBS_DEVICE_GONE,  /* d->gone is set */
};

#define RIPC__VERBS_ASYNC_COUNT (RIPC__VERBS_DEVICE_GONE + 1)

struct ripc__verbs_event {
	enum ripc__verbs_async async_event;
	struct ibv_qp *qp;
	uint8_t port;
	const char *text; /* for people, constant */
};

/* An open device. */
struct ripc__verbs_device {
	struct ibv_context *ctx; /* NULL: not open */
	struct ibv_pd *pd;       /* everything of the transport on this device is in it */
	struct ibv_device_attr attr;
	char name[64];
	unsigned index; /* of the device within its transport, below RIPC__VERBS_DEVICES_MAX */
	bool own;       /* ctx is ours to close; librdmacm keeps those it opens */
	bool gone;      /* removed, or failed for good: everything on it is lost */
	bool read_sink_remote_write; /* the target of a read must be registered for remote writing (iWARP adapters) */
	/*
	 * librdmacm has one context of a device for the whole process, whose events anybody may read: who reads one that is another's
	 * hands it over. Adopted devices only; under a lock of their own, the last in the order but for the log's.
	 */
	struct ripc__verbs_device *next; /* in the list of all that are adopted */
	int wake_fd;           /* an eventfd, readable while there is something in told; -1: none */
	unsigned pending_mask; /* bit n: handed[n] is there */
	struct ripc__verbs_event pending[RIPC__VERBS_ASYNC_COUNT]; /* by kind, the last of each; qp is NULL */
};

/*
 * Makes fork() safe for memory registered later, as rdma-core recommends: nothing to do where the kernel copies
 * pinned pages for the child, else ibv_fork_init(). Call before anything else; repeatable. Logs if that fails.
 */
void ripc__verbs_fork_safe(void);

/*
 * The devices of a kind. Free the array with ibv_free_device_list(): it holds all, those of the kind come first.
 * Return: how many are of the kind, > 0; or a negative errno with one sentence in why: no kernel support
 * (/dev/infiniband), no permission, no device, none of the kind.
 */
int ripc__verbs_list(enum ripc__verbs_kind kind, struct ibv_device ***list, char *why, size_t whylen);

/* Whether any device of the kind can be opened and has an active port: 0, or a negative errno and the reason. */
int ripc__verbs_probe(enum ripc__verbs_kind kind, char *why, size_t whylen);

/*
 * Opens a device / takes over a context that librdmacm has opened (which stays its to close): protection domain,
 * attributes, asynchronous events without blocking. Return: 0 or a negative errno, explained; d->ctx is NULL then.
 */
int ripc__verbs_device_open(struct ripc__verbs_device *d, struct ibv_device *device, unsigned index);
int ripc__verbs_device_adopt(struct ripc__verbs_device *d, struct ibv_context *ctx, unsigned index);

/* Everything on the device must be gone. Reads what events are left. */
void ripc__verbs_device_close(struct ripc__verbs_device *d);

/* In the child of fork(): closes descriptors, nothing else. */
void ripc__verbs_device_forked(struct ripc__verbs_device *d);

/*
 * Whether the device is being removed, which some drivers do not report: the kernel waits for its users to let go. Looks at
 * the file system. Sets d->gone.
 */
bool ripc__verbs_device_removed(struct ripc__verbs_device *d);

/*
 * Takes one event from ctx->async_fd, which is readable then, or that another has read there (wake_fd), and acknowledges it: no
 * event ever keeps the destruction of a queue waiting. Those of the application's own objects on a context of librdmacm are lost.
 * Return: whether there was one.
 */
bool ripc__verbs_event(struct ripc__verbs_device *d, struct ripc__verbs_event *ev);

#endif
