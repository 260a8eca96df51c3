/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ripc.hpp with other processes and threads: killed servers, dropped requests, fork(). */
#include "hpp.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>

namespace
{

/* A server that is killed in the middle of a call, with memory of it in use here. */
void kills()
{
	int ready[2];
	char byte;

	EXPECT(!pipe(ready));
	pid_t server = fork();
	if (!server) {
		libripc::context own(options);
		libripc::service s = own.register_name("cxx/victim");

		EXPECT(write(ready[1], "x", 1) == 1);
		auto first = s.receive();
		s.send_long(first->source(), std::vector<char>(200000, 'k'));
		auto unanswered = s.receive();
		EXPECT(unanswered && write(ready[1], "y", 1) == 1);
		pause();
		_exit(0);
	}
	EXPECT(read(ready[0], &byte, 1) == 1);
	std::uint64_t id = libripc::id_of("cxx/victim");
	libripc::context a(options);
	libripc::service client = a.register_service();
	client.send(id, "hello", 20s);
	auto kept = client.receive(20s);
	EXPECT(kept && (*kept)[0].size() == 200000);
	client.watch(id);
	libripc::call call = client.start_call(id, "question", 20s);
	EXPECT(read(ready[0], &byte, 1) == 1);
	kill(server, SIGKILL);
	waitpid(server, nullptr, 0);
	EXPECT(thrown([&] { call.wait(); }) == EPIPE);
	EXPECT(!call);
	auto event = client.receive(20s);
	EXPECT(event && event->event() == RIPC_EVENT_DIED && event->source() == id);
	EXPECT((*kept)[0].text() == std::string(200000, 'k'));
	libripc::service next = a.register_name("cxx/victim");
	client.send(id, "again", 20s);
	EXPECT(next.receive(20s).has_value());
	close(ready[0]);
	close(ready[1]);
}

/* A request that is dropped does not cost the lane, and other messages on their way. */
void dropped()
{
	libripc::context a(options), b(options);
	libripc::service from = a.register_service(), to = b.register_service();
	std::vector<char> large(64 << 20, 'x');
	unsigned received = 0, dropped = 20;

	for (unsigned i = 0; i < dropped; i++) {
		libripc::request r = from.start_send(to.id(), large);

		from.send(to.id(), "short", 10s);
	}
	while (auto m = to.receive(received < dropped ? 2s : 0s))
		received += !m->is_long();
	EXPECT(received == dropped || a.stats().lanes_lost);
	/* A lane is closed if the peer gets no processor for 100 ms. */
	EXPECT(a.stats().lanes_lost <= dropped / 2);
}

/* A child of fork() gets the error of the library, whatever the function. */
void forks()
{
	libripc::context a(options);
	libripc::service s = a.register_service();
	std::vector<char> data(100000, 'x');
	libripc::request r = s.start_send(s.id(), data);
	auto m = s.receive(10s);
	int status = -1;

	EXPECT(m && r.wait(10s));
	pid_t child = fork();
	if (!child) {
		EXPECT(thrown([&] { m->detach(0); }) == EOWNERDEAD);
		EXPECT(thrown([&] { a.allocate(1); }) == EOWNERDEAD);
		EXPECT(thrown([&] { s.receive(0ms); }) == EOWNERDEAD);
		_exit(failed != 0);
	}
	EXPECT(waitpid(child, &status, 0) == child && !status);
}

void threads()
{
	libripc::context a(options), b(options);
	libripc::service client = a.register_service(), server = b.register_service();
	std::atomic<int> good{0}, freed{0};
	std::vector<std::thread> all;

	all.reserve(6);
	for (int i = 0; i < 2; i++)
		all.emplace_back([&] {
			std::error_code ec;

			while (!ec)
				if (auto m = server.receive(libripc::forever, ec)) {
					m->reply((*m)[0], 20s, ec);
					m.reset();
					freed++;
				}
		});
	for (int i = 0; i < 4; i++)
		all.emplace_back([&, i] {
			for (int k = 0; k < 100; k++) {
				std::string text = std::to_string(i * 1000 + k);

				good += client.call(server.id(), text, 20s)[0].text() == text;
			}
		});
	for (std::size_t i = 2; i < all.size(); i++)
		all[i].join();
	EXPECT(good == 400);
	/* close() frees the messages: those of the servers must be free before it. */
	while (freed < 400)
		std::this_thread::yield();
	/* Ends the waits of the others. */
	b.close();
	all[0].join();
	all[1].join();
}

} // namespace

int main()
{
	return run_all("cxx/processes", {
						{kills, "kills"},
						{dropped, "dropped"},
						{forks, "forks"},
						{threads, "threads"},
					});
}
