# SPDX-License-Identifier: LGPL-2.1-or-later
# The tools see the public interface only.
noinst_LTLIBRARIES += libtools.la
libtools_la_SOURCES = tools/histogram.c tools/histogram.h tools/tool.c tools/tool.h
libtools_la_LIBADD = -lm

bin_PROGRAMS += tools/ripc-info tools/ripc-ping tools/ripc-perf
TOOL_LIBS = libtools.la libripc.la

tools_ripc_info_SOURCES = tools/doctor.c tools/doctor.h tools/doctor_finding.c tools/doctor_port.c \
	tools/info.c tools/info.h tools/info_gather.c tools/info_report.c \
	tools/info_services.c
tools_ripc_info_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tools_ripc_info_LDADD = $(TOOL_LIBS) $(JANSSON_LIBS)

tools_ripc_ping_SOURCES = tools/ping.c
tools_ripc_ping_LDADD = $(TOOL_LIBS)

tools_ripc_perf_SOURCES = tools/perf.h tools/perf_args.c tools/perf_bandwidth.c \
	tools/perf_base_server.c \
	tools/perf_baseline.c tools/perf_client.c tools/perf_client.h tools/perf_clock.c \
	tools/perf_clock.h tools/perf_control.c tools/perf_control.h tools/perf_experiment.c \
	tools/perf_json.c tools/perf_latency.c tools/perf_main.c tools/perf_paced.c \
	tools/perf_payload.c tools/perf_rate.c \
	tools/perf_samples.c tools/perf_verbs.c \
	tools/perf_report.c tools/perf_server.c tools/perf_server.h tools/perf_socket.c \
	tools/perf_socket.h
if HAVE_VERBS
tools_ripc_perf_SOURCES += tools/perf_pair.c tools/perf_pair.h
endif
tools_ripc_perf_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(VERBS_CFLAGS)
tools_ripc_perf_LDADD = $(TOOL_LIBS) $(JANSSON_LIBS) $(VERBS_LIBS)

# Without libuv or libconfig there is no gateway.
GATEWAY_SOURCES = tools/gateway/arguments.c tools/gateway/arguments.h tools/gateway/flow.c \
	tools/gateway/flow.h tools/gateway/gateway.c \
	tools/gateway/gateway.h tools/gateway/hook.c tools/gateway/hook.h tools/gateway/json.c \
	tools/gateway/json.h tools/gateway/main.c \
	tools/gateway/node.c tools/gateway/node.h tools/gateway/node_file.c \
	tools/gateway/node_ripc.c tools/gateway/node_signal.c tools/gateway/node_socket.c \
	tools/gateway/path.c tools/gateway/path.h tools/gateway/plan.c tools/gateway/plan.h \
	tools/gateway/receiver.c tools/gateway/receiver.h \
	tools/gateway/sample.h tools/gateway/setting.c tools/gateway/setting.h \
	tools/gateway/text.c tools/gateway/text.h tools/gateway/ticker.c \
	tools/gateway/ticker.h tools/gateway/villas.c tools/gateway/villas.h tools/gateway/wire.c \
	tools/gateway/wire.h
EXTRA_DIST += $(GATEWAY_SOURCES) tools/gateway/node_zeromq.c tools/gateway/node_nanomsg.c
if HAVE_GATEWAY
bin_PROGRAMS += tools/ripc-gateway
tools_ripc_gateway_SOURCES = $(GATEWAY_SOURCES)
tools_ripc_gateway_CFLAGS = $(AM_CFLAGS) $(UV_CFLAGS) $(LIBCONFIG_CFLAGS) $(JANSSON_CFLAGS)
tools_ripc_gateway_LDADD = $(TOOL_LIBS) $(UV_LIBS) $(LIBCONFIG_LIBS) $(JANSSON_LIBS) -lm
if HAVE_ZEROMQ
tools_ripc_gateway_SOURCES += tools/gateway/node_zeromq.c
tools_ripc_gateway_CFLAGS += $(ZEROMQ_CFLAGS) -DHAVE_ZEROMQ
tools_ripc_gateway_LDADD += $(ZEROMQ_LIBS)
endif
if HAVE_NNG
tools_ripc_gateway_SOURCES += tools/gateway/node_nanomsg.c
tools_ripc_gateway_CFLAGS += $(NNG_CFLAGS) -DHAVE_NNG
tools_ripc_gateway_LDADD += $(NNG_LIBS)
endif
endif

dist_man1_MANS = doc/man/ripc-gateway.1 doc/man/ripc-info.1 doc/man/ripc-perf.1 doc/man/ripc-ping.1

# Copied into the directory of personal plugins, or named with -X lua_script:
wiresharkdir = $(pkgdatadir)/wireshark
dist_wireshark_DATA = tools/wireshark/ripc.lua

# Completion for bash knows the settings of src/base/options.c and the values they may have.
bashcompdir = $(datadir)/bash-completion/completions
dist_bashcomp_DATA = tools/completion/ripc-gateway tools/completion/ripc-info \
	tools/completion/ripc-perf tools/completion/ripc-ping
tools/completion/ripc-info: tools/completion/mkcompletion tools/completion/ripc-info.in \
	src/base/options.c
	$(AM_V_GEN)$(MKDIR_P) tools/completion && $(PERL) $(srcdir)/tools/completion/mkcompletion \
		$(srcdir)/src/base/options.c $(srcdir)/tools/completion/ripc-info.in >$@.tmp && \
		mv $@.tmp $@
EXTRA_DIST += tools/completion/mkcompletion tools/completion/ripc-info.in
