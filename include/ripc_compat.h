/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The interface that libripc had in 2012, for programs written for it: cc program.c -lripc-compat. ripc_compat(7) says what
 * differs. New programs use ripc.h.
 *
 * A file may include ripc.h first and then this one: the functions then have the names ripc_compat_*, and it can
 * move from the old interface to the new one call by call. Service ids are the same in both.
 *
 * Calls that wait do so for ever. Of each function that fails, errno and ripc_detail() say why.
 */
#ifndef RIPC_COMPAT_H
#define RIPC_COMPAT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Most bytes in one short message, the sum of its items. */
#define RECV_BUF_SIZE 2000
/** Of the past, when so many messages could wait. Now they wait as ripc(7) says of service_window. */
#define NUM_RECV_BUFFERS 10

/* Both libraries can be in one process: the names of the linker are those with the prefix. */
#ifdef RIPC_H
#define RIPC_2012(old_name, name) name
#define RIPC_2012_IS(name)
#else
#define RIPC_2012(old_name, name) old_name
#define RIPC_2012_IS(name)        __asm__(#name)
#endif

/**
 * init, ripc_init - open the library
 *
 * Every other function does so by itself.
 *
 * Return: 0 the first time, 1 if it was open already, 255 if it cannot be opened.
 */
uint8_t RIPC_2012(init, ripc_compat_init)(void) RIPC_2012_IS(ripc_compat_init);
uint8_t RIPC_2012(ripc_init, ripc_compat_ripc_init)(void) RIPC_2012_IS(ripc_compat_ripc_init);

/**
 * ripc_register_random_service_id - become the holder of an id that nobody holds
 *
 * Return: the id, or 0 if none could be had.
 */
uint16_t RIPC_2012(ripc_register_random_service_id, ripc_compat_register_random_service_id)(void)
	RIPC_2012_IS(ripc_compat_register_random_service_id);

/**
 * ripc_register_service_id - become the holder of an id
 * @service_id: 1 .. 65535
 *
 * Return: 1, or 0 if the id is taken or cannot be held.
 */
uint8_t RIPC_2012(ripc_register_service_id, ripc_compat_register_service_id)(int service_id)
	RIPC_2012_IS(ripc_compat_register_service_id);

/**
 * ripc_register_multicast_service_id - receive what is sent to a multicast id
 * @service_id: 1 .. 65535
 *
 * Any number of processes may. ripc_receive() takes the messages, ripc_send_short() to that id reaches all of them, with
 * at most 1024 bytes.
 *
 * Return: 1, or 0 if the id is taken in this process or cannot be had.
 */
uint8_t RIPC_2012(ripc_register_multicast_service_id,
		  ripc_compat_register_multicast_service_id)(int service_id)
	RIPC_2012_IS(ripc_compat_register_multicast_service_id);

/**
 * ripc_buf_alloc - allocate a buffer that travels without a copy
 * @size: bytes
 *
 * Return: the buffer, or NULL.
 */
void *RIPC_2012(ripc_buf_alloc, ripc_compat_buf_alloc)(size_t size)
	RIPC_2012_IS(ripc_compat_buf_alloc);

/**
 * ripc_buf_realloc - change the size of a buffer
 * @buf: any address inside a buffer, or NULL to allocate one
 * @size: bytes
 *
 * Return: the buffer, which may have moved, or NULL, and the old one is untouched.
 */
void *RIPC_2012(ripc_buf_realloc, ripc_compat_buf_realloc)(void *buf, size_t size)
	RIPC_2012_IS(ripc_compat_buf_realloc);

/**
 * ripc_buf_free - give a buffer back
 * @buf: any address inside a buffer or a received item; anything else does nothing
 */
void RIPC_2012(ripc_buf_free, ripc_compat_buf_free)(void *buf) RIPC_2012_IS(ripc_compat_buf_free);

/**
 * ripc_buf_register - let memory of the application travel without a copy
 * @buf: its start
 * @size: bytes
 *
 * Return: 0, or 1 on failure.
 */
uint8_t RIPC_2012(ripc_buf_register, ripc_compat_buf_register)(void *buf, size_t size)
	RIPC_2012_IS(ripc_compat_buf_register);

/**
 * ripc_buf_unregister - take memory back
 * @buf: any address inside memory of ripc_buf_register()
 *
 * Return: 1, or 0 if there is none such, or if a peer may still write into it.
 */
uint8_t RIPC_2012(ripc_buf_unregister, ripc_compat_buf_unregister)(void *buf)
	RIPC_2012_IS(ripc_compat_buf_unregister);

/**
 * ripc_reg_recv_window - set memory aside as the target of one incoming long item
 * @base: its start; NULL: a buffer is allocated
 * @size: bytes
 *
 * To do so again with the same memory before an item came does nothing.
 *
 * Return: 0, or 1 on failure.
 */
uint8_t RIPC_2012(ripc_reg_recv_window, ripc_compat_reg_recv_window)(void *base, size_t size)
	RIPC_2012_IS(ripc_compat_reg_recv_window);

/**
 * ripc_reg_recv_window_for_service - the same for items to one service
 * @base: its start; NULL: a buffer is allocated
 * @size: bytes
 * @service_id: a service registered here
 *
 * Return: 0, or 1 on failure.
 */
uint8_t RIPC_2012(ripc_reg_recv_window_for_service,
		  ripc_compat_reg_recv_window_for_service)(void *base, size_t size, uint16_t service_id)
	RIPC_2012_IS(ripc_compat_reg_recv_window_for_service);

/**
 * ripc_send_short - send a short message
 * @src: a service registered here
 * @dest: the service it is for
 * @buf: its items
 * @length: bytes of each, at most RECV_BUF_SIZE together
 * @num_items: 1 .. 64
 * @return_bufs: buffers the receiver's long messages may be written into; NULL among them: allocate one
 * @return_buf_lengths: bytes of each; 0: skip this one
 * @num_return_bufs: how many
 *
 * Return: 0 when it was sent, or 1 on failure.
 */
uint8_t RIPC_2012(ripc_send_short,
		  ripc_compat_send_short)(uint16_t src, uint16_t dest, void **buf, uint32_t *length,
					  uint16_t num_items, void **return_bufs,
					  uint32_t *return_buf_lengths, uint16_t num_return_bufs)
	RIPC_2012_IS(ripc_compat_send_short);

/**
 * ripc_send_long - send a long message and wait until it has arrived
 * @src: a service registered here
 * @dest: the service it is for
 * @buf: its items
 * @length: bytes of each
 * @num_items: 1 .. 64
 * @return_bufs: as ripc_send_short()
 * @return_buf_lengths: as ripc_send_short()
 * @num_return_bufs: as ripc_send_short()
 *
 * Return: 0 when it stands in the receiver's memory, or 1 on failure.
 */
uint8_t RIPC_2012(ripc_send_long,
		  ripc_compat_send_long)(uint16_t src, uint16_t dest, void **buf, uint32_t *length,
					 uint16_t num_items, void **return_bufs,
					 uint32_t *return_buf_lengths, uint16_t num_return_bufs)
	RIPC_2012_IS(ripc_compat_send_long);

/**
 * ripc_receive - wait for the next message
 * @service_id: a service registered here
 * @from_service_id: where its sender is stored; 0 if that has no id of 16 bits
 * @short_items: where an array of the items of a short message is stored, to be freed with free(); NULL if it has none
 * @short_item_sizes: likewise of their lengths
 * @num_short_items: how many
 * @long_items: likewise of a long message
 * @long_item_sizes: likewise of their lengths
 * @num_long_items: how many
 *
 * All short items of a message lie in one buffer: ripc_buf_free() of any of them gives it back. Behind each there is a 0.
 * Long items are freed one by one, those in windows and return buffers when the application likes.
 * Any of the pointers may be NULL if the application does not want to know.
 *
 * Return: 0, 255 if the service is not registered here, or 1 if there was no memory for the message, which is lost.
 */
uint8_t RIPC_2012(ripc_receive,
		  ripc_compat_receive)(uint16_t service_id, uint16_t *from_service_id,
				       void ***short_items, uint32_t **short_item_sizes,
				       uint16_t *num_short_items, void ***long_items,
				       uint32_t **long_item_sizes, uint16_t *num_long_items)
	RIPC_2012_IS(ripc_compat_receive);

#undef RIPC_2012
#undef RIPC_2012_IS

#ifdef __cplusplus
}
#endif

#endif
