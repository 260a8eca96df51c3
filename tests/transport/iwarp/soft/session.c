/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A session of iwarp/soft to be captured: two transports in one process, over the loopback, with
 * CRCs. Prints "PORT", waits for a line on standard input, then connects, sends, writes and reads,
 * and prints "done".
 */
#include "base/clock.h"
#include "transport/iwarp/address.h"
#include "transport/transport.h"
#include "transport/transfer.h"

#include <stdio.h>
#include <string.h>

#define BYTES      20000u
#define TIMEOUT_NS (UINT64_C(20) * 1000 * RIPC__MS)

static const struct ripc__transport_ops *const ops = &ripc__transport_soft;
static struct ripc__transport *ends[2];
static struct ripc__ep *eps[2];
static unsigned established, received, written, read_back;

static void step(unsigned which)
{
	struct ripc__event events[16];
	uint64_t deadline = RIPC__NEVER;
	unsigned n = ops->progress(ends[which], events, 16, ripc__clock_ns(), &deadline);

	for (unsigned i = 0; i < n; i++) {
		const struct ripc__event *e = &events[i];

		if (e->kind == RIPC__EV_REQUEST)
			ops->accept(ends[which], e->request, "welcome", 7, NULL, &eps[which]);
		else if (e->kind == RIPC__EV_RECV)
			ops->release(ends[which], e->token);
		established += e->kind == RIPC__EV_ESTABLISHED;
		received += e->kind == RIPC__EV_RECV;
		written += e->kind == RIPC__EV_WRITE_DONE;
		read_back += e->kind == RIPC__EV_READ_DONE;
	}
}

static int until(const unsigned *count, unsigned value)
{
	uint64_t end_ns = ripc__clock_ns() + TIMEOUT_NS;

	while (*count < value) {
		step(0);
		step(1);
		if (ripc__clock_ns() > end_ns)
			return -1;
	}
	return 0;
}

static int session(void)
{
	static uint8_t source[BYTES], target[BYTES];
	static const size_t sizes[] = {1, 64, 4096, 16384};
	uint8_t addr[RIPC__ADDRESS_MAX];
	size_t len = (size_t)ops->address(ends[1], addr, sizeof(addr));
	struct ripc__mr from, to;

	memset(source, 0x5a, sizeof(source));
	if (ops->connect(ends[0], addr, len, "hello", 5, NULL, &eps[0]) || until(&established, 2))
		return -1;
	for (unsigned i = 0; i < 4; i++) {
		struct iovec iov = {source, sizes[i]};

		if (ops->post(eps[i % 2], NULL, 0, &iov, 1, false) < 0 || until(&received, i + 1))
			return -1;
	}
	if (ops->reg(ends[0], NULL, source, BYTES, RIPC__ACCESS_LOCAL_WRITE, &from) ||
	    ops->reg(ends[1], NULL, target, BYTES,
		     RIPC__ACCESS_REMOTE_WRITE | RIPC__ACCESS_REMOTE_READ, &to))
		return -1;
	if (test_write(ops, eps[0], &from, source, BYTES, to.addr, to.key, 1) || until(&written, 1))
		return -1;
	if (test_read(ops, eps[0], &from, source, BYTES, to.addr, to.key, 2))
		return -1;
	if (until(&read_back, 1))
		return -1;
	return source[BYTES - 1] == 0x5a ? 0 : -1;
}

int main(void)
{
	struct ripc__options opt;
	struct ripc__transport_env env = {.opt = &opt};
	struct ripc__iwarp_address address;
	uint8_t addr[RIPC__ADDRESS_MAX];
	char why[256], udp_conn[16];

	if (ripc__options_load(&opt, "interfaces=lo crc=on", why, sizeof(why)) ||
	    ops->open(&ends[0], &env) || ops->open(&ends[1], &env) ||
	    ripc__iwarp_address_decode(&address, addr,
				       (size_t)ops->address(ends[1], addr, sizeof(addr))))
		return 1;
	printf("%u\n", address.addrs[0].tcp);
	fflush(stdout);
	if (!fgets(udp_conn, sizeof(udp_conn), stdin) || session())
		return 1;
	ops->ep_close(eps[0]);
	for (unsigned i = 0; i < 1000; i++) {
		step(0);
		step(1);
	}
	printf("done\n");
	ops->close(ends[0]);
	ops->close(ends[1]);
	return 0;
}
