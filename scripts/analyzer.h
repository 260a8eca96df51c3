/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * For clang-tidy, which sees one file at a time and takes "return ripc__fail(-EINVAL, ...)" for a
 * possible success. It is included before the sources of the library (scripts/lint).
 */
#include "base/log.h"
#include "base/text.h"
#define ripc__fail(err, ...)  ((void)ripc__fail((err), __VA_ARGS__), (err))
#define ripc__reason(rc, ...) ((void)ripc__reason((rc), __VA_ARGS__), (rc))

/* It takes an element that is in a hash table for one that may be in none. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#undef HASH_DEL
#define HASH_DEL(head, element) ((void)(element))
#undef HASH_DELETE
#define HASH_DELETE(hh, head, element) ((void)(element))
