/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The conformance suite: the contract of ripc.h, checked over every transport. A case is written
 * once, against the public interface and this environment, and declares what it needs; each program
 * (sim, soft, self) runs the cases that it supports.
 *
 * Repeat one failing case with the variables at the head of its message, e.g.
 * RIPC_TEST_CASE=order_short RIPC_TEST_CONFIG=small RIPC_TEST_SEED=0x17 RIPC_TEST_SEEDS=1
 * ./conformance_sim
 *
 * CK_INCLUDE_TAGS="message group" runs only the cases of these files.
 */
#ifndef RIPC_TESTS_CONFORMANCE_CONF_H
#define RIPC_TESTS_CONFORMANCE_CONF_H

#include "harness.h"
#include "ripc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONF_CONTEXTS_MAX 128
#define KIB               ((size_t)1024)
#define MIB               (1024 * KIB)

/* How long a call goes on that nobody can answer: all of it is waited for. */
#define CONF_NO_ANSWER_MS 300

struct ripc__sim;

/* Needs of a case, and faults that it tolerates. */
enum conf_needs {
	CONF_TWO_CONTEXTS = 1 << 0, /* source and destination in different contexts */
	CONF_RELIABLE = 1 << 1,     /* short messages that are not lost while all is well */
	CONF_SIM = 1 << 2,          /* a simulated network */
	CONF_REAL = 1 << 3,         /* a real clock, threads, processes */
	CONF_ONCE = 1 << 4,         /* too long to be repeated with every seed */
	/* it stands that registrations fail: runs in that configuration too */
	CONF_NO_MEMORY = 1 << 5,
	CONF_CREDITS = 1 << 6, /* a receiver that does not receive stops its senders */
	/* a peer dies; without a report of its death, the timeout must be short */
	CONF_PEER_DEATH = 1 << 7,
};

/* Where and how a case runs. */
struct conf {
	const char *program; /* "sim", "soft", "self" */
	const char *config;  /* name of the configuration, or "" */
	const char *options; /* for ripc_open() */
	/* more options for every first and second context opened here; NULL: none */
	const char *extra_options[2];
	unsigned nopened; /* contexts opened so far */
	bool same;        /* source and destination share one context */
	bool reliable;    /* short messages are not lost */
	bool no_memory;   /* registrations may fail */
	bool datagram;    /* short messages travel as datagrams */
	bool can_write;   /* the transport writes into return buffers */
	bool multicast;   /* messages to groups go by multicast, and arrive so */
	unsigned peers;   /* contexts to open where many are wanted */
	int patience_ms;  /* for what must happen */
	/* what has not come by then does not come: a receiver may get no processor for long */
	int silence_ms;
	uint64_t seed, rng;
	struct ripc__sim *net;               /* the simulated network, or NULL */
	struct ripc *ctx[CONF_CONTEXTS_MAX]; /* open ones */
	unsigned nctx;
	unsigned violations; /* of the transport contract that the case provoked (hostile peers) */
	char scratch[64];
};

struct conf_case {
	const char *name;
	void (*run)(struct conf *c);
	unsigned needs;
};

/* One list for each noun, ended by a NULL name. */
extern const struct conf_case conf_message[], conf_fields[], conf_buffer[], conf_target[],
	conf_flow[], conf_request[], conf_life[], conf_api[], conf_peer[], conf_fault[],
	conf_death[], conf_hostile[], conf_thread[], conf_process[], conf_group[], conf_call[];
extern const struct conf_case *const conf_all[]; /* NULL at the end */

/* ---- Failing with the words that repeat it ---- */

extern char conf_label[256];
void conf_set_label(const struct conf *c, const char *name);
void conf_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), noreturn));

#define FAIL(...) conf_fail(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(cond, ...)                              \
	do {                                          \
		if (!(cond))                          \
			FAIL(#cond ": " __VA_ARGS__); \
	} while (0)
/* The call returns what it should. */
#define EXPECT_RC(want, call)                                                                   \
	do {                                                                                    \
		int rc_ = (call);                                                               \
		int want_ = (want);                                                             \
		if (rc_ != want_)                                                               \
			FAIL("%s returned %d (%s), not %d: %s", #call, rc_, ripc_strerror(rc_), \
			     want_, ripc_error_detail());                                       \
	} while (0)
#define EXPECT_OK(call) EXPECT_RC(0, call)
/* The same, and the detail string gives a reason: every failed call fills it. */
#define EXPECT_ERROR(want, call)                                           \
	do {                                                               \
		EXPECT_RC(want, call);                                     \
		CHECK(ripc_error_detail()[0], "%s left no detail", #call); \
	} while (0)
#define EXPECT_EQ(want, have)                                              \
	do {                                                               \
		unsigned long long want_ = (unsigned long long)(want);     \
		unsigned long long have_ = (unsigned long long)(have);     \
		if (want_ != have_)                                        \
			FAIL("%s is %llu, not %llu", #have, have_, want_); \
	} while (0)

/* ---- The world ---- */

struct ripc *conf_open(struct conf *c);
struct ripc *conf_open_with(struct conf *c, const char *more_options);
void conf_close(struct conf *c, struct ripc *ctx);
/* Forgets a context that ended another way. */
void conf_remove(struct conf *c, struct ripc *ctx);
void conf_close_all(struct conf *c);
/* Lets time pass. */
void conf_run(struct conf *c, unsigned ms);
/* A fresh id for a service. */
uint64_t conf_id(struct conf *c);
uint64_t conf_random(struct conf *c, uint64_t below);
struct ripc_service *conf_register(struct conf *c, struct ripc *ctx, uint64_t id);

/* Two services that may talk to one another, and where they live. */
struct conf_pair {
	struct ripc *a, *b;
	struct ripc_service *sa, *sb;
	uint64_t ida, idb;
};

void conf_pair(struct conf *c, struct conf_pair *p);
/* The first service of p, and one in a further context. */
struct conf_pair conf_pair_other(struct conf *c, const struct conf_pair *p);

/* ---- Contents ---- */

enum conf_memory { CONF_UNREGISTERED, CONF_ALLOCATED, CONF_REGISTERED, CONF_MEMORIES };

/* Memory of a kind; at least 1 byte. Freed with conf_mem_free(). */
void *conf_mem_alloc(struct conf *c, struct ripc *ctx, enum conf_memory kind, size_t len);
void conf_mem_free(struct conf *c, struct ripc *ctx, enum conf_memory kind, void *p);

void conf_fill(void *buf, size_t len, uint64_t tag);
void conf_verify(const void *buf, size_t len, uint64_t tag, const char *what);

/* The plan of a message: item i has len[i] bytes of the pattern tag + i. */
struct conf_plan {
	unsigned nitems;
	size_t len[RIPC_ITEMS_MAX];
	uint64_t tag;
};

/* One item. */
struct conf_plan conf_plan_one(size_t len, uint64_t tag);
/* nitems random items, some empty, total bytes together at most. */
void conf_plan_random(struct conf *c, struct conf_plan *plan, unsigned nitems, size_t total);
size_t conf_plan_total(const struct conf_plan *plan);
/* Builds the items in one piece of memory. */
void *conf_build(struct conf *c, struct ripc *ctx, enum conf_memory kind,
		 const struct conf_plan *plan, struct iovec *items);
/* Takes the next message and checks that it is this one. */
struct ripc_message *conf_receive(struct conf *c, struct ripc_service *service);
void conf_check_message(const struct ripc_message *m, const struct conf_plan *plan, uint64_t source,
			uint64_t dest, bool is_long);
void conf_expect(struct conf *c, struct ripc_service *service, const struct conf_plan *plan,
		 uint64_t source, bool is_long);
/* Nothing is there, and nothing comes. */
void conf_expect_none(struct conf *c, struct ripc_service *service);
/* Sends one short or long message of one item, from foreign memory. */
int conf_send_short(struct conf *c, struct ripc_service *from, uint64_t dest, size_t len,
		    uint64_t tag, int timeout_ms);
int conf_send_long(struct conf *c, struct ripc_service *from, uint64_t dest, size_t len,
		   uint64_t tag, int timeout_ms);
/* The service is gone: sends are refused as soon as this side knows that. */
void conf_expect_gone(struct conf *c, struct ripc_service *from, uint64_t dest);
/* Sends one of each kind there and back, and receives them: this way works. */
void conf_exchange(struct conf *c, struct conf_pair *p);
/* Waits until the counter at offset in the statistics of ctx is n; name is for the message. */
void conf_await_stat(struct conf *c, struct ripc *ctx, size_t offset, uint64_t n, const char *name);
#define AWAIT_STAT(c, ctx, member, want) \
	conf_await_stat(c, ctx, offsetof(struct ripc_stats, member), want, #member)

/* ---- Programs ---- */

/* Whether a case runs in this environment. */
bool conf_can_run(const struct conf *c, const struct conf_case *k);
/* Runs a case between its set-up and the checks that nothing is left behind. */
void conf_run_case(struct conf *c, const struct conf_case *k);
/* Descriptors and threads of this process. */
unsigned conf_count_dir(const char *dir);
/* A thread that was joined is counted in /proc for a moment longer: waits for n threads, 1 s. */
void conf_await_threads(unsigned n);
/*
 * Adds each case of a list as a test case of its name; run(i) is called with an index into
 * conf_find().
 */
Suite *conf_suite(const char *name, const TTest *run, bool (*wanted)(const struct conf_case *k),
		  double timeout_s);
const struct conf_case *conf_find(int index);

#endif
