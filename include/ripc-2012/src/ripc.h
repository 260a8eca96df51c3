/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Serves programs that include "../src/ripc.h": compile them with -I.../ripc-2012/include, see ripc_compat(7). */
#include "../../ripc_compat.h"
