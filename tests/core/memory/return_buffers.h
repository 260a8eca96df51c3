/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the tests of return buffers: context 0 has one, and context 1 uses it. */
#ifndef RIPC_TESTS_CORE_MEMORY_RETURN_BUFFERS_H
#define RIPC_TESTS_CORE_MEMORY_RETURN_BUFFERS_H

#include "core/rig.h"

extern struct rig rig;
extern struct ripc *ctx; /* context 0 */
extern uint8_t *buf;     /* 64 KiB of ctx */

/* Another network, and a buffer of this length in place of buf. */
void restart(void (*change)(struct ripc__sim_config *config), size_t len);
/* Context 0 sends a short message to 1 that offers buf. */
void send_with_return(size_t len);
struct ripc__local_return *first_local_return(void);

/* Fixture: two contexts, and the buffer. */
void return_buffers_setup(void);
void return_buffers_teardown(void);

#endif
