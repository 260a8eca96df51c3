/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "auth/shake.h"

#include "wire/bytes.h"

#define CONFIRM_MAGIC 0x4b504952u /* "RIPK" */

/* The step stands in front of what a code is made over, so that none can be taken for another's. */
struct __attribute__((packed)) transcript {
	uint8_t step;
	struct ripc__shake said;
};

static int code(const struct ripc__auth *a, uint8_t step, const struct ripc__shake *s,
		const uint8_t *id, uint8_t mac[RIPC__MAC])
{
	struct transcript t = {.step = step};

	memcpy(t.said.asked, s->asked, sizeof(t.said.asked));
	if (step > 1)
		memcpy(t.said.answered, s->answered, sizeof(t.said.answered));
	return ripc__auth_mac(a, id, RIPC__FOR_LANE, &t, sizeof(t), NULL, 0, mac);
}

static void prove(const struct ripc__auth *a, uint8_t step, struct ripc__shake *s, uint8_t *part,
		  const uint8_t *id, const uint8_t *nonce, uint8_t *buf)
{
	buf[RIPC__HELLO_AUTH] = 1;
	memcpy(buf + RIPC__HELLO_LEN, id, RIPC__KEY_ID);
	memcpy(buf + RIPC__HELLO_LEN + RIPC__KEY_ID, nonce, RIPC__NONCE);
	memcpy(part, buf, RIPC__SHAKE_PART);
	/* Without the key, which was taken away meanwhile, the other side will not believe it. */
	if (code(a, step, s, id, buf + RIPC__SHAKE_PART))
		memset(buf + RIPC__SHAKE_PART, 0, RIPC__MAC);
}

static bool proved(const struct ripc__auth *a, uint8_t step, struct ripc__shake *s, uint8_t *part,
		   const uint8_t *buf, size_t len)
{
	uint8_t mac[RIPC__MAC];

	if (len < RIPC__SHAKE_LEN || buf[RIPC__HELLO_AUTH] != 1)
		return false;
	memcpy(part, buf, RIPC__SHAKE_PART);
	return !code(a, step, s, buf + RIPC__HELLO_LEN, mac) &&
	       ripc__mac_equal(mac, buf + RIPC__SHAKE_PART);
}

void ripc__shake_ask(const struct ripc__auth *a, struct ripc__shake *s,
		     const uint8_t nonce[RIPC__NONCE], uint8_t *buf)
{
	prove(a, 1, s, s->asked, ripc__auth_id(a), nonce, buf);
}

bool ripc__shake_asked(const struct ripc__auth *a, struct ripc__shake *s, const uint8_t *buf,
		       size_t len)
{
	return proved(a, 1, s, s->asked, buf, len);
}

/* With the key that was asked with: during a rotation the asker may not have our first one yet. */
void ripc__shake_answer(const struct ripc__auth *a, struct ripc__shake *s,
			const uint8_t nonce[RIPC__NONCE], uint8_t *buf)
{
	prove(a, 2, s, s->answered, s->asked + RIPC__HELLO_LEN, nonce, buf);
}

bool ripc__shake_answered(const struct ripc__auth *a, struct ripc__shake *s, const uint8_t *buf,
			  size_t len)
{
	return proved(a, 2, s, s->answered, buf, len);
}

bool ripc__shake_confirm(const struct ripc__auth *a, const struct ripc__shake *s,
			 uint8_t buf[RIPC__CONFIRM_LEN])
{
	ripc__put_le32(buf, CONFIRM_MAGIC);
	ripc__put_le32(buf + 4, 1);
	return !code(a, 3, s, s->asked + RIPC__HELLO_LEN, buf + 8);
}

bool ripc__shake_confirmed(const struct ripc__auth *a, const struct ripc__shake *s,
			   const uint8_t *buf, size_t len)
{
	uint8_t mac[RIPC__MAC];

	return len == RIPC__CONFIRM_LEN && ripc__get_le32(buf) == CONFIRM_MAGIC &&
	       ripc__get_le32(buf + 4) == 1 && !code(a, 3, s, s->asked + RIPC__HELLO_LEN, mac) &&
	       ripc__mac_equal(mac, buf + 8);
}
