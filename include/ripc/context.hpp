/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Part of ripc.hpp: contexts. */
#ifndef RIPC_CONTEXT_HPP
#define RIPC_CONTEXT_HPP

#include <ripc/service.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace libripc
{

/** An id that is drawn: RIPC_ANY_ID. */
inline constexpr std::uint64_t any_id = RIPC_ANY_ID;

namespace detail
{

/* The name for a function of C, which would take the part before a NUL. */
inline std::string name_of(std::string_view name)
{
	if (name.find('\0') != name.npos)
		throw error(-EINVAL, "name of a service: it has a NUL byte");
	return std::string(name);
}

} // namespace detail

/** A transport, or a back end of the resolver. */
struct component {
	std::string name;
	/** whether it is open, or works */
	bool works;
	/** its address or state, or why it does not work */
	std::string text;
};

/**
 * A context: ripc_open(). The destructor closes it. Closing frees its messages and buffers: no
 * thread may hold one then, see ripc_close(). Threads that wait in receive() or call() may. The
 * functions of a context that was closed or moved from fail with ESHUTDOWN.
 */
class context
{
      public:
	/** @options: as of ripc_open() */
	explicit context(const char *options = nullptr)
	{
		detail::check(ripc_open(c_.address(), options));
	}
	explicit context(const std::string &options) : context(options.c_str())
	{
	}
	struct ripc *get() const noexcept
	{
		return c_.get();
	}
	/** Closes it; throws what the destructor would ignore. */
	void close()
	{
		open();
		detail::check(ripc_close(c_.release()));
	}

	/** ripc_service_register(). @flags: 0 or RIPC_TAKEOVER */
	service register_service(std::uint64_t id = any_id, unsigned flags = 0)
	{
		struct ripc_service *s = nullptr;

		detail::check(ripc_service_register(open(), id, flags, &s));
		return {open(), s};
	}
	/** ripc_register_name() */
	service register_name(const char *name, unsigned flags = 0)
	{
		struct ripc_service *s = nullptr;

		detail::check(ripc_register_name(open(), name, flags, &s));
		return {open(), s};
	}
	service register_name(std::string_view name, unsigned flags = 0)
	{
		return register_name(detail::name_of(name).c_str(), flags);
	}
	/** ripc_buf_alloc() */
	buffer allocate(std::size_t size)
	{
		return own(ripc_buf_alloc(open(), size), size);
	}
	/** ripc_buf_alloc_for() */
	buffer allocate_for(std::size_t size, std::uint64_t dest)
	{
		return own(ripc_buf_alloc_for(open(), size, dest), size);
	}
	/** A T{a...} in memory for messages to @dest. */
	template <typename T, typename... A> typed_buffer<T> make(std::uint64_t dest, A &&...a)
	{
		return typed_buffer<T>(allocate_for(sizeof(T), dest), std::forward<A>(a)...);
	}
	/** ripc_buf_register() */
	region register_memory(target memory)
	{
		detail::check(ripc_buf_register(open(), memory.iov_base, memory.iov_len));
		return {open(), memory};
	}
	/** ripc_window_add() for items of all services. */
	void add_window(target memory)
	{
		detail::check(ripc_window_add(open(), nullptr, memory.iov_base, memory.iov_len));
	}
	/** ripc_window_remove() */
	void remove_window(target memory)
	{
		detail::check(ripc_window_remove(open(), memory.iov_base));
	}

	/** ripc_route_lookup() */
	ripc_route connect(std::uint64_t dest, time_limit timeout = forever)
	{
		auto route = detail::sized<ripc_route>();

		detail::check(ripc_route_lookup(open(), dest, &route, timeout.ms()));
		return route;
	}
	/** ripc_route_get(). Return: none: nothing is known of the service. */
	std::optional<ripc_route> route(std::uint64_t dest) const
	{
		auto r = detail::sized<ripc_route>();

		return known(ripc_route_get(open(), dest, &r), r);
	}
	/** ripc_route_limits(). Return: none: @dest is not connected. */
	std::optional<ripc_limits> limits(std::uint64_t dest) const
	{
		auto l = detail::sized<ripc_limits>();

		return known(ripc_route_limits(open(), dest, &l), l);
	}
	/** The limits that hold for every destination. */
	ripc_limits limits() const
	{
		auto l = detail::sized<ripc_limits>();

		detail::check(ripc_route_limits(open(), 0, &l));
		return l;
	}
	/** ripc_service_list(): the services on the network. */
	std::vector<ripc_service_info> services(time_limit timeout = milliseconds(500))
	{
		list_of_services list;
		int rc = ripc_service_list(open(), add_service, &list, timeout.ms());

		detail::check(rc);
		if (list.full)
			throw std::bad_alloc();
		return std::move(list.services);
	}
	/** ripc_context_stats() */
	ripc_stats stats() const
	{
		auto s = detail::sized<ripc_stats>();

		detail::check(ripc_context_stats(open(), &s));
		return s;
	}
	/** ripc_peer_stats(). Return: none: nothing is known of the service. */
	std::optional<ripc_stats> peer_stats(std::uint64_t dest) const
	{
		auto s = detail::sized<ripc_stats>();

		return known(ripc_peer_stats(open(), dest, &s), s);
	}
	/** ripc_group_stats() of all senders. Return: none: the context does not use the group. */
	std::optional<struct ripc_group_stats> group_stats(std::uint64_t group) const
	{
		auto s = detail::sized<struct ripc_group_stats>();

		return known(ripc_group_stats(open(), group, nullptr, &s), s);
	}
	/** The same of one sender, a message::instance(). */
	std::optional<struct ripc_group_stats> group_stats(
		std::uint64_t group, const std::array<std::uint8_t, 16> &sender) const
	{
		auto s = detail::sized<struct ripc_group_stats>();

		return known(ripc_group_stats(open(), group, sender.data(), &s), s);
	}
	/** ripc_transport_info() */
	std::vector<component> transports() const
	{
		return components(ripc_transport_info);
	}
	/** ripc_resolver_info() */
	std::vector<component> resolvers() const
	{
		return components(ripc_resolver_info);
	}

	/** ripc_completion_fd() */
	int completion_fd()
	{
		int rc = ripc_completion_fd(open());

		detail::check(rc);
		return rc;
	}
	/** ripc_completion_next(). Return: none: nothing was complete in time. */
	std::optional<ripc_completion> next_completion(time_limit timeout = forever)
	{
		auto done = detail::sized<ripc_completion>();
		int rc = ripc_completion_next(open(), &done, timeout.ms());
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
		return {open(), p, size};
	}

	template <typename T> static std::optional<T> known(int rc, const T &value)
	{
		return detail::is_known(rc) ? std::optional<T>(value) : std::nullopt;
	}

	struct list_of_services {
		std::vector<ripc_service_info> services;
		bool full = false;
	};
	/* No exception passes through the library. */
	static void add_service(void *arg, const struct ripc_service_info *info) noexcept
	{
		auto *list = static_cast<list_of_services *>(arg);

		try {
			auto one = detail::sized<ripc_service_info>();

			std::memcpy(&one, info, std::min(info->size, sizeof(one)));
			list->services.push_back(one);
		} catch (const std::bad_alloc &) {
			list->full = true;
		}
	}

	template <typename F> std::vector<component> components(F *info) const
	{
		std::vector<component> result;
		char text[1024];

		for (unsigned i = 0;; i++) {
			const char *name;
			int rc = info(open(), i, &name, text, sizeof(text));

			if (rc == -ENOENT)
				return result;
			detail::check(rc);
			result.push_back({name, rc == 1, text});
		}
	}

	/* The handle. The C functions take NULL for the default context of the process. */
	struct ripc *open() const
	{
		if (!c_.get())
			throw error(-ESHUTDOWN, "the context is closed, or was moved from");
		return c_.get();
	}

	detail::handle<struct ripc, detail::end_context> c_;
};

/** The version of the library in use: ripc_version(). */
inline std::string_view version() noexcept
{
	return ripc_version();
}

/** The id of a name: ripc_id(). */
inline std::uint64_t id_of(const char *name)
{
	std::uint64_t id = ripc_id(name);

	if (!id)
		throw error(-EINVAL, ripc_error_detail());
	return id;
}
inline std::uint64_t id_of(std::string_view name)
{
	return id_of(detail::name_of(name).c_str());
}

} // namespace libripc

#endif
