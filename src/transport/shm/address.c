/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/shm/address.h"
#include "wire/bytes.h"

#include <errno.h>
#include <stdio.h>

#define VERSION 1
#define FIXED   44 /* bytes before the path */

size_t ripc__shm_address_encode(const struct ripc__shm_address *a, uint8_t *buf, size_t cap)
{
	size_t len = strlen(a->path);

	if (cap < FIXED + len)
		return 0;
	ripc__put_le16(buf, VERSION);
	ripc__put_le16(buf + 2, (uint16_t)len);
	memcpy(buf + 4, a->host, 16);
	ripc__put_le64(buf + 20, a->netns);
	memcpy(buf + 28, a->name, 16);
	memcpy(buf + FIXED, a->path, len);
	return FIXED + len;
}

int ripc__shm_address_decode(struct ripc__shm_address *a, const uint8_t *buf, size_t len)
{
	size_t path;

	if (len < FIXED || ripc__get_le16(buf) != VERSION)
		return -EINVAL;
	path = ripc__get_le16(buf + 2);
	if (path != len - FIXED || path >= sizeof(a->path) || memchr(buf + FIXED, 0, path))
		return -EINVAL;
	/* A path from the network leads to a socket of an absolute name, or nowhere. */
	if (path && buf[FIXED] != '/')
		return -EINVAL;
	memset(a, 0, sizeof(*a));
	memcpy(a->host, buf + 4, 16);
	a->netns = ripc__get_le64(buf + 20);
	memcpy(a->name, buf + 28, 16);
	memcpy(a->path, buf + FIXED, path);
	return 0;
}

void ripc__shm_address_name(const struct ripc__shm_address *a, char *text)
{
	text += sprintf(text, "ripc/");
	for (unsigned i = 0; i < 16; i++)
		text += sprintf(text, "%02x", a->name[i]);
}
