/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A key-value store and its client.
 *
 *     ./kv serve shop/prices                 keeps the pairs, in memory
 *     ./kv put shop/prices apple 3           from any host
 *     ./kv get shop/prices apple
 *     ./kv delete shop/prices apple
 *     ./kv watch shop/prices                 waits until the server dies
 *
 * A request is a call of two or three items: operation, key, value. The answer is the value or an
 * error. Calls are executed at most once: a client knows whether a value was stored, was not, or
 * that this is unknown. A get is idempotent: it is repeated if the server is replaced.
 */
#include "service_arg.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_MS 2000

struct bytes {
	size_t len;
	char *at;
};

struct pair {
	struct bytes key, value;
};

static int fail(const char *what, int err)
{
	fprintf(stderr, "kv: %s: %s: %s\n", what, ripc_strerror(err), ripc_error_detail());
	return 1;
}

/* ---- server ---- */

static int compare(const void *a, const void *b)
{
	const struct bytes *x = &((const struct pair *)a)->key, *y = &((const struct pair *)b)->key;
	int order = memcmp(x->at, y->at, x->len < y->len ? x->len : y->len);

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Return: 0 or -ENOMEM; the old contents stay then. */
static int assign(struct bytes *to, const struct iovec *from)
{
	char *copy = malloc(from->iov_len + 1);

	if (!copy)
		return -ENOMEM;
	if (from->iov_len)
		memcpy(copy, from->iov_base, from->iov_len);
	free(to->at);
	to->len = from->iov_len;
	to->at = copy;
	return 0;
}

static void pair_free(struct pair *p)
{
	free(p->key.at);
	free(p->value.at);
	free(p);
}

static int put(void **tree, struct pair *old, const struct iovec *key, const struct iovec *value)
{
	struct pair *p = old ? old : calloc(1, sizeof(*p));

	if (!p || assign(&p->value, value) || (!old && assign(&p->key, key)) ||
	    (!old && !tsearch(p, tree, compare))) {
		if (p && !old)
			pair_free(p);
		return -ENOMEM;
	}
	return 0;
}

/* Executes one request. Return: 0 and the answer, or a negative errno. */
static int execute(void **tree, const struct ripc_message *m, struct iovec *answer)
{
	char op = m->nitems > 1 && m->items[0].iov_len == 1 ? *(char *)m->items[0].iov_base : 0;
	struct pair wanted = {{m->nitems > 1 ? m->items[1].iov_len : 0, NULL}, {0, NULL}};
	struct pair **found, *p;

	wanted.key.at = wanted.key.len ? m->items[1].iov_base : "";
	found = tfind(&wanted, tree, compare);
	p = found ? *found : NULL;
	*answer = (struct iovec){NULL, 0};
	if (op == 'p' && m->nitems == 3)
		return put(tree, p, &m->items[1], &m->items[2]);
	if ((op != 'g' && op != 'd') || m->nitems != 2)
		return -EINVAL;
	if (!p)
		return -ENOENT;
	if (op == 'g') {
		*answer = (struct iovec){p->value.at, p->value.len};
		return 0;
	}
	tdelete(p, tree, compare);
	pair_free(p);
	return 0;
}

static int serve(const char *name)
{
	struct ripc_service *service;
	struct ripc_message *m;
	void *tree = NULL;
	int err = service_arg_register(name, &service);

	if (err)
		return fail(name, err);
	printf("%s is ready\n", name);
	fflush(stdout);
	while (!(err = ripc_receive(service, &m, -1))) {
		struct iovec answer;

		if (m->call) {
			err = execute(&tree, m, &answer);
			err = err ? ripc_reply_error(m, err)
				  : ripc_reply(m, &answer, 1, TIMEOUT_MS);
			if (err && err != -ECANCELED)
				fail("answer", err);
		}
		ripc_message_free(m);
	}
	return fail(name, err);
}

/* ---- client ---- */

static int call(struct ripc_service *me, const char *name, char op, char **args, unsigned nargs)
{
	struct ripc_call_options options = {.size = sizeof(options)};
	struct iovec items[3] = {{&op, 1}};
	struct ripc_message *m;
	int err;

	for (unsigned i = 0; i < nargs; i++)
		items[1 + i] = (struct iovec){args[i], strlen(args[i])};
	options.flags = op == 'g' ? RIPC_IDEMPOTENT : 0;
	err = ripc_call(me, service_arg(name), items, 1 + nargs, &options, &m, TIMEOUT_MS);
	if (err == -ENOENT && m)
		fprintf(stderr, "kv: there is no \"%s\"\n", args[0]);
	else if (err == -EPIPE || err == -ETIME)
		fail("it is not known whether that was done", err);
	else if (err)
		fail("that was not done", err);
	else if (op == 'g')
		printf("%.*s\n", (int)m->items[0].iov_len, (char *)m->items[0].iov_base);
	ripc_message_free(m);
	return err != 0;
}

static int watch(struct ripc_service *me, const char *name)
{
	struct ripc_message *m;
	int err = ripc_watch(me, service_arg(name));

	if (err)
		return fail(name, err);
	printf("watching %s\n", name);
	fflush(stdout);
	err = ripc_receive(me, &m, -1);
	if (err)
		return fail(name, err);
	printf("%s: %.*s\n", name, (int)m->items[0].iov_len, (char *)m->items[0].iov_base);
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const operations[] = {"get", "put", "delete", "watch"};
	static const unsigned nargs[] = {1, 2, 1, 0};
	struct ripc_service *me;
	unsigned i = 0;
	int err;

	if (argc == 3 && !strcmp(argv[1], "serve"))
		return serve(argv[2]);
	while (argc > 2 && i < 4 && strcmp(argv[1], operations[i]))
		i++;
	if (argc < 3 || i == 4 || (unsigned)argc != 3 + nargs[i]) {
		fprintf(stderr, "usage: kv serve|watch NAME\n"
				"       kv get|delete NAME KEY\n"
				"       kv put NAME KEY VALUE\n");
		return 2;
	}
	err = ripc_service_register(NULL, RIPC_ANY_ID, 0, &me);
	if (err)
		return fail("register", err);
	err = i == 3 ? watch(me, argv[2]) : call(me, argv[2], *argv[1], argv + 3, nargs[i]);
	ripc_close(NULL);
	return fflush(stdout) ? 1 : err;
}
