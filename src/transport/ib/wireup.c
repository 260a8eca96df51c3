/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/ib/wireup.h"
#include "base/clock.h"
#include "wire/bytes.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define WIREUP_MAGIC   0x57424952u /* "RIBW" */
#define WIREUP_VERSION 1

#define FIRST_NS   (20 * RIPC__MS)   /* interval before the first retransmission; doubles */
#define LONGEST_NS (400 * RIPC__MS)  /* longest interval of retransmissions */
#define CONNECT_NS (2500 * RIPC__MS) /* time for an answer to REQ or REP */
#define REFUSE_NS  (2000 * RIPC__MS) /* time in which a repeated REQ is rejected again */
#define CLOSE_NS   (700 * RIPC__MS)  /* time for which DISC is repeated */

/* ---- messages ---- */

static bool has_params(uint8_t kind)
{
	return kind == RIPC__WIREUP_REQ || kind == RIPC__WIREUP_REP;
}

size_t ripc__wireup_encode(const struct ripc__wireup_message *m, uint8_t buf[RIPC__WIREUP_MAX])
{
	uint8_t *p = buf + RIPC__WIREUP_HEADER;

	ripc__put_le32(buf, WIREUP_MAGIC);
	buf[4] = WIREUP_VERSION;
	buf[5] = m->kind;
	buf[6] = m->privlen;
	buf[7] = 0;
	ripc__put_le32(buf + 8, m->from);
	ripc__put_le32(buf + 12, m->to);
	ripc__put_le32(buf + 16, m->qkey);
	if (has_params(m->kind)) {
		ripc__put_le32(p, m->params.rc_qpn);
		ripc__put_le32(p + 4, m->params.rc_psn);
		ripc__put_le32(p + 8, m->params.uc_qpn);
		ripc__put_le32(p + 12, m->params.uc_psn);
		p[16] = m->params.mtu;
		p[17] = m->params.responder_resources;
		p[18] = m->params.initiator_depth;
		p[19] = m->params.flags;
		p += RIPC__WIREUP_PARAMS;
	}
	if (m->privlen)
		memcpy(p, m->priv, m->privlen);
	return (size_t)(p - buf) + m->privlen;
}

static const char *params_decode(struct ripc__wireup_params *q, const uint8_t *p)
{
	q->rc_qpn = ripc__get_le32(p);
	q->rc_psn = ripc__get_le32(p + 4);
	q->uc_qpn = ripc__get_le32(p + 8);
	q->uc_psn = ripc__get_le32(p + 12);
	q->mtu = p[16];
	q->responder_resources = p[17];
	q->initiator_depth = p[18];
	q->flags = p[19];
	if (q->rc_qpn < 2 || (q->rc_qpn | q->rc_psn | q->uc_qpn | q->uc_psn) >> 24)
		return "a queue pair number of more than 24 bits, or of the fabric itself";
	if (!q->responder_resources || !q->initiator_depth)
		return "no reads";
	if (q->mtu < 1 || q->mtu > 5)
		return "an MTU that does not exist";
	return NULL;
}

int ripc__wireup_decode(struct ripc__wireup_message *m, const uint8_t *buf, size_t len,
			const char **why)
{
	size_t want = RIPC__WIREUP_HEADER;

	*why = "not a message of libripc";
	if (len < want || ripc__get_le32(buf) != WIREUP_MAGIC)
		return -EPROTO;
	*why = "another version of the connection set-up";
	if (buf[4] != WIREUP_VERSION)
		return -EPROTO;
	*m = (struct ripc__wireup_message){
		.kind = buf[5],
		.privlen = buf[6],
		.from = ripc__get_le32(buf + 8),
		.to = ripc__get_le32(buf + 12),
		.qkey = ripc__get_le32(buf + 16),
	};
	*why = "unknown kind of message";
	if (m->kind < RIPC__WIREUP_REQ || m->kind > RIPC__WIREUP_PROBED)
		return -EPROTO;
	*why = "wrong length";
	if (m->privlen > RIPC__PRIVATE_MAX ||
	    (m->privlen && !has_params(m->kind) && m->kind != RIPC__WIREUP_REJ))
		return -EPROTO;
	if (has_params(m->kind))
		want += RIPC__WIREUP_PARAMS;
	if (len != want + m->privlen)
		return -EPROTO;
	m->priv = buf + want;
	*why = "no number of the connection";
	if ((!m->from && (has_params(m->kind) || m->kind == RIPC__WIREUP_RTU)) ||
	    (!m->to && m->kind != RIPC__WIREUP_REQ && m->kind < RIPC__WIREUP_PROBE))
		return -EPROTO;
	*why = "a key of the fabric itself";
	if (m->qkey >> 31)
		return -EPROTO;
	if (has_params(m->kind)) {
		*why = params_decode(&m->params, buf + RIPC__WIREUP_HEADER);
		if (*why)
			return -EPROTO;
	}
	*why = "";
	return 0;
}

/* ---- one side of a connection ---- */

#define TO(state) (1u << RIPC__WIREUP_##state)

/* The states that may follow each state. */
__attribute__((unused)) static const unsigned next_states[RIPC__WIREUP_STATES] = {
	[RIPC__WIREUP_IDLE] = TO(REQ_SENT) | TO(DONE),
	[RIPC__WIREUP_REQ_SENT] = TO(QP_SETUP) | TO(DONE),
	[RIPC__WIREUP_REQ_RECEIVED] = TO(QP_SETUP) | TO(REJ_SENT) | TO(CLOSING) | TO(DONE),
	[RIPC__WIREUP_QP_SETUP] = TO(REP_SENT) | TO(ESTABLISHED) | TO(CLOSING) | TO(DONE),
	[RIPC__WIREUP_REP_SENT] = TO(ESTABLISHED) | TO(CLOSING) | TO(DONE),
	[RIPC__WIREUP_ESTABLISHED] = TO(CLOSING) | TO(DONE),
	[RIPC__WIREUP_REJ_SENT] = TO(DONE),
	[RIPC__WIREUP_CLOSING] = TO(DONE),
	[RIPC__WIREUP_DONE] = 0,
};

void ripc__wireup_set_state(struct ripc__wireup *w, enum ripc__wireup_state to)
{
	assert(next_states[w->state] & 1u << to);
	w->state = to;
}

static void set_priv(struct ripc__wireup *w, const void *priv, size_t privlen)
{
	w->privlen = (uint8_t)privlen;
	if (privlen)
		memcpy(w->priv, priv, privlen);
}

/* Repeats a message until it is answered or its time is over. */
static void start_retransmit(struct ripc__wireup *w, enum ripc__wireup_state state, uint64_t now_ns,
			     uint64_t for_ns)
{
	ripc__wireup_set_state(w, state);
	w->due = w->timer_armed = true;
	w->next_ns = now_ns;
	w->interval_ns = 0;
	w->until_ns = now_ns + for_ns;
}

static void stop_timer(struct ripc__wireup *w, enum ripc__wireup_state state)
{
	ripc__wireup_set_state(w, state);
	w->due = w->timer_armed = false;
}

void ripc__wireup_end(struct ripc__wireup *w)
{
	if (w->state != RIPC__WIREUP_DONE)
		stop_timer(w, RIPC__WIREUP_DONE);
}

void ripc__wireup_connect(struct ripc__wireup *w, uint32_t mine,
			  const struct ripc__wireup_params *ours, const void *priv, size_t privlen,
			  uint64_t now_ns)
{
	*w = (struct ripc__wireup){.active = true, .mine = mine, .ours = *ours};
	set_priv(w, priv, privlen);
	start_retransmit(w, RIPC__WIREUP_REQ_SENT, now_ns, CONNECT_NS);
}

void ripc__wireup_request(struct ripc__wireup *w, uint32_t mine,
			  const struct ripc__wireup_message *req)
{
	*w = (struct ripc__wireup){.state = RIPC__WIREUP_REQ_RECEIVED,
				   .mine = mine,
				   .number = req->from,
				   .theirs = req->params};
	set_priv(w, req->priv, req->privlen);
}

void ripc__wireup_accept(struct ripc__wireup *w, const struct ripc__wireup_params *ours,
			 const void *priv, size_t privlen)
{
	w->ours = *ours;
	set_priv(w, priv, privlen);
	stop_timer(w, RIPC__WIREUP_QP_SETUP);
}

void ripc__wireup_reject(struct ripc__wireup *w, const void *priv, size_t privlen, uint64_t now_ns)
{
	set_priv(w, priv, privlen);
	ripc__wireup_set_state(w, RIPC__WIREUP_REJ_SENT);
	w->due = w->timer_armed = true;
	w->next_ns = w->until_ns = now_ns + REFUSE_NS;
}

enum ripc__wireup_action ripc__wireup_ready(struct ripc__wireup *w, uint64_t now_ns)
{
	if (w->state != RIPC__WIREUP_QP_SETUP)
		return RIPC__WIREUP_NOTHING;
	if (!w->active) {
		start_retransmit(w, RIPC__WIREUP_REP_SENT, now_ns, CONNECT_NS);
		return RIPC__WIREUP_NOTHING;
	}
	stop_timer(w, RIPC__WIREUP_ESTABLISHED);
	w->due = true;
	return RIPC__WIREUP_OPEN;
}

enum ripc__wireup_action ripc__wireup_data_received(struct ripc__wireup *w)
{
	if (w->state != RIPC__WIREUP_REP_SENT)
		return RIPC__WIREUP_NOTHING;
	stop_timer(w, RIPC__WIREUP_ESTABLISHED);
	return RIPC__WIREUP_OPEN;
}

void ripc__wireup_close(struct ripc__wireup *w, uint64_t now_ns)
{
	switch (w->state) {
	case RIPC__WIREUP_IDLE:
	case RIPC__WIREUP_DONE:
		ripc__wireup_end(w);
		break;
	case RIPC__WIREUP_REJ_SENT:
	case RIPC__WIREUP_CLOSING:
		break;
	default:
		/* Also if the peer's number is unknown: its REP is answered by DISC. */
		if (w->number)
			start_retransmit(w, RIPC__WIREUP_CLOSING, now_ns, CLOSE_NS);
		else
			ripc__wireup_end(w);
	}
}

static enum ripc__wireup_action input_rep(struct ripc__wireup *w,
					  const struct ripc__wireup_message *m)
{
	if (!w->active)
		return RIPC__WIREUP_NOTHING;
	if (w->state == RIPC__WIREUP_REQ_SENT) {
		w->number = m->from;
		w->theirs = m->params;
		set_priv(w, m->priv, m->privlen);
		stop_timer(w, RIPC__WIREUP_QP_SETUP);
		return RIPC__WIREUP_READY;
	}
	/* RTU was lost. */
	if (w->state == RIPC__WIREUP_ESTABLISHED && m->from == w->number)
		w->due = true;
	return RIPC__WIREUP_NOTHING;
}

enum ripc__wireup_action ripc__wireup_input(struct ripc__wireup *w,
					    const struct ripc__wireup_message *m, uint64_t now_ns)
{
	switch (m->kind) {
	case RIPC__WIREUP_REQ:
		/* Our answer was lost, or is not yet sent. */
		if (w->state == RIPC__WIREUP_REJ_SENT)
			w->due = true;
		else if (w->state == RIPC__WIREUP_REP_SENT)
			w->next_ns = now_ns;
		return RIPC__WIREUP_NOTHING;
	case RIPC__WIREUP_REP:
		return input_rep(w, m);
	case RIPC__WIREUP_RTU:
		return m->from == w->number ? ripc__wireup_data_received(w) : RIPC__WIREUP_NOTHING;
	case RIPC__WIREUP_REJ:
		if (w->state != RIPC__WIREUP_REQ_SENT)
			return RIPC__WIREUP_NOTHING;
		set_priv(w, m->priv, m->privlen);
		ripc__wireup_end(w);
		return RIPC__WIREUP_REJECTED;
	case RIPC__WIREUP_DISC:
		/*
		 * The caller answers DISC with DISCED. From 0: the connection was never known to
		 * the peer.
		 */
		if (m->from && w->number && m->from != w->number)
			return RIPC__WIREUP_NOTHING;
		if (w->state == RIPC__WIREUP_DONE || w->state == RIPC__WIREUP_REJ_SENT)
			return RIPC__WIREUP_NOTHING;
		ripc__wireup_end(w);
		return RIPC__WIREUP_CLOSED;
	case RIPC__WIREUP_DISCED:
		if (w->state == RIPC__WIREUP_CLOSING)
			ripc__wireup_end(w);
		return RIPC__WIREUP_NOTHING;
	default:
		return RIPC__WIREUP_NOTHING;
	}
}

static uint8_t kind_to_send(const struct ripc__wireup *w)
{
	switch (w->state) {
	case RIPC__WIREUP_REQ_SENT:
		return RIPC__WIREUP_REQ;
	case RIPC__WIREUP_REP_SENT:
		return RIPC__WIREUP_REP;
	case RIPC__WIREUP_ESTABLISHED:
		return RIPC__WIREUP_RTU;
	case RIPC__WIREUP_REJ_SENT:
		return RIPC__WIREUP_REJ;
	default:
		return RIPC__WIREUP_DISC;
	}
}

bool ripc__wireup_output(struct ripc__wireup *w, struct ripc__wireup_message *m, uint64_t now_ns,
			 enum ripc__wireup_action *action)
{
	*action = RIPC__WIREUP_NOTHING;
	if (!w->due && (!w->timer_armed || now_ns < w->next_ns))
		return false;
	if (w->timer_armed && now_ns >= w->until_ns && !w->due) {
		if (w->state == RIPC__WIREUP_REQ_SENT || w->state == RIPC__WIREUP_REP_SENT) {
			w->timer_armed = false;
			*action = RIPC__WIREUP_TIMEOUT;
		} else {
			ripc__wireup_end(w);
		}
		return false;
	}
	w->due = false;
	if (w->timer_armed && w->state != RIPC__WIREUP_REJ_SENT) {
		w->interval_ns = w->interval_ns ? w->interval_ns * 2 : FIRST_NS;
		w->interval_ns = MIN(w->interval_ns, LONGEST_NS);
		w->next_ns = now_ns + w->interval_ns;
		w->next_ns = MIN(w->next_ns, w->until_ns);
	}
	*m = (struct ripc__wireup_message){
		.kind = kind_to_send(w), .from = w->mine, .to = w->number, .params = w->ours};
	if (has_params(m->kind) || m->kind == RIPC__WIREUP_REJ) {
		m->priv = w->priv;
		m->privlen = w->privlen;
	}
	return true;
}

bool ripc__wireup_unknown(const struct ripc__wireup_message *m, struct ripc__wireup_message *reply)
{
	*reply = (struct ripc__wireup_message){.from = m->to, .to = m->from};
	if (!m->from)
		return false;
	switch (m->kind) {
	case RIPC__WIREUP_REP:
	case RIPC__WIREUP_RTU:
		reply->kind = RIPC__WIREUP_DISC;
		return true;
	case RIPC__WIREUP_DISC:
		reply->kind = RIPC__WIREUP_DISCED;
		return true;
	default:
		return false;
	}
}
