/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Collectives of MPI, for every root and some lengths, against results that each rank computes by
 * itself. Prints one line: "collectives: N ranks, M checks".
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size;
static long checks;

/* Element i of the data of a rank in a round. */
static long value(int of, int i, int round)
{
	return (of + 1) * 1000003L + i * 31L + round * 7L;
}

static void check(const char *what, int i, long got, long want)
{
	checks++;
	if (got == want)
		return;
	fprintf(stderr, "%s: rank %d of %d, element %d: %ld, expected %ld\n", what, rank, size, i,
		got, want);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *need(size_t n)
{
	void *p = calloc(n ? n : 1, sizeof(long));

	if (!p)
		MPI_Abort(MPI_COMM_WORLD, 2);
	return p;
}

static void rooted(int root, int n)
{
	long *mine = need((size_t)n), *all = need((size_t)n * (size_t)size);
	long *sum = need((size_t)n);

	for (int i = 0; i < n; i++)
		mine[i] = value(rank, i, root);
	MPI_Gather(mine, n, MPI_LONG, all, n, MPI_LONG, root, MPI_COMM_WORLD);
	for (int i = 0; rank == root && i < n * size; i++)
		check("gather", i, all[i], value(i / n, i % n, root));
	for (int i = 0; i < n * size; i++)
		all[i] = rank == root ? value(i / n, i % n, root + 1) : -1;
	MPI_Scatter(all, n, MPI_LONG, mine, n, MPI_LONG, root, MPI_COMM_WORLD);
	for (int i = 0; i < n; i++)
		check("scatter", i, mine[i], value(rank, i, root + 1));
	MPI_Reduce(mine, sum, n, MPI_LONG, MPI_SUM, root, MPI_COMM_WORLD);
	for (int i = 0; rank == root && i < n; i++) {
		long want = 0;

		for (int r = 0; r < size; r++)
			want += value(r, i, root + 1);
		check("reduce", i, sum[i], want);
	}
	for (int i = 0; i < n; i++)
		mine[i] = rank == root ? value(root, i, 9) : -1;
	MPI_Bcast(mine, n, MPI_LONG, root, MPI_COMM_WORLD);
	for (int i = 0; i < n; i++)
		check("bcast", i, mine[i], value(root, i, 9));
	free(mine);
	free(all);
	free(sum);
}

static void rootless(int n)
{
	long *mine = need((size_t)n * (size_t)size), *all = need((size_t)n * (size_t)size);

	for (int i = 0; i < n; i++)
		mine[i] = value(rank, i, 2);
	MPI_Allgather(mine, n, MPI_LONG, all, n, MPI_LONG, MPI_COMM_WORLD);
	for (int i = 0; i < n * size; i++)
		check("allgather", i, all[i], value(i / n, i % n, 2));
	MPI_Allreduce(mine, all, n, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
	for (int i = 0; i < n; i++)
		check("allreduce", i, all[i], value(size - 1, i, 2));
	for (int i = 0; i < n * size; i++)
		mine[i] = value(rank, i, 3);
	MPI_Alltoall(mine, n, MPI_LONG, all, n, MPI_LONG, MPI_COMM_WORLD);
	for (int i = 0; i < n * size; i++)
		check("alltoall", i, all[i], value(i / n, rank * n + i % n, 3));
	free(mine);
	free(all);
}

int main(int argc, char **argv)
{
	/* Below, at and above the limits between the protocols of the provider. */
	static const int lengths[] = {1, 57, 58, 511, 2048, 2049, 20000};
	long all;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (unsigned k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
		for (int root = 0; root<size; root += lengths[k]> 600 ? 3 : 1)
			rooted(root, lengths[k]);
		rootless(lengths[k]);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Reduce(&checks, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank)
		printf("collectives: %d ranks, %ld checks\n", size, all);
	MPI_Finalize();
	return 0;
}
