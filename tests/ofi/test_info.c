/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Attributes and refusals of the provider, and its objects without traffic. */
#include "side.h"

#include <endian.h>
#include <rdma/fi_rma.h>
#include <stdlib.h>
#include <string.h>

/* The number of infos for the hints, which are freed; or the error. */
static int infos(struct fi_info *hints)
{
	struct fi_info *list = NULL;
	int rc = side_getinfo(hints, &list), n = 0;

	for (const struct fi_info *f = list; f; f = f->next)
		n++;
	fi_freeinfo(list);
	fi_freeinfo(hints);
	return rc ? rc : n;
}

START_TEST(getinfo__one_endpoint_that_meets_the_hints)
{
	struct fi_info *hints = side_hints(), *info;

	hints->domain_attr->av_type = FI_AV_MAP;
	hints->domain_attr->cq_data_size = 4;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->tx_attr->op_flags = hints->rx_attr->op_flags = FI_COMPLETION;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	ck_assert_int_eq(side_getinfo(hints, &info), 0);
	ck_assert_ptr_null(info->next);
	ck_assert_str_eq(info->fabric_attr->prov_name, "ripc");
	ck_assert_uint_eq(info->mode, 0);
	ck_assert_int_eq(info->domain_attr->mr_mode, 0);
	ck_assert_uint_eq(info->caps & hints->caps, hints->caps);
	ck_assert(info->tx_attr->op_flags & FI_COMPLETION);
	ck_assert(info->rx_attr->op_flags & FI_COMPLETION);
	ck_assert_uint_eq(info->ep_attr->mem_tag_format, UINT64_MAX);
	fi_freeinfo(info);
	fi_freeinfo(hints);
	hints = side_hints();
	hints->caps = FI_TAGGED;
	ck_assert_int_eq(side_getinfo(hints, &info), 0);
	ck_assert(!(info->caps & (FI_DIRECTED_RECV | FI_MSG)));
	fi_freeinfo(info);
	ck_assert_int_eq(infos(hints), 1);
}
END_TEST

/* Without a direction caps has both, so each context may name its own. */
START_TEST(getinfo__capabilities_of_contexts)
{
	struct fi_info *hints = side_hints();

	hints->caps = FI_MSG;
	hints->tx_attr->caps = FI_MSG | FI_SEND;
	hints->rx_attr->caps = FI_MSG | FI_RECV;
	ck_assert_int_eq(infos(hints), 1);
	hints = side_hints();
	hints->caps = FI_MSG | FI_SEND;
	hints->rx_attr->caps = FI_MSG | FI_RECV;
	ck_assert_int_eq(infos(hints), -FI_ENODATA);
}
END_TEST

START_TEST(getinfo__refuses_what_is_not_served)
{
	for (unsigned i = 0; i < 10; i++) {
		struct fi_info *hints = side_hints();

		switch (i) {
		case 0:
			hints->caps = FI_RMA;
			break;
		case 1:
			hints->caps |= FI_ATOMIC;
			break;
		case 2:
			hints->ep_attr->type = FI_EP_MSG;
			break;
		case 3:
			hints->tx_attr->inject_size = 1 << 20;
			break;
		case 4:
			hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
			break;
		case 5:
			hints->caps |= FI_MULTI_RECV;
			break;
		case 6:
			hints->addr_format = FI_SOCKADDR_IN;
			break;
		case 7:
			hints->tx_attr->iov_limit = 5;
			break;
		case 8:
			hints->domain_attr->name = strdup("eth0");
			break;
		default:
			hints->ep_attr->tx_ctx_cnt = 2;
			break;
		}
		ck_assert_msg(infos(hints) == -FI_ENODATA, "hints %u", i);
	}
}
END_TEST

/* The id of a service in an address. */
static uint64_t id_of(const void *address)
{
	uint64_t id;

	ck_assert_ptr_nonnull(address);
	memcpy(&id, (const char *)address + 8, sizeof(id));
	return le64toh(id);
}

/* Nothing, one of the few first values, one bit, or any value. */
static uint64_t nonsense(uint64_t *rnd)
{
	uint64_t v = test_random(rnd);

	switch (v % 4) {
	case 0:
		return 0;
	case 1:
		return v / 4 % 8;
	case 2:
		return UINT64_C(1) << v / 4 % 64;
	default:
		return v;
	}
}

/* An enumeration follows the hint, or is one of its values if the hint is 0. */
static void check_enum(unsigned got, unsigned hint, unsigned max)
{
	ck_assert_uint_le(got, max);
	if (hint)
		ck_assert_uint_eq(got, hint);
}

static void check_met(const struct fi_info *f, const struct fi_info *h)
{
	const struct fi_domain_attr *d = f->domain_attr, *hd = h->domain_attr;

	ck_assert_uint_eq(h->caps & ~f->caps, 0);
	ck_assert_uint_eq(h->tx_attr->caps & ~f->caps, 0);
	ck_assert_uint_eq(h->rx_attr->caps & ~f->caps, 0);
	ck_assert_uint_eq(h->tx_attr->msg_order & ~f->tx_attr->msg_order, 0);
	ck_assert_uint_eq(h->rx_attr->msg_order & ~f->rx_attr->msg_order, 0);
	ck_assert_uint_eq(h->tx_attr->op_flags & ~f->tx_attr->op_flags, 0);
	ck_assert_uint_ge(f->tx_attr->inject_size, h->tx_attr->inject_size);
	ck_assert_uint_ge(f->tx_attr->size, h->tx_attr->size);
	ck_assert_uint_ge(f->rx_attr->iov_limit, h->rx_attr->iov_limit);
	ck_assert_uint_ge(f->ep_attr->max_msg_size, h->ep_attr->max_msg_size);
	ck_assert_uint_ge(f->ep_attr->tx_ctx_cnt, h->ep_attr->tx_ctx_cnt);
	ck_assert_uint_ge(d->cq_data_size, hd->cq_data_size);
	ck_assert_uint_ge(d->ep_cnt, hd->ep_cnt);
	check_enum(d->threading, hd->threading, FI_THREAD_ENDPOINT);
	check_enum(d->control_progress, hd->control_progress, FI_PROGRESS_MANUAL);
	check_enum(d->data_progress, hd->data_progress, FI_PROGRESS_MANUAL);
	check_enum(d->resource_mgmt, hd->resource_mgmt, FI_RM_ENABLED);
	check_enum(d->av_type, hd->av_type, FI_AV_TABLE);
	check_enum(f->ep_attr->type, h->ep_attr->type, FI_EP_RDM);
}

/* They are refused, or met. */
START_TEST(getinfo__hints_at_random)
{
	uint64_t rnd = test_seed();
	unsigned met = 0;

	for (unsigned i = 0; i < 3000; i++) {
		struct fi_info *h = side_hints(), *f, *next;
		struct fi_domain_attr *d = h->domain_attr;
		struct fi_tx_attr *t = h->tx_attr;
		struct fi_rx_attr *r = h->rx_attr;
		struct fi_ep_attr *e = h->ep_attr;
		uint64_t *const words[] = {&h->caps,          &h->mode,     &t->caps,
					   &t->mode,          &t->op_flags, &t->msg_order,
					   &r->caps,          &r->op_flags, &r->msg_order,
					   &d->caps,          &d->mode,     &t->comp_order,
					   &e->mem_tag_format};
		size_t *const sizes[] = {&t->inject_size,   &t->size,         &t->iov_limit,
					 &r->iov_limit,     &r->size,         &e->max_msg_size,
					 &e->tx_ctx_cnt,    &e->rx_ctx_cnt,   &d->cq_data_size,
					 &d->ep_cnt,        &d->mr_key_size,  &d->max_ep_srx_ctx,
					 &e->auth_key_size, &d->max_err_data, &t->rma_iov_limit};

		for (unsigned k = 0; k < 2; k++) {
			uint64_t v = nonsense(&rnd);

			switch (test_random(&rnd) % 10) {
			case 0:
				d->threading = (enum fi_threading)v;
				break;
			case 1:
				d->control_progress = (enum fi_progress)v;
				break;
			case 2:
				d->data_progress = (enum fi_progress)v;
				break;
			case 3:
				d->resource_mgmt = (enum fi_resource_mgmt)v;
				break;
			case 4:
				d->av_type = (enum fi_av_type)v;
				break;
			case 5:
				e->type = (enum fi_ep_type)v;
				break;
			case 6:
			case 7:
				*words[test_random(&rnd) % 13] = v;
				break;
			default:
				*sizes[test_random(&rnd) % 15] = v;
			}
		}
		if (!side_getinfo(h, &f)) {
			met++;
			for (next = f; next; next = next->next)
				check_met(next, h);
			fi_freeinfo(f);
		}
		/* A size without its key. */
		e->auth_key_size = 0;
		fi_freeinfo(h);
	}
	ck_assert_uint_gt(met, 300);
	ck_assert_uint_lt(met, 2700);
}
END_TEST

START_TEST(getinfo__takes_the_number_of_a_service)
{
	struct fi_info *hints = side_hints(), *source, *dest;

	ck_assert_int_eq(
		fi_getinfo(FI_VERSION(1, 17), "localhost", "4711", FI_SOURCE, hints, &source), 0);
	ck_assert_uint_eq(source->src_addrlen, 16);
	ck_assert_uint_eq(id_of(source->src_addr), 4711);
	ck_assert_int_eq(fi_getinfo(FI_VERSION(1, 17), "any.host", "4711", 0, hints, &dest), 0);
	ck_assert_uint_eq(id_of(dest->dest_addr), 4711);
	/* The endpoint draws its id. */
	ck_assert_uint_eq(id_of(dest->src_addr), 0);
	fi_freeinfo(source);
	fi_freeinfo(dest);
	fi_freeinfo(hints);
}
END_TEST

START_TEST(getinfo__refuses_nodes_and_services_that_mean_nothing)
{
	const struct {
		const char *node, *service;
		uint64_t flags;
	} bad[] = {
		{NULL, "http", 0},
		{NULL, "0", FI_SOURCE},
		{NULL, "9223372036854775808", 0},
		{NULL, "-1", 0},
		{NULL, "12x", FI_SOURCE},
		{"localhost", NULL, 0},
		{"192.0.2.1", "4711", FI_SOURCE | FI_NUMERICHOST},
	};
	struct fi_info *hints = side_hints(), *info;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ck_assert_msg(fi_getinfo(FI_VERSION(1, 17), bad[i].node, bad[i].service,
					 bad[i].flags, hints, &info) == -FI_ENODATA,
			      "combination %u", i);
	fi_freeinfo(hints);
}
END_TEST

START_TEST(endpoint__holds_the_service_of_its_source)
{
	struct side a;
	struct fi_info *hints = side_hints(), *info;
	struct fid_ep *ep, *second;
	uint8_t address[16];
	size_t len = sizeof(address);

	side_open(&a, NULL, FI_WAIT_NONE);
	ck_assert_int_eq(fi_getinfo(FI_VERSION(1, 17), NULL, "4711", FI_SOURCE, hints, &info), 0);
	ck_assert_int_eq(fi_endpoint(a.domain, info, &ep, NULL), 0);
	ck_assert_int_eq(fi_getname(&ep->fid, address, &len), 0);
	ck_assert_uint_eq(id_of(address), 4711);
	/* A second one draws its id, as programs do that exchange addresses themselves. */
	ck_assert_int_eq(fi_endpoint(a.domain, info, &second, NULL), 0);
	ck_assert_int_eq(fi_close(&second->fid), 0);
	/* An address in the hints is taken to the letter. */
	memcpy(info->src_addr, address, sizeof(address));
	ck_assert_int_eq(fi_endpoint(a.domain, info, &second, NULL), -FI_EADDRINUSE);
	ck_assert_int_eq(fi_close(&ep->fid), 0);
	/* An id that was drawn belongs to the endpoint that drew it. */
	ck_assert_int_eq(fi_getname(&a.ep->fid, info->src_addr, &len), 0);
	ck_assert_int_eq(fi_endpoint(a.domain, info, &second, NULL), -FI_EADDRNOTAVAIL);
	fi_freeinfo(info);
	fi_freeinfo(hints);
	side_close(&a);
}
END_TEST

START_TEST(getname__returns_the_length)
{
	struct side s;
	uint8_t address[16];
	size_t len = 0;

	side_open(&s, NULL, FI_WAIT_NONE);
	ck_assert_int_eq(fi_getname(&s.ep->fid, NULL, &len), -FI_ETOOSMALL);
	ck_assert_uint_eq(len, 16);
	len = 15;
	ck_assert_int_eq(fi_getname(&s.ep->fid, address, &len), -FI_ETOOSMALL);
	ck_assert_int_eq(fi_getname(&s.ep->fid, address, &len), 0);
	side_close(&s);
}
END_TEST

START_TEST(av__inserts_finds_and_removes)
{
	struct side a, b;
	uint8_t address[64], nonsense[16] = "no address";
	size_t len = sizeof(address);
	fi_addr_t addr, again, bad = 0;

	side_open(&a, NULL, FI_WAIT_NONE);
	side_open(&b, &a, FI_WAIT_NONE);
	addr = side_insert(&a, &b);
	again = side_insert(&a, &b);
	ck_assert_uint_ne(addr, again);
	ck_assert_int_eq(fi_av_lookup(a.av, again, address, &len), 0);
	ck_assert_uint_eq(len, 16);
	ck_assert_int_eq(fi_av_insert(a.av, nonsense, 1, &bad, 0, NULL), 0);
	ck_assert_uint_eq(bad, FI_ADDR_NOTAVAIL);
	ck_assert_int_eq(fi_av_remove(a.av, &addr, 1, 0), 0);
	ck_assert_int_eq(fi_av_remove(a.av, &addr, 1, 0), -FI_EINVAL);
	ck_assert_int_eq(fi_av_lookup(a.av, addr, address, &len), -FI_EINVAL);
	ck_assert_int_eq(fi_send(a.ep, "x", 1, NULL, addr, NULL), -FI_EINVAL);
	ck_assert_int_eq(fi_send(a.ep, "x", 1, NULL, again, NULL), 0);
	/* The lowest index that is not used. */
	ck_assert_uint_eq(side_insert(&a, &b), addr);
	ck_assert_uint_eq(side_insert(&a, &b), again + 1);
	side_close(&b);
	side_close(&a);
}
END_TEST

START_TEST(objects_in_use__are_not_closed)
{
	struct side s;

	side_open(&s, NULL, FI_WAIT_NONE);
	ck_assert_int_eq(fi_close(&s.cq->fid), -FI_EBUSY);
	ck_assert_int_eq(fi_close(&s.av->fid), -FI_EBUSY);
	ck_assert_int_eq(fi_close(&s.domain->fid), -FI_EBUSY);
	ck_assert_int_eq(fi_close(&s.fabric->fid), -FI_EBUSY);
	side_close(&s);
}
END_TEST

START_TEST(calls_that_are_not_served__return_enosys)
{
	struct side s;
	struct fid_ep *sep;
	struct fid_cq *cq;
	struct fid_wait *wait;
	struct fid_eq *eq;
	struct fi_cq_attr set = {.wait_obj = FI_WAIT_SET};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_POLLFD};
	struct fi_wait_attr wait_attr = {.wait_obj = FI_WAIT_FD};

	side_open(&s, NULL, FI_WAIT_NONE);
	ck_assert_int_eq(fi_scalable_ep(s.domain, s.info, &sep, NULL), -FI_ENOSYS);
	ck_assert_int_eq(fi_write(s.ep, "x", 1, NULL, 0, 0, 0, NULL), -FI_ENOSYS);
	ck_assert_int_eq(fi_cq_sread(s.cq, &sep, 1, NULL, 0), -FI_ENOSYS);
	ck_assert_int_eq(fi_cq_open(s.domain, &set, &cq, NULL), -FI_ENOSYS);
	set.wait_obj = FI_WAIT_POLLFD;
	ck_assert_int_eq(fi_cq_open(s.domain, &set, &cq, NULL), -FI_ENOSYS);
	ck_assert_int_eq(fi_eq_open(s.fabric, &eq_attr, &eq, NULL), -FI_ENOSYS);
	ck_assert_int_eq(fi_wait_open(s.fabric, &wait_attr, &wait), -FI_ENOSYS);
	side_close(&s);
}
END_TEST

START_TEST(endpoint__needs_queue_and_addresses)
{
	struct side s;
	struct fid_ep *ep;

	side_open(&s, NULL, FI_WAIT_NONE);
	ck_assert_int_eq(fi_endpoint(s.domain, s.info, &ep, NULL), 0);
	ck_assert_int_eq(fi_enable(ep), -FI_ENOAV);
	ck_assert_int_eq(fi_recv(ep, NULL, 0, NULL, FI_ADDR_UNSPEC, NULL), -FI_EOPBADSTATE);
	ck_assert_int_eq(fi_ep_bind(ep, &s.av->fid, 0), 0);
	ck_assert_int_eq(fi_enable(ep), -FI_ENOCQ);
	ck_assert_int_eq(fi_close(&ep->fid), 0);
	side_close(&s);
}
END_TEST

START_TEST(bind__refuses_what_means_nothing)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_cntr *cntr;
	struct side s, other;
	struct fid_ep *ep;

	side_open(&s, NULL, FI_WAIT_NONE);
	side_open(&other, NULL, FI_WAIT_NONE);
	ck_assert_int_eq(fi_cntr_open(s.domain, &attr, &cntr, NULL), 0);
	ck_assert_int_eq(fi_endpoint(s.domain, s.info, &ep, NULL), 0);
	/* It counts nothing, and forgets the endpoint. */
	ck_assert_int_eq(fi_ep_bind(ep, &cntr->fid, FI_READ | FI_WRITE), 0);
	ck_assert_int_eq(fi_close(&ep->fid), 0);
	ck_assert_uint_eq(fi_cntr_read(cntr), 0);
	ck_assert_int_eq(fi_endpoint(s.domain, s.info, &ep, NULL), 0);
	ck_assert_int_eq(fi_ep_bind(ep, &other.cq->fid, FI_TRANSMIT), -FI_EDOMAIN);
	ck_assert_int_eq(fi_ep_bind(ep, &other.av->fid, 0), -FI_EDOMAIN);
	ck_assert_int_eq(fi_ep_bind(ep, &s.cq->fid, 0), -FI_EBADFLAGS);
	ck_assert_int_eq(fi_ep_bind(ep, &s.cq->fid, FI_SELECTIVE_COMPLETION), -FI_EBADFLAGS);
	ck_assert_int_eq(fi_close(&ep->fid), 0);
	ck_assert_int_eq(fi_close(&cntr->fid), 0);
	side_close(&s);
	side_close(&other);
}
END_TEST

/* An endpoint of a domain of s that has one direction; the queue is bound for it. */
static struct fid_ep *half_endpoint(struct side *s, uint64_t caps, uint64_t direction)
{
	struct fi_info *hints = side_hints(), *info;
	struct fid_ep *ep;

	hints->caps = FI_MSG | caps;
	ck_assert_int_eq(side_getinfo(hints, &info), 0);
	ck_assert_int_eq(fi_endpoint(s->domain, info, &ep, NULL), 0);
	ck_assert_int_eq(fi_ep_bind(ep, &s->av->fid, 0), 0);
	ck_assert_int_eq(fi_enable(ep), -FI_ENOCQ);
	ck_assert_int_eq(fi_ep_bind(ep, &s->cq->fid, direction), 0);
	ck_assert_int_eq(fi_enable(ep), 0);
	fi_freeinfo(hints);
	fi_freeinfo(info);
	return ep;
}

START_TEST(endpoint_of_one_direction__needs_one_queue)
{
	struct side a, b;
	struct side from = {0}, to = {0};
	char in[8];

	side_open(&a, NULL, FI_WAIT_NONE);
	side_open(&b, NULL, FI_WAIT_NONE);
	from.ep = half_endpoint(&a, FI_SEND, FI_TRANSMIT);
	to.ep = half_endpoint(&b, FI_RECV, FI_RECV);
	from.av = a.av;
	ck_assert_int_eq(fi_recv(from.ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL), -FI_EOPNOTSUPP);
	ck_assert_int_eq(fi_recv(to.ep, in, 8, NULL, FI_ADDR_UNSPEC, in), 0);
	ck_assert_int_eq(fi_send(to.ep, in, 8, NULL, side_insert(&b, &a), NULL), -FI_EOPNOTSUPP);
	ck_assert_int_eq(fi_inject(from.ep, "1234567", 8, side_insert(&from, &to)), 0);
	ck_assert_ptr_eq(side_wait(&b, &a).op_context, in);
	ck_assert_str_eq(in, "1234567");
	ck_assert_int_eq(fi_close(&from.ep->fid), 0);
	ck_assert_int_eq(fi_close(&to.ep->fid), 0);
	side_close(&a);
	side_close(&b);
}
END_TEST

START_TEST(op_flags__are_read_and_set)
{
	uint64_t flags = FI_TRANSMIT;
	struct side s;

	side_open(&s, NULL, FI_WAIT_NONE);
	ck_assert_int_eq(fi_control(&s.ep->fid, FI_GETOPSFLAG, &flags), 0);
	ck_assert_uint_eq(flags, s.info->tx_attr->op_flags);
	/* A send may be complete before it has left this process. */
	ck_assert_uint_eq(flags, FI_INJECT_COMPLETE);
	flags = FI_TRANSMIT | FI_RECV | FI_COMPLETION;
	ck_assert_int_eq(fi_control(&s.ep->fid, FI_SETOPSFLAG, &flags), 0);
	flags = FI_RECV;
	ck_assert_int_eq(fi_control(&s.ep->fid, FI_GETOPSFLAG, &flags), 0);
	ck_assert_uint_eq(flags, FI_COMPLETION);
	flags = FI_TRANSMIT | FI_RECV;
	ck_assert_int_eq(fi_control(&s.ep->fid, FI_GETOPSFLAG, &flags), -FI_EINVAL);
	flags = FI_RECV | FI_INJECT;
	ck_assert_int_eq(fi_control(&s.ep->fid, FI_SETOPSFLAG, &flags), -FI_EBADFLAGS);
	side_close(&s);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ofi/info");
	TCase *tc = tcase_create("info");

	tcase_add_test(tc, getinfo__one_endpoint_that_meets_the_hints);
	tcase_add_test(tc, getinfo__capabilities_of_contexts);
	tcase_add_test(tc, getinfo__refuses_what_is_not_served);
	tcase_add_test(tc, getinfo__hints_at_random);
	tcase_add_test(tc, getinfo__takes_the_number_of_a_service);
	tcase_add_test(tc, getinfo__refuses_nodes_and_services_that_mean_nothing);
	tcase_add_test(tc, endpoint__holds_the_service_of_its_source);
	tcase_add_test(tc, getname__returns_the_length);
	tcase_add_test(tc, av__inserts_finds_and_removes);
	tcase_add_test(tc, objects_in_use__are_not_closed);
	tcase_add_test(tc, calls_that_are_not_served__return_enosys);
	tcase_add_test(tc, endpoint__needs_queue_and_addresses);
	tcase_add_test(tc, bind__refuses_what_means_nothing);
	tcase_add_test(tc, endpoint_of_one_direction__needs_one_queue);
	tcase_add_test(tc, op_flags__are_read_and_set);
	suite_add_tcase(s, tc);
	return test_main("ofi/info", s);
}
