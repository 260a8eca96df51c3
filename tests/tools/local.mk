# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/tools/test_histogram
tests_tools_test_histogram_LDADD = libtools.la $(TEST_LIBS)

check_PROGRAMS += tests/tools/test_perf_clock
tests_tools_test_perf_clock_SOURCES = tests/tools/test_perf_clock.c tools/perf_clock.c \
	tools/perf_clock.h
tests_tools_test_perf_clock_LDADD = $(TEST_LIBS)
# It decides what the kernel reports.
tests_tools_test_perf_clock_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=fopen

if HAVE_VERBS
check_PROGRAMS += tests/tools/test_perf_pair
tests_tools_test_perf_pair_SOURCES = tests/tools/test_perf_pair.c tools/perf_pair.c \
	tools/perf_pair.h
tests_tools_test_perf_pair_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
tests_tools_test_perf_pair_LDADD = libtools.la $(TEST_LIBS) $(VERBS_LIBS)
endif

check_PROGRAMS += tests/tools/test_perf_server
tests_tools_test_perf_server_SOURCES = tests/tools/test_perf_server.c tools/perf_base_server.c \
	tools/perf_clock.c tools/perf_control.c tools/perf_payload.c tools/perf_server.c \
	tools/perf_socket.c
tests_tools_test_perf_server_LDADD = libtools.la $(TEST_LIBS)

check_PROGRAMS += tests/tools/test_perf_socket
tests_tools_test_perf_socket_SOURCES = tests/tools/test_perf_socket.c tools/perf_payload.c \
	tools/perf_socket.c
tests_tools_test_perf_socket_LDADD = libtools.la $(TEST_LIBS)

# Not a test by itself: the scripts run it.
if HAVE_JANSSON
noinst_PROGRAMS += tests/tools/perf_json_check
tests_tools_perf_json_check_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_tools_perf_json_check_LDADD = $(JANSSON_LIBS) -lm
endif

# The messages that test_wireshark.sh shows to the dissector.
noinst_PROGRAMS += tests/tools/message_frames
tests_tools_message_frames_SOURCES = tests/tools/message_frames.c tests/wire/headers.c \
	tests/wire/headers.h

dist_check_SCRIPTS += tests/tools/test_ripc_info.sh tests/tools/test_ripc_ping.sh \
	tests/tools/test_ripc_perf.sh tests/tools/test_examples.sh tests/tools/test_environment.sh \
	tests/tools/test_two_hosts.sh tests/tools/test_link_local.sh \
	tests/tools/test_wireshark.sh tests/tools/test_doctor.sh \
	tests/tools/test_completion.sh tests/tools/test_tutorial.sh \
	tests/tools/test_languages.sh tests/tools/test_bench.sh \
	tests/tools/test_bench_calls.sh tests/tools/test_bench_messages.sh \
	tests/tools/test_layers.sh tests/tools/test_profile.sh tests/tools/test_unstable.sh \
	tests/tools/test_no_install.sh tests/tools/test_manpage_examples.sh \
	tests/tools/gateway/test_bench_gateway.sh tests/tools/gateway/test_gateway.sh
EXTRA_DIST += tests/tools/lib.sh tests/wait.sh tests/tools/gateway/soak.sh

# Preloaded by test_doctor.sh, where there are shared libraries.
if SHARED_LIBS
check_LTLIBRARIES += tests/tools/clock_off.la
tests_tools_clock_off_la_LDFLAGS = -module -shared -avoid-version -rpath /nowhere
endif

check_PROGRAMS += tests/tools/gateway/test_villas
tests_tools_gateway_test_villas_SOURCES = tests/tools/gateway/test_villas.c tools/gateway/villas.c \
	tools/gateway/villas.h tools/gateway/sample.h

check_PROGRAMS += tests/tools/gateway/test_flow
tests_tools_gateway_test_flow_SOURCES = tests/tools/gateway/test_flow.c tools/gateway/flow.c \
	tools/gateway/flow.h tools/gateway/sample.h
tests_tools_gateway_test_flow_LDADD = libtools.la $(TEST_LIBS)
