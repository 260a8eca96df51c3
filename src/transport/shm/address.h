/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The address of shm in resolver records: a host, and a socket there. Format: doc/protocol.md
 * section 4. Pure.
 */
#ifndef RIPC_SHM_ADDRESS_H
#define RIPC_SHM_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#define RIPC__SHM_PATH_MAX 108 /* sizeof(sun_path) */

struct ripc__shm_address {
	/* boot id of the running kernel, the same in all its containers; or zeros */
	uint8_t host[16];
	uint64_t netns;                /* network namespace of the abstract socket; 0: not known */
	uint8_t name[16];              /* the abstract socket is "ripc/" and this in hexadecimal */
	char path[RIPC__SHM_PATH_MAX]; /* of the same socket in a directory; "": none */
};

/* Return: bytes written at buf (cap >= 256). */
size_t ripc__shm_address_encode(const struct ripc__shm_address *a, uint8_t *buf, size_t cap);
/* Any bytes. Return: 0 or -EINVAL. */
int ripc__shm_address_decode(struct ripc__shm_address *a, const uint8_t *buf, size_t len);
/* "ripc/" and the name in hexadecimal; text has at least 38 bytes. */
void ripc__shm_address_name(const struct ripc__shm_address *a, char *text);

#endif
