/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * RDMA devices: finding, opening, asynchronous events. Shared by the verbs transports. No call
 * waits for the network. Protected by the lock of the context.
 */
#ifndef RIPC_RDMA_DEVICE_H
#define RIPC_RDMA_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/param.h> /* MIN, MAX */

#define RIPC__VERBS_DEVICES_MAX 8 /* devices of one transport */

/* Kinds of devices. */
enum ripc__verbs_kind {
	RIPC__VERBS_IB,    /* InfiniBand and RoCE */
	RIPC__VERBS_IWARP, /* iWARP adapters and SoftiWARP */
};

/* An open device. */
struct ripc__verbs_device {
	struct ibv_context *ctx; /* NULL: not open */
	struct ibv_pd *pd;       /* of all objects of the transport on this device */
	struct ibv_device_attr attr;
	char name[64];
	unsigned index; /* index within the transport, below RIPC__VERBS_DEVICES_MAX */
	bool own;       /* close() closes ctx; librdmacm keeps contexts that it opened */
	bool gone;      /* set by the owner: removed or failed, all objects on it are lost */
	bool siw;       /* SoftiWARP */
	bool read_sink_remote_write; /* a read needs a target with remote write access (iWARP) */
};

/*
 * Makes fork() safe for registered memory, as rdma-core recommends: nothing to do if the kernel
 * copies pinned pages, else ibv_fork_init(). Call before any other verbs call; may be repeated.
 * Logs a failure.
 */
void ripc__verbs_fork_safe(void);

/*
 * Lists devices, those of the kind first. Free the array with ibv_free_device_list(). Return:
 * number of the kind, > 0; or a negative errno with one sentence in why: no kernel support
 * (/dev/infiniband), no permission, no device, none of the kind.
 */
int ripc__verbs_list(enum ripc__verbs_kind kind, struct ibv_device ***list, char *why, size_t len);

/*
 * Whether any device of the kind can be opened and has an active port: 0, or a negative errno and
 * the reason.
 */
int ripc__verbs_probe(enum ripc__verbs_kind kind, char *why, size_t whylen);

/*
 * Opens a device with non-blocking events, or adopts a context of librdmacm, which librdmacm
 * closes: protection domain, attributes. Return: 0 or a negative errno, explained; d->ctx is NULL
 * then, and d->name is valid.
 * A process has one context of librdmacm per device, so events of an adopted one may be the
 * application's: they stay unread. Completions and librdmacm report the end of queue pairs and
 * devices as well.
 */
int ripc__verbs_device_open(struct ripc__verbs_device *d, struct ibv_device *dev, unsigned index);
int ripc__verbs_device_adopt(struct ripc__verbs_device *d, struct ibv_context *ctx, unsigned index);

/* Return: 0, or an error, explained: @what of @name cannot be made non-blocking. */
int ripc__verbs_nonblocking(int fd, const char *name, const char *what);

/* All objects on the device are destroyed. Discards pending events. */
void ripc__verbs_device_close(struct ripc__verbs_device *d);

/* In the child of fork(): closes descriptors, nothing else. */
void ripc__verbs_device_forked(struct ripc__verbs_device *d);

/*
 * Watches the files of devices. Return: a non-blocking descriptor, readable after a change, or a
 * negative errno, explained.
 */
int ripc__verbs_files_watch(void);
/*
 * Takes the reports. Return: whether a file was created or removed, or has other rights, since the
 * last call.
 */
bool ripc__verbs_files_changed(int fd);

#endif
