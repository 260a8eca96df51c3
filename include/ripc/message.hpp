/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Part of ripc.hpp: received messages, and calls under way. */
#ifndef RIPC_MESSAGE_HPP
#define RIPC_MESSAGE_HPP

#include <ripc/buffer.hpp>
#include <ripc/request.hpp>

#include <array>
#include <iterator>
#include <optional>

namespace libripc
{

/** A received message: ripc_receive(), ripc_call(). */
class message
{
      public:
	/** Over the items. */
	class iterator
	{
	      public:
		using iterator_category = std::input_iterator_tag;
		using difference_type = std::ptrdiff_t;
		using value_type = bytes;
		using pointer = const bytes *;
		using reference = bytes;

		iterator() noexcept = default;
		explicit iterator(const iovec *at) noexcept : at_(at)
		{
		}
		bytes operator*() const noexcept
		{
			return {at_->iov_base, at_->iov_len};
		}
		iterator &operator++() noexcept
		{
			++at_;
			return *this;
		}
		iterator operator++(int) noexcept
		{
			return iterator(at_++);
		}
		bool operator==(const iterator &o) const noexcept
		{
			return at_ == o.at_;
		}
		bool operator!=(const iterator &o) const noexcept
		{
			return at_ != o.at_;
		}

	      private:
		const iovec *at_ = nullptr;
	};

	message() noexcept = default;
	/** Takes a message over from the C interface. @ctx: the context that received it. */
	message(struct ripc *ctx, struct ripc_message *m) noexcept : ctx_(ctx), m_(m)
	{
	}
	explicit operator bool() const noexcept
	{
		return m_.get();
	}
	struct ripc_message *get() const noexcept
	{
		return m_.get();
	}

	std::uint64_t source() const noexcept
	{
		return m_.get()->source;
	}
	std::uint64_t dest() const noexcept
	{
		return m_.get()->dest;
	}
	/** The instance id of the sending context. */
	std::array<std::uint8_t, 16> instance() const noexcept
	{
		std::array<std::uint8_t, 16> id;

		std::memcpy(id.data(), m_.get()->instance, id.size());
		return id;
	}
	/** The group to which it was sent, or 0. */
	std::uint64_t group() const noexcept
	{
		return m_.get()->group;
	}
	bool is_long() const noexcept
	{
		return m_.get()->is_long;
	}
	/** An event of service::watch(); RIPC_EVENT_NONE: a message of a service. */
	ripc_event event() const noexcept
	{
		return static_cast<ripc_event>(m_.get()->event);
	}
	/** Whether it is the request of a call, for reply(). */
	bool is_request() const noexcept
	{
		return m_.get()->call;
	}
	/** The number of return buffers that came with it. */
	unsigned return_buffers() const noexcept
	{
		return m_.get()->nreturn_buffers;
	}
	/** The number of items. */
	std::size_t size() const noexcept
	{
		return m_.get()->nitems;
	}
	/** Item @i < size(), valid as long as the message. */
	bytes operator[](std::size_t i) const noexcept
	{
		const iovec &v = m_.get()->items[i];

		return {v.iov_base, v.iov_len};
	}
	iterator begin() const noexcept
	{
		return iterator(m_.get()->items);
	}
	iterator end() const noexcept
	{
		return iterator(m_.get()->items + size());
	}
	/** All items, to be sent on; valid as long as the message. */
	libripc::items items() const noexcept
	{
		return {m_.get()->items, m_.get()->nitems};
	}
	ripc_placement placement(std::size_t i) const noexcept
	{
		return static_cast<ripc_placement>(m_.get()->placement[i]);
	}
	/** Keeps item @i beyond the message: ripc_message_detach(). */
	buffer detach(unsigned i)
	{
		std::size_t n = i < size() ? m_.get()->items[i].iov_len : 0;
		void *p = ripc_message_detach(m_.get(), i);

		if (!p)
			throw error(-errno, ripc_error_detail());
		return {ctx_, p, n};
	}

	/** ripc_reply() */
	void reply(libripc::items answer, time_limit timeout = forever)
	{
		detail::check(ripc_reply(m_.get(), answer.data(), answer.size(), timeout.ms()));
	}
	void reply(libripc::items answer, time_limit timeout, std::error_code &ec) noexcept
	{
		ec = detail::code_of(
			ripc_reply(m_.get(), answer.data(), answer.size(), timeout.ms()));
	}
	/** ripc_reply_start(). @data: comes back in the completion */
	request start_reply(libripc::items answer, void *data = nullptr)
	{
		auto o = detail::sized<ripc_send_options>();
		struct ripc_request *r = nullptr;

		o.data = data;
		detail::check(ripc_reply_start(m_.get(), answer.data(), answer.size(), &o, &r));
		return request(r);
	}
	/** ripc_reply_error() */
	void reply_error(std::errc e)
	{
		detail::check(ripc_reply_error(m_.get(), static_cast<int>(e)));
	}
	/** Time until the caller gives up; none: no limit, or no request. */
	std::optional<milliseconds> deadline() const noexcept
	{
		int ms = ripc_message_deadline(m_.get());

		return ms < 0 ? std::nullopt : std::optional<milliseconds>(ms);
	}
	/** ripc_message_cancelled() */
	bool cancelled() const noexcept
	{
		return ripc_message_cancelled(m_.get()) == 1;
	}

      private:
	struct ripc *ctx_ = nullptr;
	detail::handle<struct ripc_message, detail::end_message> m_;
};

/** A call under way: ripc_call_start(). The destructor cancels it, as cancel() does. */
class call
{
      public:
	call() noexcept = default;
	call(struct ripc *ctx, struct ripc_request *r) noexcept : ctx_(ctx), r_(r)
	{
	}
	explicit operator bool() const noexcept
	{
		return r_.get();
	}
	struct ripc_request *get() const noexcept
	{
		return r_.get();
	}
	/** The answer; none: there is none yet. Throws if the call has failed. */
	std::optional<message> wait(time_limit timeout = forever)
	{
		struct ripc_message *m = nullptr;
		int rc = ripc_call_wait(r_.address(), &m, timeout.ms());

		if (rc == -EINPROGRESS)
			return std::nullopt;
		message answer(ctx_, m);

		detail::check(rc);
		return answer;
	}
	/** ripc_request_cancel() with 100 ms */
	void cancel() noexcept
	{
		r_.reset();
	}

      private:
	struct ripc *ctx_ = nullptr;
	detail::handle<struct ripc_request, detail::end_request> r_;
};

} // namespace libripc

#endif
