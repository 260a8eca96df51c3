/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The interface of libripc of 2012, for programs written for it: cc program.c -lripc-compat.
 * ripc_compat(7) lists the differences. New programs use ripc.h.
 *
 * A file may include ripc.h first and then this header. The functions then have the names
 * ripc_compat_*, and the file can move to the new interface call by call. Service ids are the same
 * in both.
 *
 * Releases of 2012 took the lengths of a message as uint32_t * or as size_t *. This header accepts
 * both: the type of the argument selects one in each call. RIPC_2012_SIZE_T, defined before this
 * header is included, selects one for the whole file: 1 means size_t *, 0 means uint32_t *. Lengths
 * of another type do not compile.
 *
 * Calls that wait have no timeout. After a failure errno gives the cause. Programs of 2012 seldom
 * check results; the first failure of each kind is therefore also printed on standard error, as in
 * 2012.
 */
#ifndef RIPC_COMPAT_H
#define RIPC_COMPAT_H

/* The guard of the header of 2012: a copy of that header, included later, declares nothing. */
#ifdef RIPC_H_
#error "the ripc.h of 2012 comes first: compile with -include ripc_compat.h, see ripc_compat(7)"
#endif
#define RIPC_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Not a macro: programs of one release define RECV_BUF_SIZE after this header. */
#ifndef RECV_BUF_SIZE
enum {
	/** Most bytes in one short message, the sum of its items. */
	RECV_BUF_SIZE = 2000
};
#endif
/** Has no effect: service_window limits the queued messages, see ripc(7). */
#define NUM_RECV_BUFFERS 10

/* Both libraries can be in one process: the linker sees the names with the prefix. */
#ifdef RIPC_H
#define RIPC_2012(old_name, name) name
#else
#define RIPC_2012(old_name, name) old_name
#endif
#define RIPC_2012_IS(name) __asm__(#name)

/*
 * Lengths. C compilers only warn about a pointer of the wrong type, but reject its conversion to a
 * transparent union. The union is passed like its first member, so the linker sees that pointer.
 * Signed lengths are accepted, as in 2012.
 */
#ifdef __cplusplus
typedef uint32_t *ripc_2012_lengths;
typedef size_t *ripc_2012_lengths_size_t;
typedef uint32_t **ripc_2012_sizes;
#else
typedef union {
	uint32_t *lengths;
	int32_t *as_signed;
} ripc_2012_lengths __attribute__((__transparent_union__));
typedef union {
	size_t *lengths;
	ssize_t *as_signed;
} ripc_2012_lengths_size_t __attribute__((__transparent_union__));
typedef union {
	uint32_t **sizes;
	int32_t **as_signed;
} ripc_2012_sizes __attribute__((__transparent_union__));
#endif

/*
 * The types of ripc_send_short() and ripc_send_long() if the type of the argument does not select
 * them.
 */
#if defined(RIPC_2012_SIZE_T) && RIPC_2012_SIZE_T
typedef ripc_2012_lengths_size_t ripc_2012_send_lengths;
typedef uint32_t ripc_2012_count;
#define RIPC_2012_SEND_IS(name) RIPC_2012_IS(name##_size_t)
#else
typedef ripc_2012_lengths ripc_2012_send_lengths;
typedef uint16_t ripc_2012_count;
#define RIPC_2012_SEND_IS(name) RIPC_2012_IS(name)
#endif

/**
 * init, ripc_init - open the library
 *
 * Every other function opens the library if need be.
 *
 * Return: 0 the first time, 1 if it was open already, 255 if it cannot be opened.
 */
uint8_t RIPC_2012(init, ripc_compat_init)(void) RIPC_2012_IS(ripc_compat_init);
uint8_t RIPC_2012(ripc_init, ripc_compat_ripc_init)(void) RIPC_2012_IS(ripc_compat_ripc_init);

/**
 * ripc_register_random_service_id - register a service with a free id
 *
 * Return: the id, or 0 if no id was free.
 */
uint16_t RIPC_2012(ripc_register_random_service_id, ripc_compat_register_random_service_id)(void)
	RIPC_2012_IS(ripc_compat_register_random_service_id);

/**
 * ripc_register_service_id - register a service
 * @service_id: 1 .. 65535
 *
 * If another process holds the id, the call prints a line on standard error. The program may
 * continue: ripc_receive() then waits until the id is free and registers it. Messages that the
 * program sends from this id until then have source 0.
 *
 * Return: 1, or 0 if the id is held by another process or cannot be registered.
 */
uint8_t RIPC_2012(ripc_register_service_id, ripc_compat_register_service_id)(int service_id)
	RIPC_2012_IS(ripc_compat_register_service_id);

/**
 * ripc_register_multicast_service_id - receive messages to a multicast id
 * @service_id: 1 .. 65535
 *
 * Any number of processes may register the id. ripc_receive() returns its messages.
 * ripc_send_short() to the id reaches all of them, with at most 1024 bytes.
 *
 * Return: 1, or 0 if the id is in use in this process or cannot be registered.
 */
uint8_t RIPC_2012(ripc_register_multicast_service_id,
		  ripc_compat_register_multicast_service_id)(int service_id)
	RIPC_2012_IS(ripc_compat_register_multicast_service_id);

/**
 * ripc_buf_alloc - allocate a buffer that is sent without a copy
 * @size: bytes
 *
 * Return: the buffer, filled with zeros and freed with ripc_buf_free(), or NULL. The result is NULL
 * for a size of 0 too: programs without return buffers request that size.
 */
void *RIPC_2012(ripc_buf_alloc, ripc_compat_buf_alloc)(size_t size)
	RIPC_2012_IS(ripc_compat_buf_alloc);

/**
 * ripc_buf_realloc - change the size of a buffer
 * @buf: any address inside a buffer, or NULL to allocate one
 * @size: bytes
 *
 * Return: the buffer, which may have moved, with zeros in its new part; or NULL, and the old buffer
 * is unchanged.
 */
void *RIPC_2012(ripc_buf_realloc, ripc_compat_buf_realloc)(void *buf, size_t size)
	RIPC_2012_IS(ripc_compat_buf_realloc);

/**
 * ripc_buf_free - free a buffer
 * @buf: any address inside a buffer or a received item; other addresses are ignored
 */
void RIPC_2012(ripc_buf_free, ripc_compat_buf_free)(void *buf) RIPC_2012_IS(ripc_compat_buf_free);

/**
 * ripc_buf_register - send from and receive into memory of the application without a copy
 * @buf: start of the memory
 * @size: bytes
 *
 * Return: 0, or 1 on failure.
 */
uint8_t RIPC_2012(ripc_buf_register, ripc_compat_buf_register)(void *buf, size_t size)
	RIPC_2012_IS(ripc_compat_buf_register);

/**
 * ripc_buf_unregister - end the registration of memory
 * @buf: any address inside memory of ripc_buf_register()
 *
 * Return: 1, or 0 if it is not registered, or if a peer may still write into it.
 */
uint8_t RIPC_2012(ripc_buf_unregister, ripc_compat_buf_unregister)(void *buf)
	RIPC_2012_IS(ripc_compat_buf_unregister);

/**
 * ripc_reg_recv_window - provide memory as the target of one incoming long item
 * @base: start of the memory; NULL: allocate a buffer
 * @size: bytes
 *
 * A repeated call with the same memory before an item came has no effect.
 *
 * Return: 0, or 1 on failure.
 */
uint8_t RIPC_2012(ripc_reg_recv_window, ripc_compat_reg_recv_window)(void *base, size_t size)
	RIPC_2012_IS(ripc_compat_reg_recv_window);

/**
 * ripc_reg_recv_window_for_service - provide memory as the target of one long item to a service
 * @base: start of the memory; NULL: allocate a buffer
 * @size: bytes
 * @service_id: a service registered in this process
 *
 * Return: 0, or 1 on failure.
 */
uint8_t RIPC_2012(ripc_reg_recv_window_for_service,
		  ripc_compat_reg_recv_window_for_service)(void *base, size_t size,
							   uint16_t service_id)
	RIPC_2012_IS(ripc_compat_reg_recv_window_for_service);

/**
 * ripc_send_short - send a short message
 * @src: a service registered in this process
 * @dest: the service to which it is sent
 * @buf: its items
 * @length: bytes of each item, at most RECV_BUF_SIZE together
 * @num_items: 1 .. 64
 * @return_bufs: buffers into which long messages of the receiver may be written; NULL among them:
 * allocate one
 * @return_buf_lengths: bytes of each return buffer; 0: skip it
 * @num_return_bufs: number of return buffers
 *
 * Return: 0 when it was sent, or 1 on failure.
 */
uint8_t RIPC_2012(ripc_send_short, ripc_compat_send_short)(
	uint16_t src, uint16_t dest, void **buf, ripc_2012_send_lengths length,
	ripc_2012_count num_items, void **return_bufs, ripc_2012_send_lengths return_buf_lengths,
	ripc_2012_count num_return_bufs) RIPC_2012_SEND_IS(ripc_compat_send_short);
uint8_t ripc_compat_send_short_size_t(uint16_t src, uint16_t dest, void **buf,
				      ripc_2012_lengths_size_t length, uint32_t num_items,
				      void **return_bufs,
				      ripc_2012_lengths_size_t return_buf_lengths,
				      uint32_t num_return_bufs);

/**
 * ripc_send_long - send a long message and wait until it has arrived
 * @src: a service registered in this process
 * @dest: the service to which it is sent
 * @buf: its items
 * @length: bytes of each item, at most UINT32_MAX, the limit of ripc_receive()
 * @num_items: 1 .. 64
 * @return_bufs: as ripc_send_short()
 * @return_buf_lengths: as ripc_send_short()
 * @num_return_bufs: as ripc_send_short()
 *
 * Return: 0 when it is in the memory of the receiver, or 1 on failure.
 */
uint8_t RIPC_2012(ripc_send_long, ripc_compat_send_long)(
	uint16_t src, uint16_t dest, void **buf, ripc_2012_send_lengths length,
	ripc_2012_count num_items, void **return_bufs, ripc_2012_send_lengths return_buf_lengths,
	ripc_2012_count num_return_bufs) RIPC_2012_SEND_IS(ripc_compat_send_long);
uint8_t ripc_compat_send_long_size_t(uint16_t src, uint16_t dest, void **buf,
				     ripc_2012_lengths_size_t length, uint32_t num_items,
				     void **return_bufs,
				     ripc_2012_lengths_size_t return_buf_lengths,
				     uint32_t num_return_bufs);

/**
 * ripc_receive - wait for the next message
 * @service_id: a service registered in this process
 * @from_service_id: where its sender is stored; 0 if the sender has no id of 16 bits
 * @short_items: where an array of the items of a short message is stored, to be freed with free();
 * NULL if it has none
 * @short_item_sizes: where the array of their lengths is stored, to be freed with free()
 * @num_short_items: where their number is stored
 * @long_items: where an array of the items of a long message is stored, to be freed with free()
 * @long_item_sizes: where the array of their lengths is stored, to be freed with free()
 * @num_long_items: where their number is stored
 *
 * All short items of a message share one buffer; ripc_buf_free() of any of them frees it. A byte of
 * 0 follows each. Long items are freed one by one. Those in windows and return buffers stay the
 * application's. Any of the pointers may be NULL.
 *
 * Return: 0, 255 if the service is not registered in this process, or 1 if there was no memory for
 * the message, which is lost.
 */
uint8_t RIPC_2012(ripc_receive,
		  ripc_compat_receive)(uint16_t service_id, uint16_t *from_service_id,
				       void ***short_items, ripc_2012_sizes short_item_sizes,
				       uint16_t *num_short_items, void ***long_items,
				       ripc_2012_sizes long_item_sizes, uint16_t *num_long_items)
	RIPC_2012_IS(ripc_compat_receive);

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
/* The type of the argument selects an overload. With 32 bits both types are the same. */
#if !defined(RIPC_2012_SIZE_T) && __SIZEOF_SIZE_T__ > 4
static inline uint8_t RIPC_2012(ripc_send_short, ripc_compat_send_short)(
	uint16_t src, uint16_t dest, void **buf, size_t *length, uint32_t num_items,
	void **return_bufs, size_t *return_buf_lengths, uint32_t num_return_bufs)
{
	return ripc_compat_send_short_size_t(src, dest, buf, length, num_items, return_bufs,
					     return_buf_lengths, num_return_bufs);
}

static inline uint8_t RIPC_2012(ripc_send_long, ripc_compat_send_long)(
	uint16_t src, uint16_t dest, void **buf, size_t *length, uint32_t num_items,
	void **return_bufs, size_t *return_buf_lengths, uint32_t num_return_bufs)
{
	return ripc_compat_send_long_size_t(src, dest, buf, length, num_items, return_bufs,
					    return_buf_lengths, num_return_bufs);
}
#endif
#else
/* gcc -pedantic warns about every conversion to a transparent union. */
#define RIPC_2012_CALL(function, ...) __extension__ function(__VA_ARGS__)
#if !defined(RIPC_2012_SIZE_T) && __SIZEOF_SIZE_T__ > 4 && (defined(__clang__) || __GNUC__ >= 5)
/* NULL fits both types. Another void * may point to either, and does not compile. */
#define RIPC_2012_BY_TYPE(length, narrow, wide) \
	_Generic((__typeof__(1 ? (length) : (length)))0,            \
		uint32_t *: narrow,                                 \
		const uint32_t *: narrow,                           \
		int32_t *: narrow,                                  \
		int: narrow,                                        \
		size_t *: wide,                                     \
		const size_t *: wide,                               \
		ssize_t *: wide,                                    \
		void *: __builtin_choose_expr(__builtin_constant_p(length), narrow, (void)0))
#define RIPC_2012_TYPED(narrow, wide, src, dest, buf, length, ...) \
	__extension__ RIPC_2012_BY_TYPE(length, narrow, wide)(src, dest, buf, length, __VA_ARGS__)
#define RIPC_2012_UNTYPED(narrow, wide, ...) RIPC_2012_CALL(narrow, __VA_ARGS__)
/*
 * The fourth of eight arguments selects the function. A compound literal may look like more than
 * eight arguments: then the default holds.
 */
#define RIPC_2012_41ST(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, \
		       _18, _19, _20, _21, _22, _23, _24, _25, _26, _27, _28, _29, _30, _31, _32,  \
		       _33, _34, _35, _36, _37, _38, _39, _40, _41, ...)                           \
	_41
#define RIPC_2012_8X(x)       x, x, x, x, x, x, x, x
#define RIPC_2012_SELECT(...) RIPC_2012_41ST(__VA_ARGS__)
#define RIPC_2012_SEND(narrow, wide, ...)                                                  \
	RIPC_2012_SELECT(__VA_ARGS__, RIPC_2012_8X(RIPC_2012_UNTYPED),                     \
			 RIPC_2012_8X(RIPC_2012_UNTYPED), RIPC_2012_8X(RIPC_2012_UNTYPED), \
			 RIPC_2012_8X(RIPC_2012_UNTYPED), RIPC_2012_TYPED,                 \
			 RIPC_2012_8X(RIPC_2012_UNTYPED), ~)                               \
	(narrow, wide, __VA_ARGS__)
#else
#define RIPC_2012_SEND(narrow, wide, ...) RIPC_2012_CALL(narrow, __VA_ARGS__)
#endif
#ifdef RIPC_H
#define ripc_compat_send_short(...) \
	RIPC_2012_SEND(ripc_compat_send_short, ripc_compat_send_short_size_t, __VA_ARGS__)
#define ripc_compat_send_long(...) \
	RIPC_2012_SEND(ripc_compat_send_long, ripc_compat_send_long_size_t, __VA_ARGS__)
#define ripc_compat_receive(...) RIPC_2012_CALL(ripc_compat_receive, __VA_ARGS__)
#else
#define ripc_send_short(...) \
	RIPC_2012_SEND(ripc_send_short, ripc_compat_send_short_size_t, __VA_ARGS__)
#define ripc_send_long(...) \
	RIPC_2012_SEND(ripc_send_long, ripc_compat_send_long_size_t, __VA_ARGS__)
#define ripc_receive(...) RIPC_2012_CALL(ripc_receive, __VA_ARGS__)
#endif
#endif

#undef RIPC_2012
#undef RIPC_2012_IS
#undef RIPC_2012_SEND_IS

#endif
