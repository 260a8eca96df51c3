/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Part of ripc.hpp: services. */
#ifndef RIPC_SERVICE_HPP
#define RIPC_SERVICE_HPP

#include <ripc/message.hpp>

namespace libripc
{

/** A service of this process: ripc_service_register(). The destructor ends it. */
class service
{
      public:
	service() noexcept = default;
	/** Takes a service over from the C interface. @ctx: its context, or NULL. */
	service(struct ripc *ctx, struct ripc_service *s) noexcept : ctx_(ctx), s_(s)
	{
	}
	explicit operator bool() const noexcept
	{
		return s_.get();
	}
	struct ripc_service *get() const noexcept
	{
		return s_.get();
	}
	std::uint64_t id() const noexcept
	{
		return ripc_service_id(s_.get());
	}
	/** Readable exactly when receive() would return a message at once. */
	int fd() const
	{
		int rc = ripc_service_fd(s_.get());

		detail::check(rc);
		return rc;
	}

	/** ripc_send(). @flags: RIPC_RELIABLE, RIPC_MORE. @buffers: memory for messages of @dest */
	void send(std::uint64_t dest, items message, time_limit timeout = forever,
		  unsigned flags = 0, targets buffers = {})
	{
		detail::check(send_rc(ripc_send, dest, message, timeout, flags, buffers));
	}
	void send(std::uint64_t dest, items message, time_limit timeout, unsigned flags,
		  std::error_code &ec) noexcept
	{
		ec = detail::code_of(send_rc(ripc_send, dest, message, timeout, flags));
	}
	/** ripc_send_short() */
	void send_short(std::uint64_t dest, items message, time_limit timeout = forever,
			unsigned flags = 0)
	{
		detail::check(send_rc(ripc_send_short, dest, message, timeout, flags));
	}
	/** ripc_send_long(). @buffers: memory for long messages of @dest */
	void send_long(std::uint64_t dest, items message, time_limit timeout = forever,
		       targets buffers = {})
	{
		detail::check(send_rc(ripc_send_long, dest, message, timeout, 0, buffers));
	}
	/** ripc_send_long() with RIPC_FREE_ITEMS. A buffer that was not sent stays the caller's. */
	void send_and_free(std::uint64_t dest, buffer &&memory, time_limit timeout = forever)
	{
		detail::check(
			send_rc(ripc_send_long, dest, item(memory), timeout, RIPC_FREE_ITEMS));
		memory.release();
	}
	/** ripc_send_async(). @data: comes back in the completion */
	request start_send(std::uint64_t dest, items message, void *data = nullptr,
			   targets buffers = {})
	{
		auto o = detail::sized<ripc_send_options>();
		struct ripc_request *r = nullptr;

		o.data = data;
		o.nreturn_buffers = buffers.size();
		o.return_buffers = buffers.data();
		detail::check(
			ripc_send_async(s_.get(), dest, message.data(), message.size(), &o, &r));
		return request(r);
	}
	/** ripc_flush() */
	void flush(std::uint64_t dest, time_limit timeout = forever)
	{
		detail::check(ripc_flush(s_.get(), dest, timeout.ms()));
	}
	/** ripc_group_send() */
	void send_to_group(std::uint64_t group, items message, time_limit timeout = forever)
	{
		detail::check(ripc_group_send(s_.get(), group, message.data(), message.size(),
					      nullptr, timeout.ms()));
	}
	/** ripc_group_join(), ripc_group_leave() */
	void join(std::uint64_t group, time_limit timeout = forever)
	{
		detail::check(ripc_group_join(s_.get(), group, timeout.ms()));
	}
	void leave(std::uint64_t group)
	{
		detail::check(ripc_group_leave(s_.get(), group));
	}

	/** ripc_call(). @flags: 0 or RIPC_IDEMPOTENT. @buffers: for the answer, which returns */
	message call(std::uint64_t dest, items request, time_limit timeout = forever,
		     unsigned flags = 0, targets buffers = {})
	{
		std::error_code ec;
		message answer = call(dest, request, timeout, flags, ec, buffers);

		if (ec)
			throw error(-ec.value(), ripc_error_detail());
		return answer;
	}
	message call(std::uint64_t dest, items request, time_limit timeout, unsigned flags,
		     std::error_code &ec, targets buffers = {}) noexcept
	{
		ripc_call_options o = call_options(flags, nullptr, buffers);
		struct ripc_message *m = nullptr;

		ec = detail::code_of(ripc_call(s_.get(), dest, request.data(), request.size(), &o,
					       &m, timeout.ms()));
		return {ctx_, m};
	}
	/** ripc_call_start(). @data: comes back in the completion */
	libripc::call start_call(std::uint64_t dest, items request, time_limit timeout = forever,
				 unsigned flags = 0, void *data = nullptr, targets buffers = {})
	{
		ripc_call_options o = call_options(flags, data, buffers);
		struct ripc_request *r = nullptr;

		detail::check(ripc_call_start(s_.get(), dest, request.data(), request.size(), &o,
					      timeout.ms(), &r));
		return {ctx_, r};
	}

	/** ripc_receive(). Return: a message; none: none came in time. */
	std::optional<message> receive(time_limit timeout = forever)
	{
		struct ripc_message *m = nullptr;
		int rc = ripc_receive(s_.get(), &m, timeout.ms());

		if (m)
			return std::optional<message>(std::in_place, ctx_, m);
		if (rc != -ETIMEDOUT && rc != -EAGAIN)
			detail::check(rc);
		return std::nullopt;
	}
	std::optional<message> receive(time_limit timeout, std::error_code &ec) noexcept
	{
		struct ripc_message *m = nullptr;
		int rc = ripc_receive(s_.get(), &m, timeout.ms());

		ec = detail::code_of(rc == -ETIMEDOUT || rc == -EAGAIN ? 0 : rc);
		if (!m)
			return std::nullopt;
		return std::optional<message>(std::in_place, ctx_, m);
	}
	/** ripc_window_add() for items of this service. */
	void add_window(target memory)
	{
		/* The C function takes NULL for all services of the context. */
		if (!s_.get())
			throw error(-EINVAL, "no service");
		detail::check(ripc_window_add(ctx_, s_.get(), memory.iov_base, memory.iov_len));
	}
	/** ripc_window_remove() */
	void remove_window(target memory)
	{
		if (!s_.get())
			throw error(-EINVAL, "no service");
		detail::check(ripc_window_remove(ctx_, memory.iov_base));
	}
	/** ripc_service_stats() */
	ripc_stats stats() const
	{
		auto result = detail::sized<ripc_stats>();

		detail::check(ripc_service_stats(s_.get(), &result));
		return result;
	}
	/** ripc_watch(), ripc_unwatch() */
	void watch(std::uint64_t dest)
	{
		detail::check(ripc_watch(s_.get(), dest));
	}
	void unwatch(std::uint64_t dest)
	{
		detail::check(ripc_unwatch(s_.get(), dest));
	}

      private:
	template <typename F>
	int send_rc(F *function, std::uint64_t dest, const items &message, time_limit timeout,
		    unsigned flags, const targets &buffers = {}) noexcept
	{
		if (!flags && !buffers.size())
			return function(s_.get(), dest, message.data(), message.size(), nullptr,
					timeout.ms());
		auto o = detail::sized<ripc_send_options>();
		o.flags = flags;
		o.nreturn_buffers = buffers.size();
		o.return_buffers = buffers.data();
		return function(s_.get(), dest, message.data(), message.size(), &o, timeout.ms());
	}
	static ripc_call_options call_options(unsigned flags, void *data,
					      const targets &buffers) noexcept
	{
		auto o = detail::sized<ripc_call_options>();

		o.flags = flags;
		o.data = data;
		o.nreply_buffers = buffers.size();
		o.reply_buffers = buffers.data();
		return o;
	}

	struct ripc *ctx_ = nullptr;
	detail::handle<struct ripc_service, detail::end_service> s_;
};

} // namespace libripc

#endif
