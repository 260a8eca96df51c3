# SPDX-License-Identifier: LGPL-2.1-or-later
# A fuzz target is tests/fuzz/fuzz_NAME.c (it includes fuzz.h) with seeds in
# tests/fuzz/corpus/NAME/. With --enable-fuzzers (clang) it becomes a libFuzzer program, run by
# tests/fuzz/run.sh; without, it becomes a test that replays the corpus. To add one, append at the
# end of this file:
#	FUZZ_TARGETS += tests/fuzz/fuzz_NAME
#	tests_fuzz_fuzz_NAME_SOURCES = tests/fuzz/fuzz_NAME.c
#	tests_fuzz_fuzz_NAME_LDADD = $(LIBS_FUZZ)
#	tests_fuzz_fuzz_NAME_LDFLAGS = $(LDFLAGS_FUZZ)
FUZZ_TARGETS =
if FUZZERS
LIBS_FUZZ = libsim.la libripc_internal.la
LDFLAGS_FUZZ = $(AM_LDFLAGS) -fsanitize=fuzzer
EXTRA_PROGRAMS += $(FUZZ_TARGETS)
fuzzers: $(FUZZ_TARGETS)
.PHONY: fuzzers
else
LIBS_FUZZ = libfuzzreplay.la libsim.la libripc_internal.la
LDFLAGS_FUZZ = $(AM_LDFLAGS)
check_LTLIBRARIES += libfuzzreplay.la
libfuzzreplay_la_SOURCES = tests/fuzz/replay.c tests/fuzz/fuzz.h
check_PROGRAMS += $(FUZZ_TARGETS)
endif
EXTRA_DIST += tests/fuzz/fuzz.h tests/fuzz/replay.c tests/fuzz/run.sh tests/fuzz/corpus

FUZZ_TARGETS += tests/fuzz/fuzz_record tests/fuzz/fuzz_resolver
tests_fuzz_fuzz_record_LDADD = $(LIBS_FUZZ)
tests_fuzz_fuzz_record_LDFLAGS = $(LDFLAGS_FUZZ)
tests_fuzz_fuzz_resolver_LDADD = $(LIBS_FUZZ)
tests_fuzz_fuzz_resolver_LDFLAGS = $(LDFLAGS_FUZZ)

FUZZ_TARGETS += tests/fuzz/fuzz_iwarp
tests_fuzz_fuzz_iwarp_LDADD = $(LIBS_FUZZ)
tests_fuzz_fuzz_iwarp_LDFLAGS = $(LDFLAGS_FUZZ)

FUZZ_TARGETS += tests/fuzz/fuzz_header tests/fuzz/fuzz_protocol
tests_fuzz_fuzz_header_LDADD = $(LIBS_FUZZ)
tests_fuzz_fuzz_header_LDFLAGS = $(LDFLAGS_FUZZ)
tests_fuzz_fuzz_protocol_SOURCES = tests/fuzz/fuzz_protocol.c tests/fuzz/hostile_peer.c \
	tests/fuzz/hostile_peer.h
tests_fuzz_fuzz_protocol_LDADD = $(LIBS_FUZZ)
tests_fuzz_fuzz_protocol_LDFLAGS = $(LDFLAGS_FUZZ)

FUZZ_TARGETS += tests/fuzz/fuzz_ring
tests_fuzz_fuzz_ring_LDADD = $(LIBS_FUZZ)
tests_fuzz_fuzz_ring_LDFLAGS = $(LDFLAGS_FUZZ)

FUZZ_TARGETS += tests/fuzz/fuzz_auth
tests_fuzz_fuzz_auth_LDADD = $(LIBS_FUZZ)
tests_fuzz_fuzz_auth_LDFLAGS = $(LDFLAGS_FUZZ)

FUZZ_TARGETS += tests/fuzz/fuzz_villas
tests_fuzz_fuzz_villas_SOURCES = tests/fuzz/fuzz_villas.c tools/gateway/villas.c
tests_fuzz_fuzz_villas_LDADD = $(LIBS_FUZZ)
tests_fuzz_fuzz_villas_LDFLAGS = $(LDFLAGS_FUZZ)

if HAVE_GATEWAY
FUZZ_TARGETS += tests/fuzz/fuzz_plan
endif
tests_fuzz_fuzz_plan_SOURCES = tests/fuzz/fuzz_plan.c tools/gateway/json.c \
	tools/gateway/plan.c tools/gateway/setting.c tools/gateway/text.c
tests_fuzz_fuzz_plan_CFLAGS = $(AM_CFLAGS) $(LIBCONFIG_CFLAGS) $(JANSSON_CFLAGS)
tests_fuzz_fuzz_plan_LDADD = $(LIBS_FUZZ) $(LIBCONFIG_LIBS) $(JANSSON_LIBS)
tests_fuzz_fuzz_plan_LDFLAGS = $(LDFLAGS_FUZZ)
