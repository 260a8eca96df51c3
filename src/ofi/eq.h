/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Event queues. The provider reports no events; fi_eq_write() queues those of the application. */
#ifndef OFI_EQ_H
#define OFI_EQ_H

#include <rdma/fi_eq.h>

int ofi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
		void *context);

#endif
