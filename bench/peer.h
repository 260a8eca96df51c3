/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The interface of a messaging library to be compared with libripc: bench/peer.c makes the same
 * exchange over each, one bench/peer_NAME.c per library. scripts/bench compiles those whose headers
 * are installed.
 */
#ifndef RIPC_BENCH_PEER_H
#define RIPC_BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>

/* How the two processes meet. */
struct peer_setup {
	bool server; /* which of the two this is */
	bool tcp;    /* over TCP and the loopback; else what the library has within one host */
	const char *address; /* a path without a suffix (tcp false), or a port; the same for both */
	unsigned window;     /* messages in flight at most */
	size_t len_max;      /* longest message in bytes */
};

/* Functions that return int return 0, or -1 after an error message on the standard error stream. */
struct peer {
	const char *name;
	/* "3.1.4", for the report. */
	const char *(*version)(void);
	/* Returns when the other process is there, too. */
	int (*open)(const struct peer_setup *setup, int *argc, char ***argv);
	/* @buf may be read until peer.drain(). @more: another message follows at once. */
	int (*send)(const void *buf, size_t len, bool more);
	/* Until everything sent is on its way, and its memory free. */
	int (*drain)(void);
	/* Takes the next message, whole; its bytes are not looked at. */
	int (*receive)(void);
	void (*close)(void);
};

/* The one that is linked in. */
extern const struct peer peer;

/* Complains in the name of the library, and is -1. */
int peer_fail(const char *what, const char *why);

#endif
