/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ripc.hpp: each class, with two contexts in this process. */
#include "hpp.h"

#include <algorithm>
#include <array>
#include <random>
#if __cplusplus >= 202002L
#include <span>
#endif
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>

namespace
{

struct sample {
	int number;
	double value;
};

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

/* Types of the standard library as arguments, and the items in its algorithms. */
void standard_library()
{
	libripc::context a((std::string(options))), b(options);
	std::string name = "cxx/standard";
	std::string_view part = std::string_view("cxx/standard/longer").substr(0, name.size());
	libripc::service from = a.register_service(), to = b.register_name(name);

	EXPECT(libripc::id_of(part) == to.id() && libripc::id_of(name) == to.id());
	EXPECT(thrown([&] { b.register_name(part); }) == EADDRINUSE);
	EXPECT(thrown([] { libripc::id_of(std::string_view("a\0b", 3)); }) == EINVAL);
	EXPECT(thrown([] { libripc::id_of(static_cast<const char *>(nullptr)); }) == EINVAL);

	from.send(to.id(), {"one", "", "three"}, 5s);
	auto m = to.receive(5s);
	std::string all;
	for (libripc::bytes item : *m)
		all += std::string(item.text()) + ".";
	EXPECT(all == "one..three." && std::distance(m->begin(), m->end()) == 3);
	to.send(from.id(), m->items(), 5s);
	m = from.receive(5s);
	EXPECT(m && m->size() == 3 && (*m)[2].text() == "three");

	libripc::buffer numbers = a.allocate(100);
	std::fill(numbers.begin(), numbers.end(), std::byte{1});
	EXPECT(std::count(numbers.begin(), numbers.end(), std::byte{1}) == 100);
#if __cplusplus >= 202002L
	std::span<std::byte> writable(numbers);
	EXPECT(writable.size() == 100);
	from.send(to.id(), writable.first(10), 5s);
	m = to.receive(5s);
	std::span<const std::byte> received = (*m)[0];
	EXPECT(m && received.size() == 10);
#endif
}

void time_limits()
{
	libripc::context a(options);
	libripc::service s = a.register_service();
	const auto now = std::chrono::steady_clock::now();
	auto ms = [](libripc::time_limit t) { return t.ms(); };

	EXPECT(ms(0ms) == 0 && ms(3ms) == 3 && ms(1us) == 1 && ms(1001us) == 2 && ms(2s) == 2000);
	EXPECT(ms(std::chrono::duration<double>(0.25)) == 250 && ms(-1ms) == 0 && ms(-1us) == 0);
	EXPECT(ms(libripc::forever) == -1 && ms(std::chrono::hours::max()) == -1);
	EXPECT(ms(std::chrono::hours(596)) == 596 * 3600000 && ms(std::chrono::hours(597)) == -1);
	/* A time in the past is no reason to wait for ever. */
	EXPECT(!s.receive(now - std::chrono::steady_clock::now()));
	EXPECT(!s.receive(now + 5ms - std::chrono::steady_clock::now()));
}

/* Sizes around the limits of short messages, and the borders of items. */
void borders()
{
	libripc::context a(options), b(options);
	libripc::service from = a.register_service(), to = b.register_service();
	std::vector<std::size_t> sizes{0, 1, 511, 512, 65536, 65537, 1000000};

	for (std::size_t size : sizes) {
		std::vector<char> data(size, 'x');
		libripc::request r = from.start_send(to.id(), {"", data, "end"});
		auto m = to.receive(10s);

		EXPECT(m && m->size() == 3 && (*m)[0].empty() && (*m)[2].text() == "end");
		EXPECT((*m)[1].text() == std::string_view(data.data(), size) && r.wait(10s));
	}
	for (int i = 0; i < 100; i++)
		from.send(to.id(), std::to_string(i), 5s, RIPC_RELIABLE);
	for (int i = 0; i < 100; i++)
		EXPECT((*to.receive(5s))[0].text() == std::to_string(i));
	std::vector<libripc::item> many(RIPC_ITEMS_MAX + 1, "x");
	EXPECT(thrown([&] { from.send(to.id(), many, 5s); }) == EINVAL);
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
	/* NOLINTNEXTLINE(clang-analyzer-cplusplus.Move): a moved buffer is empty */
	EXPECT(!big && big.size() == 0 && moved.data() == first && moved.size() == 1 << 20);
	auto first_sample = a.make<sample>(to.id(), 1, 1.5);
	auto next_sample = std::move(first_sample);
	/* NOLINTNEXTLINE(clang-analyzer-cplusplus.Move): it has no object any more */
	EXPECT(!first_sample && !first_sample.operator->() && !first_sample.item().iov_base &&
	       !first_sample.target().iov_len);
	EXPECT(next_sample && next_sample->number == 1 && next_sample.item().iov_len);
	EXPECT(thrown([&] {
		       libripc::typed_buffer<sample> small(a.allocate(sizeof(sample) - 1));
	       }) == EINVAL);
	EXPECT(thrown([] { libripc::typed_buffer<sample> none{libripc::buffer()}; }) == EINVAL);

	auto s = a.make<sample>(to.id(), 5, 2.5);
	s->number++;
	from.send(to.id(), s.item(), 5s);
	m = to.receive(5s);
	EXPECT(m && (*m)[0].as<sample>()->number == 6 && (*m)[0].as<sample>()->value == 2.5);
}

/* A region in each of some places, moved at random: a handle that was moved from is empty. */
void moves()
{
	libripc::context a(options);
	std::array<libripc::region, 4> regions;
	std::array<libripc::buffer, 4> buffers;
	std::array<std::array<std::byte, 5000>, 4> memory;
	std::array<const void *, 4> region{}, allocated{};
	unsigned seed = 20261126;

	if (const char *text = std::getenv("RIPC_TEST_SEED"))
		seed = static_cast<unsigned>(std::strtoul(text, nullptr, 0));
	std::minstd_rand random(seed);
	auto check = [&](std::size_t i) {
		EXPECT(regions[i].data() == region[i] && !regions[i] == !region[i]);
		EXPECT(buffers[i].data() == allocated[i] && !buffers[i] == !allocated[i]);
	};
	for (int k = 0; k < 2000; k++) {
		std::size_t from = random() % 4, to = random() % 4;

		switch (random() % 4) {
		case 0:
			regions[to] = std::move(regions[from]);
			region[to] = std::exchange(region[from], nullptr);
			break;
		case 1:
			buffers[to] = std::move(buffers[from]);
			allocated[to] = std::exchange(allocated[from], nullptr);
			break;
		case 2:
			if (std::find(region.begin(), region.end(), &memory[from]) != region.end())
				break;
			regions[to] = a.register_memory(memory[from]);
			region[to] = &memory[from];
			break;
		default:
			buffers[to] = a.allocate(1000);
			allocated[to] = buffers[to].data();
		}
		check(from);
		check(to);
		EXPECT(a.stats().registered_bytes ==
		       static_cast<std::size_t>(4 -
						std::count(region.begin(), region.end(), nullptr)) *
			       sizeof(memory[0]));
	}
}

/* A closed context, and one that was moved from, is not the default context of the process. */
void ended_contexts()
{
	libripc::context a(options), b(options), c = std::move(b);
	libripc::service s = c.register_service(), t = std::move(s);
	std::byte memory[64];

	a.close();
	for (libripc::context *ended : {&a, &b}) {
		EXPECT(thrown([&] { ended->register_service(); }) == ESHUTDOWN);
		EXPECT(thrown([&] { ended->allocate(1); }) == ESHUTDOWN);
		EXPECT(thrown([&] { ended->stats(); }) == ESHUTDOWN);
		EXPECT(thrown([&] { ended->transports(); }) == ESHUTDOWN);
		EXPECT(thrown([&] { ended->close(); }) == ESHUTDOWN);
	}
	/* Neither do empty owners use it. */
	EXPECT(thrown([] { libripc::buffer().resize(1); }) == EINVAL);
	EXPECT(thrown([] { libripc::region().close(); }) == EINVAL);
	EXPECT(thrown([&] {
		       libripc::service().remove_window({memory, sizeof(memory)});
	       }) == EINVAL);
	EXPECT(ripc_close(nullptr) == -EINVAL);
	libripc::region window = c.register_memory({memory, sizeof(memory)});
	/* NOLINTNEXTLINE(clang-analyzer-cplusplus.Move): a moved service has ended */
	EXPECT(thrown([&] { s.add_window({memory, sizeof(memory)}); }) == EINVAL);
	window.close();
	EXPECT(window.size() == 0);
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

/* Arrays of pointers and of views would be sent as addresses. */
static_assert(std::is_convertible_v<std::vector<int>, libripc::items>);
static_assert(std::is_convertible_v<const std::array<double, 2> &, libripc::items>);
static_assert(std::is_convertible_v<libripc::buffer &, libripc::items>);
static_assert(!std::is_convertible_v<std::vector<std::string_view>, libripc::items>);
static_assert(!std::is_convertible_v<std::vector<const char *>, libripc::items>);
static_assert(!std::is_convertible_v<std::array<libripc::item, 2>, libripc::items>);
static_assert(!std::is_convertible_v<std::vector<std::string>, libripc::items>);
static_assert(std::is_convertible_v<std::vector<int> &, libripc::targets>);
static_assert(!std::is_convertible_v<const std::vector<int> &, libripc::targets>);
static_assert(!std::is_convertible_v<const char (&)[4], libripc::targets>);
static_assert(!std::is_copy_constructible_v<libripc::region>);

/* Each item lands in the memory that its receiver has provided. */
void targets()
{
	libripc::context a(options), b(options);
	libripc::service from = a.register_service(), to = b.register_service();
	std::vector<char> data(200000, 'x'), own(200000, 0), wide(300000, 0);
	libripc::buffer window = b.allocate(200000);

	to.add_window(window);
	EXPECT(thrown([&] { b.add_window(window); }) == EBUSY);
	from.send_long(to.id(), data, 10s);
	auto m = to.receive(10s);
	EXPECT(m && m->placement(0) == RIPC_IN_WINDOW && (*m)[0].data() == window.data());
	EXPECT(window.data()[199999] == std::byte{'x'});
	EXPECT(thrown([&] { to.remove_window(window); }) == EINVAL);
	m.reset();

	libripc::region region = b.register_memory(own);
	EXPECT(thrown([&] { b.register_memory(own); }) == EEXIST);
	b.add_window(region);
	EXPECT(thrown([&] { region.close(); }) == EBUSY);
	b.remove_window(region);
	region.close();
	EXPECT(!region && thrown([&] { b.add_window(own); }) == EINVAL);
	libripc::region moved = a.register_memory(wide);
	region = std::move(moved);
	EXPECT(region && !moved && region.size() == wide.size());

	from.send(to.id(), "give me", 10s, 0, region);
	m = to.receive(10s);
	EXPECT(m && m->return_buffers() == 1 && m->source() == from.id());
	to.send_long(m->source(), data, 10s);
	m = from.receive(10s);
	EXPECT(m && m->placement(0) == RIPC_IN_RETURN_BUFFER && wide[199999] == 'x');
	m.reset();

	libripc::buffer sent = a.allocate(100000);
	std::fill_n(sent.data(), sent.size(), std::byte{3});
	sent.resize(150000);
	EXPECT(sent.size() == 150000 && sent.data()[99999] == std::byte{3});
	EXPECT(thrown([&] { from.send_and_free(4711, std::move(sent), 50ms); }) && sent);
	from.send_and_free(to.id(), std::move(sent), 10s);
	m = to.receive(10s);
	EXPECT(!sent && m && (*m)[0].size() == 150000);
}

void answers()
{
	libripc::context a(options), b(options);
	libripc::service client = a.register_service(), server = b.register_service();
	std::vector<char> large(100000, 'y');
	std::thread thread([&] {
		for (int i = 0; i < 2; i++) {
			auto m = server.receive(10s);
			sample s{7, 0.5};

			if (!m || (*m)[0].text() == "small") {
				m->reply(libripc::item(&s, sizeof(s)), 10s);
				continue;
			}
			libripc::request r = m->start_reply(large, &large);
			auto done = b.next_completion(10s);
			EXPECT(done && done->data == &large && done->request == r.get());
			EXPECT(r.wait(10s));
		}
	});
	auto typed = a.make<sample>(server.id());
	std::vector<char> memory(100000);
	libripc::region region = a.register_memory(memory);

	typed->number = 0;
	libripc::message answer = client.call(server.id(), "small", 10s, 0, typed.target());
	EXPECT(answer.placement(0) == RIPC_IN_RETURN_BUFFER && typed->number == 7);
	libripc::call c = client.start_call(server.id(), "large", 10s, 0, nullptr, region);
	EXPECT(c.wait(10s) && memory == large);
	thread.join();
}

template <typename T> bool has(const std::vector<T> &list, std::uint64_t id)
{
	return std::any_of(list.begin(), list.end(), [&](auto &x) { return x.service == id; });
}

void insight()
{
	libripc::context a(options), b(options);
	libripc::service from = a.register_service(), to = b.register_name("cxx/insight");

	EXPECT(!a.route(4711) && !a.limits(4711) && !a.peer_stats(4711) && !a.group_stats(4711));
	EXPECT(thrown([&] { a.connect(0, 10ms); }) == EINVAL);
	ripc_route route = a.connect(to.id(), 10s);
	EXPECT(route.connected && std::string_view(route.name) == "cxx/insight");
	EXPECT(a.route(to.id())->short_max == a.limits(to.id())->short_max);
	EXPECT(a.limits().items_max == RIPC_ITEMS_MAX);
	from.send(to.id(), "12345", 5s);
	auto m = to.receive(5s);
	EXPECT(m && from.stats().short_sent == 1 && to.stats().bytes_received == 5);
	EXPECT(a.stats().short_sent >= 1 && a.peer_stats(to.id())->short_sent >= 1);
	std::vector<ripc_service_info> services = a.services();
	EXPECT(has(services, from.id()) && has(services, to.id()));
	auto works = [](const libripc::component &c) { return c.works && !c.text.empty(); };
	auto transports = a.transports(), resolvers = a.resolvers();
	EXPECT(std::any_of(transports.begin(), transports.end(), works));
	EXPECT(std::any_of(resolvers.begin(), resolvers.end(), works));
	from.join(4712, 10s);
	to.send_to_group(4712, "all", 10s);
	m = from.receive(10s);
	EXPECT(m && m->group() == 4712 && a.group_stats(4712)->received == 1);
	EXPECT(a.group_stats(4712, m->instance())->received == 1);
	EXPECT(!a.group_stats(4712, {}) && !libripc::version().empty());
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

} // namespace

int main()
{
	return run_all("cxx/hpp", {
					  {messages, "messages"},
					  {standard_library, "standard_library"},
					  {time_limits, "time_limits"},
					  {borders, "borders"},
					  {long_messages, "long_messages"},
					  {moves, "moves"},
					  {ended_contexts, "ended_contexts"},
					  {calls, "calls"},
					  {targets, "targets"},
					  {answers, "answers"},
					  {insight, "insight"},
					  {ends, "ends"},
				  });
}
