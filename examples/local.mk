# SPDX-License-Identifier: LGPL-2.1-or-later
# Built to be tried and tested; installed as sources, for learners.
noinst_PROGRAMS += examples/client examples/server examples/pingpong examples/fileserver examples/fetch \
	examples/news
examples_client_SOURCES = examples/client.c
examples_client_LDADD = libripc.la
examples_server_SOURCES = examples/server.c
examples_server_LDADD = libripc.la
examples_pingpong_SOURCES = examples/pingpong.c
examples_pingpong_LDADD = libripc.la
examples_fileserver_SOURCES = examples/fileserver.c
examples_fileserver_LDADD = libripc.la
examples_fetch_SOURCES = examples/fetch.c
examples_fetch_LDADD = libripc.la
examples_news_SOURCES = examples/news.c
examples_news_LDADD = libripc.la

exampledir = $(docdir)/examples
example_DATA = examples/client.c examples/server.c examples/pingpong.c examples/fileserver.c examples/fetch.c \
	examples/news.c
