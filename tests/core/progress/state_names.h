/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Short names of the state machine of progress, for the tests of it. */
#ifndef RIPC_TESTS_CORE_PROGRESS_STATE_NAMES_H
#define RIPC_TESTS_CORE_PROGRESS_STATE_NAMES_H

#include "core/progress/state.h"

#define MS UINT64_C(1000000)

enum { NONE, SPINNING, ASLEEP, THREAD };
enum { OFF, RUNNING, TICKING, LONG_TICK, LEADING, BLOCKED, STANDBY, WAKING };
enum { KICK = RIPC__DO_KICK, ARM = RIPC__DO_ARM, DISARM = RIPC__DO_DISARM, POST = RIPC__DO_POST };
enum { TICK = RIPC__DO_TICK, LEAD = RIPC__DO_LEAD, STAND_BY = RIPC__DO_STAND_BY };
enum { FOLLOWER = RIPC__DO_FOLLOWER, QUIT = RIPC__DO_QUIT };

#define ON(event) RIPC__PROGRESS_##event

#endif
