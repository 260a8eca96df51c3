/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The last rank kills itself while all others exchange messages with it: the job has to end. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 100000

int main(int argc, char **argv)
{
	char *buf = calloc(1, LEN);
	int rank, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (!buf)
		abort();
	for (int i = 0;; i++) {
		if (rank == size - 1 && i == 100)
			kill(getpid(), SIGKILL);
		MPI_Bcast(buf, LEN, MPI_CHAR, i % size, MPI_COMM_WORLD);
	}
}
