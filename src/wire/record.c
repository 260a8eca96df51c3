/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "wire/record.h"

#include "ripc.h"
#include "wire/bytes.h"

#include <errno.h>
#include <stdbool.h>

#define MSG_MAGIC   0x52504952u /* "RIPR" */
#define MSG_VERSION 1

enum { MSG_HEADER = 24, RECORD_FIXED = 57, ADDR_FIXED = 3 };

static bool is_zero(const uint8_t *p, size_t len)
{
	while (len--)
		if (*p++)
			return false;
	return true;
}

int ripc__record_encode(const struct ripc__record *record, uint8_t *buf, size_t cap)
{
	size_t len = RECORD_FIXED;
	uint8_t *p;

	if (record->naddrs > RIPC__RECORD_ADDRS_MAX)
		return -EMSGSIZE;
	for (unsigned i = 0; i < record->naddrs; i++) {
		if (record->addrs[i].len > RIPC__ADDRESS_MAX)
			return -EMSGSIZE;
		len += ADDR_FIXED + record->addrs[i].len;
	}
	if (len > cap)
		return -EMSGSIZE;
	ripc__put_le64(buf, record->service);
	memcpy(buf + 8, record->instance, 16);
	memcpy(buf + 24, record->host, 16);
	ripc__put_le64(buf + 40, record->generation);
	ripc__put_le32(buf + 48, record->ttl_ms);
	ripc__put_le32(buf + 52, record->since_ms);
	buf[56] = (uint8_t)record->naddrs;
	p = buf + RECORD_FIXED;
	for (unsigned i = 0; i < record->naddrs; i++) {
		const struct ripc__record_addr *a = &record->addrs[i];

		p[0] = a->transport;
		ripc__put_le16(p + 1, a->len);
		memcpy(p + ADDR_FIXED, a->addr, a->len);
		p += ADDR_FIXED + a->len;
	}
	return (int)len;
}

static int malformed(const char **why, const char *text)
{
	*why = text;
	return -EPROTO;
}

int ripc__record_decode(struct ripc__record *r, const uint8_t *buf, size_t len, const char **why)
{
	const uint8_t *p = buf + RECORD_FIXED, *end = buf + len;

	if (len < RECORD_FIXED)
		return malformed(why, "r cut short");
	memset(r, 0, sizeof(*r));
	r->service = ripc__get_le64(buf);
	memcpy(r->instance, buf + 8, 16);
	memcpy(r->host, buf + 24, 16);
	r->generation = ripc__get_le64(buf + 40);
	r->ttl_ms = ripc__get_le32(buf + 48);
	r->since_ms = ripc__get_le32(buf + 52);
	r->naddrs = buf[56];
	if (r->service == RIPC_ANY_ID)
		return malformed(why, "r of no possible service");
	if (is_zero(r->instance, 16))
		return malformed(why, "r without an instance id");
	if (r->naddrs > RIPC__RECORD_ADDRS_MAX)
		return malformed(why, "r with too many addresses");
	for (unsigned i = 0; i < r->naddrs; i++) {
		struct ripc__record_addr *a = &r->addrs[i];

		if (end - p < ADDR_FIXED)
			return malformed(why, "address cut short");
		a->transport = p[0];
		a->len = ripc__get_le16(p + 1);
		p += ADDR_FIXED;
		if (a->len > RIPC__ADDRESS_MAX)
			return malformed(why, "address too long");
		if (end - p < a->len)
			return malformed(why, "address cut short");
		for (unsigned k = 0; k < i; k++)
			if (r->addrs[k].transport == a->transport)
				return malformed(why, "two addresses of one transport");
		memcpy(a->addr, p, a->len);
		p += a->len;
	}
	if (p != end)
		return malformed(why, "bytes left over behind the r");
	return 0;
}

int ripc__resolver_msg_encode(const struct ripc__resolver_msg *msg, uint8_t *buf, size_t cap)
{
	int len;

	if (cap < MSG_HEADER)
		return -EMSGSIZE;
	ripc__put_le32(buf, MSG_MAGIC);
	buf[4] = MSG_VERSION;
	buf[5] = (uint8_t)msg->kind;
	buf[6] = msg->flags;
	buf[7] = 0;
	ripc__put_le64(buf + 8, msg->service);
	ripc__put_le64(buf + 16, msg->nonce);
	len = ripc__record_encode(&msg->record, buf + MSG_HEADER, cap - MSG_HEADER);
	return len < 0 ? len : len + MSG_HEADER;
}

/* Checks the fields that depend on the kind. */
static int check_kind(const struct ripc__resolver_msg *msg, const char **why)
{
	bool same = msg->record.service == msg->service;

	if (msg->flags & ~(msg->kind == RIPC__RESOLVE_REPLY ? RIPC__RESOLVE_VERDICT : 0))
		return malformed(why, "unknown flags");
	if (!msg->service || msg->service == RIPC_ANY_ID)
		return malformed(why, "message about no possible service");
	switch (msg->kind) {
	case RIPC__RESOLVE_REQUEST:
		return msg->nonce ? 0 : malformed(why, "request without a nonce");
	case RIPC__RESOLVE_PROBE:
		if (!msg->nonce)
			return malformed(why, "probe without a nonce");
		return same ? 0 : malformed(why, "probe with the record of another service");
	case RIPC__RESOLVE_REPLY:
		return same ? 0 : malformed(why, "reply with the record of another service");
	case RIPC__RESOLVE_GONE:
		return same ? 0 : malformed(why, "farewell with the record of another service");
	}
	return malformed(why, "unknown kind of message");
}

int ripc__resolver_msg_decode(struct ripc__resolver_msg *msg, const uint8_t *buf, size_t len,
			      const char **why)
{
	int rc;

	if (len < MSG_HEADER)
		return malformed(why, "message cut short");
	if (len > RIPC__RESOLVER_MSG_MAX)
		return malformed(why, "message too long");
	if (ripc__get_le32(buf) != MSG_MAGIC)
		return malformed(why, "not a resolver message");
	if (buf[4] != MSG_VERSION) {
		*why = "resolver message of another version";
		return -EPROTONOSUPPORT;
	}
	if (buf[7])
		return malformed(why, "reserved bits are set");
	msg->kind = buf[5];
	msg->flags = buf[6];
	msg->service = ripc__get_le64(buf + 8);
	msg->nonce = ripc__get_le64(buf + 16);
	rc = ripc__record_decode(&msg->record, buf + MSG_HEADER, len - MSG_HEADER, why);
	return rc ? rc : check_kind(msg, why);
}
