/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Round trips of short messages between two contexts of one process, in one thread, by ripc.h or by
 * ripc.hpp, for counting instructions: bench/overhead.sh runs it under callgrind. Both check each
 * result and look at the message.
 *
 * usage: overhead c|cxx COUNT [OPTIONS [BYTES]]      OPTIONS: as for ripc_open()
 */
#include <ripc.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace
{

using namespace std::chrono_literals;

[[noreturn]] void fail()
{
	throw std::runtime_error(ripc_error_detail());
}

std::size_t exchange_c(struct ripc_service *from, std::uint64_t dest, struct ripc_service *to,
		       const char *data, std::size_t size)
{
	struct iovec item = {const_cast<char *>(data), size};
	struct ripc_message *m;

	if (ripc_send_short(from, dest, &item, 1, nullptr, 60000))
		fail();
	if (ripc_receive(to, &m, 60000))
		fail();
	std::size_t received = m->items[0].iov_len;
	ripc_message_free(m);
	return received;
}

std::size_t exchange_cxx(libripc::service &from, std::uint64_t dest, libripc::service &to,
			 const char *data, std::size_t size)
{
	from.send_short(dest, libripc::item(data, size), 60s);
	auto m = to.receive(60s);
	if (!m)
		fail();
	return (*m)[0].size();
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 3 || (std::strcmp(argv[1], "c") && std::strcmp(argv[1], "cxx"))) {
		std::fprintf(stderr, "usage: overhead c|cxx COUNT [OPTIONS [BYTES]]\n");
		return 2;
	}
	try {
		const char *options = argc > 3 ? argv[3] : "transports=shm wait=poll interfaces=lo";
		std::size_t size = argc > 4 ? std::strtoul(argv[4], nullptr, 10) : 64, sum = 0;
		libripc::context here(options), there(options);
		libripc::service a = here.register_service(), b = there.register_service();
		std::vector<char> data(size, 'x');
		std::uint64_t a_id = a.id(), b_id = b.id();
		unsigned long count = std::strtoul(argv[2], nullptr, 10);
		bool in_c = !std::strcmp(argv[1], "c");

		for (unsigned long i = 0; i < count; i++) {
			if (in_c) {
				sum += exchange_c(a.get(), b_id, b.get(), data.data(), size);
				sum += exchange_c(b.get(), a_id, a.get(), data.data(), size);
			} else {
				sum += exchange_cxx(a, b_id, b, data.data(), size);
				sum += exchange_cxx(b, a_id, a, data.data(), size);
			}
		}
		return sum != 2 * count * size;
	} catch (const std::exception &e) {
		std::fprintf(stderr, "overhead: %s\n", e.what());
		return 1;
	}
}
