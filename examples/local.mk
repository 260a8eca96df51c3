# SPDX-License-Identifier: LGPL-2.1-or-later
# Built to be tried and tested; installed as sources, for learners.
noinst_PROGRAMS += examples/client examples/server examples/pingpong examples/fileserver \
	examples/fetch \
	examples/kv examples/news examples/tasks
examples_client_SOURCES = examples/client.c examples/service_arg.h
examples_client_LDADD = libripc.la
examples_server_SOURCES = examples/server.c
examples_server_LDADD = libripc.la
examples_pingpong_SOURCES = examples/pingpong.c
examples_pingpong_LDADD = libripc.la
examples_fileserver_SOURCES = examples/fileserver.c
examples_fileserver_LDADD = libripc.la
examples_fetch_SOURCES = examples/fetch.c
examples_fetch_LDADD = libripc.la
examples_kv_SOURCES = examples/kv.c examples/service_arg.h
examples_kv_LDADD = libripc.la
examples_news_SOURCES = examples/news.c
examples_news_LDADD = libripc.la
examples_tasks_SOURCES = examples/tasks.c
examples_tasks_LDADD = libripc.la
if HAVE_UV
noinst_PROGRAMS += examples/gateway
examples_gateway_SOURCES = examples/gateway.c
examples_gateway_CFLAGS = $(AM_CFLAGS) $(UV_CFLAGS)
examples_gateway_LDADD = libripc.la $(UV_LIBS)
endif
if HAVE_ASIO
noinst_PROGRAMS += examples/asio
examples_asio_SOURCES = examples/asio.cc
examples_asio_CPPFLAGS = $(AM_CPPFLAGS) -DASIO_STANDALONE
examples_asio_CXXFLAGS = -std=c++20 -Wall -Wextra
examples_asio_LDADD = libripc.la -lpthread
endif

exampledir = $(docdir)/examples
example_DATA = examples/client.c examples/server.c examples/pingpong.c examples/fileserver.c \
	examples/fetch.c examples/asio.cc \
	examples/gateway.c examples/kv.c examples/news.c examples/tasks.c examples/service_arg.h
EXTRA_DIST += examples/python/kv.py examples/python/pipeline.py

# The programs of the manual pages: doc/man/mkman prints them, and
# tests/tools/test_manpage_examples.sh compiles and runs them as the pages print them. Other pages
# refer to the first two that use a function, in this order.
MAN_EXAMPLES = \
	examples/man/ripc_send_short.c \
	examples/man/ripc_receive.c \
	examples/man/ripc_send_long.c \
	examples/man/ripc_buf_alloc_for.c \
	examples/man/ripc_message_detach.c \
	examples/man/ripc_send_async.c \
	examples/man/ripc_send_options.c \
	examples/man/ripc_call.c \
	examples/man/ripc_reply.c \
	examples/man/ripc_reply_start.c \
	examples/man/ripc_call_start.c \
	examples/man/ripc_completion_next.c \
	examples/man/ripc_flush.c \
	examples/man/ripc_watch.c \
	examples/man/ripc_window_add.c \
	examples/man/ripc_service_fd.c \
	examples/man/ripc_service_fd-libuv.c \
	examples/man/ripc_group_join.c \
	examples/man/ripc_group_send.c \
	examples/man/ripc_open.c \
	examples/man/ripc_service_register.c \
	examples/man/ripc_register_name.c \
	examples/man/ripc_buf_register.c \
	examples/man/ripc_route_lookup.c \
	examples/man/ripc_context_stats.c \
	examples/man/ripc_transport_info.c \
	examples/man/ripc_log_set.c
EXTRA_DIST += $(MAN_EXAMPLES) examples/man/.clang-format
