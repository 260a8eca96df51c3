/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The namespace libripc, for C++17 and later: owners of the handles of ripc.h, and views of the
 * items of messages. Header only; link with -lripc. Each function does what the C function named
 * in its comment does; ripc.h and the manual pages have its contract.
 *
 * Ownership: context, service, message, request, call, buffer and region own what the C library
 * gave out, are movable, and end it in their destructors. A destructor never throws. A handle that
 * was moved from is empty. A service, request or call may outlive its context: its functions then
 * fail with ESHUTDOWN. A message or buffer may not.
 *
 * Errors: a function throws libripc::error, a std::system_error of the generic category. Its what()
 * is the sentence of ripc_error_detail(). The functions with an argument ec store the code there
 * and do not throw. A timeout of receive() is not an error: it returns no message.
 *
 * Timeouts: durations of chrono, such as 2s or deadline - steady_clock::now(): see time_limit. The
 * default is forever, except for services() and request::cancel(). A send or call without a timeout
 * also waits until its destination exists.
 *
 * Left out, and used as they are; get() of each class returns its handle:
 * - ripc_request_test(): request::wait(0ms) does the same.
 * - ripc_strerror(): code().message() of an error.
 * - ripc_log_set(): it takes a function of C, which serves all contexts of the process.
 * - ripc_reply_error() with an errno that std::errc does not have.
 */
#ifndef RIPC_HPP
#define RIPC_HPP

#if __cplusplus < 201703L
#error "ripc.hpp needs C++17: compile with -std=c++17 or a later standard"
#else

#include <ripc.h>

#include <ripc/error.hpp>
#include <ripc/items.hpp>
#include <ripc/buffer.hpp>
#include <ripc/request.hpp>
#include <ripc/message.hpp>
#include <ripc/service.hpp>
#include <ripc/context.hpp>

#endif /* C++17 */

#endif
