/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Part of ripc.hpp: messages under way. */
#ifndef RIPC_REQUEST_HPP
#define RIPC_REQUEST_HPP

#include <ripc/error.hpp>

namespace libripc
{

/**
 * A message under way: ripc_send_async(). The destructor cancels it, as cancel() does with its
 * default timeout.
 */
class request
{
      public:
	request() noexcept = default;
	explicit request(struct ripc_request *r) noexcept : r_(r)
	{
	}
	/** Whether it has not ended, or its end was not taken. */
	explicit operator bool() const noexcept
	{
		return r_.get();
	}
	struct ripc_request *get() const noexcept
	{
		return r_.get();
	}
	/** Return: whether it has ended; throws if it has failed. */
	bool wait(time_limit timeout = forever)
	{
		int rc = ripc_request_wait(r_.address(), timeout.ms());

		if (rc == -ETIMEDOUT && r_.get())
			return false;
		detail::check(rc);
		return true;
	}
	/** ripc_request_cancel(). Return: whether the message was delivered nevertheless. */
	bool cancel(time_limit timeout = milliseconds(100))
	{
		int rc = ripc_request_cancel(r_.address(), timeout.ms());

		if (rc == -ECANCELED)
			return false;
		detail::check(rc);
		return true;
	}

      private:
	detail::handle<struct ripc_request, detail::end_request> r_;
};

} // namespace libripc

#endif
