/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "wire/record.h"

#include "ripc.h"
#include "wire/bytes.h"

#include <errno.h>
#include <stdbool.h>

#define MSG_MAGIC   0x52504952u /* "RIPR" */
#define MSG_VERSION 1

enum { MSG_HEADER = 24, RECORD_FIXED = 57, ADDR_FIXED = 3 };

#define NAMED 0x80 /* in the number of addresses: a name follows them */

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
	len += record->name_len ? 1u + record->name_len : 0;
	if (len > cap)
		return -EMSGSIZE;
	ripc__put_le64(buf, record->service);
	memcpy(buf + 8, record->instance, 16);
	memcpy(buf + 24, record->host, 16);
	ripc__put_le64(buf + 40, record->generation);
	ripc__put_le32(buf + 48, record->ttl_ms);
	ripc__put_le32(buf + 52, record->since_ms);
	buf[56] = (uint8_t)(record->naddrs | (record->name_len ? NAMED : 0));
	p = buf + RECORD_FIXED;
	for (unsigned i = 0; i < record->naddrs; i++) {
		const struct ripc__record_addr *a = &record->addrs[i];

		p[0] = a->transport;
		ripc__put_le16(p + 1, a->len);
		memcpy(p + ADDR_FIXED, a->addr, a->len);
		p += ADDR_FIXED + a->len;
	}
	if (record->name_len) {
		*p = record->name_len;
		memcpy(p + 1, record->name, record->name_len);
	}
	return (int)len;
}

/* Decodes the record that @buf begins with; *rest: the bytes behind it. */
static int decode_record(struct ripc__record *record, const uint8_t *buf, size_t len,
			 const uint8_t **rest, const char **why)
{
	const uint8_t *p = buf + RECORD_FIXED, *end = buf + len;

	if (len < RECORD_FIXED)
		return ripc__malformed(why, "record cut short");
	memset(record, 0, sizeof(*record));
	record->service = ripc__get_le64(buf);
	memcpy(record->instance, buf + 8, 16);
	memcpy(record->host, buf + 24, 16);
	record->generation = ripc__get_le64(buf + 40);
	record->ttl_ms = ripc__get_le32(buf + 48);
	record->since_ms = ripc__get_le32(buf + 52);
	record->naddrs = buf[56] & ~NAMED;
	if (record->service == RIPC_ANY_ID)
		return ripc__malformed(why, "record with an invalid service id");
	if (is_zero(record->instance, 16))
		return ripc__malformed(why, "record without an instance id");
	if (record->naddrs > RIPC__RECORD_ADDRS_MAX)
		return ripc__malformed(why, "record with too many addresses");
	for (unsigned i = 0; i < record->naddrs; i++) {
		struct ripc__record_addr *a = &record->addrs[i];

		if (end - p < ADDR_FIXED)
			return ripc__malformed(why, "address cut short");
		a->transport = p[0];
		a->len = ripc__get_le16(p + 1);
		p += ADDR_FIXED;
		if (a->len > RIPC__ADDRESS_MAX)
			return ripc__malformed(why, "address too long");
		if (end - p < a->len)
			return ripc__malformed(why, "address cut short");
		for (unsigned k = 0; k < i; k++)
			if (record->addrs[k].transport == a->transport)
				return ripc__malformed(why, "two addresses of one transport");
		memcpy(a->addr, p, a->len);
		p += a->len;
	}
	if (buf[56] & NAMED) {
		if (p == end || !*p || end - p - 1 < *p)
			return ripc__malformed(why, "name cut short");
		record->name_len = *p++;
		if (ripc__name_fault((const char *)p, record->name_len))
			return ripc__malformed(why, "name that is not UTF-8");
		memcpy(record->name, p, record->name_len);
		p += record->name_len;
	}
	*rest = p;
	return 0;
}

int ripc__record_decode(struct ripc__record *record, const uint8_t *buf, size_t len,
			const char **why)
{
	const uint8_t *rest;
	int rc = decode_record(record, buf, len, &rest, why);

	return rc || rest == buf + len ? rc
				       : ripc__malformed(why, "bytes left over behind the record");
}

int ripc__listed_encode(const struct ripc__record *record, uint8_t *buf, size_t cap)
{
	size_t len = RIPC__LISTED_FIXED + record->name_len;

	if (len > cap)
		return -EMSGSIZE;
	ripc__put_le64(buf, record->service);
	ripc__put_le64(buf + 8, record->generation);
	ripc__put_le32(buf + 16, record->since_ms);
	buf[20] = record->name_len;
	memcpy(buf + RIPC__LISTED_FIXED, record->name, record->name_len);
	return (int)len;
}

int ripc__listed_decode(struct ripc__record *to, const uint8_t *buf, size_t len, const char **why)
{
	if (len < RIPC__LISTED_FIXED || len - RIPC__LISTED_FIXED < buf[20])
		return ripc__malformed(why, "listed service cut short");
	to->service = ripc__get_le64(buf);
	to->generation = ripc__get_le64(buf + 8);
	to->since_ms = ripc__get_le32(buf + 16);
	to->name_len = buf[20];
	if (!to->service || to->service == RIPC_ANY_ID)
		return ripc__malformed(why, "listed service with an invalid id");
	if (to->name_len && ripc__name_fault((const char *)buf + RIPC__LISTED_FIXED, to->name_len))
		return ripc__malformed(why, "name that is not UTF-8");
	memset(to->name, 0, sizeof(to->name));
	memcpy(to->name, buf + RIPC__LISTED_FIXED, to->name_len);
	return RIPC__LISTED_FIXED + to->name_len;
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
	if (len < 0)
		return len;
	len += MSG_HEADER;
	if (msg->kind != RIPC__RESOLVE_LISTED || !msg->listed_len)
		return len;
	if (msg->listed_len > cap - (size_t)len)
		return -EMSGSIZE;
	memcpy(buf + len, msg->listed, msg->listed_len);
	return len + (int)msg->listed_len;
}

/* Checks the services of a LISTED: their ids rise from the one asked for. */
static int check_listed(const struct ripc__resolver_msg *msg, const char **why)
{
	struct ripc__record listed;
	uint64_t least = msg->service;

	for (size_t at = 0; at < msg->listed_len;) {
		int n = ripc__listed_decode(&listed, msg->listed + at, msg->listed_len - at, why);

		if (n < 0)
			return n;
		if (listed.service < least)
			return ripc__malformed(why, "listed services out of order");
		least = listed.service + 1;
		at += (size_t)n;
	}
	if (!msg->listed_len && msg->flags)
		return ripc__malformed(why, "empty page that announces more services");
	return 0;
}

/* Checks the fields that depend on the kind. */
static int check_kind(const struct ripc__resolver_msg *msg, const char **why)
{
	bool same = msg->record.service == msg->service;

	if (msg->flags & ~(msg->kind == RIPC__RESOLVE_REPLY    ? RIPC__RESOLVE_VERDICT
			   : msg->kind == RIPC__RESOLVE_LISTED ? RIPC__RESOLVE_MORE
							       : 0))
		return ripc__malformed(why, "unknown flags");
	if (!msg->service || msg->service == RIPC_ANY_ID)
		return ripc__malformed(why, "message with an invalid service id");
	switch (msg->kind) {
	case RIPC__RESOLVE_REQUEST:
		return msg->nonce ? 0 : ripc__malformed(why, "request without a nonce");
	case RIPC__RESOLVE_PROBE:
		if (!msg->nonce)
			return ripc__malformed(why, "probe without a nonce");
		return same ? 0 : ripc__malformed(why, "probe with the record of another service");
	case RIPC__RESOLVE_REPLY:
		return same ? 0 : ripc__malformed(why, "reply with the record of another service");
	case RIPC__RESOLVE_GONE:
		return same ? 0 : ripc__malformed(why, "GONE with the record of another service");
	case RIPC__RESOLVE_LIST:
	case RIPC__RESOLVE_LISTED:
		if (!msg->nonce)
			return ripc__malformed(why, "list without a nonce");
		if (msg->record.service || msg->record.name_len)
			return ripc__malformed(why, "list with the record of a service");
		return check_listed(msg, why);
	}
	return ripc__malformed(why, "unknown kind of message");
}

int ripc__resolver_msg_decode(struct ripc__resolver_msg *msg, const uint8_t *buf, size_t len,
			      const char **why)
{
	const uint8_t *rest;
	int rc;

	if (len < MSG_HEADER)
		return ripc__malformed(why, "message cut short");
	if (len > RIPC__RESOLVER_MSG_MAX)
		return ripc__malformed(why, "message too long");
	if (ripc__get_le32(buf) != MSG_MAGIC)
		return ripc__malformed(why, "not a resolver message");
	if (buf[4] != MSG_VERSION) {
		*why = "resolver message of another version";
		return -EPROTONOSUPPORT;
	}
	if (buf[7])
		return ripc__malformed(why, "reserved bits are set");
	msg->kind = buf[5];
	msg->flags = buf[6];
	msg->service = ripc__get_le64(buf + 8);
	msg->nonce = ripc__get_le64(buf + 16);
	msg->listed = NULL;
	msg->listed_len = 0;
	rc = decode_record(&msg->record, buf + MSG_HEADER, len - MSG_HEADER, &rest, why);
	if (rc)
		return rc;
	if (msg->kind == RIPC__RESOLVE_LISTED) {
		msg->listed = rest;
		msg->listed_len = (size_t)(buf + len - rest);
	} else if (rest != buf + len) {
		return ripc__malformed(why, "bytes left over behind the record");
	}
	return check_kind(msg, why);
}
