/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The namespace libripc, for C++17 and later: owners of the handles of ripc.h, and views of the
 * items of messages. Header only; link with -lripc. Each function does what the C function named
 * in its comment does; ripc.h and the manual pages have its contract.
 *
 * Ownership: context, service, message, request, call and buffer own what the C library gave out,
 * are movable, and end it in their destructors. A destructor never throws. A handle that was moved
 * from is empty. A service, request or call may outlive its context: its functions then fail with
 * ESHUTDOWN. A message or buffer may not.
 *
 * Errors: a function throws libripc::error, a std::system_error of the generic category. Its what()
 * is the sentence of ripc_error_detail(). The functions with an argument ec store the code there
 * and do not throw. A timeout of receive() is not an error: it returns no message.
 */
#ifndef RIPC_HPP
#define RIPC_HPP

#include <ripc.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#if __cplusplus >= 202002L
#include <span>
#endif

namespace libripc
{

using std::chrono::milliseconds;

/** No limit, as timeout. */
inline constexpr milliseconds forever{-1};
/** An id that is drawn: RIPC_ANY_ID. */
inline constexpr std::uint64_t any_id = RIPC_ANY_ID;

/** A failed call. code() is an errno value of the generic category. */
class error : public std::system_error
{
      public:
	/** @rc: negative errno; @detail: the sentence */
	error(int rc, const char *detail)
	    : std::system_error(-rc, std::generic_category()), detail_(detail)
	{
	}
	const char *what() const noexcept override
	{
		return detail_.empty() ? std::system_error::what() : detail_.c_str();
	}

      private:
	std::string detail_;
};

namespace detail
{

inline void check(int rc)
{
	if (rc < 0)
		throw error(rc, ripc_error_detail());
}

inline std::error_code code_of(int rc) noexcept
{
	return rc < 0 ? std::error_code(-rc, std::generic_category()) : std::error_code();
}

inline int timeout_of(milliseconds t) noexcept
{
	if (t.count() < 0)
		return -1;
	return t.count() > INT_MAX ? INT_MAX : static_cast<int>(t.count());
}

/* Owns a handle until release(). End is called with handles that are not null. */
template <typename T, void (*End)(T *)> class handle
{
      public:
	handle() noexcept = default;
	explicit handle(T *p) noexcept : p_(p)
	{
	}
	handle(handle &&o) noexcept : p_(o.release())
	{
	}
	handle &operator=(handle &&o) noexcept
	{
		reset(o.release());
		return *this;
	}
	handle(const handle &) = delete;
	handle &operator=(const handle &) = delete;
	~handle()
	{
		reset();
	}
	T *get() const noexcept
	{
		return p_;
	}
	T **address() noexcept
	{
		return &p_;
	}
	T *release() noexcept
	{
		return std::exchange(p_, nullptr);
	}
	void reset(T *p = nullptr) noexcept
	{
		if (T *old = std::exchange(p_, p))
			End(old);
	}

      private:
	T *p_ = nullptr;
};

inline void end_context(struct ripc *p)
{
	ripc_close(p);
}
inline void end_service(struct ripc_service *p)
{
	ripc_service_unregister(p);
}
inline void end_message(struct ripc_message *p)
{
	ripc_message_free(p);
}
inline void end_request(struct ripc_request *p)
{
	ripc_request_cancel(&p, 0);
}

} // namespace detail

/** Bytes that somebody else owns: an item of a received message. */
class bytes
{
      public:
	bytes() noexcept = default;
	bytes(const void *data, std::size_t size) noexcept
	    : data_(static_cast<const std::byte *>(data)), size_(size)
	{
	}
	const std::byte *data() const noexcept
	{
		return data_;
	}
	std::size_t size() const noexcept
	{
		return size_;
	}
	bool empty() const noexcept
	{
		return !size_;
	}
	const std::byte *begin() const noexcept
	{
		return data_;
	}
	const std::byte *end() const noexcept
	{
		return data_ + size_;
	}
	std::byte operator[](std::size_t i) const noexcept
	{
		return data_[i];
	}
	std::string_view text() const noexcept
	{
		return {reinterpret_cast<const char *>(data_), size_};
	}
	/** The bytes as a T; no T: another size. Copied, because items are not aligned. */
	template <typename T> std::optional<T> as() const
	{
		static_assert(std::is_trivially_copyable_v<T>);
		T value;

		if (size_ != sizeof(T))
			return std::nullopt;
		std::char_traits<char>::copy(reinterpret_cast<char *>(&value),
					     reinterpret_cast<const char *>(data_), size_);
		return value;
	}
#if __cplusplus >= 202002L
	operator std::span<const std::byte>() const noexcept
	{
		return {data_, size_};
	}
#endif

      private:
	const std::byte *data_ = nullptr;
	std::size_t size_ = 0;
};

/** An item to send: memory of the caller, which stays valid as long as ripc.h requires. */
struct item : iovec {
	item(const void *data, std::size_t size) noexcept : iovec{const_cast<void *>(data), size}
	{
	}
	item(std::string_view s) noexcept : item(s.data(), s.size())
	{
	}
	item(const char *s) noexcept : item(std::string_view(s))
	{
	}
	item(bytes b) noexcept : item(b.data(), b.size())
	{
	}
	/** A container of trivially copyable elements in one piece: vector, array, span. */
	template <typename C,
		  typename E = std::remove_pointer_t<decltype(std::declval<C &>().data())>,
		  typename = std::enable_if_t<std::is_trivially_copyable_v<E>>>
	item(const C &c) noexcept : item(c.data(), c.size() * sizeof(E))
	{
	}
};
static_assert(sizeof(item) == sizeof(iovec));

/** A list of items, for the time of a call: one, a list in braces, or a vector of items. */
class items
{
      public:
	template <typename T, typename = std::enable_if_t<std::is_convertible_v<const T &, item>>>
	items(const T &one) noexcept : one_(one), n_(1)
	{
	}
/* The array of a list in braces lives until the end of the call. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
#endif
	items(std::initializer_list<item> list) noexcept
	    : p_(list.begin()), n_(static_cast<unsigned>(list.size()))
	{
	}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
	items(const std::vector<item> &list) noexcept
	    : p_(list.data()), n_(static_cast<unsigned>(list.size()))
	{
	}
	const iovec *data() const noexcept
	{
		return p_ ? p_ : &one_;
	}
	unsigned size() const noexcept
	{
		return n_;
	}

      private:
	item one_{nullptr, 0};
	const item *p_ = nullptr;
	unsigned n_;
};

class context;
class service;

/** A registered buffer: ripc_buf_alloc(). */
class buffer
{
      public:
	buffer() noexcept = default;
	/** Takes a buffer over from the C interface. */
	buffer(struct ripc *ctx, void *data, std::size_t size) noexcept
	    : ctx_(ctx), data_(data), size_(size)
	{
	}
	buffer(buffer &&o) noexcept
	    : ctx_(o.ctx_), data_(std::exchange(o.data_, nullptr)), size_(o.size_)
	{
	}
	buffer &operator=(buffer &&o) noexcept
	{
		std::swap(ctx_, o.ctx_);
		std::swap(data_, o.data_);
		std::swap(size_, o.size_);
		return *this;
	}
	buffer(const buffer &) = delete;
	buffer &operator=(const buffer &) = delete;
	~buffer()
	{
		if (data_)
			ripc_buf_free(ctx_, data_);
	}
	explicit operator bool() const noexcept
	{
		return data_;
	}
	std::byte *data() const noexcept
	{
		return static_cast<std::byte *>(data_);
	}
	std::size_t size() const noexcept
	{
		return size_;
	}
	void *release() noexcept
	{
		return std::exchange(data_, nullptr);
	}

      private:
	struct ripc *ctx_ = nullptr;
	void *data_ = nullptr;
	std::size_t size_ = 0;
};

/**
 * An object in a registered buffer for one service: made in place, sent without a copy. Receivers
 * see its bytes, so it must be trivially copyable.
 */
template <typename T> class typed_buffer
{
	static_assert(std::is_trivially_copyable_v<T>);

      public:
	template <typename... A>
	explicit typed_buffer(buffer memory, A &&...a)
	    : memory_(std::move(memory)), object_(new (memory_.data()) T{std::forward<A>(a)...})
	{
	}
	T *operator->() const noexcept
	{
		return object_;
	}
	T &operator*() const noexcept
	{
		return *object_;
	}
	libripc::item item() const noexcept
	{
		return {object_, sizeof(T)};
	}

      private:
	buffer memory_;
	T *object_;
};

/** A received message: ripc_receive(), ripc_call(). */
class message
{
      public:
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
			throw error(-EINVAL, ripc_error_detail());
		return {ctx_, p, n};
	}

	/** ripc_reply() */
	void reply(items answer, milliseconds timeout = forever)
	{
		detail::check(ripc_reply(m_.get(), answer.data(), answer.size(),
					 detail::timeout_of(timeout)));
	}
	void reply(items answer, milliseconds timeout, std::error_code &ec) noexcept
	{
		ec = detail::code_of(ripc_reply(m_.get(), answer.data(), answer.size(),
						detail::timeout_of(timeout)));
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

/** A message under way: ripc_send_async(). The destructor cancels it. */
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
	bool wait(milliseconds timeout = forever)
	{
		int rc = ripc_request_wait(r_.address(), detail::timeout_of(timeout));

		if (rc == -ETIMEDOUT && r_.get())
			return false;
		detail::check(rc);
		return true;
	}
	/** ripc_request_cancel(). Return: whether the message was delivered nevertheless. */
	bool cancel(milliseconds timeout = milliseconds(100))
	{
		int rc = ripc_request_cancel(r_.address(), detail::timeout_of(timeout));

		if (rc == -ECANCELED)
			return false;
		detail::check(rc);
		return true;
	}

      private:
	detail::handle<struct ripc_request, detail::end_request> r_;
};

/** A call under way: ripc_call_start(). The destructor cancels it. */
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
	std::optional<message> wait(milliseconds timeout = forever)
	{
		struct ripc_message *m = nullptr;
		int rc = ripc_call_wait(r_.address(), &m, detail::timeout_of(timeout));

		if (rc == -EINPROGRESS)
			return std::nullopt;
		message answer(ctx_, m);

		detail::check(rc);
		return answer;
	}
	void cancel() noexcept
	{
		r_.reset();
	}

      private:
	struct ripc *ctx_ = nullptr;
	detail::handle<struct ripc_request, detail::end_request> r_;
};

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

	/** ripc_send(). @flags: bits of enum ripc_flags */
	void send(std::uint64_t dest, items message, milliseconds timeout = forever,
		  unsigned flags = 0)
	{
		detail::check(send_rc(ripc_send, dest, message, timeout, flags));
	}
	void send(std::uint64_t dest, items message, milliseconds timeout, unsigned flags,
		  std::error_code &ec) noexcept
	{
		ec = detail::code_of(send_rc(ripc_send, dest, message, timeout, flags));
	}
	/** ripc_send_short() */
	void send_short(std::uint64_t dest, items message, milliseconds timeout = forever,
			unsigned flags = 0)
	{
		detail::check(send_rc(ripc_send_short, dest, message, timeout, flags));
	}
	/** ripc_send_long() */
	void send_long(std::uint64_t dest, items message, milliseconds timeout = forever)
	{
		detail::check(send_rc(ripc_send_long, dest, message, timeout, 0));
	}
	/** ripc_send_async() */
	request start_send(std::uint64_t dest, items message, void *data = nullptr)
	{
		ripc_send_options o{};
		struct ripc_request *r = nullptr;

		o.size = sizeof(o);
		o.data = data;
		detail::check(
			ripc_send_async(s_.get(), dest, message.data(), message.size(), &o, &r));
		return request(r);
	}
	/** ripc_flush() */
	void flush(std::uint64_t dest, milliseconds timeout = forever)
	{
		detail::check(ripc_flush(s_.get(), dest, detail::timeout_of(timeout)));
	}
	/** ripc_group_send() */
	void send_to_group(std::uint64_t group, items message, milliseconds timeout = forever)
	{
		detail::check(ripc_group_send(s_.get(), group, message.data(), message.size(),
					      nullptr, detail::timeout_of(timeout)));
	}
	/** ripc_group_join(), ripc_group_leave() */
	void join(std::uint64_t group, milliseconds timeout = forever)
	{
		detail::check(ripc_group_join(s_.get(), group, detail::timeout_of(timeout)));
	}
	void leave(std::uint64_t group)
	{
		detail::check(ripc_group_leave(s_.get(), group));
	}

	/** ripc_call(). Return: the answer. */
	message call(std::uint64_t dest, items request, milliseconds timeout = forever,
		     unsigned flags = 0)
	{
		std::error_code ec;
		message answer = call(dest, request, timeout, flags, ec);

		if (ec)
			throw error(-ec.value(), ripc_error_detail());
		return answer;
	}
	message call(std::uint64_t dest, items request, milliseconds timeout, unsigned flags,
		     std::error_code &ec) noexcept
	{
		ripc_call_options o = call_options(flags, nullptr);
		struct ripc_message *m = nullptr;

		ec = detail::code_of(ripc_call(s_.get(), dest, request.data(), request.size(), &o,
					       &m, detail::timeout_of(timeout)));
		return {ctx_, m};
	}
	/** ripc_call_start(). @data: comes back in the completion */
	libripc::call start_call(std::uint64_t dest, items request, milliseconds timeout = forever,
				 unsigned flags = 0, void *data = nullptr)
	{
		ripc_call_options o = call_options(flags, data);
		struct ripc_request *r = nullptr;

		detail::check(ripc_call_start(s_.get(), dest, request.data(), request.size(), &o,
					      detail::timeout_of(timeout), &r));
		return {ctx_, r};
	}

	/** ripc_receive(). Return: a message; none: none came in time. */
	std::optional<message> receive(milliseconds timeout = forever)
	{
		std::error_code ec;
		std::optional<message> m = receive(timeout, ec);

		if (ec)
			throw error(-ec.value(), ripc_error_detail());
		return m;
	}
	std::optional<message> receive(milliseconds timeout, std::error_code &ec) noexcept
	{
		struct ripc_message *m = nullptr;
		int rc = ripc_receive(s_.get(), &m, detail::timeout_of(timeout));

		ec = detail::code_of(rc == -ETIMEDOUT || rc == -EAGAIN ? 0 : rc);
		if (!m)
			return std::nullopt;
		return message(ctx_, m);
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
	int send_rc(F *send, std::uint64_t dest, items message, milliseconds timeout,
		    unsigned flags) noexcept
	{
		ripc_send_options o{};

		if (!flags)
			return send(s_.get(), dest, message.data(), message.size(), nullptr,
				    detail::timeout_of(timeout));
		o.size = sizeof(o);
		o.flags = flags;
		return send(s_.get(), dest, message.data(), message.size(), &o,
			    detail::timeout_of(timeout));
	}
	static ripc_call_options call_options(unsigned flags, void *data) noexcept
	{
		ripc_call_options o{};

		o.size = sizeof(o);
		o.flags = flags;
		o.data = data;
		return o;
	}

	struct ripc *ctx_ = nullptr;
	detail::handle<struct ripc_service, detail::end_service> s_;
};

/** A context: ripc_open(). The destructor closes it. */
class context
{
      public:
	/** @options: as of ripc_open() */
	explicit context(const char *options = nullptr)
	{
		detail::check(ripc_open(c_.address(), options));
	}
	struct ripc *get() const noexcept
	{
		return c_.get();
	}
	/** Closes it; throws what the destructor would ignore. */
	void close()
	{
		detail::check(ripc_close(c_.release()));
	}

	/** ripc_service_register(). @flags: 0 or RIPC_TAKEOVER */
	service register_service(std::uint64_t id = any_id, unsigned flags = 0)
	{
		struct ripc_service *s = nullptr;

		detail::check(ripc_service_register(c_.get(), id, flags, &s));
		return {c_.get(), s};
	}
	/** ripc_register_name() */
	service register_name(const char *name, unsigned flags = 0)
	{
		struct ripc_service *s = nullptr;

		detail::check(ripc_register_name(c_.get(), name, flags, &s));
		return {c_.get(), s};
	}
	/** ripc_buf_alloc() */
	buffer allocate(std::size_t size)
	{
		return own(ripc_buf_alloc(c_.get(), size), size);
	}
	/** ripc_buf_alloc_for() */
	buffer allocate_for(std::size_t size, std::uint64_t dest)
	{
		return own(ripc_buf_alloc_for(c_.get(), size, dest), size);
	}
	/** A T{a...} in memory for messages to @dest. */
	template <typename T, typename... A> typed_buffer<T> make(std::uint64_t dest, A &&...a)
	{
		return typed_buffer<T>(allocate_for(sizeof(T), dest), std::forward<A>(a)...);
	}
	/** ripc_completion_fd() */
	int completion_fd()
	{
		int rc = ripc_completion_fd(c_.get());

		detail::check(rc);
		return rc;
	}
	/** ripc_completion_next(). Return: none: nothing was complete in time. */
	std::optional<ripc_completion> next_completion(milliseconds timeout = forever)
	{
		ripc_completion done{};
		int rc;

		done.size = sizeof(done);
		rc = ripc_completion_next(c_.get(), &done, detail::timeout_of(timeout));
		if (rc == -ETIMEDOUT || rc == -EAGAIN)
			return std::nullopt;
		detail::check(rc);
		return done;
	}

      private:
	buffer own(void *p, std::size_t size)
	{
		if (!p)
			throw error(-errno, ripc_error_detail());
		return {c_.get(), p, size};
	}

	detail::handle<struct ripc, detail::end_context> c_;
};

/** The id of a name: ripc_id(). */
inline std::uint64_t id_of(const char *name)
{
	std::uint64_t id = ripc_id(name);

	if (!id)
		throw error(-EINVAL, ripc_error_detail());
	return id;
}

} // namespace libripc

#endif
