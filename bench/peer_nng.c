/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* NNG: a pair of sockets, and messages of its own allocation, without copies or clearing. */
#include "peer.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if __has_include(<nng/nng.h>)
#include <nng/nng.h>
#include <nng/protocol/pair0/pair.h>

#define SHORT 1024 /* bytes that a short message copies, as the other libraries do */

static nng_socket sock;

static int open_pair(const struct peer_setup *setup, int *argc, char ***argv)
{
	int depth = setup->window < 8192 ? (int)setup->window : 8192, rc;
	char url[256];

	snprintf(url, sizeof(url), setup->tcp ? "tcp://127.0.0.1:%s" : "ipc://%s", setup->address);
	rc = nng_pair0_open(&sock);
	if (!rc)
		rc = nng_socket_set_int(sock, NNG_OPT_SENDBUF, depth);
	if (!rc)
		rc = nng_socket_set_int(sock, NNG_OPT_RECVBUF, depth);
	if (!rc)
		rc = nng_socket_set_size(sock, NNG_OPT_RECVMAXSZ, 0);
	if (!rc && setup->tcp)
		rc = nng_socket_set_bool(sock, NNG_OPT_TCP_NODELAY, true);
	/* Only the other end may be late: then it is tried again. */
	if (!rc)
		rc = setup->server ? nng_listen(sock, url, NULL, 0)
				   : nng_dial(sock, url, NULL, NNG_FLAG_NONBLOCK);
	return rc ? peer_fail(url, nng_strerror(rc)) : 0;
}

static int send_one(const void *buf, size_t len, bool more)
{
	nng_msg *m;
	int rc = nng_msg_alloc(&m, len);

	if (rc)
		return peer_fail("message", nng_strerror(rc));
	if (len <= SHORT)
		memcpy(nng_msg_body(m), buf, len);
	rc = nng_sendmsg(sock, m, 0);
	if (!rc)
		return 0;
	nng_msg_free(m);
	return peer_fail("send", nng_strerror(rc));
}

static int drain(void)
{
	return 0;
}

static int receive(void)
{
	nng_msg *m;
	int rc = nng_recvmsg(sock, &m, 0);

	if (rc)
		return peer_fail("receive", nng_strerror(rc));
	nng_msg_free(m);
	return 0;
}

static void close_pair(void)
{
	/* It drops what it has not sent yet: the last word of the server must get out first. */
	usleep(200000);
	nng_close(sock);
}

const struct peer peer = {.name = "nng",
			  .version = nng_version,
			  .open = open_pair,
			  .send = send_one,
			  .drain = drain,
			  .receive = receive,
			  .close = close_pair};
#endif
