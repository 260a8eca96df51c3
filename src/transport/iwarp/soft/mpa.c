/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/iwarp/soft/mpa.h"
#include "wire/bytes.h"

#include <errno.h>
#include <string.h>

#define KEY_LEN     16
#define FLAG_M      0x80
#define FLAG_C      0x40
#define FLAG_R      0x20
#define FLAG_S      0x10
#define DEPTH_MASK  0x3fff
#define FLAG_A      0x8000 /* in the word of IRD */
#define FLAG_B      0x4000
#define FLAG_C_RTR  0x8000 /* in the word of ORD */
#define FLAG_D      0x4000
#define BASIC_DEPTH 1 /* reads that a revision 1 peer serves */

static const char key_request[KEY_LEN + 1] = "MPA ID Req Frame";
static const char key_reply[KEY_LEN + 1] = "MPA ID Rep Frame";
/*
 * Appended to the private data: marker and version of this stack. Other stacks pass it on as
 * private data.
 */
static const uint8_t soft_mark[8] = {'R', 'I', 'P', 'C', 'S', 'O', 'F', 1};

size_t ripc__mpa_encode(const struct ripc__mpa *frame, uint8_t buf[RIPC__MPA_FRAME_MAX])
{
	uint8_t *p = buf + RIPC__MPA_HEADER;
	uint8_t flags = 0;

	memcpy(buf, frame->reply ? key_reply : key_request, KEY_LEN);
	flags |= frame->markers ? FLAG_M : 0;
	flags |= frame->crc ? FLAG_C : 0;
	flags |= frame->reject ? FLAG_R : 0;
	if (frame->enhanced) {
		uint16_t ird = frame->ird & DEPTH_MASK, ord = frame->ord & DEPTH_MASK;

		flags |= FLAG_S;
		ird |= frame->peer_to_peer ? FLAG_A : 0;
		ird |= frame->rtr & RIPC__MPA_RTR_SEND ? FLAG_B : 0;
		ord |= frame->rtr & RIPC__MPA_RTR_WRITE ? FLAG_C_RTR : 0;
		ord |= frame->rtr & RIPC__MPA_RTR_READ ? FLAG_D : 0;
		ripc__put_be16(p, ird);
		ripc__put_be16(p + 2, ord);
		p += 4;
	}
	if (frame->privlen)
		memcpy(p, frame->priv, frame->privlen);
	p += frame->privlen;
	if (frame->soft) {
		memcpy(p, soft_mark, sizeof(soft_mark));
		p += sizeof(soft_mark);
	}
	buf[16] = flags;
	buf[17] = frame->revision;
	ripc__put_be16(buf + 18, (uint16_t)(p - buf - RIPC__MPA_HEADER));
	return (size_t)(p - buf);
}

static int error(const char **why, const char *text)
{
	*why = text;
	return -EPROTO;
}

int ripc__mpa_decode(struct ripc__mpa *frame, bool reply, const uint8_t *buf, size_t len,
		     const char **why)
{
	size_t left;
	uint16_t ird, ord;

	memset(frame, 0, sizeof(*frame));
	if (memcmp(buf, reply ? key_reply : key_request, MIN(len, KEY_LEN)))
		return error(why, "not an MPA set-up frame");
	if (len < RIPC__MPA_HEADER)
		return 0;
	frame->reply = reply;
	frame->markers = buf[16] & FLAG_M;
	frame->crc = buf[16] & FLAG_C;
	frame->reject = buf[16] & FLAG_R;
	frame->revision = buf[17];
	left = ripc__get_be16(buf + 18);
	if (frame->revision < 1 || frame->revision > 2)
		return error(why, "MPA revision is neither 1 nor 2");
	if (frame->reject && !reply)
		return error(why, "MPA request with the reject flag");
	if (left > RIPC__MPA_PRIVATE_MAX)
		return error(why, "MPA private data longer than 512 bytes");
	if (len < RIPC__MPA_HEADER + left)
		return 0;
	frame->priv = buf + RIPC__MPA_HEADER;
	frame->ird = frame->ord = RIPC__MPA_DEPTH_NONE;
	frame->enhanced = frame->revision == 2 && (buf[16] & FLAG_S);
	if (frame->enhanced && left < 4) {
		/* Some stacks reject a request without the depths. */
		if (!frame->reject)
			return error(why, "enhanced MPA frame without IRD and ORD");
		frame->enhanced = false;
	}
	if (frame->enhanced) {
		ird = ripc__get_be16(frame->priv);
		ord = ripc__get_be16(frame->priv + 2);
		frame->ird = ird & DEPTH_MASK;
		frame->ord = ord & DEPTH_MASK;
		frame->peer_to_peer = ird & FLAG_A;
		frame->rtr |= ird & FLAG_B ? RIPC__MPA_RTR_SEND : 0;
		frame->rtr |= ord & FLAG_C_RTR ? RIPC__MPA_RTR_WRITE : 0;
		frame->rtr |= ord & FLAG_D ? RIPC__MPA_RTR_READ : 0;
		frame->priv += 4;
		left -= 4;
	}
	frame->privlen = left;
	if (left >= sizeof(soft_mark) &&
	    !memcmp(frame->priv + left - sizeof(soft_mark), soft_mark, sizeof(soft_mark))) {
		frame->soft = true;
		frame->privlen -= sizeof(soft_mark);
	}
	return (int)(frame->priv + left - buf);
}

/* Chooses one kind of rtr_types: a write uses no receive buffer of the peer, a send does. */
static unsigned pick_rtr(unsigned rtr_types)
{
	if (rtr_types & RIPC__MPA_RTR_WRITE)
		return RIPC__MPA_RTR_WRITE;
	return rtr_types & RIPC__MPA_RTR_READ ? RIPC__MPA_RTR_READ : rtr_types & RIPC__MPA_RTR_SEND;
}

static int refuse(struct ripc__mpa *reply, const char *text, const char **why)
{
	reply->reject = true;
	reply->soft = false;
	reply->priv = (const uint8_t *)text;
	reply->privlen = strlen(text);
	return error(why, text);
}

int ripc__mpa_answer(const struct ripc__mpa *request, bool want_crc, uint32_t depth,
		     struct ripc__mpa *reply, struct ripc__mpa_terms *terms, const char **why)
{
	memset(reply, 0, sizeof(*reply));
	memset(terms, 0, sizeof(*terms));
	reply->reply = true;
	reply->revision = request->revision;
	reply->enhanced = request->enhanced;
	reply->soft = request->soft;
	reply->crc = want_crc || request->crc;
	terms->crc = reply->crc;
	terms->soft = request->soft;
	terms->serve_depth = depth;
	terms->read_depth = MIN(depth, BASIC_DEPTH);
	if (request->enhanced) {
		/* Our ORD is limited by the IRD of the active side; our IRD answers its ORD. */
		terms->read_depth = MIN(depth, request->ird);
		reply->ord = (uint16_t)terms->read_depth;
		reply->ird = (uint16_t)MIN(depth, request->ord);
		reply->peer_to_peer = request->peer_to_peer;
		if (request->peer_to_peer)
			reply->rtr = pick_rtr(request->rtr);
	}
	if (request->markers)
		return refuse(reply, "this end does not send markers", why);
	if (request->peer_to_peer && !reply->rtr)
		return refuse(reply, "peer-to-peer mode without a kind of first FPDU", why);
	return 0;
}

int ripc__mpa_conclude(const struct ripc__mpa *request, const struct ripc__mpa *reply,
		       struct ripc__mpa_terms *terms, const char **why)
{
	memset(terms, 0, sizeof(*terms));
	if (reply->reject && reply->revision == 1 && request->revision == 2)
		return -EAGAIN;
	if (reply->reject)
		return 0;
	if (reply->revision > request->revision || (reply->enhanced && !request->enhanced))
		return error(why, "MPA reply of a higher revision than the request");
	if (reply->markers)
		return error(why, "the peer requires markers, which this end does not send");
	if (request->crc && !reply->crc)
		return error(why, "the peer refuses CRCs");
	terms->crc = reply->crc;
	terms->soft = reply->soft;
	terms->serve_depth = request->ird;
	terms->read_depth = MIN(request->ord, BASIC_DEPTH);
	if (!reply->enhanced)
		return 0;
	terms->read_depth = MIN(request->ord, reply->ird);
	if (reply->ord != RIPC__MPA_DEPTH_NONE && reply->ord > request->ird)
		return error(why, "the peer wants more reads outstanding than this end serves");
	if (reply->peer_to_peer)
		return error(why, "the peer answers in peer-to-peer mode, which was not requested");
	return 0;
}
