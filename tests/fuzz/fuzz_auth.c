/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages of peers without the key, and sealed messages changed in flight: only unchanged messages
 * of a key holder are accepted. The first byte selects the case, the next three the change (where:
 * 2, how: 1; 0 changes nothing), the fourth the number of bytes cut off. The times in the seals are
 * those of the clock.
 */
#include "auth/key.h"
#include "auth/handshake.h"
#include "config.h"
#include "fuzz.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_SODIUM

#define REQUIRE(cond)            \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

static struct ripc__auth *open_auth(uint8_t who)
{
	const uint8_t instance[16] = {who};
	char path[] = "/tmp/ripc-fuzz-key.XXXXXX";
	struct ripc__auth *a = NULL;
	int fd = mkstemp(path);

	REQUIRE(fd >= 0 && dprintf(fd, "%064x\n", 12345) == 65 && !close(fd));
	REQUIRE(!ripc__auth_open(&a, path, instance));
	unlink(path);
	return a;
}

struct change {
	size_t at;
	uint8_t how;
	size_t cut;
};

/* Return: its new length; *whole: nothing was changed. */
static size_t change(const struct change *c, uint8_t *buf, size_t len, bool *whole)
{
	size_t left = len > c->cut ? len - c->cut : 0;

	*whole = left == len && !c->how;
	if (left)
		buf[c->at % left] ^= c->how;
	return left;
}

/* From one to another: what comes back to its own sender is not looked at again. */
static void sealed(struct ripc__auth *a, struct ripc__auth *b, const struct change *c,
		   const uint8_t *data, size_t len)
{
	uint8_t buf[2048];
	const uint8_t *got;
	const char *why = NULL;
	int n = ripc__auth_seal(a, data, len, buf, sizeof(buf));
	size_t left;
	bool whole;
	int rc;

	REQUIRE(n == (int)(len + RIPC__SEAL_BYTES));
	left = change(c, buf, (size_t)n, &whole);
	rc = ripc__auth_unseal(b, buf, left, &got, &why);
	REQUIRE(whole ? rc == (int)len && !memcmp(got, data, len) : rc < 0 && why);
	if (whole)
		REQUIRE(ripc__auth_unseal(b, buf, left, &got, &why) == -EALREADY);
}

static void stamped(struct ripc__auth *a, const struct change *c, const uint8_t *data, size_t len)
{
	uint8_t buf[2048];
	size_t left;
	bool whole;
	int n, rc;

	memcpy(buf, data, len);
	n = ripc__auth_sign(a, buf, len, sizeof(buf));
	REQUIRE(n == (int)(len + RIPC__SIGNATURE_BYTES));
	left = change(c, buf, (size_t)n, &whole);
	rc = ripc__auth_verify(a, buf, left);
	REQUIRE(whole ? rc == (int)len : rc < 0);
}

/* Each step in turn is changed, the others arrive as they were. */
static void handshake(struct ripc__auth *a, const struct change *c, unsigned step,
		      const uint8_t *data, size_t len)
{
	static const uint8_t nonce[2][RIPC__NONCE] = {"one who connects", "one who accepts"};
	struct ripc__handshake active, passive;
	uint8_t buf[RIPC__HANDSHAKE_LEN] = {0}, last[RIPC__CONFIRM_LEN];
	bool whole = true;
	size_t left = sizeof(buf);

	memcpy(buf, data, len < RIPC__HELLO_LEN ? len : RIPC__HELLO_LEN);
	ripc__handshake_request(a, &active, nonce[0], buf);
	if (step == 0)
		left = change(c, buf, left, &whole);
	REQUIRE(ripc__handshake_check_request(a, &passive, buf, left) == whole);
	if (!whole)
		return;
	ripc__handshake_reply(a, &passive, nonce[1], buf);
	if (step == 1)
		left = change(c, buf, left, &whole);
	REQUIRE(ripc__handshake_check_reply(a, &active, buf, left) == whole);
	if (!whole)
		return;
	REQUIRE(ripc__handshake_confirm(a, &active, last));
	left = sizeof(last);
	if (step == 2)
		left = change(c, last, left, &whole);
	REQUIRE(ripc__handshake_check_confirm(a, &passive, last, left) == whole);
}

static void unauthenticated(struct ripc__auth *a, const uint8_t *data, size_t len)
{
	struct ripc__handshake shake = {{0}, {0}};
	const uint8_t *got;
	const char *why = NULL;

	REQUIRE(ripc__auth_unseal(a, data, len, &got, &why) < 0 && why);
	REQUIRE(ripc__auth_verify(a, data, len) < 0);
	REQUIRE(!ripc__handshake_check_request(a, &shake, data, len));
	REQUIRE(!ripc__handshake_check_reply(a, &shake, data, len));
	REQUIRE(!ripc__handshake_check_confirm(a, &shake, data, len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ripc__auth *a, *b;
	struct change c;

	if (size < 5 || size > 1024)
		return 0;
	if (!a)
		a = open_auth(1);
	if (!b)
		b = open_auth(2);
	c = (struct change){data[1] | (size_t)data[2] << 8, data[3], data[4]};
	switch (data[0] % 6) {
	case 0:
		sealed(a, b, &c, data + 5, size - 5);
		break;
	case 1:
		stamped(a, &c, data + 5, size - 5);
		break;
	case 2:
		unauthenticated(a, data + 5, size - 5);
		break;
	default:
		handshake(a, &c, data[0] % 6 - 3, data + 5, size - 5);
	}
	return 0;
}

#else

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	(void)data;
	(void)size;
	return 0;
}

#endif
