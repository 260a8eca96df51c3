/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Part of ripc.hpp: errors, timeouts, and the owner of a handle of ripc.h. */
#ifndef RIPC_ERROR_HPP
#define RIPC_ERROR_HPP

#include <ripc.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <string>
#include <system_error>
#include <utility>

namespace libripc
{

using std::chrono::milliseconds;

/** No limit, as timeout. */
inline constexpr milliseconds forever = milliseconds::max();

/**
 * How long to wait: any duration of chrono, rounded up to milliseconds. One that is over, as that
 * until a time in the past, does not wait. One of more than 24 days waits for ever.
 */
class time_limit
{
      public:
	template <typename Rep, typename Period>
	time_limit(std::chrono::duration<Rep, Period> t) noexcept
	{
		const double ms = std::chrono::duration<double, std::milli>(t).count();

		if (!(ms < INT_MAX))
			return;
		ms_ = ms > 0 ? static_cast<int>(ms) : 0;
		ms_ += ms > ms_;
	}
	/** As the functions of ripc.h take it. */
	int ms() const noexcept
	{
		return ms_;
	}

      private:
	int ms_ = -1;
};

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

/* Return: whether the library knows it; false: it knows nothing of it. */
inline bool is_known(int rc)
{
	if (rc == -ENOENT)
		return false;
	check(rc);
	return true;
}

/* A struct of the library with its member size. */
template <typename T> T sized() noexcept
{
	T result{};

	result.size = sizeof(T);
	return result;
}

inline std::error_code code_of(int rc) noexcept
{
	return rc < 0 ? std::error_code(-rc, std::generic_category()) : std::error_code();
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
	/* With 0 the lane to the peer would be closed, and with it all that is on its way. */
	ripc_request_cancel(&p, 100);
}

} // namespace detail

} // namespace libripc

#endif
