/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/host.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static bool read_boot_id(uint8_t boot[16])
{
	char text[37];
	unsigned k = 0;
	ssize_t n;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text));
	close(fd);
	memset(boot, 0, 16);
	for (ssize_t i = 0; i < n && k < 32; i++) {
		int digit = ripc__hex_digit(text[i]);

		if (digit < 0)
			continue;
		boot[k / 2] = (uint8_t)(boot[k / 2] << 4 | digit);
		k++;
	}
	return k == 32;
}

int ripc__host_socket(void)
{
	/* A sandbox may refuse some. */
	static const int families[] = {AF_UNIX, AF_INET, AF_INET6};
	int fd = -1;

	for (unsigned i = 0; i < sizeof(families) / sizeof(families[0]) && fd < 0; i++)
		fd = socket(families[i], SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

static uint64_t read_netns(void)
{
	int fd = ripc__host_socket(), err;
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);
	struct stat st;

	if (fd < 0)
		return 0;
	err = getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) ? errno : 0;
	close(fd);
	if (err == ENOPROTOOPT && !stat("/proc/self/ns/net", &st))
		cookie = st.st_ino;
	return cookie;
}

void ripc__host_get(struct ripc__host *host)
{
	host->known = read_boot_id(host->boot);
	if (!host->known)
		memset(host->boot, 0, sizeof(host->boot));
	host->netns = read_netns();
}

bool ripc__host_no_overcommit(void)
{
	int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
	char mode = '0';

	if (fd < 0)
		return false;
	if (read(fd, &mode, 1) != 1)
		mode = '0';
	close(fd);
	return mode == '2';
}

static bool known(const uint8_t boot[16])
{
	static const uint8_t none[16];

	return memcmp(boot, none, sizeof(none)) != 0;
}

bool ripc__host_same(const uint8_t a[16], const uint8_t b[16])
{
	return known(a) && !memcmp(a, b, 16);
}

bool ripc__host_differs(const uint8_t a[16], const uint8_t b[16])
{
	return known(a) && known(b) && memcmp(a, b, 16);
}
