/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The interface of a library with requests and answers that scripts/bench compares with the calls
 * of libripc: bench/rpc.c makes the same calls over each, one bench/rpc_NAME per library.
 */
#ifndef RIPC_BENCH_RPC_H
#define RIPC_BENCH_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Functions that return int return 0, or -1 after an error message on the standard error stream. */
struct rpc {
	const char *name;
	/* "3.1.4", for the report. */
	const char *(*version)(void);
	/* Answers each request with its own bytes until the process is killed. */
	int (*serve)(const char *url);
	/* @outstanding: most calls at a time. The server may start later. */
	int (*connect)(const char *url, unsigned outstanding);
	/* One blocking call: returns with the answer, after a check that it is the right one. */
	int (*call)(const void *request, size_t len);
	/* @count calls, at most connect()'s @outstanding at a time. Answers come in any order. */
	int (*calls)(const void *request, size_t len, uint64_t count);
	/* The form of an address: "ipc://%s", with a path; "tcp://127.0.0.1:%s", with a port. */
	const char *unix_url, *tcp_url;
};

/* The one that is linked in. */
extern const struct rpc rpc;

/* Prints "rpc_NAME: @what: @why" on the standard error stream. Return: -1. */
int rpc_fail(const char *what, const char *why);

#ifdef __cplusplus
}
#endif

#endif
