/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libfabric: reliable datagram endpoints of the provider shm, or tcp below rxm. Receives are posted
 * ahead, a window of them into one buffer, which is never looked at. The addresses are exchanged in
 * files beside the path given.
 */
#include "peer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if __has_include(<rdma/fi_endpoint.h>)
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#define WINDOW_MAX   256
#define NAME_MAX_LEN 256
#define EXCHANGE_MS  20000

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;
static struct fid_mr *mr_in, *mr_out;
static fi_addr_t other;
static char *incoming;
static size_t len_max;
static unsigned window, in_flight, arrived;
/* The index in these identifies the completed operation. */
static struct fi_context2 sends[WINDOW_MAX], receives[WINDOW_MAX];

static const char *version(void)
{
	static char text[32];

	snprintf(text, sizeof(text), "%u.%u", FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
	return text;
}

static int fail(const char *what, long rc)
{
	return peer_fail(what, fi_strerror((int)-rc));
}

/* Takes what has completed. Return: 0 or -1. */
static int progress(void)
{
	struct fi_cq_entry done[16];
	ssize_t n = fi_cq_read(cq, done, 16);

	if (n == -FI_EAGAIN)
		return 0;
	if (n < 0) {
		struct fi_cq_err_entry err = {0};

		fi_cq_readerr(cq, &err, 0);
		return fail("completion", err.err ? -err.err : n);
	}
	for (ssize_t i = 0; i < n; i++) {
		if (done[i].op_context >= (void *)sends &&
		    done[i].op_context < (void *)(sends + window))
			in_flight--;
		else
			arrived++;
	}
	return 0;
}

static int post(void)
{
	ssize_t rc;

	/* Which context is free is of no interest as long as none is asked for its contents. */
	static unsigned next;

	while ((rc = fi_recv(ep, incoming, len_max, mr_in ? fi_mr_desc(mr_in) : NULL,
			     FI_ADDR_UNSPEC, &receives[next])) == -FI_EAGAIN)
		if (progress())
			return -1;
	next = (next + 1) % window;
	return rc ? fail("receive", rc) : 0;
}

static int put_name(const char *path, const void *name, size_t len)
{
	char temporary[300];
	FILE *f;

	snprintf(temporary, sizeof(temporary), "%s.new", path);
	f = fopen(temporary, "wb");
	if (!f || fwrite(name, 1, len, f) != len || fclose(f) || rename(temporary, path))
		return peer_fail(path, "cannot write");
	return 0;
}

static int get_name(const char *path, void *name)
{
	for (int ms = 0; ms < EXCHANGE_MS; ms++) {
		FILE *f = fopen(path, "rb");

		if (f) {
			size_t n = fread(name, 1, NAME_MAX_LEN, f);

			fclose(f);
			return n ? 0 : peer_fail(path, "empty");
		}
		usleep(1000);
	}
	return peer_fail(path, "the other process is not there");
}

static int exchange_names(const struct peer_setup *setup)
{
	static const char *const roles[2] = {"client", "server"};
	char mine[280], theirs[280], name[NAME_MAX_LEN] = {0};
	size_t len = sizeof(name);
	int rc = fi_getname(&ep->fid, name, &len);

	if (rc)
		return fail("name", rc);
	snprintf(mine, sizeof(mine), "%s.%s", setup->address, roles[setup->server]);
	snprintf(theirs, sizeof(theirs), "%s.%s", setup->address, roles[!setup->server]);
	if (put_name(mine, name, len) || get_name(theirs, name))
		return -1;
	if (fi_av_insert(av, name, 1, &other, 0, NULL) != 1)
		return peer_fail("address", "refused");
	return 0;
}

static int open_fabric(const struct peer_setup *setup)
{
	struct fi_info *hints = fi_allocinfo();
	int rc;

	if (!hints)
		return peer_fail("hints", "out of memory");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = FI_MR_LOCAL;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->tx_attr->tclass = FI_TC_LOW_LATENCY;
	hints->fabric_attr->prov_name = strdup(setup->tcp ? "tcp;ofi_rxm" : "shm");
	rc = fi_getinfo(FI_VERSION(1, 9), setup->tcp ? "127.0.0.1" : NULL, NULL,
			setup->tcp ? FI_SOURCE : 0, hints, &info);
	fi_freeinfo(hints);
	if (rc)
		return fail(setup->tcp ? "provider tcp;ofi_rxm" : "provider shm", rc);
	rc = fi_fabric(info->fabric_attr, &fabric, NULL);
	return rc ? fail("fabric", rc) : 0;
}

static int open_endpoint(void)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT, .size = 2048};
	struct fi_av_attr av_attr = {.type = FI_AV_UNSPEC};
	int rc = fi_domain(fabric, info, &domain, NULL);

	if (rc)
		return fail("domain", rc);
	if ((rc = fi_cq_open(domain, &cq_attr, &cq, NULL)) ||
	    (rc = fi_av_open(domain, &av_attr, &av, NULL)) ||
	    (rc = fi_endpoint(domain, info, &ep, NULL)) || (rc = fi_ep_bind(ep, &av->fid, 0)) ||
	    (rc = fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV)) || (rc = fi_enable(ep)))
		return fail("endpoint", rc);
	return 0;
}

static int open_all(const struct peer_setup *setup, int *argc, char ***argv)
{
	int rc;

	window = setup->window < WINDOW_MAX ? setup->window : WINDOW_MAX;
	len_max = setup->len_max;
	incoming = calloc(1, len_max);
	if (!incoming)
		return peer_fail("buffer", "out of memory");
	if (open_fabric(setup) || open_endpoint())
		return -1;
	if (info->domain_attr->mr_mode & FI_MR_LOCAL) {
		rc = fi_mr_reg(domain, incoming, len_max, FI_RECV, 0, 1, 0, &mr_in, NULL);
		if (rc)
			return fail("registration", rc);
	}
	for (unsigned i = 0; i < window; i++)
		if (post())
			return -1;
	return exchange_names(setup);
}

static int send_one(const void *buf, size_t len, bool more)
{
	static unsigned next;
	ssize_t rc;

	if (!mr_out && (info->domain_attr->mr_mode & FI_MR_LOCAL)) {
		rc = fi_mr_reg(domain, buf, len_max, FI_SEND, 0, 2, 0, &mr_out, NULL);
		if (rc)
			return fail("registration", rc);
	}
	while (in_flight >= window)
		if (progress())
			return -1;
	for (;;) {
		if (len <= info->tx_attr->inject_size) {
			rc = fi_inject(ep, buf, len, other);
		} else {
			rc = fi_send(ep, buf, len, mr_out ? fi_mr_desc(mr_out) : NULL, other,
				     &sends[next]);
			if (!rc) {
				in_flight++;
				next = (next + 1) % window;
			}
		}
		if (!rc)
			return 0;
		if (rc != -FI_EAGAIN)
			return fail("send", rc);
		if (progress())
			return -1;
	}
}

static int drain(void)
{
	while (in_flight)
		if (progress())
			return -1;
	return 0;
}

static int receive(void)
{
	while (!arrived)
		if (progress())
			return -1;
	arrived--;
	return post();
}

static void close_all(void)
{
	/*
	 * Injected data is sent only while the queue is polled, and its completion is not reported.
	 */
	for (int i = 0; i < 200; i++) {
		if (progress())
			break;
		usleep(1000);
	}
	fi_close(&ep->fid);
	if (mr_in)
		fi_close(&mr_in->fid);
	if (mr_out)
		fi_close(&mr_out->fid);
	fi_close(&av->fid);
	fi_close(&cq->fid);
	fi_close(&domain->fid);
	fi_close(&fabric->fid);
	fi_freeinfo(info);
	free(incoming);
}

const struct peer peer = {.name = "ofi",
			  .version = version,
			  .open = open_all,
			  .send = send_one,
			  .drain = drain,
			  .receive = receive,
			  .close = close_all};
#endif
