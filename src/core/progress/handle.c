/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "core/progress/handle.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define LEAKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAKS 1
#endif
#endif
#ifdef LEAKS
#include <sanitizer/lsan_interface.h>
#endif

#define CACHE_LINE    ((size_t)64)
#define BLOCK_LEN_MIN ((size_t)64 << 10) /* bytes of a block of pieces, at least */

/* The address space that all contexts of the process draw from. It never goes back. */
static pthread_mutex_t pages_lock = PTHREAD_MUTEX_INITIALIZER;
static char *pages_next;
static size_t pages_left;

/* A page of small objects begins with a line of this. */
struct shared_page {
	size_t live; /* objects that have not ended */
};

/* The page from which small objects are taken, and its bytes that are used; NULL: none yet. */
static struct shared_page *shared;
static size_t shared_used;

struct ripc__handle_block {
	struct ripc__handle_block *next;
	size_t len;
};

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) & ~(to - 1);
}

/* Pages that were never used before. NULL: there are none. pages_lock is held. */
static void *pages_take(size_t len)
{
	size_t size = len > RIPC__HANDLE_RESERVE ? len : RIPC__HANDLE_RESERVE;
	char *p = NULL;

	if (pages_left < len) {
		p = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED)
			return NULL;
		/* One page of a huge one could not go back. */
		madvise(p, size, MADV_NOHUGEPAGE);
#ifdef LEAKS
		__lsan_register_root_region(p, size);
#endif
		pages_next = p;
		pages_left = size;
	}
	p = pages_next;
	pages_next += len;
	pages_left -= len;
	return p;
}

/* The pages read as zeros from now on. */
static void pages_zero(char *p, size_t len)
{
	if (!len || !madvise(p, len, MADV_DONTNEED))
		return;
	/* Locked in memory, as by mlockall(). */
	munlock(p, len);
	if (madvise(p, len, MADV_DONTNEED))
		memset(p, 0, len);
}

/*
 * Objects begin at different lines of their pages: else they would compete for the same sets of the
 * caches.
 */
static size_t cache_color(size_t room)
{
	static size_t turn;
	size_t lines = room / CACHE_LINE;

	return lines ? __atomic_fetch_add(&turn, 5, __ATOMIC_RELAXED) % (lines + 1) * CACHE_LINE
		     : 0;
}

/* Whether an object shares its page with others. */
static bool is_small(size_t len)
{
	return len <= page_size() / 4;
}

/* pages_lock is held. NULL: out of memory. */
static void *shared_take(size_t len)
{
	char *p;

	/* The prefetcher of a processor brings two lines at a time. */
	len = round_up(len, 2 * CACHE_LINE);
	if (!shared || shared_used + len > page_size()) {
		struct shared_page *next = pages_take(page_size());

		if (!next)
			return NULL;
		if (shared && !shared->live)
			pages_zero((char *)shared, page_size());
		shared = next;
		shared_used = 2 * CACHE_LINE;
	}
	shared->live++;
	p = (char *)shared + shared_used;
	shared_used += len;
	return p;
}

static void shared_end(char *p, size_t len)
{
	struct shared_page *page = (struct shared_page *)((uintptr_t)p & ~(page_size() - 1));

	pthread_mutex_lock(&pages_lock);
	for (size_t i = 0; i < len; i += sizeof(uint64_t))
		__atomic_store_n((uint64_t *)(void *)(p + i), 0, __ATOMIC_RELAXED);
	if (!--page->live && page != shared)
		pages_zero((char *)page, page_size());
	pthread_mutex_unlock(&pages_lock);
}

void *ripc__handle_alloc(size_t len)
{
	size_t pages = round_up(len, page_size());
	char *p;

	pthread_mutex_lock(&pages_lock);
	p = is_small(len) ? shared_take(len) : pages_take(pages);
	pthread_mutex_unlock(&pages_lock);
	return p && !is_small(len) ? p + cache_color(pages - len) : p;
}

void ripc__handle_free(void *p, size_t len)
{
	size_t page = page_size();
	char *first = (char *)((uintptr_t)p & ~(uintptr_t)(page - 1));

	if (is_small(len)) {
		shared_end(p, len);
		return;
	}
	pages_zero(first + page, round_up(len, page) - page);
	pages_zero(first, page);
}

void *ripc__handle_block_alloc(struct ripc__handle_blocks *blocks, size_t len)
{
	struct ripc__handle_block *block;
	char *p;

	len = round_up(len, CACHE_LINE);
	if (blocks->left < len) {
		size_t size = round_up(len + CACHE_LINE > BLOCK_LEN_MIN ? len + CACHE_LINE
									: BLOCK_LEN_MIN,
				       page_size());

		pthread_mutex_lock(&pages_lock);
		block = pages_take(size);
		pthread_mutex_unlock(&pages_lock);
		if (!block)
			return NULL;
		*block = (struct ripc__handle_block){blocks->first, size};
		blocks->first = block;
		blocks->next = (char *)block + CACHE_LINE;
		blocks->left = size - CACHE_LINE;
	}
	p = blocks->next;
	blocks->next += len;
	blocks->left -= len;
	return p;
}

void ripc__handle_blocks_free(struct ripc__handle_blocks *blocks)
{
	struct ripc__handle_block *block = blocks->first;

	while (block) {
		struct ripc__handle_block *next = block->next;

		pages_zero((char *)block, block->len);
		block = next;
	}
	*blocks = (struct ripc__handle_blocks){0};
}

void ripc__handle_fork_lock(void)
{
	pthread_mutex_lock(&pages_lock);
}

void ripc__handle_fork_unlock(void)
{
	pthread_mutex_unlock(&pages_lock);
}

void ripc__handle_fork_child(void)
{
	pthread_mutex_init(&pages_lock, NULL);
}
