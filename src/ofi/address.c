/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ofi/address.h"
#include "ofi/wire.h"
#include "ripc.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC "ripc\1\0\0" /* with the version of addresses */
/* Of the 8 bytes before the service; the last one is 1 if the service is preferred. */
#define MAGIC_LEN 7

void ofi_address_put(uint8_t address[OFI_ADDRESS_LEN], uint64_t service)
{
	memcpy(address, MAGIC, 8);
	ofi_put64(address + 8, service);
}

bool ofi_address_get(const void *address, uint64_t *service)
{
	if (memcmp(address, MAGIC, MAGIC_LEN) != 0)
		return false;
	*service = ofi_get64((const uint8_t *)address + 8);
	return true;
}

void ofi_address_prefer(uint8_t address[OFI_ADDRESS_LEN])
{
	address[MAGIC_LEN] = 1;
}

bool ofi_address_is_preferred(const void *address)
{
	return ((const uint8_t *)address)[MAGIC_LEN];
}

bool ofi_address_service(const char *text, uint64_t *service)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*service = strtoull(text, &end, 0);
	return !errno && !*end && *service && *service < RIPC_ID_LIMIT;
}

/* A socket can be bound to the addresses of this host only. */
static bool may_bind(const struct addrinfo *a)
{
	int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool bound;

	if (fd < 0)
		return false;
	bound = !bind(fd, a->ai_addr, a->ai_addrlen);
	close(fd);
	return bound;
}

bool ofi_address_is_local(const char *node, bool numeric)
{
	struct addrinfo want = {
		.ai_socktype = SOCK_DGRAM,
		.ai_flags = numeric ? AI_NUMERICHOST : 0,
	};
	struct addrinfo *found, *a;
	bool local = false;

	if (getaddrinfo(node, NULL, &want, &found))
		return false;
	for (a = found; a && !local; a = a->ai_next)
		local = may_bind(a);
	freeaddrinfo(found);
	return local;
}
