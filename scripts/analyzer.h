/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * For clang-tidy, which sees one file at a time and takes "return ripc__fail(-EINVAL, ...)" for a possible success. It is
 * included before the sources of the library (scripts/lint).
 */
#include "core/log.h"
#define ripc__fail(err, ...) ((void)ripc__fail((err), __VA_ARGS__), (err))
