# SPDX-License-Identifier: LGPL-2.1-or-later
check_PROGRAMS += tests/auth/test_secret
tests_auth_test_secret_SOURCES = tests/auth/test_secret.c
tests_auth_test_secret_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_auth_test_secret_LDADD = $(TEST_LIBS)
if HAVE_SODIUM
check_PROGRAMS += tests/auth/test_key tests/auth/test_shake tests/auth/test_cluster
tests_auth_test_key_SOURCES = tests/auth/test_key.c tests/auth/keys.h
tests_auth_test_key_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_auth_test_key_LDADD = $(TEST_LIBS)
tests_auth_test_shake_SOURCES = tests/auth/test_shake.c tests/auth/keys.h
tests_auth_test_shake_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_auth_test_shake_LDADD = $(TEST_LIBS)
tests_auth_test_cluster_SOURCES = tests/auth/test_cluster.c tests/auth/keys.h
tests_auth_test_cluster_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_auth_test_cluster_LDADD = $(TEST_LIBS)
check_PROGRAMS += tests/auth/test_replay
tests_auth_test_replay_SOURCES = tests/auth/test_replay.c tests/auth/keys.h tests/flood.h
tests_auth_test_replay_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_auth_test_replay_LDADD = $(TEST_LIBS)
endif
