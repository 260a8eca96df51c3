/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "compat/services.h"

#include "compat/report.h"
#include "ripc_compat.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define IDS 65536
/* Interval of attempts to register an id that another process holds. */
#define TAKEN_RETRY_MS 1000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool opened;
static _Atomic(struct ripc_service *) services[IDS];
static _Atomic(uint8_t) first_message[IDS];
/* Ids that the program has registered while another process held them. */
static _Atomic(bool) taken[IDS];
/* Sends for these ids. Set once, under the lock, and then constant. */
static struct ripc_service *anonymous;
/* Ids known to be multicast ids. */
static _Atomic(bool) groups[IDS];

const uint8_t ripc__compat_mark[COMPAT_MARK_LEN] = {0x9d, 0x1e, 0x6b, 0x52, 0x49, 0x50, 0x43, 0x32,
						    0xf4, 0x30, 0x7a, 0xc8, 0x05, 0xb1, 0xe3, 0x68};

uint8_t ripc__compat_fail(int rc, uint8_t answer)
{
	errno = -rc;
	return answer;
}

int ripc__compat_open(void)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	int rc = 1;

	pthread_mutex_lock(&lock);
	if (!opened) {
		rc = ripc_context_stats(NULL, &stats);
		opened = !rc;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

/* Closes the library at the end of the process, so that peers are notified and need no timeout. */
static void __attribute__((destructor)) close_at_end(void)
{
	if (opened)
		ripc_close(NULL);
}

uint8_t ripc_compat_init(void)
{
	int rc = ripc__compat_open();

	return rc < 0 ? ripc__compat_failed(255, rc, COMPAT_INIT, "%s", ripc__compat_cause(rc).text)
		      : (uint8_t)rc;
}

uint8_t ripc_compat_ripc_init(void)
{
	return ripc_compat_init();
}

/* Return: 0; -EINVAL: no id of 2012; or the error of ripc__compat_open(). */
static int check_id(unsigned id)
{
	int rc = ripc__compat_open();

	return rc < 0 ? rc : !id || id >= IDS ? -EINVAL : 0;
}

static int register_id(unsigned id)
{
	struct ripc_service *s;
	int rc = check_id(id);

	if (rc)
		return rc;
	/* The library does not know the multicast ids. */
	if (atomic_load(&services[id]))
		return -EADDRINUSE;
	rc = ripc_service_register(NULL, id, 0, &s);
	if (!rc)
		atomic_store(&services[id], s);
	return rc;
}

static uint8_t register_failed(int rc, enum compat_call call, int id)
{
	return ripc__compat_failed(0, rc, call, "service %d: %s", id,
				   id <= 0 || id >= IDS ? "ids are from 1 to 65535"
							: ripc__compat_cause(rc).text);
}

uint8_t ripc_compat_register_service_id(int service_id)
{
	unsigned id = (unsigned)service_id;
	int rc = register_id(id);

	if (!rc)
		return 1;
	if (rc != -EADDRINUSE)
		return register_failed(rc, COMPAT_REGISTER, service_id);
	/* An id that is held in this process already stays as it is. */
	if (!ripc__compat_service(id) && !atomic_exchange(&taken[id], true))
		ripc__compat_print(COMPAT_REGISTER, "%s; ripc_receive() waits until it is free",
				   ripc__compat_cause(rc).text);
	return ripc__compat_fail(rc, 0);
}

uint16_t ripc_compat_register_random_service_id(void)
{
	int rc = -EADDRINUSE;

	/* Enough attempts to find a free id even if nearly all are in use. */
	for (unsigned i = 0; rc == -EADDRINUSE && i < IDS; i++) {
		uint16_t id;

		if (getrandom(&id, sizeof(id), 0) != sizeof(id)) {
			rc = -errno;
			break;
		}
		/* Applications choose the lower ids. */
		id |= 0x8000;
		rc = register_id(id);
		if (!rc)
			return id;
	}
	return ripc__compat_failed(0, rc, COMPAT_REGISTER_RANDOM, "%s",
				   ripc__compat_cause(rc).text);
}

static int register_multicast(unsigned id)
{
	struct ripc_service *s, *none = NULL;
	int rc = check_id(id);

	/*
	 * A random service, known in this process only, receives the messages to the multicast id.
	 */
	if (!rc)
		rc = ripc_service_register(NULL, RIPC_ANY_ID, 0, &s);
	if (rc)
		return rc;
	rc = ripc_group_join(s, ripc__compat_group(id), -1);
	if (!rc && !atomic_compare_exchange_strong(&services[id], &none, s))
		rc = -EADDRINUSE;
	if (rc)
		ripc_service_unregister(s);
	else
		ripc__compat_is_multicast(id, true);
	return rc;
}

uint8_t ripc_compat_register_multicast_service_id(int service_id)
{
	int rc = register_multicast((unsigned)service_id);

	if (!rc)
		return 1;
	/* As with other ids. */
	return rc == -EADDRINUSE ? ripc__compat_fail(rc, 0)
				 : register_failed(rc, COMPAT_REGISTER_MULTICAST, service_id);
}

bool ripc__compat_is_multicast(unsigned id, bool found)
{
	if (found)
		atomic_store_explicit(&groups[id], true, memory_order_relaxed);
	return atomic_load_explicit(&groups[id], memory_order_relaxed);
}

struct ripc_service *ripc__compat_service(unsigned id)
{
	struct ripc_service *s = id < IDS ? atomic_load(&services[id]) : NULL;

	if (!s)
		errno = EINVAL;
	return s;
}

struct ripc_service *ripc__compat_receiver(unsigned id)
{
	const struct timespec pause = {.tv_sec = TAKEN_RETRY_MS / 1000,
				       .tv_nsec = TAKEN_RETRY_MS % 1000 * 1000000l};
	struct ripc_service *s;

	/* One of several threads registers it; the others find it. */
	while (!(s = ripc__compat_service(id)) && id < IDS && atomic_load(&taken[id])) {
		int rc = register_id(id);

		if (rc && rc != -EADDRINUSE) {
			errno = -rc;
			return NULL;
		}
		if (rc && !ripc__compat_service(id))
			nanosleep(&pause, NULL);
	}
	return s;
}

struct ripc_service *ripc__compat_sender(unsigned id)
{
	struct ripc_service *s = ripc__compat_service(id);
	int rc = 0;

	if (s || id >= IDS || !atomic_load(&taken[id]))
		return s;
	pthread_mutex_lock(&lock);
	if (!anonymous)
		rc = ripc_service_register(NULL, RIPC_ANY_ID, 0, &anonymous);
	s = anonymous;
	pthread_mutex_unlock(&lock);
	if (rc)
		errno = -rc;
	return s;
}

void ripc__compat_exchanged(unsigned id, enum compat_direction direction)
{
	uint8_t none = COMPAT_NO_MESSAGE;

	if (id < IDS && !atomic_load_explicit(&first_message[id], memory_order_relaxed))
		atomic_compare_exchange_strong(&first_message[id], &none, direction);
}

bool ripc__compat_is_requester(unsigned id)
{
	return id < IDS &&
	       atomic_load_explicit(&first_message[id], memory_order_relaxed) == COMPAT_RECEIVED;
}
