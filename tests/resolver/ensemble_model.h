/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A model of an ensemble in virtual time, in place of resolver/ensemble.h. Its calls take a while;
 * a lost connection loses calls, reports, or both; a session that is not connected ends.
 */
#ifndef RIPC_TESTS_RESOLVER_ENSEMBLE_MODEL_H
#define RIPC_TESTS_RESOLVER_ENSEMBLE_MODEL_H

#include "base/clock.h"
#include "ensemble_wrap.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define SERVICES   5 /* their ids: from 1 on */
#define SESSION_NS (2000 * RIPC__MS)

static uint64_t now_ns, rng;

static unsigned draw(unsigned n)
{
	return (unsigned)(test_random(&rng) % n);
}

int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	if (!now_ns)
		return __real_clock_gettime(id, ts);
	ts->tv_sec = (time_t)(now_ns / 1000000000);
	ts->tv_nsec = (long)(now_ns % 1000000000);
	return 0;
}

struct znode {
	uint64_t owner; /* its session; 0: there is none */
	int32_t version;
	size_t len, rival_len; /* rival_len 0: none */
	uint8_t bytes[RIPC__NODE_MAX], rival[RIPC__NODE_MAX];
};

static struct znode tree[SERVICES + 1];
static uint64_t next_session;

struct op {
	struct ripc__list link;
	uint64_t at_ns;
	enum ripc__ensemble_command command;
	uint64_t service, read; /* read: owner of the node that was read */
	size_t len;
	int32_t version;
	uint8_t bytes[RIPC__NODE_MAX];
};

struct ripc__ensemble {
	struct ripc__ensemble *next;
	struct ripc__list ops, reports, releases;
	bool up, lost, watch[SERVICES + 1];
	uint64_t session, silent_ns; /* end of the session while it is not connected */
	int fd;
};

static struct ripc__ensemble *ensembles, *opened;
static struct {
	uint64_t session, at_ns;
} orphan;

static void report(struct ripc__ensemble *e, enum ripc__ensemble_kind kind, uint64_t service,
		   bool ours, int32_t version, const void *bytes, size_t len)
{
	/* No memory. */
	if (kind != RIPC__ENS_UP && kind != RIPC__ENS_LOST && !draw(50))
		e->lost = true;
	else
		ripc__list_add(&e->reports,
			       &report_new(kind, service, ours, version, bytes, len)->link);
}

static void changed(uint64_t service)
{
	for (struct ripc__ensemble *e = ensembles; e; e = e->next) {
		if (!e->watch[service])
			continue;
		e->watch[service] = false;
		report(e, RIPC__ENS_CHANGED, service, false, 0, NULL, 0);
	}
}

static void watch(struct ripc__ensemble *e, uint64_t service)
{
	struct znode *n = &tree[service];
	bool ours = n->owner == e->session;

	e->watch[service] = true;
	if (!n->owner) {
		report(e, RIPC__ENS_NONE, service, false, 0, NULL, 0);
		return;
	}
	report(e, RIPC__ENS_FOUND, service, ours, n->version, n->bytes, n->len);
	if (ours && n->version > 0 && n->rival_len) {
		report(e, RIPC__ENS_RIVAL, service, false, 0, n->rival, n->rival_len);
		n->rival_len = 0;
	}
}

/* Calls that have read a node change it later, if it is the same then. Return: whether now. */
static bool second_step(struct ripc__ensemble *e, const struct op *op)
{
	struct znode *n = &tree[op->service];
	struct op *next;

	if (op->read == n->owner && op->version == n->version)
		return true;
	next = malloc(sizeof(*next));
	ck_assert_ptr_nonnull(next);
	*next = *op;
	next->at_ns = now_ns + draw(20) * RIPC__MS;
	next->read = n->owner;
	next->version = n->version;
	ripc__list_add(&e->ops, &next->link);
	return false;
}

static void claim(struct ripc__ensemble *e, const struct op *op)
{
	struct znode *n = &tree[op->service];
	bool ours = n->owner == e->session;

	if (n->owner && !ours && op->command == RIPC__CALL_CLAIM) {
		report(e, RIPC__ENS_TAKEN, op->service, false, n->version, n->bytes, n->len);
		return;
	}
	if (!ours || n->len != op->len || memcmp(n->bytes, op->bytes, op->len)) {
		if (n->owner && !second_step(e, op))
			return;
		n->owner = e->session;
		n->version = 0;
		n->len = op->len;
		memcpy(n->bytes, op->bytes, op->len);
		changed(op->service);
	}
	report(e, RIPC__ENS_CLAIMED, op->service, false, 0, NULL, 0);
	watch(e, op->service);
}

static void execute(struct ripc__ensemble *e, const struct op *op)
{
	struct znode *n = &tree[op->service];

	switch (op->command) {
	case RIPC__CALL_CLAIM:
	case RIPC__CALL_CLAIM_FORCE:
		claim(e, op);
		break;
	case RIPC__CALL_RELEASE:
		if (n->owner != e->session || !second_step(e, op))
			break;
		n->owner = 0;
		changed(op->service);
		break;
	case RIPC__CALL_WATCH:
		watch(e, op->service);
		break;
	case RIPC__CALL_REPORT_RIVAL:
		if (!n->owner || n->version != op->version)
			break;
		n->rival_len = op->len;
		memcpy(n->rival, op->bytes, op->len);
		n->version++;
		changed(op->service);
		break;
	case RIPC__CALL_LIST:
		break;
	}
}

static void end_session(uint64_t session)
{
	for (uint64_t s = 1; s <= SERVICES; s++) {
		if (!session || tree[s].owner != session)
			continue;
		tree[s].owner = 0;
		changed(s);
	}
}

static void connect_up(struct ripc__ensemble *e)
{
	bool fresh = !e->session;

	if (fresh) {
		e->session = ++next_session;
		ripc__list_free(&e->releases, struct op, link);
	}
	while (!ripc__list_empty(&e->releases)) {
		struct ripc__list *l = ripc__list_take(&e->releases);

		ripc__list_entry(l, struct op, link)->at_ns = now_ns + draw(20) * RIPC__MS;
		ripc__list_add(&e->ops, l);
	}
	e->up = true;
	report(e, RIPC__ENS_UP, e->session, false, 0, "", fresh);
}

static void disconnect(struct ripc__ensemble *e)
{
	struct ripc__list *l;

	/* Some were executed, but the answer is lost. */
	while ((l = ripc__list_take(&e->ops))) {
		struct op *op = ripc__list_entry(l, struct op, link);

		if (draw(2)) {
			struct ripc__list *last = e->reports.prev, *next;

			execute(e, op);
			for (struct ripc__list *r = last->next; r != &e->reports; r = next) {
				next = r->next;
				ripc__list_del(r);
				free(ripc__list_entry(r, struct ripc__ensemble_report, link));
			}
		}
		if (op->command == RIPC__CALL_RELEASE)
			ripc__list_add(&e->releases, l);
		else
			free(op);
	}
	memset(e->watch, 0, sizeof(e->watch));
	e->up = false;
	e->silent_ns = now_ns;
	report(e, RIPC__ENS_LOST, 0, false, 0, "", 1);
}

static void ensemble_run(struct ripc__ensemble *e)
{
	struct op *op;

	if (!e->up && e->session && now_ns - e->silent_ns > SESSION_NS)
		end_session(e->session), e->session = 0;
	while (e->up && (op = ripc__list_first_entry(&e->ops, struct op, link)) &&
	       op->at_ns <= now_ns) {
		ripc__list_del(&op->link);
		execute(e, op);
		free(op);
	}
}

int __wrap_ripc__ensemble_open(struct ripc__ensemble **e, const struct ripc__ensemble_env *env,
			       char *why, size_t whylen)
{
	(void)env, (void)why, (void)whylen;
	*e = opened = calloc(1, sizeof(**e));
	ck_assert_ptr_nonnull(*e);
	ripc__list_init(&opened->ops);
	ripc__list_init(&opened->reports);
	ripc__list_init(&opened->releases);
	opened->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	opened->next = ensembles;
	ensembles = opened;
	return 0;
}

void __wrap_ripc__ensemble_close(struct ripc__ensemble *e)
{
	struct ripc__ensemble **at = &ensembles;

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	/* The session of a killed process ends later. */
	if (e->session && draw(2)) {
		end_session(orphan.session);
		orphan.session = e->session;
		orphan.at_ns = now_ns + SESSION_NS;
	} else {
		end_session(e->session);
	}
	ripc__list_free(&e->ops, struct op, link);
	ripc__list_free(&e->releases, struct op, link);
	ripc__list_free(&e->reports, struct ripc__ensemble_report, link);
	close(e->fd);
	free(e);
}

int __wrap_ripc__ensemble_fd(const struct ripc__ensemble *e)
{
	return e->fd;
}

void __wrap_ripc__ensemble_report_node(struct ripc__ensemble *e, enum ripc__ensemble_kind kind,
				       uint64_t service, bool ours, int32_t version,
				       const void *bytes, size_t len)
{
	report(e, kind, service, ours, version, bytes, len);
}

int __wrap_ripc__ensemble_submit(struct ripc__ensemble *e, enum ripc__ensemble_command command,
				 uint64_t service, const uint8_t *bytes, size_t len,
				 const struct ripc__ensemble_report *found)
{
	struct op *op = calloc(1, sizeof(*op));

	ck_assert_ptr_nonnull(op);
	op->at_ns = now_ns + draw(20) * RIPC__MS;
	op->command = command;
	op->service = service;
	op->len = len;
	if (len)
		memcpy(op->bytes, bytes, len);
	op->version = found ? found->version : 0;
	/* Without a connection releases are repeated, others by the user. */
	if (e->up)
		ripc__list_add(&e->ops, &op->link);
	else if (command == RIPC__CALL_RELEASE)
		ripc__list_add(&e->releases, &op->link);
	else
		free(op);
	return 0;
}

struct ripc__ensemble_report *__wrap_ripc__ensemble_next(struct ripc__ensemble *e, bool *lost)
{
	struct ripc__list *l = ripc__list_take(&e->reports);

	*lost = !l && e->lost;
	e->lost &= !*lost;
	return l ? ripc__list_entry(l, struct ripc__ensemble_report, link) : NULL;
}

#endif
