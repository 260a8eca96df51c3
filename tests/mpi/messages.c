/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Point to point messages of MPI: order, wildcards, probes, truncation, cancel, synchronous sends,
 * many messages under way, and messages to oneself. Prints one line: "messages: N ranks, M checks".
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY       3000
#define LONG_LEN   (3 << 20)
#define WINDOW     64
#define WINDOW_LEN 40000

static int rank, size;
static long checks;

static void check(int ok, const char *what)
{
	checks++;
	if (ok)
		return;
	fprintf(stderr, "rank %d of %d: %s\n", rank, size, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void fill(char *buf, int len, int seed)
{
	for (int i = 0; i < len; i++)
		buf[i] = (char)(i * 7 + i / 251 + seed);
}

static int same(const char *buf, int len, int seed)
{
	for (int i = 0; i < len; i++)
		if (buf[i] != (char)(i * 7 + i / 251 + seed))
			return 0;
	return 1;
}

static char *need(size_t n)
{
	char *p = malloc(n);

	if (!p)
		MPI_Abort(MPI_COMM_WORLD, 2);
	return p;
}

/* Short and long messages with one tag arrive in order. */
static void order(int to, int from)
{
	static const int lengths[] = {0, 1, 100000, 8, 16384, 16385, 0, 300000, 4, 65536};
	int n = sizeof(lengths) / sizeof(*lengths);
	char *out = need(300000), *in = need(300000);
	MPI_Request sends[10];
	MPI_Status st;
	int len;

	for (int round = 0; round < 5; round++) {
		fill(out, 300000, rank);
		for (int i = 0; i < n; i++)
			MPI_Isend(out, lengths[i], MPI_CHAR, to, 5, MPI_COMM_WORLD, &sends[i]);
		for (int i = 0; i < n; i++) {
			MPI_Recv(in, 300000, MPI_CHAR, from, MPI_ANY_TAG, MPI_COMM_WORLD, &st);
			MPI_Get_count(&st, MPI_CHAR, &len);
			check(len == lengths[i] && same(in, len, from), "order");
		}
		MPI_Waitall(n, sends, MPI_STATUSES_IGNORE);
	}
	free(out);
	free(in);
}

/* Rank 0 receives from everybody, in the order of each sender. */
static void wildcards(void)
{
	int next[64] = {0}, v[2];
	MPI_Status st;

	if (rank) {
		for (int i = 0; i < 200; i++) {
			v[0] = rank;
			v[1] = i;
			MPI_Send(v, 2, MPI_INT, 0, i % 3, MPI_COMM_WORLD);
		}
		return;
	}
	for (int i = 0; i < 200 * (size - 1); i++) {
		MPI_Recv(v, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &st);
		check(st.MPI_SOURCE == v[0] && st.MPI_TAG == v[1] % 3 && next[v[0]] == v[1],
		      "wildcards");
		next[v[0]]++;
	}
}

/* Sends are started before a receive is posted, and received in reverse. */
static void unexpected(int to, int from)
{
	int *out = malloc(MANY * sizeof(*out)), v;
	MPI_Request *r = malloc(MANY * sizeof(*r));

	if (!out || !r)
		abort();
	for (int i = 0; i < MANY; i++) {
		out[i] = i + rank * MANY;
		MPI_Isend(&out[i], 1, MPI_INT, to, i, MPI_COMM_WORLD, &r[i]);
	}
	for (int i = MANY - 1; i >= 0; i--) {
		MPI_Recv(&v, 1, MPI_INT, from, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		check(v == i + from * MANY, "unexpected");
	}
	MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE);
	free(out);
	free(r);
}

static void probes(int to, int from)
{
	int len, flag = 0;
	char *out = need(200000), *in = need(200000);
	MPI_Request r;
	MPI_Message m;
	MPI_Status st;

	MPI_Iprobe(from, 4242, MPI_COMM_WORLD, &flag, &st);
	check(!flag, "probe of nothing");
	for (int n = 3; n < 200000; n += 99990) {
		fill(out, n, rank);
		MPI_Isend(out, n, MPI_CHAR, to, n, MPI_COMM_WORLD, &r);
		MPI_Probe(from, n, MPI_COMM_WORLD, &st);
		MPI_Get_count(&st, MPI_CHAR, &len);
		check(len == n && st.MPI_SOURCE == from, "probe");
		MPI_Mprobe(from, MPI_ANY_TAG, MPI_COMM_WORLD, &m, &st);
		MPI_Get_count(&st, MPI_CHAR, &len);
		check(len == n && st.MPI_TAG == n, "mprobe");
		MPI_Mrecv(in, n, MPI_CHAR, &m, &st);
		check(same(in, n, from), "mrecv");
		MPI_Wait(&r, MPI_STATUS_IGNORE);
	}
	free(out);
	free(in);
}

static void truncation(int to, int from)
{
	static const int lengths[] = {100, 100000};
	char *out = need(100000), in[65];
	MPI_Request r;
	MPI_Status st;
	int rc, class;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int i = 0; i < 2; i++) {
		fill(out, lengths[i], rank);
		memset(in, 1, sizeof(in));
		MPI_Isend(out, lengths[i], MPI_CHAR, to, 6, MPI_COMM_WORLD, &r);
		rc = MPI_Recv(in, 64, MPI_CHAR, from, 6, MPI_COMM_WORLD, &st);
		MPI_Error_class(rc, &class);
		check(class == MPI_ERR_TRUNCATE && in[64] == 1, "truncation");
		check(MPI_Wait(&r, MPI_STATUS_IGNORE) == MPI_SUCCESS, "send that is truncated");
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	free(out);
}

static void cancel(int to, int from)
{
	int v = 0, w = 77, flag;
	MPI_Request r;
	MPI_Status st;

	MPI_Irecv(&v, 1, MPI_INT, from, 99, MPI_COMM_WORLD, &r);
	MPI_Cancel(&r);
	MPI_Wait(&r, &st);
	MPI_Test_cancelled(&st, &flag);
	check(flag, "cancel");
	/* The message must not arrive before the cancellation. */
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Sendrecv(&w, 1, MPI_INT, to, 99, &v, 1, MPI_INT, from, 99, MPI_COMM_WORLD, &st);
	check(v == 77, "message after cancel");
}

static void synchronous(int to, int from)
{
	int v = -1, w = rank;
	MPI_Request r;

	for (int i = 0; i < 50; i++) {
		MPI_Issend(&w, 1, MPI_INT, to, 12, MPI_COMM_WORLD, &r);
		MPI_Recv(&v, 1, MPI_INT, from, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		check(v == from, "synchronous");
	}
}

/* Both directions at once, long; and many receives into one buffer. */
static void exchange(int to, int from)
{
	char *out = need(LONG_LEN), *in = need(LONG_LEN);
	MPI_Request r[2 * WINDOW];

	for (int i = 0; i < 5; i++) {
		fill(out, LONG_LEN, rank + i);
		MPI_Sendrecv(out, LONG_LEN, MPI_CHAR, to, 1, in, LONG_LEN, MPI_CHAR, from, 1,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		check(same(in, LONG_LEN, from + i), "exchange");
	}
	fill(out, LONG_LEN, rank);
	memset(in, 0, LONG_LEN);
	for (int k = 0; k < 2; k++) {
		int step = k ? WINDOW_LEN : 0;

		for (int i = 0; i < WINDOW; i++)
			MPI_Irecv(in + i * step, WINDOW_LEN, MPI_CHAR, from, i, MPI_COMM_WORLD,
				  &r[i]);
		for (int i = 0; i < WINDOW; i++)
			MPI_Isend(out, WINDOW_LEN, MPI_CHAR, to, i, MPI_COMM_WORLD, &r[WINDOW + i]);
		MPI_Waitall(2 * WINDOW, r, MPI_STATUSES_IGNORE);
		for (int i = 0; i < WINDOW; i++)
			check(same(in + i * step, WINDOW_LEN, from), "window");
	}
	free(out);
	free(in);
}

int main(int argc, char **argv)
{
	int to, from;
	long all;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	to = (rank + 1) % size;
	from = (rank + size - 1) % size;
	order(to, from);
	MPI_Barrier(MPI_COMM_WORLD);
	wildcards();
	MPI_Barrier(MPI_COMM_WORLD);
	unexpected(to, from);
	MPI_Barrier(MPI_COMM_WORLD);
	probes(to, from);
	MPI_Barrier(MPI_COMM_WORLD);
	truncation(to, from);
	MPI_Barrier(MPI_COMM_WORLD);
	cancel(to, from);
	synchronous(to, from);
	exchange(to, from);
	MPI_Reduce(&checks, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank)
		printf("messages: %d ranks, %ld checks\n", size, all);
	MPI_Finalize();
	return 0;
}
