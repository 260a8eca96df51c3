/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ofi/info.h"
#include "ofi/address.h"
#include "ofi/provider.h"
#include "ofi/wire.h"

#include <rdma/fi_endpoint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAME            "ripc"
#define PRIMARY         (FI_MSG | FI_TAGGED | FI_SEND | FI_RECV | FI_DIRECTED_RECV)
#define SECONDARY       (FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM)
#define TX_CAPS         (FI_MSG | FI_TAGGED | FI_SEND)
#define RX_CAPS         (FI_MSG | FI_TAGGED | FI_RECV | FI_DIRECTED_RECV | FI_SOURCE)
#define DOMAIN_CAPS     (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define ORDER           FI_ORDER_SAS
#define CQ_DATA_SIZE    8
#define OBJECTS_MAX     65536
#define PROTOCOL_NUMBER 0x72697063u

/* Logs a hint that cannot be met. Return: -FI_ENODATA. */
static int no_match(const char *hint)
{
	FI_INFO(&ofi_provider, FI_LOG_CORE, "no endpoint matches the hints: %s\n", hint);
	return -FI_ENODATA;
}

static int check_tx(const struct fi_tx_attr *a, uint64_t caps)
{
	if (a->caps & ~caps)
		return no_match("tx_attr->caps are not among caps");
	if (a->op_flags & ~OFI_TX_OP_FLAGS)
		return no_match("tx_attr->op_flags");
	if (a->msg_order & ~(uint64_t)ORDER)
		return no_match("tx_attr->msg_order: only FI_ORDER_SAS");
	if (a->comp_order & ~(uint64_t)FI_ORDER_NONE)
		return no_match("tx_attr->comp_order: completions have no order");
	if (a->inject_size > OFI_INJECT_MAX)
		return no_match("tx_attr->inject_size");
	if (a->size > OFI_QUEUE_SIZE)
		return no_match("tx_attr->size");
	if (a->iov_limit > OFI_IOV_MAX)
		return no_match("tx_attr->iov_limit");
	return a->rma_iov_limit ? no_match("tx_attr->rma_iov_limit") : 0;
}

static int check_rx(const struct fi_rx_attr *a, uint64_t caps)
{
	if (a->caps & ~caps)
		return no_match("rx_attr->caps are not among caps");
	if (a->op_flags & ~OFI_RX_OP_FLAGS)
		return no_match("rx_attr->op_flags");
	if (a->msg_order & ~(uint64_t)ORDER)
		return no_match("rx_attr->msg_order: only FI_ORDER_SAS");
	if (a->comp_order & ~(uint64_t)FI_ORDER_NONE)
		return no_match("rx_attr->comp_order: completions have no order");
	if (a->total_buffered_recv > OFI_WINDOW_BYTES)
		return no_match("rx_attr->total_buffered_recv");
	if (a->size > OFI_QUEUE_SIZE)
		return no_match("rx_attr->size");
	return a->iov_limit > OFI_IOV_MAX ? no_match("rx_attr->iov_limit") : 0;
}

static int check_ep(const struct fi_ep_attr *a)
{
	if (a->type != FI_EP_UNSPEC && a->type != FI_EP_RDM)
		return no_match("ep_attr->type: only FI_EP_RDM");
	if (a->protocol != FI_PROTO_UNSPEC && a->protocol != (FI_PROV_SPECIFIC | PROTOCOL_NUMBER))
		return no_match("ep_attr->protocol");
	if (a->protocol_version > OFI_WIRE_VERSION)
		return no_match("ep_attr->protocol_version");
	if (a->max_msg_size > OFI_MESSAGE_MAX)
		return no_match("ep_attr->max_msg_size");
	if (a->tx_ctx_cnt > 1 || a->rx_ctx_cnt > 1)
		return no_match("ep_attr: one transmit and one receive context");
	if (a->max_order_raw_size || a->max_order_war_size || a->max_order_waw_size)
		return no_match("ep_attr->max_order sizes: no RMA");
	return a->auth_key_size ? no_match("ep_attr->auth_key: RIPC_KEY_FILE sets keys") : 0;
}

static int check_domain(const struct fi_domain_attr *a)
{
	if (a->name && strcasecmp(a->name, NAME) != 0)
		return no_match("domain_attr->name");
	if (a->threading > FI_THREAD_ENDPOINT || a->threading < FI_THREAD_UNSPEC)
		return no_match("domain_attr->threading");
	if (a->control_progress > FI_PROGRESS_MANUAL)
		return no_match("domain_attr->control_progress");
	if (a->data_progress != FI_PROGRESS_UNSPEC && a->data_progress != FI_PROGRESS_MANUAL)
		return no_match("domain_attr->data_progress: only FI_PROGRESS_MANUAL");
	if (a->av_type > FI_AV_TABLE)
		return no_match("domain_attr->av_type");
	if (a->cq_data_size > CQ_DATA_SIZE)
		return no_match("domain_attr->cq_data_size");
	if (a->caps & ~DOMAIN_CAPS)
		return no_match("domain_attr->caps");
	if (a->cq_cnt > OBJECTS_MAX || a->ep_cnt > OBJECTS_MAX || a->cntr_cnt > OBJECTS_MAX ||
	    a->tx_ctx_cnt > OBJECTS_MAX || a->rx_ctx_cnt > OBJECTS_MAX)
		return no_match("domain_attr: numbers of objects");
	if (a->max_ep_tx_ctx > 1 || a->max_ep_rx_ctx > 1 || a->max_ep_stx_ctx || a->max_ep_srx_ctx)
		return no_match("domain_attr: scalable and shared contexts");
	return a->auth_key_size ? no_match("domain_attr->auth_key: RIPC_KEY_FILE sets keys") : 0;
}

/* A capability without a direction has both. Those that the hints do not name come with it. */
static uint64_t caps_for(const struct fi_info *h)
{
	uint64_t caps = h ? h->caps & PRIMARY : 0;

	if (!caps)
		caps = PRIMARY;
	if (!(caps & (FI_MSG | FI_TAGGED)))
		caps |= FI_MSG | FI_TAGGED;
	if (!(caps & (FI_SEND | FI_RECV)))
		caps |= FI_SEND | FI_RECV;
	return caps | SECONDARY;
}

static int check_hints(const struct fi_info *h)
{
	int rc = 0;

	if (h->caps & ~(PRIMARY | SECONDARY))
		return no_match("caps: FI_MSG, FI_TAGGED and FI_DIRECTED_RECV");
	if (h->addr_format != FI_FORMAT_UNSPEC && h->addr_format != FI_ADDR_RIPC)
		return no_match("addr_format");
	if (h->fabric_attr && h->fabric_attr->name && strcasecmp(h->fabric_attr->name, NAME) != 0)
		return no_match("fabric_attr->name");
	if (h->tx_attr)
		rc = check_tx(h->tx_attr, caps_for(h));
	if (!rc && h->rx_attr)
		rc = check_rx(h->rx_attr, caps_for(h));
	if (!rc && h->ep_attr)
		rc = check_ep(h->ep_attr);
	if (!rc && h->domain_attr)
		rc = check_domain(h->domain_attr);
	return rc;
}

static void fill(struct fi_info *f)
{
	*f->tx_attr = (struct fi_tx_attr){
		.op_flags = FI_TRANSMIT_COMPLETE,
		.msg_order = ORDER,
		.inject_size = OFI_INJECT_MAX,
		.size = OFI_QUEUE_SIZE,
		.iov_limit = OFI_IOV_MAX,
	};
	*f->rx_attr = (struct fi_rx_attr){
		.msg_order = ORDER,
		.total_buffered_recv = OFI_WINDOW_BYTES,
		.size = OFI_QUEUE_SIZE,
		.iov_limit = OFI_IOV_MAX,
	};
	f->addr_format = FI_ADDR_RIPC;
	f->ep_attr->type = FI_EP_RDM;
	f->ep_attr->protocol = FI_PROV_SPECIFIC | PROTOCOL_NUMBER;
	f->ep_attr->protocol_version = OFI_WIRE_VERSION;
	f->ep_attr->max_msg_size = OFI_MESSAGE_MAX;
	f->ep_attr->mem_tag_format = ~UINT64_C(0);
	f->ep_attr->tx_ctx_cnt = 1;
	f->ep_attr->rx_ctx_cnt = 1;
	*f->domain_attr = (struct fi_domain_attr){
		.name = f->domain_attr->name,
		.threading = FI_THREAD_SAFE,
		.control_progress = FI_PROGRESS_AUTO,
		.data_progress = FI_PROGRESS_MANUAL,
		.resource_mgmt = FI_RM_ENABLED,
		.av_type = FI_AV_UNSPEC,
		.cq_data_size = CQ_DATA_SIZE,
		.cq_cnt = OBJECTS_MAX,
		.ep_cnt = OBJECTS_MAX,
		.tx_ctx_cnt = OBJECTS_MAX,
		.rx_ctx_cnt = OBJECTS_MAX,
		.max_ep_tx_ctx = 1,
		.max_ep_rx_ctx = 1,
		.cntr_cnt = OBJECTS_MAX,
		.caps = DOMAIN_CAPS,
	};
}

/* ---- addresses ---- */

/* An address in the hints. Return: 0 or -FI_ENODATA. */
static int hinted(const struct fi_info *h, const void *address, size_t len, uint64_t *service)
{
	if (h->addr_format != FI_ADDR_RIPC || len != OFI_ADDRESS_LEN ||
	    !ofi_address_get(address, service))
		return no_match("src_addr, dest_addr: not an address of ripc");
	return 0;
}

static int set_address(void **address, size_t *len, uint64_t service)
{
	*address = malloc(OFI_ADDRESS_LEN);
	if (!*address)
		return -FI_ENOMEM;
	ofi_address_put(*address, service);
	*len = OFI_ADDRESS_LEN;
	return 0;
}

/*
 * The source and the destination. A service is found on every host, so the node of a destination is
 * not looked up.
 */
static int addresses(struct fi_info *f, const char *node, const char *service, uint64_t flags,
		     const struct fi_info *h)
{
	bool source = flags & FI_SOURCE, dest = !source && (node || service);
	uint64_t named = 0, from = 0, to = 0;
	int rc = 0;

	if (service && !ofi_address_service(service, &named))
		return no_match("service: the number of a service, 1 to 2^63-1");
	if (source && node && !ofi_address_is_local(node, flags & FI_NUMERICHOST))
		return no_match("node: with FI_SOURCE, an address of this host");
	if (dest && !service)
		return no_match("node without service: a peer is found by its service");
	if (h && h->src_addr && !source)
		rc = hinted(h, h->src_addr, h->src_addrlen, &from);
	if (!rc && h && h->dest_addr && !dest)
		rc = hinted(h, h->dest_addr, h->dest_addrlen, &to);
	if (source)
		from = named;
	if (dest)
		to = named;
	if (!rc)
		rc = set_address(&f->src_addr, &f->src_addrlen, from);
	if (!rc && source)
		ofi_address_prefer(f->src_addr);
	if (!rc && to)
		rc = set_address(&f->dest_addr, &f->dest_addrlen, to);
	return rc;
}

/* Values that the hints choose. */
static void follow(struct fi_info *f, const struct fi_info *h)
{
	f->handle = h->handle;
	if (h->domain_attr) {
		const struct fi_domain_attr *d = h->domain_attr;

		if (d->threading != FI_THREAD_UNSPEC)
			f->domain_attr->threading = d->threading;
		if (d->control_progress != FI_PROGRESS_UNSPEC)
			f->domain_attr->control_progress = d->control_progress;
		if (d->av_type != FI_AV_UNSPEC)
			f->domain_attr->av_type = d->av_type;
		if (d->resource_mgmt != FI_RM_UNSPEC)
			f->domain_attr->resource_mgmt = d->resource_mgmt;
	}
	if (h->tx_attr && h->tx_attr->op_flags)
		f->tx_attr->op_flags = h->tx_attr->op_flags;
	if (h->rx_attr && h->rx_attr->op_flags)
		f->rx_attr->op_flags = h->rx_attr->op_flags;
	if (h->ep_attr && h->ep_attr->mem_tag_format)
		f->ep_attr->mem_tag_format = h->ep_attr->mem_tag_format;
}

int ofi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		const struct fi_info *hints, struct fi_info **info)
{
	struct fi_info *f;
	int rc = hints ? check_hints(hints) : 0;

	if (rc)
		return rc;
	f = fi_allocinfo();
	if (!f)
		return -FI_ENOMEM;
	f->fabric_attr->name = strdup(NAME);
	f->domain_attr->name = strdup(NAME);
	rc = addresses(f, node, service, flags, hints);
	if (!f->fabric_attr->name || !f->domain_attr->name)
		rc = -FI_ENOMEM;
	if (rc) {
		fi_freeinfo(f);
		return rc;
	}
	fill(f);
	f->fabric_attr->prov_version = ofi_provider.version;
	f->fabric_attr->api_version = version;
	f->caps = caps_for(hints);
	f->tx_attr->caps = (f->caps & FI_SEND) ? (f->caps & TX_CAPS) : 0;
	f->rx_attr->caps = (f->caps & FI_RECV) ? (f->caps & RX_CAPS) : 0;
	if (hints)
		follow(f, hints);
	*info = f;
	return 0;
}
