/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "auth/handshake.h"

#include "wire/bytes.h"

#define CONFIRM_MAGIC 0x4b504952u /* "RIPK" */

/* The step is part of the input, so that a code of one step is invalid in another. */
struct __attribute__((packed)) transcript {
	uint8_t step;
	struct ripc__handshake messages;
};

static int compute_mac(const struct ripc__auth *a, uint8_t step, const struct ripc__handshake *s,
		       const uint8_t *id, uint8_t mac[RIPC__MAC])
{
	struct transcript t = {.step = step};

	memcpy(t.messages.request, s->request, sizeof(t.messages.request));
	if (step > 1)
		memcpy(t.messages.reply, s->reply, sizeof(t.messages.reply));
	return ripc__auth_mac(a, id, RIPC__KEY_LANE, &t, sizeof(t), mac);
}

static void put_proof(const struct ripc__auth *a, uint8_t step, struct ripc__handshake *s,
		      uint8_t *part, const uint8_t *id, const uint8_t *nonce, uint8_t *buf)
{
	buf[RIPC__HELLO_AUTH] = 1;
	memcpy(buf + RIPC__HELLO_LEN, id, RIPC__KEY_ID);
	memcpy(buf + RIPC__HELLO_LEN + RIPC__KEY_ID, nonce, RIPC__NONCE);
	memcpy(part, buf, RIPC__HANDSHAKE_PART);
	/* The key was removed meanwhile: the other side will reject the code. */
	if (compute_mac(a, step, s, id, buf + RIPC__HANDSHAKE_PART))
		memset(buf + RIPC__HANDSHAKE_PART, 0, RIPC__MAC);
}

static bool check_proof(const struct ripc__auth *a, uint8_t step, struct ripc__handshake *s,
			uint8_t *part, const uint8_t *buf, size_t len)
{
	uint8_t mac[RIPC__MAC];

	if (len < RIPC__HANDSHAKE_LEN || buf[RIPC__HELLO_AUTH] != 1)
		return false;
	memcpy(part, buf, RIPC__HANDSHAKE_PART);
	return !compute_mac(a, step, s, buf + RIPC__HELLO_LEN, mac) &&
	       ripc__mac_equal(mac, buf + RIPC__HANDSHAKE_PART);
}

void ripc__handshake_request(const struct ripc__auth *a, struct ripc__handshake *s,
			     const uint8_t nonce[RIPC__NONCE], uint8_t *buf)
{
	put_proof(a, 1, s, s->request, ripc__auth_key_id(a), nonce, buf);
}

bool ripc__handshake_check_request(const struct ripc__auth *a, struct ripc__handshake *s,
				   const uint8_t *buf, size_t len)
{
	return check_proof(a, 1, s, s->request, buf, len);
}

/*
 * Use the key of the request: during a rotation the other side may not have the first key of this
 * context yet.
 */
void ripc__handshake_reply(const struct ripc__auth *a, struct ripc__handshake *s,
			   const uint8_t nonce[RIPC__NONCE], uint8_t *buf)
{
	put_proof(a, 2, s, s->reply, s->request + RIPC__HELLO_LEN, nonce, buf);
}

bool ripc__handshake_check_reply(const struct ripc__auth *a, struct ripc__handshake *s,
				 const uint8_t *buf, size_t len)
{
	return check_proof(a, 2, s, s->reply, buf, len);
}

bool ripc__handshake_confirm(const struct ripc__auth *a, const struct ripc__handshake *s,
			     uint8_t buf[RIPC__CONFIRM_LEN])
{
	ripc__put_le32(buf, CONFIRM_MAGIC);
	ripc__put_le32(buf + 4, 1);
	return !compute_mac(a, 3, s, s->request + RIPC__HELLO_LEN, buf + 8);
}

bool ripc__handshake_check_confirm(const struct ripc__auth *a, const struct ripc__handshake *s,
				   const uint8_t *buf, size_t len)
{
	uint8_t mac[RIPC__MAC];

	return len == RIPC__CONFIRM_LEN && ripc__get_le32(buf) == CONFIRM_MAGIC &&
	       ripc__get_le32(buf + 4) == 1 &&
	       !compute_mac(a, 3, s, s->request + RIPC__HELLO_LEN, mac) &&
	       ripc__mac_equal(mac, buf + 8);
}
