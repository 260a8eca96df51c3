/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "config.h"

#include "auth/key.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "wire/bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef HAVE_SODIUM
#include <sodium.h>
#else
/* ripc__auth_open() opens no keys: nothing of this is called. */
enum { crypto_generichash_BYTES_MIN = 16 };

static int sodium_init(void)
{
	return -1;
}

static int crypto_generichash(uint8_t *out, size_t outlen, const void *in, size_t len,
			      const uint8_t *key, size_t keylen)
{
	return -1;
}

static int sodium_hex2bin(uint8_t *bin, size_t max, const char *hex, size_t len, const char *ignore,
			  size_t *binlen, const char **end)
{
	return -1;
}

static int sodium_memcmp(const void *a, const void *b, size_t len)
{
	return -1;
}
#endif

#define SEAL_VERSION  1
#define FILE_MAX      4096              /* bytes of a key file */
#define RELOAD_NS     (1000 * RIPC__MS) /* between two checks of the file */
#define SETS          512               /* of senders remembered */
#define ASSOC         8                 /* senders of one set */
#define REPLAY_WINDOW 64                /* numbers of a sender remembered, back from the highest */

/* The recent messages of one sender. */
struct sender {
	uint8_t instance[16]; /* zeros: free */
	uint64_t high;        /* highest number */
	uint64_t seen;        /* bit i: number high - i was received */
	uint64_t time_ms;     /* time of the latest message, by the clock of the sender */
};

/*
 * Senders share a fixed table, so that no peer can exhaust memory. An evicted sender raises the
 * floor of its set: an unknown sender must have a younger message than that.
 */
struct set {
	struct sender slots[ASSOC];
	uint64_t min_time_ms;
};

struct key {
	uint8_t id[RIPC__KEY_ID];
	uint8_t sub[RIPC__KEY_PURPOSES][32];
};

/* Nonces of lane requests. Only holders of the key add one, so replays evict none. */
struct nonces {
	uint8_t slots[ASSOC][RIPC__NONCE];
	unsigned next; /* index of the oldest nonce */
};

struct ripc__auth {
	struct key keys[RIPC__KEYS_MAX];
	unsigned nkeys;
	uint8_t instance[16];
	uint64_t number; /* number of the last sealed message */
	uint64_t secret; /* seed of the hash that selects a set */
	struct ripc__auth_counts counts;
	struct stat seen; /* status of the file that was read */
	uint64_t reload_ns;
	bool reload_failed; /* the last reload failed */
	char path[256];
	struct set sets[SETS];
	struct nonces nonces_seen[RIPC__NONCES_MAX / ASSOC];
};

/* --- the file --- */

static void derive(struct key *key, const uint8_t master[32])
{
	static const char *const names[RIPC__KEY_PURPOSES] = {"libripc message 1",
							      "libripc record 1", "libripc lane 1"};
	static const char id[] = "libripc id 1";

	for (unsigned i = 0; i < RIPC__KEY_PURPOSES; i++)
		crypto_generichash(key->sub[i], 32, (const uint8_t *)names[i], strlen(names[i]),
				   master, 32);
	/* The shortest output of the function is longer than needed. */
	uint8_t full[crypto_generichash_BYTES_MIN];

	crypto_generichash(full, sizeof(full), (const uint8_t *)id, sizeof(id) - 1, master, 32);
	memcpy(key->id, full, RIPC__KEY_ID);
}

static int parse(struct ripc__auth *a, char *text)
{
	struct key keys[RIPC__KEYS_MAX];
	unsigned n = 0, line = 0;
	int rc = 0;

	for (char *at = text; !rc && at; line++) {
		char *end = strchr(at, '\n'), *word = at + strspn(at, " \t\r");
		uint8_t master[32];
		size_t len;

		if (end)
			*end++ = 0;
		at = end;
		word[strcspn(word, "#")] = 0;
		len = strcspn(word, " \t\r");
		if (!len)
			continue;
		if (len != 64 || word[len + strspn(word + len, " \t\r")] ||
		    sodium_hex2bin(master, 32, word, 64, NULL, NULL, NULL))
			rc = ripc__fail(
				-EINVAL,
				"key_file (RIPC_KEY_FILE): %s:%u: a key is 64 hexadecimal digits",
				a->path, line + 1);
		else if (n == RIPC__KEYS_MAX)
			rc = ripc__fail(-EINVAL,
					"key_file (RIPC_KEY_FILE): %s:%u: more than %d keys",
					a->path, line + 1, RIPC__KEYS_MAX);
		else
			derive(&keys[n++], master);
		explicit_bzero(master, sizeof(master));
	}
	if (!rc && !n)
		rc = ripc__fail(-EINVAL, "key_file (RIPC_KEY_FILE): %s: there is no key in it",
				a->path);
	if (!rc) {
		memcpy(a->keys, keys, sizeof(keys));
		a->nkeys = n;
	}
	explicit_bzero(keys, sizeof(keys));
	return rc;
}

static int load(struct ripc__auth *a)
{
	char text[FILE_MAX], why[300];
	int rc = ripc__file_read(a->path, true, text, sizeof(text), &a->seen, why, sizeof(why));

	if (rc < 0)
		return ripc__fail(rc, "key_file (RIPC_KEY_FILE): %s", why);
	rc = parse(a, text);
	explicit_bzero(text, sizeof(text));
	return rc;
}

void ripc__auth_reload(struct ripc__auth *a, uint64_t now_ns)
{
	struct stat st;
	int rc;

	if (now_ns < a->reload_ns)
		return;
	a->reload_ns = now_ns + RELOAD_NS;
	if (!stat(a->path, &st) && !a->reload_failed && !ripc__file_differs(&st, &a->seen))
		return;
	rc = load(a);
	if (rc && !a->reload_failed)
		ripc__log(RIPC_LOG_ERROR, "%s; the previous keys stay in use", ripc_error_detail());
	if (!rc)
		ripc__log(RIPC_LOG_INFO, "key_file (RIPC_KEY_FILE): %s was read again: %u keys",
			  a->path, a->nkeys);
	a->reload_failed = rc;
}

int ripc__auth_open(struct ripc__auth **out, const char *path, const uint8_t instance[16])
{
	struct ripc__auth *a;
	int rc;

#ifndef HAVE_SODIUM
	return ripc__fail(-EINVAL,
			  "key_file (RIPC_KEY_FILE) %s: this build of the library has no libsodium",
			  path);
#endif
	if (sodium_init() < 0)
		return ripc__fail(-EIO, "key_file (RIPC_KEY_FILE): libsodium cannot be used here");
	a = calloc(1, sizeof(*a));
	if (!a)
		return ripc__fail(-ENOMEM, "key_file (RIPC_KEY_FILE): out of memory");
	snprintf(a->path, sizeof(a->path), "%s", path);
	memcpy(a->instance, instance, 16);
	rc = load(a);
	if (rc) {
		free(a);
		return rc;
	}
	memcpy(&a->secret, a->keys[0].sub[RIPC__KEY_MESSAGE], sizeof(a->secret));
	*out = a;
	return 0;
}

void ripc__auth_close(struct ripc__auth *a)
{
	if (!a)
		return;
	explicit_bzero(a, sizeof(*a));
	free(a);
}

/* --- codes --- */

static const struct key *key_find(const struct ripc__auth *a, const uint8_t *id)
{
	for (unsigned i = 0; i < a->nkeys; i++)
		if (!memcmp(a->keys[i].id, id, RIPC__KEY_ID))
			return &a->keys[i];
	return NULL;
}

int ripc__auth_mac(const struct ripc__auth *a, const uint8_t id[RIPC__KEY_ID],
		   enum ripc__purpose purpose, const void *bytes, size_t len,
		   uint8_t mac[RIPC__MAC])
{
	const struct key *key = key_find(a, id);

	if (!key)
		return -ENOKEY;
	crypto_generichash(mac, RIPC__MAC, bytes, len, key->sub[purpose], 32);
	return 0;
}

bool ripc__mac_equal(const uint8_t a[RIPC__MAC], const uint8_t b[RIPC__MAC])
{
	return !sodium_memcmp(a, b, RIPC__MAC);
}

const uint8_t *ripc__auth_key_id(const struct ripc__auth *a)
{
	return a->keys[0].id;
}

bool ripc__auth_nonce_is_new(struct ripc__auth *a, const uint8_t nonce[RIPC__NONCE])
{
	struct nonces *n = &a->nonces_seen[ripc__get_le16(nonce) % (RIPC__NONCES_MAX / ASSOC)];

	for (unsigned i = 0; i < ASSOC; i++)
		if (!memcmp(n->slots[i], nonce, RIPC__NONCE)) {
			a->counts.replayed++;
			return false;
		}
	memcpy(n->slots[n->next++ % ASSOC], nonce, RIPC__NONCE);
	return true;
}

void ripc__auth_count_unauth(struct ripc__auth *a)
{
	a->counts.unauthenticated++;
}

/* --- messages --- */

static uint64_t clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

int ripc__auth_seal(struct ripc__auth *a, const uint8_t *in, size_t len, uint8_t *out, size_t cap)
{
	if (cap < RIPC__SEAL_BYTES || len > cap - RIPC__SEAL_BYTES)
		return -EMSGSIZE;
	ripc__put_le32(out, RIPC__SEAL_MAGIC);
	out[4] = SEAL_VERSION;
	memset(out + 5, 0, 3);
	memcpy(out + 8, a->keys[0].id, RIPC__KEY_ID);
	memcpy(out + 16, a->instance, 16);
	ripc__put_le64(out + 32, clock_ms());
	ripc__put_le64(out + 40, ++a->number);
	memcpy(out + RIPC__SEAL_HEAD, in, len);
	ripc__auth_mac(a, a->keys[0].id, RIPC__KEY_MESSAGE, out, RIPC__SEAL_HEAD + len,
		       out + RIPC__SEAL_HEAD + len);
	return (int)(len + RIPC__SEAL_BYTES);
}

static struct set *set_of(struct ripc__auth *a, const uint8_t *instance)
{
	uint64_t id = ripc__get_le64(instance) ^ ripc__get_le64(instance + 8);

	return &a->sets[ripc__mix64(id ^ a->secret) % SETS];
}

/* Whether this number of a known sender is new. */
static bool number_is_new(struct sender *s, uint64_t number)
{
	if (number > s->high) {
		s->seen = number - s->high < REPLAY_WINDOW ? s->seen << (number - s->high) | 1 : 1;
		s->high = number;
		return true;
	}
	if (s->high - number >= REPLAY_WINDOW || s->seen >> (s->high - number) & 1)
		return false;
	s->seen |= UINT64_C(1) << (s->high - number);
	return true;
}

/* Return: 0, or -EALREADY. */
static int add_sender(struct ripc__auth *a, const uint8_t *instance, uint64_t nr, uint64_t time_ms)
{
	static const uint8_t nobody[16];
	struct set *set = set_of(a, instance);
	struct sender *oldest = &set->slots[0];

	for (unsigned i = 0; i < ASSOC; i++) {
		struct sender *s = &set->slots[i];

		if (!memcmp(s->instance, instance, 16)) {
			if (!number_is_new(s, nr))
				return -EALREADY;
			s->time_ms = MAX(s->time_ms, time_ms);
			return 0;
		}
		if (s->time_ms < oldest->time_ms)
			oldest = s;
	}
	if (time_ms <= set->min_time_ms)
		return -EALREADY;
	if (memcmp(oldest->instance, nobody, 16))
		set->min_time_ms = MAX(set->min_time_ms, oldest->time_ms);
	memcpy(oldest->instance, instance, 16);
	oldest->high = nr;
	/* Earlier numbers that arrive later are new, too. */
	oldest->seen = 1;
	oldest->time_ms = time_ms;
	return 0;
}

bool ripc__auth_is_own(const struct ripc__auth *a, const uint8_t *buf)
{
	return !memcmp(buf + 16, a->instance, 16);
}

int ripc__auth_unseal(struct ripc__auth *a, const uint8_t *buf, size_t len, const uint8_t **data,
		      const char **why)
{
	static const uint8_t nobody[16];
	uint64_t now = clock_ms(), then;
	uint8_t mac[RIPC__MAC];
	size_t body;
	int rc;

	*why = "it was not sealed with a key of this cluster";
	if (len < RIPC__SEAL_BYTES || ripc__get_le32(buf) != RIPC__SEAL_MAGIC ||
	    buf[4] != SEAL_VERSION ||
	    ripc__auth_mac(a, buf + 8, RIPC__KEY_MESSAGE, buf, len - RIPC__MAC, mac) ||
	    !ripc__mac_equal(mac, buf + len - RIPC__MAC) || !memcmp(buf + 16, nobody, 16)) {
		a->counts.unauthenticated++;
		return -EKEYREJECTED;
	}
	body = len - RIPC__SEAL_BYTES;
	*data = buf + RIPC__SEAL_HEAD;
	if (ripc__auth_is_own(a, buf))
		return (int)body;
	then = ripc__get_le64(buf + 32);
	if (then > now ? then - now > RIPC__CLOCK_SKEW_MS : now - then > RIPC__CLOCK_SKEW_MS) {
		*why = "it was sealed more than 30 s ago, or the clocks of the two hosts differ";
		a->counts.late++;
		return -ETIME;
	}
	rc = add_sender(a, buf + 16, ripc__get_le64(buf + 40), then);
	if (rc) {
		*why = "it was received before";
		a->counts.replayed++;
		return rc;
	}
	return (int)body;
}

/* --- records --- */

int ripc__auth_sign(const struct ripc__auth *a, uint8_t *record, size_t len, size_t cap)
{
	if (cap < RIPC__SIGNATURE_BYTES || len > cap - RIPC__SIGNATURE_BYTES)
		return -EMSGSIZE;
	memcpy(record + len, a->keys[0].id, RIPC__KEY_ID);
	ripc__auth_mac(a, a->keys[0].id, RIPC__KEY_RECORD, record, len,
		       record + len + RIPC__KEY_ID);
	return (int)(len + RIPC__SIGNATURE_BYTES);
}

int ripc__auth_verify(struct ripc__auth *a, const uint8_t *record, size_t len)
{
	uint8_t mac[RIPC__MAC];
	size_t body = len - RIPC__SIGNATURE_BYTES;

	if (len < RIPC__SIGNATURE_BYTES ||
	    ripc__auth_mac(a, record + body, RIPC__KEY_RECORD, record, body, mac) ||
	    !ripc__mac_equal(mac, record + body + RIPC__KEY_ID)) {
		a->counts.unauthenticated++;
		return -EKEYREJECTED;
	}
	return (int)body;
}

/* --- description --- */

void ripc__auth_counts(const struct ripc__auth *a, struct ripc__auth_counts *counts)
{
	*counts = a->counts;
}

void ripc__auth_describe(const struct ripc__auth *a, char *text, size_t len)
{
	const uint8_t *one = a->keys[0].id, *two = a->keys[1].id;
	char second[32] = "";

	if (a->nkeys > 1)
		snprintf(second, sizeof(second), " and %02x%02x%02x%02x", two[0], two[1], two[2],
			 two[3]);
	snprintf(text, len,
		 "authenticated with key %02x%02x%02x%02x%s; %" PRIu64 " unauthenticated, %" PRIu64
		 " late and %" PRIu64 " repeated messages refused%s",
		 one[0], one[1], one[2], one[3], second, a->counts.unauthenticated, a->counts.late,
		 a->counts.replayed, a->reload_failed ? "; the key file cannot be used now" : "");
}
