/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* UDP datagrams of villas.binary, one sample in each datagram that is sent. */
#include "node.h"
#include "villas.h"
#include "../tool.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

struct socket_state {
	uv_udp_t udp;
	struct sockaddr_storage out;
	char datagram[65536];
};

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct socket_state *s = ((struct node *)handle->data)->state;

	(void)suggested;
	*buf = uv_buf_init(s->datagram, sizeof(s->datagram));
}

static void malformed(struct node *node, const struct sockaddr *from, const char *fault)
{
	const socklen_t len = from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							  : sizeof(struct sockaddr_in);
	char why[NI_MAXHOST + NI_MAXSERV + 128], host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";

	getnameinfo(from, len, host, sizeof(host), port, sizeof(port),
		    NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(why, sizeof(why), "%s port %s: %s", host, port, fault);
	node_malformed(node, why);
}

static void on_datagram(uv_udp_t *udp, ssize_t len, const uv_buf_t *buf,
			const struct sockaddr *from, unsigned flags)
{
	struct node *node = udp->data;
	const uint8_t *data = (const uint8_t *)buf->base;

	(void)flags;
	if (len < 0 || !from)
		return;
	do {
		const char *why = NULL;
		struct sample sample;
		uint8_t index;
		const size_t n = villas_decode(&sample, &index, data, (size_t)len, &why);

		if (!n) {
			malformed(node, from, why);
			return;
		}
		node_deliver(node, &sample);
		data += n;
		len -= (ssize_t)n;
	} while (len);
}

/* Return: 0, or an error of getaddrinfo(). */
static int resolve(const struct end_plan *end, struct sockaddr_storage *address)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
	struct addrinfo *found;
	int rc = getaddrinfo(end->host, end->port, &hints, &found);

	if (rc)
		return rc;
	memcpy(address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

static int resolve_end(const struct node *node, const struct end_plan *end,
		       struct sockaddr_storage *address)
{
	const int rc = resolve(end, address);

	if (!rc)
		return 0;
	tool_error("node %s: %s port %s: %s", node->plan->name, end->host, end->port,
		   gai_strerror(rc));
	return -EHOSTUNREACH;
}

static int start_in(struct node *node, struct socket_state *s)
{
	struct sockaddr_storage in = {0};
	int rc = resolve_end(node, &node->plan->in, &in);

	if (rc)
		return rc;
	node->gateway->open_sources++;
	rc = uv_udp_bind(&s->udp, (struct sockaddr *)&in, 0);
	if (!rc)
		rc = uv_udp_recv_start(&s->udp, on_alloc, on_datagram);
	if (rc)
		tool_error("node %s: cannot receive at %s port %s: %s", node->plan->name,
			   node->plan->in.host, node->plan->in.port, uv_strerror(rc));
	return rc;
}

static int start(struct node *node, bool source, bool sink)
{
	struct socket_state *s = calloc(1, sizeof(*s));
	int rc = 0;

	node->state = s;
	if (!s)
		return -ENOMEM;
	rc = uv_udp_init(&node->gateway->loop, &s->udp);
	s->udp.data = node;
	if (!rc && sink)
		rc = resolve_end(node, &node->plan->out, &s->out);
	if (!rc && source)
		rc = start_in(node, s);
	return rc;
}

static int write_datagram(struct node *node, const struct sample *sample)
{
	struct socket_state *s = node->state;
	uint8_t message[VILLAS_MESSAGE_MAX];
	const size_t len = villas_encode(sample, 0, message, sizeof(message));
	uv_buf_t buf = uv_buf_init((char *)message, (unsigned)len);
	int rc;

	if (!len)
		return -ERANGE;
	rc = uv_udp_try_send(&s->udp, &buf, 1, (struct sockaddr *)&s->out);
	/* An ICMP error of an earlier datagram: this one was not sent. */
	if (rc == UV_ECONNREFUSED)
		rc = uv_udp_try_send(&s->udp, &buf, 1, (struct sockaddr *)&s->out);
	return rc < 0 ? rc : 0;
}

static void stop(struct node *node)
{
	free(node->state);
}

const struct node_ops node_socket = {.start = start, .write = write_datagram, .stop = stop};
