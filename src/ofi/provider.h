/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The entry of the plug-in, its settings, and answers to calls that are not served. */
#ifndef OFI_PROVIDER_H
#define OFI_PROVIDER_H

#include <rdma/fabric.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

/* libfabric calls it when it has loaded the provider. */
FI_EXT_INI;

extern struct fi_provider ofi_provider;

/* Settings: FI_RIPC_NAME in the environment, ripc_ofi(7). */
struct ofi_settings {
	size_t eager_max;      /* contents of an EAGER message */
	size_t direct_min;     /* contents that the sender writes into the receiver's buffer */
	int connect_timeout_s; /* how long a peer is searched for */
};
extern struct ofi_settings ofi_settings;

/* Logs that a call is not served. Return: -FI_ENOSYS. */
int ofi_refused(const char *what);
/* Defines such a call. */
#define OFI_REFUSED(type, function, what, ...) \
	static type function(__VA_ARGS__)      \
	{                                      \
		return ofi_refused(what);      \
	}

/* Members of struct fi_ops that are not served. */
int ofi_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int ofi_no_control(struct fid *fid, int command, void *arg);
int ofi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

/* For fi_cq_strerror() and fi_eq_strerror(): the text of an error, which buf gets, too. */
const char *ofi_strerror(int error, char *buf, size_t len);

#endif
