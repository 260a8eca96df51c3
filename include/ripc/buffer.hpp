/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Part of ripc.hpp: buffers of the library, and registered memory of the program. */
#ifndef RIPC_BUFFER_HPP
#define RIPC_BUFFER_HPP

#include <ripc/error.hpp>
#include <ripc/items.hpp>

#include <cerrno>
#include <new>

namespace libripc
{

/**
 * A registered buffer: ripc_buf_alloc(). The destructor frees it. A buffer that a send reads then
 * stays until its context is closed: end the send first.
 */
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
		buffer taken(std::move(o));

		std::swap(ctx_, taken.ctx_);
		std::swap(data_, taken.data_);
		std::swap(size_, taken.size_);
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
		return data_ ? size_ : 0;
	}
	std::byte *begin() const noexcept
	{
		return data();
	}
	std::byte *end() const noexcept
	{
		return data() + size();
	}
	/** ripc_buf_realloc() */
	void resize(std::size_t size)
	{
		/* The C function would allocate one, of the default context without another. */
		if (!data_)
			throw error(-EINVAL, "no buffer");
		void *p = ripc_buf_realloc(ctx_, data_, size);

		if (!p)
			throw error(-errno, ripc_error_detail());
		data_ = p;
		size_ = size;
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
 * see its bytes, so it must be trivially copyable. One that was moved from has no object.
 */
template <typename T> class typed_buffer
{
	static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 64);

      public:
	/** Throws EINVAL if the memory is too small. */
	template <typename... A>
	explicit typed_buffer(buffer memory, A &&...a) : memory_(std::move(memory))
	{
		if (memory_.size() < sizeof(T))
			throw error(-EINVAL, "typed_buffer: the buffer is too small for the type");
		new (memory_.data()) T{std::forward<A>(a)...};
	}
	explicit operator bool() const noexcept
	{
		return bool(memory_);
	}
	T *operator->() const noexcept
	{
		return std::launder(reinterpret_cast<T *>(memory_.data()));
	}
	T &operator*() const noexcept
	{
		return *operator->();
	}
	libripc::item item() const noexcept
	{
		return {memory_.data(), memory_ ? sizeof(T) : 0};
	}
	/** For an answer or a message that has this type. */
	libripc::target target() noexcept
	{
		return {memory_.data(), memory_ ? sizeof(T) : 0};
	}

      private:
	buffer memory_;
};

/**
 * Memory of the program that is registered: ripc_buf_register(). The destructor ends that. Memory
 * in use by a send, a window or a return buffer stays registered: end these first.
 */
class region
{
      public:
	region() noexcept = default;
	/** Takes a registration over from the C interface. */
	region(struct ripc *ctx, target memory) noexcept
	    : ctx_(ctx), data_(memory.iov_base), size_(memory.iov_len)
	{
	}
	region(region &&o) noexcept
	    : ctx_(o.ctx_), data_(std::exchange(o.data_, nullptr)), size_(o.size_)
	{
	}
	region &operator=(region &&o) noexcept
	{
		region taken(std::move(o));

		std::swap(ctx_, taken.ctx_);
		std::swap(data_, taken.data_);
		std::swap(size_, taken.size_);
		return *this;
	}
	region(const region &) = delete;
	region &operator=(const region &) = delete;
	~region()
	{
		if (data_)
			ripc_buf_unregister(ctx_, data_);
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
		return data_ ? size_ : 0;
	}
	std::byte *begin() const noexcept
	{
		return data();
	}
	std::byte *end() const noexcept
	{
		return data() + size();
	}
	/** ripc_buf_unregister(). Throws, and stays registered, while the memory is in use. */
	void close()
	{
		if (!data_)
			throw error(-EINVAL, "no registered memory");
		detail::check(ripc_buf_unregister(ctx_, data_));
		data_ = nullptr;
	}

      private:
	struct ripc *ctx_ = nullptr;
	void *data_ = nullptr;
	std::size_t size_ = 0;
};

} // namespace libripc

#endif
