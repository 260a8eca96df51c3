/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Two ranks of MPI: half of a round trip for some lengths, and 8-byte messages per second, each the
 * best of some runs. Prints lines "LENGTH US" and "rate MESSAGES_PER_US". bench/mpi.sh compiles it.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEN_MAX    (4 << 20)
#define RUNS       5
#define WINDOW     64
#define WINDOWS    500
#define SHORT_MAX  65536
#define TRIPS      600 /* in a run */
#define TRIPS_LONG 60

static int rank;
static char *out, *in;

static void trip(int len)
{
	if (!rank)
		MPI_Send(out, len, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
	MPI_Recv(in, len, MPI_CHAR, !rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (rank)
		MPI_Send(out, len, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
}

static double latency_us(int len)
{
	int n = len > SHORT_MAX ? TRIPS_LONG : TRIPS;
	double best = 1e9;

	for (int run = 0; run < RUNS; run++) {
		double start, us;

		MPI_Barrier(MPI_COMM_WORLD);
		start = MPI_Wtime();
		for (int i = 0; i < n; i++)
			trip(len);
		us = (MPI_Wtime() - start) * 1e6 / n / 2;
		if (us < best)
			best = us;
	}
	return best;
}

static double rate_per_us(void)
{
	MPI_Request requests[WINDOW];
	double best = 0;

	for (int run = 0; run < RUNS; run++) {
		double start, rate;

		MPI_Barrier(MPI_COMM_WORLD);
		start = MPI_Wtime();
		for (int i = 0; i < WINDOWS; i++) {
			for (int k = 0; k < WINDOW; k++) {
				if (rank)
					MPI_Irecv(in + 8 * k, 8, MPI_CHAR, 0, 1, MPI_COMM_WORLD,
						  &requests[k]);
				else
					MPI_Isend(out, 8, MPI_CHAR, 1, 1, MPI_COMM_WORLD,
						  &requests[k]);
			}
			MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
		}
		MPI_Barrier(MPI_COMM_WORLD);
		rate = WINDOW * WINDOWS / (MPI_Wtime() - start) / 1e6;
		if (rate > best)
			best = rate;
	}
	return best;
}

int main(int argc, char **argv)
{
	static const int lengths[] = {8, 64, 1024, 4096, 16384, 65536, 262144, 1 << 20, LEN_MAX};

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	out = malloc(LEN_MAX);
	in = malloc(LEN_MAX);
	if (!out || !in)
		MPI_Abort(MPI_COMM_WORLD, 1);
	memset(out, 1, LEN_MAX);
	memset(in, 2, LEN_MAX);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		double us = latency_us(lengths[i]);

		if (!rank)
			printf("%d %.2f\n", lengths[i], us);
	}
	if (rank)
		rate_per_us();
	else
		printf("rate %.2f\n", rate_per_us());
	free(out);
	free(in);
	MPI_Finalize();
	return 0;
}
