# SPDX-License-Identifier: LGPL-2.1-or-later
# By name only: scripts/test stress. With the library that applications use.
EXTRA_PROGRAMS += tests/stress/stress
CLEANFILES += tests/stress/stress
tests_stress_stress_SOURCES = tests/stress/stress.c tests/stress/answer.c tests/stress/answer.h \
	tests/stress/board.c tests/stress/board.h tests/stress/chance.h tests/stress/content.c \
	tests/stress/content.h tests/stress/memory.c tests/stress/memory.h tests/stress/numbers.h \
	tests/stress/objects.c tests/stress/objects.h tests/stress/observe.c \
	tests/stress/observe.h tests/stress/receive.c tests/stress/receive.h \
	tests/stress/request.c tests/stress/request.h tests/stress/send.c tests/stress/send.h \
	tests/stress/watchdog.c tests/stress/watchdog.h tests/stress/worker.c \
	tests/stress/worker.h
tests_stress_stress_LDADD = libtests.la libripc.la $(CHECK_LIBS)
