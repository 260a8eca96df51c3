/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * MPI: two ranks. Receives are posted ahead, a window of them into one buffer, which is never
 * looked at.
 */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<mpi.h>)
#include <mpi.h>

#define WINDOW_MAX 256 /* requests; more in flight gain nothing */

static MPI_Request sends[WINDOW_MAX], receives[WINDOW_MAX];
static unsigned window, send_at, receive_at;
static int other, len_max;
static char *incoming;

static const char *version(void)
{
	static char text[MPI_MAX_LIBRARY_VERSION_STRING];
	int len;

	MPI_Get_library_version(text, &len);
	text[strcspn(text, ",")] = 0;
	return text;
}

static void post(unsigned i)
{
	MPI_Irecv(incoming, len_max, MPI_BYTE, other, 0, MPI_COMM_WORLD, &receives[i]);
}

static int open_ranks(const struct peer_setup *setup, int *argc, char ***argv)
{
	int rank, ranks;

	if (MPI_Init(argc, argv))
		return peer_fail("MPI_Init", "failed");
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks != 2)
		return peer_fail("ranks", "two are needed");
	other = !rank;
	window = setup->window < WINDOW_MAX ? setup->window : WINDOW_MAX;
	len_max = (int)setup->len_max;
	incoming = calloc(1, setup->len_max);
	if (!incoming)
		return peer_fail("buffer", "out of memory");
	for (unsigned i = 0; i < window; i++) {
		sends[i] = MPI_REQUEST_NULL;
		post(i);
	}
	/* A receive posted late is served from a queue: both shall begin with theirs posted. */
	MPI_Barrier(MPI_COMM_WORLD);
	return 0;
}

static int send_one(const void *buf, size_t len, bool more)
{
	if (!more && len <= 4096)
		return MPI_Send(buf, (int)len, MPI_BYTE, other, 0, MPI_COMM_WORLD)
			       ? peer_fail("send", "failed")
			       : 0;
	if (MPI_Wait(&sends[send_at], MPI_STATUS_IGNORE) ||
	    MPI_Isend(buf, (int)len, MPI_BYTE, other, 0, MPI_COMM_WORLD, &sends[send_at]))
		return peer_fail("send", "failed");
	send_at = (send_at + 1) % window;
	return 0;
}

static int drain(void)
{
	return MPI_Waitall((int)window, sends, MPI_STATUSES_IGNORE) ? peer_fail("drain", "failed")
								    : 0;
}

static int receive(void)
{
	if (MPI_Wait(&receives[receive_at], MPI_STATUS_IGNORE))
		return peer_fail("receive", "failed");
	post(receive_at);
	receive_at = (receive_at + 1) % window;
	return 0;
}

static void close_ranks(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	for (unsigned i = 0; i < window; i++) {
		MPI_Cancel(&receives[i]);
		MPI_Wait(&receives[i], MPI_STATUS_IGNORE);
	}
	MPI_Finalize();
	free(incoming);
}

const struct peer peer = {.name = "mpi",
			  .version = version,
			  .open = open_ranks,
			  .send = send_one,
			  .drain = drain,
			  .receive = receive,
			  .close = close_ranks};
#endif
