/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A build without libsodium: no keys can be opened. */
#include "auth/key.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>

int ripc__auth_open(struct ripc__auth **a, const char *path, const uint8_t instance[16])
{
	return ripc__fail(-EINVAL,
			  "key_file (RIPC_KEY_FILE) %s: this build of the library has no libsodium",
			  path);
}

void ripc__auth_close(struct ripc__auth *a)
{
}

void ripc__auth_reload(struct ripc__auth *a, uint64_t now_ns)
{
}

int ripc__auth_seal(struct ripc__auth *a, const uint8_t *in, size_t len, uint8_t *out, size_t cap)
{
	return -EMSGSIZE;
}

int ripc__auth_unseal(struct ripc__auth *a, const uint8_t *buf, size_t len, const uint8_t **data,
		      const char **why)
{
	*why = "there are no keys";
	return -EKEYREJECTED;
}

bool ripc__auth_is_own(const struct ripc__auth *a, const uint8_t *buf)
{
	return false;
}

int ripc__auth_sign(const struct ripc__auth *a, uint8_t *record, size_t len, size_t cap)
{
	return -EMSGSIZE;
}

int ripc__auth_verify(struct ripc__auth *a, const uint8_t *record, size_t len)
{
	return -EKEYREJECTED;
}

const uint8_t *ripc__auth_key_id(const struct ripc__auth *a)
{
	static const uint8_t none[RIPC__KEY_ID];

	return none;
}

int ripc__auth_mac(const struct ripc__auth *a, const uint8_t id[RIPC__KEY_ID],
		   enum ripc__purpose purpose, const void *bytes, size_t len,
		   uint8_t mac[RIPC__MAC])
{
	return -ENOKEY;
}

bool ripc__mac_equal(const uint8_t a[RIPC__MAC], const uint8_t b[RIPC__MAC])
{
	return false;
}

bool ripc__auth_nonce_is_new(struct ripc__auth *a, const uint8_t nonce[RIPC__NONCE])
{
	return false;
}

void ripc__auth_count_unauth(struct ripc__auth *a)
{
}

void ripc__auth_counts(const struct ripc__auth *a, struct ripc__auth_counts *counts)
{
	memset(counts, 0, sizeof(*counts));
}

void ripc__auth_describe(const struct ripc__auth *a, char *text, size_t len)
{
	if (len)
		*text = 0;
}
