/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A service and its clients in one loop of Asio (https://think-async.com, without Boost), with
 * coroutines of C++20: ripc_service_fd() for messages, ripc_completion_fd() for calls.
 *
 * usage: asio [CALLS]
 *
 * The server answers each request after a timer of its own has expired. So the answers overlap: a
 * thousand calls of 10 ms each take a few times that.
 */
#include <ripc.hpp>

#include <asio.hpp>

#include <cstdlib>
#include <functional>
#include <iostream>

using namespace std::chrono_literals;

namespace
{

/* A descriptor that the library owns: released, not closed, at the end. */
class descriptor
{
      public:
	descriptor(asio::io_context &loop, int fd) : stream_(loop, fd)
	{
	}
	descriptor(const descriptor &) = delete;
	descriptor &operator=(const descriptor &) = delete;
	~descriptor()
	{
		stream_.release();
	}
	asio::awaitable<void> readable()
	{
		return stream_.async_wait(asio::posix::stream_descriptor::wait_read,
					  asio::use_awaitable);
	}

      private:
	asio::posix::stream_descriptor stream_;
};

/* Resumes the coroutine that waits for a call when the call is done. One per context and loop. */
class completions
{
      public:
	completions(asio::io_context &loop, libripc::context &context)
	    : context_(context), fd_(loop, context.completion_fd())
	{
	}

	/* Runs until it is cancelled: spawn it once. */
	asio::awaitable<void> dispatch()
	{
		for (;;) {
			/* An event loop takes all that there is before it waits. */
			while (auto done = context_.next_completion(0ms))
				if (done->kind == RIPC_COMPLETION_REQUEST && done->data)
					static_cast<asio::steady_timer *>(done->data)->cancel();
			co_await fd_.readable();
		}
	}

	/* Throws libripc::error if the call fails. */
	asio::awaitable<libripc::message> call(libripc::service &from, std::uint64_t dest,
					       libripc::items request, libripc::time_limit timeout)
	{
		/* A timer that never expires, as an event. */
		asio::steady_timer done(co_await asio::this_coro::executor,
					asio::steady_timer::time_point::max());
		libripc::call call = from.start_call(dest, request, timeout, 0, &done);

		for (;;) {
			asio::error_code ignored;

			co_await done.async_wait(
				asio::redirect_error(asio::use_awaitable, ignored));
			if (auto answer = call.wait(0ms))
				co_return std::move(*answer);
		}
	}

      private:
	libripc::context &context_;
	descriptor fd_;
};

asio::awaitable<void> answer_later(libripc::message request)
{
	asio::steady_timer timer(co_await asio::this_coro::executor, 10ms);
	std::error_code ignored;

	co_await timer.async_wait(asio::use_awaitable);
	/* The caller may be gone by now. Such a short answer never waits. */
	request.reply({"answer to ", request[0]}, 0ms, ignored);
}

asio::awaitable<void> serve(asio::io_context &loop, libripc::service &service)
{
	descriptor fd(loop, service.fd());

	for (;;) {
		while (auto message = service.receive(0ms))
			if (message->is_request())
				asio::co_spawn(loop, answer_later(std::move(*message)),
					       asio::detached);
		co_await fd.readable();
	}
}

asio::awaitable<void> ask(completions &calls, libripc::service &from, std::uint64_t dest, int i,
			  int &good)
{
	std::string text = "question " + std::to_string(i);
	libripc::message answer = co_await calls.call(from, dest, text, 10s);

	good += answer.size() == 2 && answer[1].text() == text;
}

asio::awaitable<void> ask_all(asio::io_context &loop, completions &calls, libripc::service &from,
			      std::uint64_t dest, int n)
{
	auto start = std::chrono::steady_clock::now();
	int good = 0, left = n;
	asio::steady_timer all(loop, asio::steady_timer::time_point::max());
	asio::error_code ignored;

	for (int i = 0; i < n; i++)
		asio::co_spawn(loop, ask(calls, from, dest, i, good),
			       [&](const std::exception_ptr &) {
				       if (!--left)
					       all.cancel();
			       });
	co_await all.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
	std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
	std::cout << good << " of " << n << " calls answered in " << took.count() << " ms\n";

	try {
		co_await calls.call(from, libripc::id_of("asio/nobody"), "hello", 300ms);
	} catch (const libripc::error &e) {
		std::cout << "error: " << e.what() << '\n';
	}
	loop.stop();
}

void rethrow(const std::exception_ptr &e)
{
	if (e)
		std::rethrow_exception(e);
}

} // namespace

int main(int argc, char **argv)
{
	int n = argc > 1 ? std::atoi(argv[1]) : 1000;

	if (argc > 2 || n < 1 || n > 100000) {
		std::cerr << "usage: asio [CALLS], 1 to 100000\n";
		return 2;
	}
	try {
		libripc::context here, there;
		libripc::service server = there.register_service();
		libripc::service client = here.register_service();
		asio::io_context loop(1);
		completions calls(loop, here);

		asio::co_spawn(loop, serve(loop, server), rethrow);
		asio::co_spawn(loop, calls.dispatch(), rethrow);
		asio::co_spawn(loop, ask_all(loop, calls, client, server.id(), n), rethrow);
		loop.run();
	} catch (const std::exception &e) {
		std::cerr << "asio: " << e.what() << '\n';
		return 1;
	}
	return 0;
}
