/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "side.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fi_info *side_hints(void)
{
	struct fi_info *hints;

	/* libfabric loads providers once per process. */
	setenv("FI_PROVIDER_PATH", ".libs", 1);
	setenv("FI_PROVIDER", "ripc", 1);
	hints = fi_allocinfo();
	ck_assert_ptr_nonnull(hints);
	hints->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV;
	hints->ep_attr->type = FI_EP_RDM;
	return hints;
}

int side_getinfo(const struct fi_info *hints, struct fi_info **info)
{
	return fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, info);
}

static void open_info(struct side *s, const struct side *domain_of, enum fi_wait_obj wait)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait};

	s->own_domain = !domain_of;
	if (domain_of) {
		s->fabric = domain_of->fabric;
		s->domain = domain_of->domain;
	} else {
		ck_assert_int_eq(fi_fabric(s->info->fabric_attr, &s->fabric, NULL), 0);
		ck_assert_int_eq(fi_domain(s->fabric, s->info, &s->domain, NULL), 0);
	}
	ck_assert_int_eq(fi_av_open(s->domain, &av, &s->av, NULL), 0);
	ck_assert_int_eq(fi_cq_open(s->domain, &cq, &s->cq, NULL), 0);
	ck_assert_int_eq(fi_endpoint(s->domain, s->info, &s->ep, NULL), 0);
	ck_assert_int_eq(fi_ep_bind(s->ep, &s->av->fid, 0), 0);
	ck_assert_int_eq(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	ck_assert_int_eq(fi_enable(s->ep), 0);
}

void side_open(struct side *s, const struct side *domain_of, enum fi_wait_obj wait)
{
	struct fi_info *hints = side_hints();

	ck_assert_int_eq(side_getinfo(hints, &s->info), 0);
	fi_freeinfo(hints);
	open_info(s, domain_of, wait);
}

void side_open_service(struct side *s, uint64_t service)
{
	struct fi_info *hints = side_hints();
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, service);
	ck_assert_int_eq(fi_getinfo(FI_VERSION(1, 17), NULL, text, FI_SOURCE, hints, &s->info), 0);
	fi_freeinfo(hints);
	open_info(s, NULL, FI_WAIT_NONE);
}

void side_close(struct side *s)
{
	if (s->ep)
		ck_assert_int_eq(fi_close(&s->ep->fid), 0);
	ck_assert_int_eq(fi_close(&s->cq->fid), 0);
	ck_assert_int_eq(fi_close(&s->av->fid), 0);
	if (s->own_domain) {
		ck_assert_int_eq(fi_close(&s->domain->fid), 0);
		ck_assert_int_eq(fi_close(&s->fabric->fid), 0);
	}
	fi_freeinfo(s->info);
}

fi_addr_t side_insert(struct side *s, const struct side *other)
{
	uint8_t address[64];
	size_t len = sizeof(address);
	fi_addr_t addr;

	ck_assert_int_eq(fi_getname(&other->ep->fid, address, &len), 0);
	ck_assert_int_eq(fi_av_insert(s->av, address, 1, &addr, 0, NULL), 1);
	return addr;
}

void side_progress(struct side *s)
{
	struct fi_cq_tagged_entry e;

	/* Reading no entries makes progress, too. */
	ck_assert_int_le(fi_cq_read(s->cq, &e, 0), 0);
}

struct fi_cq_tagged_entry side_wait(struct side *s, struct side *other)
{
	struct fi_cq_tagged_entry e;
	uint64_t end_ns = 0;
	ssize_t n;

	for (unsigned i = 0; (n = fi_cq_read(s->cq, &e, 1)) == -FI_EAGAIN; i++) {
		if (other)
			side_progress(other);
		if (i > 1000)
			ck_assert_msg(test_pause(&end_ns, TEST_PATIENCE_MS), "no completion");
	}
	ck_assert_int_eq(n, 1);
	return e;
}

struct fi_cq_err_entry side_wait_error(struct side *s, struct side *other)
{
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry err = {0};
	uint64_t end_ns = 0;
	ssize_t n;

	for (unsigned i = 0; (n = fi_cq_read(s->cq, &e, 1)) == -FI_EAGAIN; i++) {
		if (other)
			side_progress(other);
		if (i > 1000)
			ck_assert_msg(test_pause(&end_ns, TEST_PATIENCE_MS), "no error");
	}
	ck_assert_int_eq(n, -FI_EAVAIL);
	ck_assert_int_eq(fi_cq_readerr(s->cq, &err, 0), 1);
	return err;
}

bool side_is_quiet(struct side *s)
{
	struct fi_cq_tagged_entry e;

	for (unsigned i = 0; i < 100; i++)
		if (fi_cq_read(s->cq, &e, 1) != -FI_EAGAIN)
			return false;
	return true;
}
