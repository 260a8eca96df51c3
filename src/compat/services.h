/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The services of this process by their ids of 16 bits, and the known properties of other ids. */
#ifndef RIPC_COMPAT_SERVICES_H
#define RIPC_COMPAT_SERVICES_H

#include "ripc.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/param.h> /* MIN, MAX */

/*
 * Opens the default context if need be. Return: 0: it was closed; 1: it was open; or a negative
 * errno.
 */
int ripc__compat_open(void);

/* Sets errno from a negative errno. Return: @answer. */
uint8_t ripc__compat_fail(int rc, uint8_t answer);

/* The service registered here under this id, or NULL with errno set to EINVAL. */
struct ripc_service *ripc__compat_service(unsigned id);

/*
 * An id that another process holds. The library of 2012 did not check: both processes held the id,
 * and each peer sent to one of them. A program that ignores the result of
 * ripc_register_service_id() continues, so this library supports it as far as one holder at a time
 * allows. Its ripc_receive() waits until the id is free and then registers it. Messages that it
 * sends until then have no source id of 16 bits.
 */

/* The service to receive at. Waits while another process holds the id. NULL: errno is set. */
struct ripc_service *ripc__compat_receiver(unsigned id);

/* The service to send from. NULL: errno is set. */
struct ripc_service *ripc__compat_sender(unsigned id);

/* The group of a multicast id. It is outside the range that newer programs use. */
static inline uint64_t ripc__compat_group(unsigned id)
{
	return UINT64_C(0x20120000) << 16 | id;
}

/* Whether an id below 65536 is known to be a multicast id. @found: marks it as one. */
bool ripc__compat_is_multicast(unsigned id, bool found);

/*
 * Whether the service sent to this process before this process sent to it. A request waits for its
 * service; a reply to a requester does not, because the requester may have ended.
 */
bool ripc__compat_is_requester(unsigned id);
enum compat_direction { COMPAT_NO_MESSAGE, COMPAT_SENT, COMPAT_RECEIVED };
void ripc__compat_exchanged(unsigned id, enum compat_direction direction);

/*
 * The first item of a long message that carries a short one above the short limit of the transport.
 */
#define COMPAT_MARK_LEN 16
extern const uint8_t ripc__compat_mark[COMPAT_MARK_LEN];

#endif
