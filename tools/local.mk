# SPDX-License-Identifier: LGPL-2.1-or-later
# The tools see the public interface only.
noinst_LTLIBRARIES += libtools.la
libtools_la_SOURCES = tools/histogram.c tools/histogram.h tools/tool.c tools/tool.h
libtools_la_LIBADD = -lm
