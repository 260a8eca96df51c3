/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "resolver/cache.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* Offsets in an encoded record. */
enum { AT_TTL = 48, AT_ADDRS = 56 };

void ripc__cache_init(struct ripc__cache *cache, struct ripc__timers *timers, ripc__timer_fn *due,
		      struct ripc__list *pendings, ripc__pending_fn *taken, uint64_t secret)
{
	memset(cache, 0, sizeof(*cache));
	ripc__table_init(&cache->table, secret);
	ripc__list_init(&cache->watched);
	ripc__list_init(&cache->overheard_lru);
	cache->timers = timers;
	cache->due = due;
	cache->pendings = pendings;
	cache->taken = taken;
}

void ripc__cache_fini(struct ripc__cache *cache)
{
	struct ripc__cached *c;

	while ((c = ripc__list_first_entry(&cache->watched, struct ripc__cached, lru)))
		ripc__cache_remove(cache, c);
	while ((c = ripc__list_first_entry(&cache->overheard_lru, struct ripc__cached, lru)))
		ripc__cache_remove(cache, c);
	ripc__table_fini(&cache->table);
}

static struct ripc__cached *find_any(struct ripc__cache *cache, uint64_t service)
{
	return (struct ripc__cached *)ripc__table_find(&cache->table, service);
}

struct ripc__cached *ripc__cache_find(struct ripc__cache *cache, uint64_t service)
{
	struct ripc__cached *c = find_any(cache, service);

	return c && !c->gone ? c : NULL;
}

const uint8_t *ripc__cache_instance(const struct ripc__cached *c)
{
	return ripc__encoded_instance(c->bytes);
}

static void list_in(struct ripc__cache *cache, struct ripc__cached *c)
{
	ripc__list_add(c->watched ? &cache->watched : &cache->overheard_lru, &c->lru);
	cache->noverheard += !c->watched;
}

static void list_out(struct ripc__cache *cache, struct ripc__cached *c)
{
	ripc__list_del(&c->lru);
	cache->noverheard -= !c->watched;
}

void ripc__cache_remove(struct ripc__cache *cache, struct ripc__cached *c)
{
	ripc__pending_clear(&c->pending);
	ripc__timers_remove(cache->timers, &c->timer);
	ripc__table_remove(&cache->table, &c->node);
	list_out(cache, c);
	cache->bytes -= sizeof(*c) + c->len;
	free(c->bytes);
	free(c);
}

/* Entries with pending events must not be evicted. */
static struct ripc__cached *oldest(struct ripc__list *list)
{
	struct ripc__cached *c;

	ripc__list_for_each_entry (c, list, lru)
		if (!c->pending.events)
			return c;
	return NULL;
}

/* Makes room for @len more bytes. Return: false if all entries have pending events. */
static bool make_room(struct ripc__cache *cache, size_t len, bool overheard)
{
	while (cache->table.count >= RIPC__CACHE_MAX ||
	       cache->bytes + sizeof(struct ripc__cached) + len > RIPC__CACHE_BYTES_MAX ||
	       (overheard && cache->noverheard >= RIPC__CACHE_OVERHEARD_MAX)) {
		struct ripc__cached *c = oldest(&cache->overheard_lru);

		/* An overheard record must not evict a record in use. */
		if (!c && overheard)
			return false;
		if (!c)
			c = oldest(&cache->watched);
		if (!c)
			return false;
		ripc__cache_remove(cache, c);
	}
	return true;
}

static struct ripc__cached *add(struct ripc__cache *cache, uint64_t service, size_t len,
				bool overheard)
{
	struct ripc__cached *c;

	if (!make_room(cache, len, overheard))
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c || ripc__timers_add(cache->timers, &c->timer, RIPC__NEVER)) {
		free(c);
		return NULL;
	}
	c->node.id = service;
	c->timer.due = cache->due;
	c->pending.taken = cache->taken;
	ripc__table_add(&cache->table, &c->node);
	cache->bytes += sizeof(*c);
	list_in(cache, c);
	return c;
}

bool ripc__cache_fresher(const struct ripc__cached *c, const struct ripc__record *record,
			 uint64_t now_ns)
{
	return record->ttl_ms > ripc__ms_between(now_ns, c->expires_ns) + RIPC__CACHE_FRESHER_MS;
}

static bool may_replace(const struct ripc__cached *c, const struct ripc__record *record,
			bool overheard, uint64_t since_ns, uint64_t now_ns)
{
	uint64_t generation = ripc__encoded_generation(c->bytes);

	if (record->generation != generation)
		return record->generation > generation ||
		       (!overheard && ripc__cache_fresher(c, record, now_ns));
	/*
	 * A late request of a dead holder must not restore its record; that holder registered
	 * earlier.
	 */
	return !overheard || !memcmp(ripc__cache_instance(c), record->instance, 16) ||
	       since_ns >= c->since_ns;
}

/* Same holder, generation and addresses; ttl and age are ignored. */
static bool same_location(const struct ripc__cached *c, const uint8_t *bytes, size_t len)
{
	return c->len == len && !memcmp(c->bytes, bytes, AT_TTL) &&
	       !memcmp(c->bytes + AT_ADDRS, bytes + AT_ADDRS, len - AT_ADDRS);
}

struct ripc__cached *ripc__cache_store(struct ripc__cache *cache, const struct ripc__record *record,
				       bool overheard, uint64_t now_ns)
{
	struct ripc__cached *c = find_any(cache, record->service);
	uint64_t age_ns = record->since_ms * RIPC__MS;
	uint64_t since_ns = now_ns > age_ns ? now_ns - age_ns : 0;
	uint64_t ttl_ms = MIN(record->ttl_ms, RIPC__CACHE_TTL_MAX_MS);
	uint8_t bytes[RIPC__RECORD_BYTES_MAX], *copy;
	int len = ripc__record_encode(record, bytes, sizeof(bytes));

	if (len < 0 || (c && !c->gone && !may_replace(c, record, overheard, since_ns, now_ns)))
		return NULL;
	if (!c || !same_location(c, bytes, (size_t)len)) {
		if (c && cache->bytes + (size_t)len > RIPC__CACHE_BYTES_MAX + c->len)
			return NULL;
		copy = malloc((size_t)len);
		if (!copy)
			return NULL;
		memcpy(copy, bytes, (size_t)len);
		if (!c)
			c = add(cache, record->service, (size_t)len, overheard);
		if (!c) {
			free(copy);
			return NULL;
		}
		if (c->watched && c->bytes && !c->gone)
			ripc__pending_add(cache->pendings, &c->pending, RIPC__RESOLVED);
		cache->bytes += (size_t)len;
		cache->bytes -= c->len;
		free(c->bytes);
		c->bytes = copy;
		c->len = (uint16_t)len;
		c->nonce = 0;
		c->location.len = 0;
	}
	/* A record that returned counts as changed, not as gone. */
	if (c->gone) {
		ripc__pending_remove(&c->pending, RIPC__GONE);
		ripc__pending_add(cache->pendings, &c->pending, RIPC__RESOLVED);
	}
	c->gone = false;
	c->since_ns = since_ns;
	c->stored_ns = now_ns;
	c->expires_ns = now_ns + ttl_ms * RIPC__MS;
	ripc__timers_set(cache->timers, &c->timer, now_ns + ttl_ms * RIPC__MS / 4 * 3);
	return c;
}

void ripc__cache_watch(struct ripc__cache *cache, struct ripc__cached *c)
{
	list_out(cache, c);
	/* The refresh was due while the record was not watched: do it now. */
	if (!c->watched && c->timer.at_ns == c->expires_ns)
		ripc__timers_set(cache->timers, &c->timer, 0);
	c->watched = true;
	list_in(cache, c);
}

void ripc__cache_unwatch(struct ripc__cache *cache, uint64_t service)
{
	struct ripc__cached *c = find_any(cache, service);

	if (!c)
		return;
	if (c->gone || (c->watched && cache->noverheard >= RIPC__CACHE_OVERHEARD_MAX)) {
		ripc__cache_remove(cache, c);
		return;
	}
	ripc__pending_clear(&c->pending);
	list_out(cache, c);
	c->watched = false;
	list_in(cache, c);
}

void ripc__cache_gone(struct ripc__cache *cache, struct ripc__cached *c)
{
	if (!c->watched) {
		ripc__cache_remove(cache, c);
		return;
	}
	c->gone = true;
	ripc__timers_set(cache->timers, &c->timer, RIPC__NEVER);
	ripc__pending_add(cache->pendings, &c->pending, RIPC__GONE);
}

void ripc__cache_record(const struct ripc__cached *c, struct ripc__record *record, uint64_t now_ns)
{
	const char *why;

	(void)ripc__record_decode(record, c->bytes, c->len, &why);
	record->ttl_ms = ripc__ms_between(now_ns, c->expires_ns);
	record->since_ms = ripc__ms_between(c->since_ns, now_ns);
}
