/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a program of 2012 brings with it; the library gives it no more than ripc.h and config.h. */
#ifndef COMMON_H
#define COMMON_H

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#ifdef HAVE_STDBOOL_H
#include <stdbool.h>
#endif

#define NUM_ROUNDS  10000
#define PACKET_SIZE (RECV_BUF_SIZE - 100)

#define panic(...)                            \
	do {                                  \
		fprintf(stderr, __VA_ARGS__); \
		fputc('\n', stderr);          \
		exit(EXIT_FAILURE);           \
	} while (0)

static inline unsigned long now_usec(void)
{
	struct timeval now;

	gettimeofday(&now, NULL);
	return (unsigned long)now.tv_sec * 1000000 + (unsigned long)now.tv_usec;
}

static inline void report(int exchanged, unsigned long usec)
{
	printf("Exchanged %d items in %lu usec (rtt %f usec)\n", exchanged, usec,
	       exchanged ? (double)usec / exchanged : 0.0);
}

/* The n-th argument as a number, or what it is without. */
static inline int number(int argc, char **argv, int n, int otherwise)
{
	return argc > n ? atoi(argv[n]) : otherwise;
}

#endif
