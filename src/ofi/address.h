/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Addresses of endpoints: the id of a service. */
#ifndef OFI_ADDRESS_H
#define OFI_ADDRESS_H

#include <rdma/fabric.h>
#include <stdbool.h>

/* The address of an endpoint, of the format FI_ADDR_RIPC. */
#define OFI_ADDRESS_LEN 16
#define FI_ADDR_RIPC    (FI_PROV_SPECIFIC | 0x72697063u)

/* service: 0: the endpoint draws an id when it is opened. */
void ofi_address_put(uint8_t address[OFI_ADDRESS_LEN], uint64_t service);
/* An endpoint that is opened with this address draws an id if another service holds it. */
void ofi_address_prefer(uint8_t address[OFI_ADDRESS_LEN]);
bool ofi_address_is_preferred(const void *address);
/* Return: false: not an address of this provider. */
bool ofi_address_get(const void *address, uint64_t *service);

/* The number of a service in text. Return: false: it is none that an application may choose. */
bool ofi_address_service(const char *text, uint64_t *service);
/* Return: whether node is a name or an address of this host. */
bool ofi_address_is_local(const char *node, bool numeric);

#endif
