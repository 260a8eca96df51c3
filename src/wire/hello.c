/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "wire/hello.h"
#include "wire/bytes.h"
#include "wire/header.h"

#include <errno.h>

#define HELLO_MAGIC   0x43504952u /* "RIPC" */
#define HELLO_VERSION 3

void ripc__hello_encode(const struct ripc__hello *h, uint8_t buf[RIPC__HELLO_LEN])
{
	memset(buf, 0, RIPC__HELLO_LEN);
	ripc__put_le32(buf, HELLO_MAGIC);
	buf[4] = HELLO_VERSION;
	buf[5] = h->refusal;
	memcpy(buf + 8, h->instance, 16);
	memcpy(buf + 24, h->target, 16);
	ripc__put_le32(buf + 40, h->send_max);
	ripc__put_le32(buf + 44, h->recv_depth);
	ripc__put_le32(buf + 48, h->service_window);
	ripc__put_le32(buf + 52, h->caps);
	ripc__put_le64(buf + 56, h->epoch);
}

int ripc__hello_decode(struct ripc__hello *h, const uint8_t *buf, size_t len, const char **why)
{
	*why = "";
	/* Transports may pad private data; later versions may append to it. */
	if (len < RIPC__HELLO_LEN || ripc__get_le32(buf) != HELLO_MAGIC)
		return ripc__malformed(why, "not a libripc connection");
	if (buf[4] != HELLO_VERSION) {
		*why = "another version of the protocol";
		return -EPROTONOSUPPORT;
	}
	h->refusal = buf[5];
	memcpy(h->instance, buf + 8, 16);
	memcpy(h->target, buf + 24, 16);
	h->send_max = ripc__get_le32(buf + 40);
	h->recv_depth = ripc__get_le32(buf + 44);
	h->service_window = ripc__get_le32(buf + 48);
	h->caps = ripc__get_le32(buf + 52);
	h->epoch = ripc__get_le64(buf + 56);
	if (h->refusal >= RIPC__REFUSE_END)
		return ripc__malformed(why, "unknown reason of refusal");
	if (h->refusal == RIPC__REFUSE_NONE &&
	    (h->send_max < RIPC__MSG_MIN_MAX ||
	     (h->recv_depth && h->recv_depth < RIPC__RECV_DEPTH_MIN) || h->recv_depth > 65535 ||
	     h->service_window < 64))
		return ripc__malformed(why, "limits out of bounds");
	return 0;
}

const char *ripc__refusal_text(unsigned refusal)
{
	static const char *const texts[] = {
		"accepted",      "that instance is gone", "crossed connections",
		"it is closing", "it is out of memory",   "it has another version of the protocol"};

	return refusal < RIPC__REFUSE_END ? texts[refusal] : "unknown reason";
}
