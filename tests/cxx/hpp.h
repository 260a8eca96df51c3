/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* For the tests of ripc.hpp: checks, and a run of each test over two transports. */
#ifndef RIPC_TESTS_CXX_HPP_H
#define RIPC_TESTS_CXX_HPP_H

#include <ripc.hpp>

#include <cstdio>

using namespace std::chrono_literals;

inline unsigned passed, failed;

inline void expect(bool ok, const char *what, int line)
{
	if (ok)
		return;
	failed++;
	std::fprintf(stderr, "line %d: %s\n", line, what);
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

inline const char *options; /* of the contexts */

inline void run(void (*test)(), const char *name)
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

struct test {
	void (*function)();
	const char *name;
};

template <std::size_t N> int run_all(const char *suite, const test (&tests)[N])
{
	for (const char *o :
	     {"transports=shm,self interfaces=lo", "transports=iwarp/soft,self interfaces=lo"}) {
		options = o;
		for (const test &t : tests)
			run(t.function, t.name);
	}
	std::printf("%s: %u passed, %u failed, 0 skipped\n", suite, passed, failed);
	return failed != 0;
}

#endif
