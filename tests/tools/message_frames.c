/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * message_frames: writes a capture with messages of every kind to standard output, as the encoder
 * of the library makes them. Each message is a Send of RoCE on a lane, a datagram one over UD.
 */
#include "../wire/headers.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define LINKTYPE_IPV4 228
#define ROCE_PORT     4791
#define PER_KIND      8
#define IP_LEN        20
#define UDP_LEN       8

enum opcode { RC_SEND_ONLY = 0x04, UD_SEND_ONLY_IMM = 0x65 };

static uint32_t number;

static void put_be16(uint8_t *p, size_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void write_frame(const uint8_t *frame, size_t len)
{
	const uint32_t head[] = {number, 0, (uint32_t)len, (uint32_t)len};

	fwrite(head, sizeof(head), 1, stdout);
	fwrite(frame, len, 1, stdout);
}

static void write_message(const struct made *m)
{
	const bool datagram = m->flags & RIPC__F_INSTANCE;
	const size_t pad = -m->len % 4;
	uint8_t frame[BUF_MAX + 256] = {0}, *bth = frame + IP_LEN + UDP_LEN, *p = bth + 12;

	number++;
	bth[0] = datagram ? UD_SEND_ONLY_IMM : RC_SEND_ONLY;
	bth[1] = (uint8_t)(0x40 | pad << 4);
	put_be16(bth + 2, 0xffff);
	bth[7] = 0x11;
	put_be16(bth + 10, number);
	/* Of a datagram: its queue key, queue pair and immediate data. */
	if (datagram)
		p += 12;
	memcpy(p, m->buf, m->len);
	p += m->len + pad + 4;
	frame[0] = 0x45;
	put_be16(frame + 2, (size_t)(p - frame));
	frame[8] = 64;
	frame[9] = 17;
	frame[12] = frame[16] = 10;
	frame[15] = 1;
	frame[19] = 2;
	put_be16(frame + IP_LEN, 49152);
	put_be16(frame + IP_LEN + 2, ROCE_PORT);
	put_be16(frame + IP_LEN + 4, (size_t)(p - frame - IP_LEN));
	write_frame(frame, (size_t)(p - frame));
}

int main(void)
{
	const uint32_t head[] = {0xa1b2c3d4, 0x00040002, 0, 0, 65535, LINKTYPE_IPV4};
	static struct made m;

	rng = 20000;
	fwrite(head, sizeof(head), 1, stdout);
	for (unsigned k = 0; k < KINDS; k++) {
		for (unsigned i = 0; i < PER_KIND; i++) {
			make(&m, k, 1 + i % 3, i / 2, i % 4 == 3);
			write_message(&m);
		}
	}
	return fclose(stdout) ? 1 : 0;
}
