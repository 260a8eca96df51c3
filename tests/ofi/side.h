/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An endpoint with all that belongs to it, in a domain of its own or that of another. */
#ifndef OFI_TESTS_SIDE_H
#define OFI_TESTS_SIDE_H

#include "harness.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

struct side {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	bool own_domain;
};

/* Hints that a test passes to fi_getinfo(); to be freed. */
struct fi_info *side_hints(void);
/* fi_getinfo() for the provider of this build. */
int side_getinfo(const struct fi_info *hints, struct fi_info **info);
/* domain_of: NULL: a domain of its own. */
void side_open(struct side *s, const struct side *domain_of, enum fi_wait_obj wait);
/* The same in a domain of its own, at the address of this service. */
void side_open_service(struct side *s, uint64_t service);
void side_close(struct side *s);
/* Inserts the address of another endpoint. */
fi_addr_t side_insert(struct side *s, const struct side *other);
/* Waits for a completion of s; other, which may be NULL, makes progress, too. */
struct fi_cq_tagged_entry side_wait(struct side *s, struct side *other);
/* The same for an error. */
struct fi_cq_err_entry side_wait_error(struct side *s, struct side *other);
/* Whether there is no completion. */
bool side_is_quiet(struct side *s);
/* One pass of progress of s. */
void side_progress(struct side *s);

#endif
