/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The contexts and services of a process, and the buffers that the library may write into. Threads
 * take any of them at random. Structs live until the process ends, so a thread may use handles
 * whose objects were closed meanwhile: the library permits that.
 */
#ifndef RIPC_TESTS_STRESS_OBJECTS_H
#define RIPC_TESTS_STRESS_OBJECTS_H

#include "board.h"
#include "numbers.h"
#include "ripc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define CONTEXTS_MAX 2
#define SERVICES_MAX 4 /* of a context */
#define BUFFERS_MAX  64
#define STORED_MAX   40

/* A configuration of a run. */
struct setup {
	const char *name;
	const char *options[4]; /* of ripc_open(), one of them for each context */
	unsigned processes;
	bool takeover; /* register with RIPC_TAKEOVER */
	bool unregister;
	bool close;
	bool kills, stops;
};

extern const struct setup *setup;

/* A buffer into which the library writes items. */
struct buffer {
	enum buffer_state {
		BUFFER_NONE,
		BUFFER_WINDOW,
		BUFFER_RETURN,
		BUFFER_CHANGING,   /* a call that makes it one of these, or ends that */
		BUFFER_IN_MESSAGE, /* it has come back as an item */
	} state;
	void *base;
	uint64_t len;
	uint32_t service; /* uid; 0: any of the context */
};

/* A message that is freed or answered later. */
struct stored {
	struct ripc_message *message;
	uint64_t number; /* 0: unknown */
};

/* The messages of one kind from a service to one id. */
struct stream {
	pthread_mutex_t lock; /* held while one of them is sent */
	uint32_t sequence;
	/* reliable: numbers of those that have not ended */
	uint64_t *taken;
	unsigned ntaken, taken_room;
	/*
	 * reliable: an error was returned since the last ripc_flush() that returned 0. Messages
	 * that are counted as lost may still wait for the next holder, and fail later.
	 */
	bool failed;
};

struct context {
	struct context *next; /* in a list of all */
	struct ripc *handle;
	const char *options;
	atomic_bool closing, closed; /* ripc_close() was called, has returned */
	atomic_int users;            /* threads that use its buffers or messages */
	pthread_mutex_t lock;        /* of what follows */
	struct service *services[SERVICES_MAX];
	unsigned nservices;
	struct buffer buffers[BUFFERS_MAX];
	struct stored stored[STORED_MAX];
	unsigned nstored;
};

struct service {
	struct service *next; /* in a list of all */
	struct context *context;
	struct ripc_service *handle;
	uint64_t id;
	uint32_t uid; /* of this registration, unique in the run */
	bool ordered; /* one thread at a time receives, and checks the order */
	bool datagrams;
	atomic_bool ended;
	atomic_uint calls; /* that have not ended, or whose answer is not freed */
	/*
	 * Held from the call of ripc_receive() until its message is checked, so that a thread that
	 * has it for writing finds no buffer in a message that is not checked yet.
	 */
	pthread_rwlock_t receiving;
	struct stream streams[KIND_LONG + 1][IDS + 1];
	struct numbers last;   /* number of the last message by sender and kind */
	struct numbers groups; /* messages to groups that were received; needs the context's lock */
};

/* Return: a context or a service at random; NULL: there is none. */
struct context *context_any(void);
struct service *service_any(struct context *c);
/* All services of the process that have not ended: calls fn for each. */
void service_each(void (*fn)(struct service *s));

/*
 * The caller is going to use buffers or messages of the context. Return: false: it may not, because
 * the context is being closed.
 */
bool context_use(struct context *c);
/* Waits until ripc_close() has returned: memory of requests is the application's then. */
void context_await_closed(const struct context *c);
void context_leave(struct context *c);

/* These need the lock of the context. Return: NULL: there is none. */
struct buffer *buffer_find(struct context *c, const void *base);
struct buffer *buffer_add(struct context *c, void *base, uint64_t len, enum buffer_state state,
			  uint32_t service);
unsigned buffer_count(const struct context *c);

/* The operations. */
void context_open(void);
void context_close(struct context *c);
void context_close_all(void);
void service_register(struct context *c);
/* lossy: messages may be in its queue. */
void service_unregister(struct service *s, bool lossy);
/* ripc_receive() has returned -ESHUTDOWN. */
void service_lost(struct service *s);
/* At the end of the process: frees all structs. */
void objects_free(void);

#endif
