/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ripc.hpp: each class, with two contexts in this process. */
#include <ripc.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

using namespace std::chrono_literals;

namespace
{

unsigned passed, failed;

void expect(bool ok, const char *what, int line)
{
	if (ok)
		return;
	failed++;
	std::fprintf(stderr, "test_hpp.cc:%d: %s\n", line, what);
}
#define EXPECT(x) expect(x, #x, __LINE__)

template <typename F> int thrown(F f)
{
	try {
		f();
	} catch (const libripc::error &e) {
		EXPECT(*e.what());
		return e.code().value();
	}
	return 0;
}

struct sample {
	int number;
	double value;
};

const char options[] = "transports=shm,self interfaces=lo";

void messages()
{
	libripc::context a(options), b(options);
	libripc::service from = a.register_service(), to = b.register_service();
	std::array<int, 3> numbers{1, 2, 3};
	std::vector<libripc::item> list{"x", numbers};

	from.send(to.id(), "hello");
	auto m = to.receive(5s);
	EXPECT(m && m->size() == 1 && (*m)[0].text() == "hello");
	EXPECT(m->source() == from.id() && m->dest() == to.id() && !m->is_long());
	EXPECT(m->event() == RIPC_EVENT_NONE && !m->is_request() && !m->deadline());
	from.send(to.id(), {"two", numbers}, 5s, RIPC_RELIABLE);
	from.flush(to.id(), 5s);
	m = to.receive(5s);
	EXPECT(m && m->size() == 2 && (*m)[1].as<decltype(numbers)>() == numbers);
	EXPECT(!(*m)[1].as<int>());
	from.send_short(to.id(), list, 5s);
	m = to.receive(5s);
	EXPECT(m && m->size() == 2 && (*m)[0].text() == "x");
	EXPECT(!to.receive(0ms));
	std::error_code ec;
	EXPECT(!to.receive(10ms, ec) && !ec);
	EXPECT(thrown([&] { from.send(0, "nobody"); }) == EINVAL);
	from.send(0, "nobody", 0ms, 0, ec);
	EXPECT(ec == std::errc::invalid_argument);
}

void long_messages()
{
	libripc::context a(options), b(options);
	libripc::service from = a.register_service(), to = b.register_service();
	libripc::buffer big = a.allocate(1 << 20);
	std::byte *first = big.data();

	big.data()[12345] = std::byte{7};
	libripc::request r = from.start_send(to.id(), libripc::item(big.data(), big.size()), &big);
	auto m = to.receive(5s);
	EXPECT(m && m->is_long() && (*m)[0].size() == 1 << 20 && (*m)[0][12345] == std::byte{7});
	EXPECT(r.wait(5s) && !r);
	libripc::buffer kept = m->detach(0);
	m.reset();
	EXPECT(kept.data()[12345] == std::byte{7} && kept.size() == 1 << 20);
	libripc::buffer moved = std::move(big);
	EXPECT(!big && moved.data() == first);

	auto s = a.make<sample>(to.id(), 5, 2.5);
	s->number++;
	from.send(to.id(), s.item(), 5s);
	m = to.receive(5s);
	EXPECT(m && (*m)[0].as<sample>()->number == 6 && (*m)[0].as<sample>()->value == 2.5);
}

void calls()
{
	libripc::context a(options), b(options);
	libripc::service client = a.register_service(), server = b.register_name("cxx/server");
	std::thread thread([&] {
		for (int i = 0; i < 4; i++) {
			auto m = server.receive(10s);

			EXPECT(m && m->is_request() && m->deadline() && !m->cancelled());
			if ((*m)[0].text() == "refuse")
				m->reply_error(std::errc::permission_denied);
			else if ((*m)[0].text() != "ignore")
				m->reply({"answer to ", (*m)[0]});
		}
	});
	std::uint64_t id = libripc::id_of("cxx/server");
	libripc::message answer = client.call(id, "q1", 10s);

	EXPECT(answer.size() == 2 && answer[1].text() == "q1");
	EXPECT(thrown([&] { client.call(id, "refuse", 10s); }) == EACCES);
	EXPECT(thrown([&] { client.call(id, "ignore", 10s); }) == ECANCELED);
	int tag = 0;
	libripc::call c = client.start_call(id, "q2", 10s, 0, &tag);
	auto done = a.next_completion(10s);
	EXPECT(done && done->data == &tag && done->request == c.get());
	auto later = c.wait(0ms);
	EXPECT(later && (*later)[1].text() == "q2" && !c);
	EXPECT(!a.next_completion(0ms));
	thread.join();
}

void ends()
{
	libripc::service orphan;
	{
		libripc::context a(options);

		orphan = a.register_service();
		orphan.send(orphan.id(), "to itself", 5s);
		EXPECT(orphan.receive(5s) && orphan.fd() >= 0 && a.completion_fd() >= 0);
		EXPECT(thrown([&] { a.register_service(orphan.id()); }) == EINVAL);
	}
	/* After the end of their context: errors, not crashes. */
	EXPECT(thrown([&] { orphan.send(1, "x", 0ms); }) == ESHUTDOWN);
	EXPECT(thrown([&] { orphan.receive(0ms); }) == ESHUTDOWN);
	EXPECT(thrown([&] { libripc::context("nonsense=1"); }) == EINVAL);
	libripc::context c(options);
	libripc::service watcher = c.register_service();
	watcher.watch(123456789);
	auto m = watcher.receive(20s);
	EXPECT(m && m->event() == RIPC_EVENT_NOT_FOUND && m->source() == 123456789);
	watcher.join(77, 10s);
	watcher.leave(77);
	/* A message must not outlive its context. */
	m.reset();
	c.close();
}

void run(void (*test)(), const char *name)
{
	unsigned before = failed;

	try {
		test();
	} catch (const std::exception &e) {
		failed++;
		std::fprintf(stderr, "%s: %s\n", name, e.what());
	}
	passed += failed == before;
}

} // namespace

int main()
{
	run(messages, "messages");
	run(long_messages, "long_messages");
	run(calls, "calls");
	run(ends, "ends");
	std::printf("cxx/hpp: %u passed, %u failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
