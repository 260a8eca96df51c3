/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef RIPC_WIRE_ADDRESS_H
#define RIPC_WIRE_ADDRESS_H

#define RIPC__ADDRESS_MAX 256 /* bytes at most of a transport's address in a resolver record */

#endif
