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

/* Logs a hint that cannot be met. Return: whether it is such a one. */
static bool unmet(bool is, const char *hint)
{
	if (is)
		FI_INFO(&ofi_provider, FI_LOG_CORE, "no endpoint matches the hints: %s\n", hint);
	return is;
}

/* The next four: whether one of these hints cannot be met. */

static bool tx_unmet(const struct fi_tx_attr *a, uint64_t caps)
{
	return unmet(a->caps & ~caps, "tx_attr->caps are not among caps") ||
	       unmet(a->op_flags & ~OFI_TX_OP_FLAGS, "tx_attr->op_flags") ||
	       unmet(a->msg_order & ~(uint64_t)ORDER, "tx_attr->msg_order: only FI_ORDER_SAS") ||
	       unmet(a->comp_order & ~(uint64_t)FI_ORDER_NONE,
		     "tx_attr->comp_order: completions have no order") ||
	       unmet(a->inject_size > OFI_INJECT_MAX, "tx_attr->inject_size") ||
	       unmet(a->size > OFI_QUEUE_SIZE, "tx_attr->size") ||
	       unmet(a->iov_limit > OFI_IOV_MAX, "tx_attr->iov_limit") ||
	       unmet(a->rma_iov_limit, "tx_attr->rma_iov_limit");
}

static bool rx_unmet(const struct fi_rx_attr *a, uint64_t caps)
{
	return unmet(a->caps & ~caps, "rx_attr->caps are not among caps") ||
	       unmet(a->op_flags & ~OFI_RX_OP_FLAGS, "rx_attr->op_flags") ||
	       unmet(a->msg_order & ~(uint64_t)ORDER, "rx_attr->msg_order: only FI_ORDER_SAS") ||
	       unmet(a->comp_order & ~(uint64_t)FI_ORDER_NONE,
		     "rx_attr->comp_order: completions have no order") ||
	       unmet(a->total_buffered_recv > OFI_WINDOW_BYTES, "rx_attr->total_buffered_recv") ||
	       unmet(a->size > OFI_QUEUE_SIZE, "rx_attr->size") ||
	       unmet(a->iov_limit > OFI_IOV_MAX, "rx_attr->iov_limit");
}

static bool ep_unmet(const struct fi_ep_attr *a)
{
	return unmet(a->type != FI_EP_UNSPEC && a->type != FI_EP_RDM,
		     "ep_attr->type: only FI_EP_RDM") ||
	       unmet(a->protocol != FI_PROTO_UNSPEC &&
			     a->protocol != (FI_PROV_SPECIFIC | PROTOCOL_NUMBER),
		     "ep_attr->protocol") ||
	       unmet(a->protocol_version > OFI_WIRE_VERSION, "ep_attr->protocol_version") ||
	       unmet(a->max_msg_size > OFI_MESSAGE_MAX, "ep_attr->max_msg_size") ||
	       unmet(a->tx_ctx_cnt > 1 || a->rx_ctx_cnt > 1,
		     "ep_attr: one transmit and one receive context") ||
	       unmet(a->max_order_raw_size || a->max_order_war_size || a->max_order_waw_size,
		     "ep_attr->max_order sizes: no RMA") ||
	       unmet(a->auth_key_size, "ep_attr->auth_key: RIPC_KEY_FILE sets keys");
}

static bool domain_unmet(const struct fi_domain_attr *a)
{
	return unmet(a->name && strcasecmp(a->name, NAME) != 0, "domain_attr->name") ||
	       unmet(a->threading > FI_THREAD_ENDPOINT || a->threading < FI_THREAD_UNSPEC,
		     "domain_attr->threading") ||
	       unmet(a->control_progress > FI_PROGRESS_MANUAL, "domain_attr->control_progress") ||
	       unmet(a->data_progress != FI_PROGRESS_UNSPEC &&
			     a->data_progress != FI_PROGRESS_MANUAL,
		     "domain_attr->data_progress: only FI_PROGRESS_MANUAL") ||
	       unmet(a->resource_mgmt > FI_RM_ENABLED, "domain_attr->resource_mgmt") ||
	       unmet(a->av_type > FI_AV_TABLE, "domain_attr->av_type") ||
	       unmet(a->cq_data_size > CQ_DATA_SIZE, "domain_attr->cq_data_size") ||
	       unmet(a->caps & ~DOMAIN_CAPS, "domain_attr->caps") ||
	       unmet(a->cq_cnt > OBJECTS_MAX || a->ep_cnt > OBJECTS_MAX ||
			     a->cntr_cnt > OBJECTS_MAX || a->tx_ctx_cnt > OBJECTS_MAX ||
			     a->rx_ctx_cnt > OBJECTS_MAX,
		     "domain_attr: numbers of objects") ||
	       unmet(a->max_ep_tx_ctx > 1 || a->max_ep_rx_ctx > 1 || a->max_ep_stx_ctx ||
			     a->max_ep_srx_ctx,
		     "domain_attr: scalable and shared contexts") ||
	       unmet(a->auth_key_size, "domain_attr->auth_key: RIPC_KEY_FILE sets keys");
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

static bool hints_unmet(const struct fi_info *h)
{
	return unmet(h->caps & ~(PRIMARY | SECONDARY),
		     "caps: FI_MSG, FI_TAGGED and FI_DIRECTED_RECV") ||
	       unmet(h->addr_format != FI_FORMAT_UNSPEC && h->addr_format != FI_ADDR_RIPC,
		     "addr_format") ||
	       unmet(h->fabric_attr && h->fabric_attr->name &&
			     strcasecmp(h->fabric_attr->name, NAME) != 0,
		     "fabric_attr->name") ||
	       (h->tx_attr && tx_unmet(h->tx_attr, caps_for(h))) ||
	       (h->rx_attr && rx_unmet(h->rx_attr, caps_for(h))) ||
	       (h->ep_attr && ep_unmet(h->ep_attr)) ||
	       (h->domain_attr && domain_unmet(h->domain_attr));
}

static void fill(struct fi_info *f)
{
	*f->tx_attr = (struct fi_tx_attr){
		.op_flags = FI_INJECT_COMPLETE,
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

/* Whether an address in the hints is none of ripc. */
static bool address_unmet(const struct fi_info *h, const void *address, size_t len,
			  uint64_t *service)
{
	return unmet(h->addr_format != FI_ADDR_RIPC || len != OFI_ADDRESS_LEN ||
			     !ofi_address_get(address, service),
		     "src_addr, dest_addr: not an address of ripc");
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
	int rc;

	if (unmet(service && !ofi_address_service(service, &named),
		  "service: the number of a service, 1 to 2^63-1") ||
	    unmet(source && node && !ofi_address_is_local(node, flags & FI_NUMERICHOST),
		  "node: with FI_SOURCE, an address of this host") ||
	    unmet(dest && !service, "node without service: a peer is found by its service") ||
	    (h && h->src_addr && !source && address_unmet(h, h->src_addr, h->src_addrlen, &from)) ||
	    (h && h->dest_addr && !dest && address_unmet(h, h->dest_addr, h->dest_addrlen, &to)))
		return -FI_ENODATA;
	if (source)
		from = named;
	if (dest)
		to = named;
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
	int rc;

	if (hints && hints_unmet(hints))
		return -FI_ENODATA;
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
