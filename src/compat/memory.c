/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "compat/memory.h"

#include "compat/report.h"
#include "compat/services.h"
#include "ripc_compat.h"

#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum kind {
	POOL,     /* of ripc_buf_alloc(), or taken from a message */
	EXPLICIT, /* of ripc_buf_register() */
	IMPLICIT  /* registered for a window, until the window is used */
};

/* In the tree. A search key has the length 1. */
struct mem {
	uint8_t *base;
	size_t len;
	enum kind kind;
	unsigned claims;
};

struct claim {
	struct claim *prev, *next;
	struct mem *mem;
	uint8_t *base;
	size_t len;
	unsigned service; /* window: its service, 0: any */
	bool is_return;
	bool own_valid; /* return buffer allocated by this library */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *tree;           /* of struct mem, by address, without overlaps */
static struct claim *claims; /* oldest first */
static unsigned own_returns;
static unsigned receiving; /* threads in ripc_receive() */

/* Overlapping ranges compare as equal. */
static int compare(const void *a, const void *b)
{
	const struct mem *x = a, *y = b;

	if (x->base + x->len <= y->base)
		return -1;
	return y->base + y->len <= x->base;
}

/* Returns an entry that overlaps [p, p+len), or NULL. */
static struct mem *overlapping(const void *p, size_t len)
{
	struct mem key = {(uint8_t *)p, len ? len : 1, POOL, 0};
	struct mem **at = tfind(&key, &tree, compare);

	return at ? *at : NULL;
}

static bool contains(const struct mem *m, const void *p, size_t len)
{
	size_t offset = (size_t)((const uint8_t *)p - m->base);

	return (const uint8_t *)p >= m->base && offset <= m->len && len <= m->len - offset;
}

static struct mem *insert(void *base, size_t len, enum kind kind)
{
	struct mem *m = malloc(sizeof(*m));

	if (!m)
		return NULL;
	*m = (struct mem){base, len, kind, 0};
	if (!tsearch(m, &tree, compare)) {
		free(m);
		return NULL;
	}
	return m;
}

static struct claim *claim_find(const void *base)
{
	struct claim *c;

	DL_SEARCH_SCALAR(claims, c, base, base);
	return c;
}

static struct claim *claim_new(struct mem *m, void *base, size_t len)
{
	struct claim *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->mem = m;
	c->base = base;
	c->len = len;
	DL_APPEND(claims, c);
	m->claims++;
	return c;
}

static void claim_drop(struct claim *c)
{
	DL_DELETE(claims, c);
	c->mem->claims--;
	own_returns -= c->own_valid;
	free(c);
}

/* The memory is not known any more, and its claims have ended. */
static void remove_mem(struct mem *m)
{
	struct claim *c, *tmp;

	DL_FOREACH_SAFE (claims, c, tmp) {
		if (!m->claims)
			break;
		if (c->mem == m)
			claim_drop(c);
	}
	tdelete(m, &tree, compare);
	free(m);
}

/*
 * Ends a registration that was made only for a window with that window: the application may free
 * the memory without a further call.
 */
static void release(struct mem *m)
{
	if (m->kind == IMPLICIT && !m->claims && !ripc_buf_unregister(NULL, m->base))
		remove_mem(m);
}

static void claim_end(struct claim *c)
{
	struct mem *m = c->mem;

	claim_drop(c);
	release(m);
}

/* Frees a return buffer of this library. Return: whether it can be freed now. */
static bool own_free(struct claim *c)
{
	struct mem *m = c->mem;

	if (ripc_buf_free(NULL, m->base))
		return false;
	remove_mem(m);
	return true;
}

static void *alloc(size_t len)
{
	void *p = ripc_buf_alloc(NULL, len ? len : 1);

	if (p && !insert(p, len ? len : 1, POOL)) {
		ripc_buf_free(NULL, p);
		errno = ENOMEM;
		return NULL;
	}
	return p;
}

void *ripc__compat_alloc(size_t len)
{
	void *p;

	pthread_mutex_lock(&lock);
	p = alloc(len);
	pthread_mutex_unlock(&lock);
	return p;
}

int ripc__compat_adopt(void *base, size_t len)
{
	struct mem *m;

	pthread_mutex_lock(&lock);
	m = insert(base, len, POOL);
	pthread_mutex_unlock(&lock);
	return m ? 0 : -ENOMEM;
}

void *ripc_compat_buf_alloc(size_t size)
{
	int rc = size ? ripc__compat_open() : -EINVAL;
	void *p = NULL;

	if (rc >= 0) {
		p = ripc__compat_alloc(size);
		rc = -errno;
	}
	if (p)
		/*
		 * As in 2012: programs send strings without their terminator and expect zeros after
		 * them.
		 */
		memset(p, 0, size);
	else if (size)
		ripc__compat_failed(0, rc, COMPAT_BUF_ALLOC, "%zu bytes: %s", size,
				    ripc__compat_cause(rc).text);
	else
		errno = EINVAL;
	return p;
}

void *ripc_compat_buf_realloc(void *buf, size_t size)
{
	struct mem *m;
	void *p = NULL;
	int error = EINVAL;

	if (!buf)
		return ripc_compat_buf_alloc(size);
	pthread_mutex_lock(&lock);
	m = overlapping(buf, 1);
	if (m && m->kind == POOL) {
		size_t len = size ? size : 1, old = m->len;

		/* Remove the old address first: another thread may allocate it at once. */
		p = ripc_buf_realloc(NULL, m->base, len);
		error = errno;
		if (p) {
			tdelete(m, &tree, compare);
			m->base = p;
			m->len = len;
			/*
			 * The node was freed just now, so malloc() fails only if another thread
			 * took the memory.
			 */
			if (!tsearch(m, &tree, compare)) {
				free(m);
				ripc_buf_free(NULL, p);
				p = NULL;
				error = ENOMEM;
			} else if (len > old) {
				memset((uint8_t *)p + old, 0, len - old);
			}
		}
	}
	pthread_mutex_unlock(&lock);
	if (!p)
		ripc__compat_failed(0, -error, COMPAT_BUF_REALLOC, "to %zu bytes: %s", size,
				    m ? ripc_strerror(-error) : "no buffer of ripc_buf_alloc()");
	return p;
}

/*
 * Removes the windows in the application's memory. Return buffers stay: only a message or
 * ripc_close() ends them.
 */
static void recv_windows_drop(struct mem *m)
{
	struct claim *c, *tmp;

	DL_FOREACH_SAFE (claims, c, tmp) {
		if (c->mem != m || c->is_return)
			continue;
		ripc_window_remove(NULL, c->base);
		claim_drop(c);
	}
}

void ripc_compat_buf_free(void *buf)
{
	struct mem *m;

	pthread_mutex_lock(&lock);
	m = buf ? overlapping(buf, 1) : NULL;
	if (m && m->kind == POOL) {
		if (!ripc_buf_free(NULL, m->base))
			remove_mem(m);
	} else if (m) {
		/*
		 * The application frees it, but no peer may write into it any more if it was a
		 * window.
		 */
		recv_windows_drop(m);
		release(m);
	}
	pthread_mutex_unlock(&lock);
}

/*
 * Returns the registered memory that contains the range, and registers it if need be. NULL: *rc
 * holds the error.
 */
static struct mem *known(void *base, size_t len, enum kind kind, int *rc)
{
	struct mem *m;

	*rc = len && base ? 0 : -EINVAL;
	while (!*rc) {
		m = overlapping(base, len);
		if (!m) {
			*rc = ripc_buf_register(NULL, base, len);
			if (*rc)
				return NULL;
			m = insert(base, len, kind);
			if (m)
				return m;
			ripc_buf_unregister(NULL, base);
			*rc = -ENOMEM;
		} else if (contains(m, base, len)) {
			if (kind == EXPLICIT && m->kind == IMPLICIT && m->base == base)
				m->kind = EXPLICIT;
			return m;
		} else if (m->kind == POOL) {
			*rc = -EINVAL;
		} else {
			/*
			 * The memory has grown, or was freed and allocated again: the old
			 * registration is useless.
			 */
			recv_windows_drop(m);
			*rc = ripc_buf_unregister(NULL, m->base);
			if (!*rc)
				remove_mem(m);
		}
	}
	return NULL;
}

uint8_t ripc_compat_buf_register(void *buf, size_t size)
{
	int rc = ripc__compat_open();

	if (rc >= 0) {
		pthread_mutex_lock(&lock);
		known(buf, size, EXPLICIT, &rc);
		pthread_mutex_unlock(&lock);
	}
	return rc ? ripc__compat_fail(rc, 1) : 0;
}

uint8_t ripc_compat_buf_unregister(void *buf)
{
	struct mem *m;
	int rc = -EINVAL;

	pthread_mutex_lock(&lock);
	m = buf ? overlapping(buf, 1) : NULL;
	if (m && m->kind != POOL) {
		recv_windows_drop(m);
		rc = ripc_buf_unregister(NULL, m->base);
		if (!rc)
			remove_mem(m);
	}
	pthread_mutex_unlock(&lock);
	return rc ? ripc__compat_fail(rc, 0) : 1;
}

/* ---- windows ---- */

static int window_set(struct ripc_service *s, unsigned service, void *base, size_t len)
{
	struct claim *c = claim_find(base);
	struct mem *m;
	int rc;

	if (c && c->is_return)
		return -EBUSY;
	if (c && c->len == len && c->service == service)
		return 0;
	if (c) {
		/* A missing window was filled by a message that is not received yet. */
		rc = ripc_window_remove(NULL, base);
		if (rc)
			return rc == -EINVAL ? 0 : rc;
		claim_end(c);
	}
	m = known(base, len, IMPLICIT, &rc);
	if (!m)
		return rc;
	c = claim_new(m, base, len);
	rc = c ? ripc_window_add(NULL, s, base, len) : -ENOMEM;
	if (!rc)
		c->service = service;
	else if (c)
		claim_drop(c);
	if (rc)
		release(m);
	return rc;
}

static uint8_t window_failed(int rc, size_t size)
{
	/* Both errors are detected here; ripc_error_detail() belongs to an earlier call. */
	return ripc__compat_failed(1, rc, COMPAT_REG_RECV_WINDOW, "%zu bytes: %s", size,
				   rc == -EBUSY    ? "it overlaps a window, a return buffer or "
						     "a message under way"
				   : rc == -EINVAL ? "it is no memory, or overlaps a buffer"
						   : ripc__compat_cause(rc).text);
}

static uint8_t window_for(struct ripc_service *s, unsigned service, void *base, size_t size)
{
	void *own = NULL;
	int rc;

	pthread_mutex_lock(&lock);
	if (!base && size)
		base = own = alloc(size);
	rc = base ? window_set(s, service, base, size) : size ? -errno : -EINVAL;
	pthread_mutex_unlock(&lock);
	if (rc)
		ripc_compat_buf_free(own);
	return rc ? window_failed(rc, size) : 0;
}

uint8_t ripc_compat_reg_recv_window(void *base, size_t size)
{
	int rc = ripc__compat_open();

	return rc < 0 ? window_failed(rc, size) : window_for(NULL, 0, base, size);
}

uint8_t ripc_compat_reg_recv_window_for_service(void *base, size_t size, uint16_t service_id)
{
	struct ripc_service *s = ripc__compat_service(service_id);

	return s ? window_for(s, service_id, base, size) : 1;
}

/* ---- return buffers ---- */

static struct claim *add_return(void *base, size_t len)
{
	struct mem *m = overlapping(base, len);
	struct claim *c;

	/*
	 * The application could free unknown memory while a peer may write it: the item goes
	 * elsewhere.
	 */
	if (!m || !contains(m, base, len) || claim_find(base))
		return NULL;
	c = claim_new(m, base, len);
	if (c)
		c->is_return = true;
	return c;
}

static struct claim *add_own_returns(size_t len)
{
	void *base;
	struct claim *c;

	if (own_returns >= COMPAT_OWN_RETURNS_MAX) {
		DL_SEARCH_SCALAR(claims, c, own_valid, true);
		/* Another thread may have just received an item in it. */
		if (receiving || !own_free(c))
			return NULL;
	}
	base = alloc(len);
	if (!base)
		return NULL;
	c = add_return(base, len);
	if (!c) {
		ripc_buf_free(NULL, base);
		remove_mem(overlapping(base, 1));
		return NULL;
	}
	c->own_valid = true;
	own_returns++;
	return c;
}

unsigned ripc__compat_add_returns(void **bufs, const struct compat_lengths *lens, unsigned n,
				  struct iovec *vec)
{
	unsigned nreturns = 0;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < n && nreturns < RIPC_RETURN_BUFFERS_MAX; i++) {
		size_t len = compat_length(lens, i);
		struct claim *c;

		if (!len)
			continue;
		c = bufs[i] ? add_return(bufs[i], len) : add_own_returns(len);
		if (c)
			vec[nreturns++] = (struct iovec){c->base, c->len};
	}
	pthread_mutex_unlock(&lock);
	return nreturns;
}

void ripc__compat_undo_returns(const struct iovec *vec, unsigned n)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < n; i++) {
		struct claim *c = claim_find(vec[i].iov_base);

		if (c && c->own_valid)
			own_free(c);
		else if (c)
			claim_drop(c);
	}
	pthread_mutex_unlock(&lock);
}

void ripc__compat_receiving(bool begin)
{
	pthread_mutex_lock(&lock);
	receiving = begin ? receiving + 1 : receiving - 1;
	pthread_mutex_unlock(&lock);
}

void ripc__compat_claim_consume(void *base, bool renew)
{
	struct claim *c;

	pthread_mutex_lock(&lock);
	c = claim_find(base);
	if (c && (!renew || c->is_return ||
		  ripc_window_add(NULL, c->service ? ripc__compat_service(c->service) : NULL, base,
				  c->len)))
		claim_end(c);
	pthread_mutex_unlock(&lock);
}
