/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Part of ripc.hpp: items that were received, items to send, and memory for items to come. */
#ifndef RIPC_ITEMS_HPP
#define RIPC_ITEMS_HPP

#include <ripc.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

namespace libripc
{

/** Bytes that somebody else owns: an item of a received message. In C++20 also a std::span. */
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
		std::memcpy(&value, data_, size_);
		return value;
	}

      private:
	const std::byte *data_ = nullptr;
	std::size_t size_ = 0;
};

namespace detail
{

template <typename C> using element = std::remove_pointer_t<decltype(std::declval<C &>().data())>;

/*
 * Whether the elements of a container can be sent as they are. Pointers, and views such as
 * string_view, cannot: Item can be made of them.
 */
template <typename C, typename Item, typename = void> inline constexpr bool is_contiguous = false;
template <typename C, typename Item>
inline constexpr bool is_contiguous<C, Item, std::void_t<element<C>>> =
	std::is_trivially_copyable_v<element<C>> && !std::is_pointer_v<element<C>> &&
	!std::is_convertible_v<element<C>, Item>;
template <typename C, typename = void> inline constexpr bool is_writable = false;
template <typename C>
inline constexpr bool is_writable<C, std::void_t<element<C>>> = !std::is_const_v<element<C>>;

} // namespace detail

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
	/** A container of elements in one piece: vector, array, span. */
	template <typename C, typename = std::enable_if_t<detail::is_contiguous<const C, item>>>
	item(const C &c) noexcept : item(c.data(), c.size() * sizeof(*c.data()))
	{
	}
};

/** Memory for items to come: registered or allocated, see ripc.h. */
struct target : iovec {
	target(void *data, std::size_t size) noexcept : iovec{data, size}
	{
	}
	/** All of a buffer, a region, or a container as for an item. */
	template <typename C, typename = std::enable_if_t<detail::is_contiguous<C, item> &&
							  detail::is_writable<C>>>
	target(C &c) noexcept : target(c.data(), c.size() * sizeof(*c.data()))
	{
	}
};
static_assert(sizeof(item) == sizeof(iovec) && sizeof(target) == sizeof(iovec));

/** A list for the time of a call: none, one, a list in braces, or a vector. */
template <typename Item> class list
{
      public:
	list() noexcept = default;
	template <typename T, typename = std::enable_if_t<!std::is_same_v<std::decay_t<T>, list> &&
							  std::is_convertible_v<T &&, Item>>>
	list(T &&one) noexcept : one_(std::forward<T>(one)), n_(1)
	{
	}
/* The array of a list in braces lives until the end of the call. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
#endif
	list(std::initializer_list<Item> some) noexcept
	    : p_(some.begin()), n_(static_cast<unsigned>(some.size()))
	{
	}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
	list(const std::vector<Item> &some) noexcept
	    : p_(some.data()), n_(static_cast<unsigned>(some.size()))
	{
	}
	/** An array of the C interface. */
	list(const iovec *some, unsigned n) noexcept : p_(some), n_(n)
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
	Item one_{nullptr, 0};
	const iovec *p_ = nullptr;
	unsigned n_ = 0;
};

/** The items of a message. */
using items = list<item>;
/** Return buffers of a message, or reply buffers of a call. */
using targets = list<target>;

} // namespace libripc

#endif
