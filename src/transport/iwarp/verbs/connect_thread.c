/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * rdma_connect() in a thread: SoftiWARP connects its TCP socket within the call, which takes
 * minutes if the host does not answer. The thread ends with the call. If the endpoint is closed
 * earlier, the thread is cancelled in write(), where it holds no lock.
 */
#include "base/log.h"
#include "base/thread.h"
#include "transport/iwarp/verbs/verbs.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#define STACK_BYTES (128u << 10)

static void *connect_thread(void *arg)
{
	struct iwv_connect_thread *d = arg;
	int rc, old;

	rc = rdma_connect(d->id, &d->param) ? -errno : 0;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	d->result = rc;
	atomic_store(&d->done, true);
	eventfd_write(d->done_fd, 1);
	return NULL;
}

int ripc__iwv_dial(struct iwv_conn *conn)
{
	struct ripc__ep *ep = conn->ep;
	struct iwv_connect_thread *d = &conn->connect_thread;
	pthread_attr_t attr;
	int rc;

	d->id = conn->id;
	d->done_fd = conn->t->connect_fd;
	memcpy(d->priv, ep->priv, ep->privlen);
	d->param = (struct rdma_conn_param){
		.private_data = d->priv,
		.private_data_len = (uint8_t)ep->privlen,
		.responder_resources = (uint8_t)conn->t->read_depth,
		.initiator_depth = (uint8_t)conn->t->read_depth,
		.retry_count = 7,
	};
	atomic_store(&d->done, false);
	rc = -pthread_attr_init(&attr);
	if (!rc) {
		pthread_attr_setstacksize(&attr, STACK_BYTES);
		rc = ripc__thread_start(&d->thread, &attr, connect_thread, d);
		pthread_attr_destroy(&attr);
	}
	if (rc)
		return ripc__fail(rc, "iwarp/verbs: cannot start a connect thread: %s",
				  strerror(-rc));
	d->running = true;
	conn->cm_event_due = true;
	return 0;
}

void ripc__iwv_connect_join(struct iwv_conn *conn)
{
	struct iwv_connect_thread *d = &conn->connect_thread;

	if (!d->running)
		return;
	if (!atomic_load(&d->done))
		pthread_cancel(d->thread);
	pthread_join(d->thread, NULL);
	d->running = false;
	/* The cancelled call may have sent the request: an event may follow. */
	if (atomic_load(&d->done) && d->result)
		conn->cm_event_due = false;
}
