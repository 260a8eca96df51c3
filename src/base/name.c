/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/name.h"

#include "base/hash.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* "libripc name key" in little-endian order. Not secret: the ids are the same everywhere. */
static const uint64_t key[2] = {UINT64_C(0x206370697262696c), UINT64_C(0x79656b20656d616e)};

/* Bytes of the UTF-8 sequence that begins at @p, or 0: none of the Unicode standard. */
static size_t sequence(const uint8_t *p, size_t len)
{
	size_t n = *p < 0x80   ? 1
		   : *p < 0xc2 ? 0
		   : *p < 0xe0 ? 2
		   : *p < 0xf0 ? 3
		   : *p < 0xf5 ? 4
			       : 0;

	if (!n || n > len)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates, and code points above U+10FFFF. */
	if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] >= 0xa0) ||
	    (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] >= 0x90))
		return 0;
	return n;
}

const char *ripc__name_fault(const char *name, size_t len)
{
	const uint8_t *p = (const uint8_t *)name;

	if (!len)
		return "it is empty";
	if (len > RIPC__NAME_MAX)
		return "it is longer than 255 bytes";
	for (size_t at = 0, n; at < len; at += n) {
		if (!p[at])
			return "it has a NUL byte";
		n = sequence(p + at, len - at);
		if (!n)
			return "it is not UTF-8";
	}
	return NULL;
}

uint64_t ripc__name_id(const char *name, size_t len)
{
	return (ripc__siphash_bytes(key, name, len) & (RIPC__NAME_BIT - 1)) | RIPC__NAME_BIT;
}

static struct recent {
	uint64_t id; /* 0: none; also read without the lock */
	char name[RIPC__NAME_MAX + 1];
} recent_names[RIPC__NAMES_RECENT];
/* Only tried: a child of fork() may find it taken for ever. */
static pthread_mutex_t recent_lock = PTHREAD_MUTEX_INITIALIZER;

void ripc__name_remember(uint64_t id, const char *name, size_t len)
{
	struct recent *r = &recent_names[id % RIPC__NAMES_RECENT];

	if (__atomic_load_n(&r->id, __ATOMIC_RELAXED) == id || pthread_mutex_trylock(&recent_lock))
		return;
	memcpy(r->name, name, len);
	r->name[len] = 0;
	__atomic_store_n(&r->id, id, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&recent_lock);
}

bool ripc__name_recall(uint64_t id, char *name)
{
	struct recent *r = &recent_names[id % RIPC__NAMES_RECENT];
	bool known;

	if (__atomic_load_n(&r->id, __ATOMIC_RELAXED) != id || pthread_mutex_trylock(&recent_lock))
		return false;
	known = r->id == id;
	if (known)
		strcpy(name, r->name);
	pthread_mutex_unlock(&recent_lock);
	return known;
}

void ripc__name_text(const char *name, char *text)
{
	size_t n = 0;

	for (; n < RIPC__NAME_MAX && name[n]; n++) {
		uint8_t c = (uint8_t)name[n];

		text[n] = c < 0x20 || c == 0x7f ? '?' : (char)c;
	}
	text[n] = 0;
}

const char *ripc__id_text(uint64_t id, const char *name)
{
	static _Thread_local char texts[2][RIPC__NAME_MAX + 40];
	static _Thread_local unsigned turn;
	char *text = texts[turn++ & 1], recalled[RIPC__NAME_MAX + 1], shown[RIPC__NAME_MAX + 1];

	if (!name && ripc__name_recall(id, recalled))
		name = recalled;
	if (name)
		ripc__name_text(name, shown);
	snprintf(text, sizeof(texts[0]), "service %" PRIu64 "%s%s%s", id, name ? " (\"" : "",
		 name ? shown : "", name ? "\")" : "");
	return text;
}
