/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Random operations of several endpoints in two domains, checked against the model. RIPC_TEST_SEED
 * repeats a run, RIPC_TEST_STEPS sets its length.
 */
#include "model.h"

#include <stdlib.h>

static uint64_t rnd;
static struct fid_fabric *fabric;
static struct fid_domain *domains[2];

static unsigned below(unsigned n)
{
	return (unsigned)(test_random(&rnd) % n);
}

static bool chance(unsigned percent)
{
	return below(100) < percent;
}

static size_t random_len(void)
{
	static const size_t borders[] = {0, 463, 4096, 8192, 16384, 32768, 65536};

	switch (below(8)) {
	case 0:
		return borders[below(7)];
	case 1:
		return borders[1 + below(6)] - 20 + below(40);
	case 2:
		return below(200000);
	case 3:
		return below(20000);
	default:
		return below(600);
	}
}

/* ---- operations ---- */

/* Cuts a buffer into pieces. Return: their number. */
static unsigned cut(struct iovec *iov, uint8_t *buf, size_t len)
{
	unsigned n = 1 + (chance(30) ? below(4) : 0);

	for (unsigned i = 0; i < n; i++) {
		size_t piece = i + 1 == n ? len : below((unsigned)len + 1);

		iov[i] = (struct iovec){buf, piece};
		buf += piece;
		len -= piece;
	}
	return n;
}

static void post_send(void)
{
	unsigned from = below(ENDPOINTS), to = below(ENDPOINTS), how = below(5);
	struct end *at = &ends[from];
	struct op *s = new_op(SEND, from);
	unsigned id = (unsigned)(s - ops), n;
	struct iovec iov[4];
	uint64_t flags = 0;
	ssize_t rc;

	s->other = (int)to;
	s->tagged = chance(60);
	s->has_data = how == 1 || how == 3 || (how == 4 && chance(50));
	s->len = random_len();
	if (!s->tagged && !s->has_data && s->len < 4)
		s->len = 4;
	if (how == 2 || how == 3)
		s->len %= 4097;
	if (!s->tagged && !s->has_data && s->len < 4)
		s->len = 4;
	s->tag = (uint64_t)id << ID_SHIFT | below(4);
	s->buf = guarded(s->len);
	fill_message(s);
	n = cut(iov, s->buf, s->len);
	s->notify = !at->selective;
	switch (how) {
	case 0:
		if (s->tagged)
			rc = n == 1 ? fi_tsend(at->ep, s->buf, s->len, NULL, at->to[to], s->tag, s)
				    : fi_tsendv(at->ep, iov, NULL, n, at->to[to], s->tag, s);
		else
			rc = n == 1 ? fi_send(at->ep, s->buf, s->len, NULL, at->to[to], s)
				    : fi_sendv(at->ep, iov, NULL, n, at->to[to], s);
		break;
	case 1:
		rc = s->tagged
			     ? fi_tsenddata(at->ep, s->buf, s->len, NULL, id, at->to[to], s->tag, s)
			     : fi_senddata(at->ep, s->buf, s->len, NULL, id, at->to[to], s);
		break;
	case 2:
		rc = s->tagged ? fi_tinject(at->ep, s->buf, s->len, at->to[to], s->tag)
			       : fi_inject(at->ep, s->buf, s->len, at->to[to]);
		break;
	case 3:
		rc = s->tagged ? fi_tinjectdata(at->ep, s->buf, s->len, id, at->to[to], s->tag)
			       : fi_injectdata(at->ep, s->buf, s->len, id, at->to[to]);
		break;
	default: {
		struct fi_msg_tagged t = {.msg_iov = iov,
					  .iov_count = n,
					  .addr = at->to[to],
					  .tag = s->tag,
					  .context = s,
					  .data = id};
		struct fi_msg m = {.msg_iov = iov,
				   .iov_count = n,
				   .addr = at->to[to],
				   .context = s,
				   .data = id};

		flags |= s->has_data ? FI_REMOTE_CQ_DATA : 0;
		flags |= chance(50) ? FI_COMPLETION : 0;
		flags |= chance(10) ? FI_MORE : 0;
		flags |= s->len <= 4096 && chance(30) ? FI_INJECT : 0;
		flags |= (uint64_t[]){0, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
				      FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE}[below(5)];
		s->waits = flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE);
		s->injected = flags & FI_INJECT;
		s->notify |= !!(flags & FI_COMPLETION);
		rc = s->tagged ? fi_tsendmsg(at->ep, &t, flags) : fi_sendmsg(at->ep, &m, flags);
		break;
	}
	}
	ck_assert_int_eq(rc, 0);
	if (how == 2 || how == 3) {
		s->notify = false;
		s->injected = true;
		s->state = DONE;
		at->sent++;
	}
	if (s->injected)
		done_with(s);
}

/* Sets what a receive or probe takes. */
static void random_match(struct op *r)
{
	struct op *m = &ops[below(nops)];

	r->other = chance(40) ? (int)below(ENDPOINTS) : -1;
	r->tagged = chance(60);
	r->tag = below(4);
	r->ignore = ID_MASK | (chance(40) ? below(4) : 0);
	if (chance(10) && m->kind == SEND && m->other == (int)r->ep) {
		r->tagged = m->tagged;
		r->tag = m->tag;
		r->ignore = 0;
	}
}

static fi_addr_t source_of(const struct op *r)
{
	return r->other < 0 ? FI_ADDR_UNSPEC : ends[r->ep].to[r->other];
}

static ssize_t receive_message(struct op *r, const struct iovec *iov, unsigned n, uint64_t flags)
{
	struct fid_ep *ep = ends[r->ep].ep;
	struct fi_msg_tagged t = {.msg_iov = iov,
				  .iov_count = n,
				  .addr = source_of(r),
				  .tag = r->tag,
				  .ignore = r->ignore,
				  .context = r};
	struct fi_msg m = {.msg_iov = iov, .iov_count = n, .addr = source_of(r), .context = r};

	r->notify = !ends[r->ep].selective || flags & FI_COMPLETION;
	return r->tagged ? fi_trecvmsg(ep, &t, flags) : fi_recvmsg(ep, &m, flags);
}

static void post_receive_at(unsigned ep, bool any, bool tagged)
{
	struct end *at = &ends[ep];
	struct op *r = new_op(RECEIVE, ep);
	struct iovec iov[4];
	unsigned n;
	ssize_t rc;

	random_match(r);
	if (any) {
		r->tagged = tagged;
		r->other = -1;
		r->ignore = UINT64_MAX;
	}
	r->len = chance(70) || any ? 202000 : random_len();
	if (r->len < 4)
		r->len = 4;
	r->buf = guarded(r->len);
	n = cut(iov, r->buf, r->len);
	r->notify = !at->selective;
	if (at->selective || chance(30))
		rc = receive_message(r, iov, n, FI_COMPLETION | (chance(10) ? FI_MORE : 0));
	else if (n > 1)
		rc = r->tagged ? fi_trecvv(at->ep, iov, NULL, n, source_of(r), r->tag, r->ignore, r)
			       : fi_recvv(at->ep, iov, NULL, n, source_of(r), r);
	else
		rc = r->tagged ? fi_trecv(at->ep, r->buf, r->len, NULL, source_of(r), r->tag,
					  r->ignore, r)
			       : fi_recv(at->ep, r->buf, r->len, NULL, source_of(r), r);
	ck_assert_int_eq(rc, 0);
}

static void probe(void)
{
	struct op *r = new_op(PEEK, below(ENDPOINTS));
	uint64_t flags = FI_PEEK | FI_COMPLETION;

	random_match(r);
	/* Without data of it, a probe does not know which message it has found. */
	r->tagged = true;
	if (chance(30)) {
		r->unclaimed = true;
		flags |= FI_CLAIM;
	} else if (chance(30)) {
		r->discard = true;
		flags |= FI_DISCARD;
	}
	ck_assert_int_eq(receive_message(r, NULL, 0, flags), 0);
}

/* Takes or discards a message that a probe has claimed: the context is that of the probe. */
static void claim(void)
{
	struct op *p = &ops[below(nops)];
	struct iovec iov[4];
	unsigned n = 0;

	if (p->kind != PEEK || !p->unclaimed || p->state != DONE)
		return;
	p->unclaimed = false;
	p->kind = CLAIM;
	p->state = OPEN;
	p->discard = chance(30);
	if (!p->discard) {
		p->len = chance(70) ? 202000 : 4 + random_len();
		p->buf = guarded(p->len);
		n = cut(iov, p->buf, p->len);
	}
	ck_assert_int_eq(receive_message(p, iov, n,
					 FI_CLAIM | FI_COMPLETION | (p->discard ? FI_DISCARD : 0)),
			 0);
}

static void cancel(void)
{
	struct op *o = &ops[below(nops)];
	int rc;

	if (o->state != OPEN || (o->kind != SEND && o->kind != RECEIVE))
		return;
	rc = (int)fi_cancel(&ends[o->ep].ep->fid, o);
	ck_assert(rc == 0 || rc == -FI_ENOENT);
}

static void receive_the_rest(void)
{
	for (unsigned i = 0; i < nops; i++) {
		struct op *p = &ops[i];

		if (p->kind != PEEK || !p->unclaimed || p->state != DONE)
			continue;
		p->unclaimed = false;
		p->kind = CLAIM;
		p->state = OPEN;
		p->discard = true;
		ck_assert_int_eq(receive_message(p, NULL, 0, FI_CLAIM | FI_COMPLETION | FI_DISCARD),
				 0);
	}
	for (unsigned i = 0, n = nops; i < n; i++)
		if (ops[i].kind == SEND && !ops[i].match && ops[i].state != FAILED)
			post_receive_at((unsigned)ops[i].other, true, ops[i].tagged);
	settle();
	for (unsigned i = 0; i < nops; i++)
		if (ops[i].kind == SEND)
			ck_assert_msg(ops[i].match || ops[i].state == FAILED, "message %u is lost",
				      i);
}

/* ---- set-up ---- */

static enum fi_wait_obj random_wait(void)
{
	static const enum fi_wait_obj objects[] = {FI_WAIT_NONE, FI_WAIT_FD, FI_WAIT_UNSPEC,
						   FI_WAIT_YIELD};

	return objects[below(4)];
}

static void open_end(struct end *e, struct fid_domain *domain)
{
	struct fi_info *hints = side_hints(), *info;
	struct fi_av_attr av = {.type = chance(50) ? FI_AV_TABLE : FI_AV_MAP};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = random_wait()};
	struct fi_cntr_attr cntr = {.wait_obj = random_wait()};
	uint64_t selective;

	*e = (struct end){.selective = chance(40), .directed = chance(70), .own_rx = chance(50)};
	if (!e->directed)
		hints->caps &= ~FI_DIRECTED_RECV;
	hints->caps |= FI_SOURCE;
	ck_assert_int_eq(side_getinfo(hints, &info), 0);
	ck_assert_int_eq(fi_av_open(domain, &av, &e->av, NULL), 0);
	ck_assert_int_eq(fi_cq_open(domain, &cq, &e->tx, NULL), 0);
	ck_assert_int_eq(fi_cntr_open(domain, &cntr, &e->tx_cntr, NULL), 0);
	ck_assert_int_eq(fi_cntr_open(domain, &cntr, &e->rx_cntr, NULL), 0);
	e->rx = e->tx;
	if (e->own_rx)
		ck_assert_int_eq(fi_cq_open(domain, &cq, &e->rx, NULL), 0);
	selective = e->selective ? FI_SELECTIVE_COMPLETION : 0;
	ck_assert_int_eq(fi_endpoint(domain, info, &e->ep, NULL), 0);
	ck_assert_int_eq(fi_ep_bind(e->ep, &e->av->fid, 0), 0);
	ck_assert_int_eq(fi_ep_bind(e->ep, &e->tx->fid, FI_TRANSMIT | selective), 0);
	ck_assert_int_eq(fi_ep_bind(e->ep, &e->rx->fid, FI_RECV | selective), 0);
	ck_assert_int_eq(fi_ep_bind(e->ep, &e->tx_cntr->fid, FI_SEND), 0);
	ck_assert_int_eq(fi_ep_bind(e->ep, &e->rx_cntr->fid, FI_RECV), 0);
	ck_assert_int_eq(fi_enable(e->ep), 0);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void open_all(void)
{
	struct fi_info *hints = side_hints(), *info;
	uint8_t address[16];
	size_t len;

	ck_assert_int_eq(side_getinfo(hints, &info), 0);
	ck_assert_int_eq(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	for (unsigned i = 0; i < 2; i++) {
		if (chance(50))
			info->domain_attr->threading = FI_THREAD_DOMAIN;
		ck_assert_int_eq(fi_domain(fabric, info, &domains[i], NULL), 0);
	}
	for (unsigned i = 0; i < ENDPOINTS; i++)
		open_end(&ends[i], domains[i % 2]);
	for (unsigned i = 0; i < ENDPOINTS * ENDPOINTS; i++) {
		len = sizeof(address);
		ck_assert_int_eq(fi_getname(&ends[i / ENDPOINTS].ep->fid, address, &len), 0);
		ck_assert_int_eq(fi_av_insert(ends[i % ENDPOINTS].av, address, 1,
					      &ends[i % ENDPOINTS].to[i / ENDPOINTS], 0, NULL),
				 1);
	}
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void close_all(void)
{
	for (unsigned i = 0; i < ENDPOINTS; i++) {
		struct end *e = &ends[i];

		ck_assert_int_eq(fi_close(&e->ep->fid), 0);
		ck_assert_int_eq(fi_close(&e->tx_cntr->fid), 0);
		ck_assert_int_eq(fi_close(&e->rx_cntr->fid), 0);
		ck_assert_int_eq(fi_close(&e->tx->fid), 0);
		if (e->own_rx)
			ck_assert_int_eq(fi_close(&e->rx->fid), 0);
		ck_assert_int_eq(fi_close(&e->av->fid), 0);
	}
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(fi_close(&domains[i]->fid), 0);
	ck_assert_int_eq(fi_close(&fabric->fid), 0);
}

START_TEST(random_operations__follow_the_manual_pages)
{
	uint64_t steps = test_number("RIPC_TEST_STEPS", 800);

	rnd = test_seed();
	model_begin();
	open_all();
	post_send();
	for (uint64_t i = 0; i < steps; i++) {
		unsigned k = below(100);

		if (k < 30)
			post_send();
		else if (k < 55)
			post_receive_at(below(ENDPOINTS), false, false);
		else if (k < 62)
			probe();
		else if (k < 72)
			claim();
		else if (k < 75)
			cancel();
		else if (k < 76 && chance(30))
			settle();
		else
			poll_queue(chance(50) ? ends[k % ENDPOINTS].tx : ends[k % ENDPOINTS].rx,
				   below(9));
	}
	settle();
	receive_the_rest();
	check_order();
	check_counters();
	close_all();
	model_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ofi/random");
	TCase *tc = tcase_create("random");

	tcase_add_test(tc, random_operations__follow_the_manual_pages);
	suite_add_tcase(s, tc);
	return test_main("ofi/random", s);
}
