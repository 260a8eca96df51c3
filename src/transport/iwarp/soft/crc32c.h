/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * CRC32C (Castagnoli), the checksum of MPA frames. Uses the processor's instruction if there is
 * one.
 */
#ifndef RIPC_IWARP_CRC32C_H
#define RIPC_IWARP_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/*
 * Continues @crc over len bytes; the CRC of no bytes is 0, so crc32c(crc32c(0, a), b) is the CRC of
 * a followed by b. Thread-safe. MPA transmits the result least significant byte first.
 */
uint32_t ripc__crc32c(uint32_t crc, const void *data, size_t len);

/* The same by tables: for every processor, slow. */
uint32_t ripc__crc32c_portable(uint32_t crc, const void *data, size_t len);

#endif
