# SPDX-License-Identifier: LGPL-2.1-or-later
# What the tests of the core share: contexts in a simulated network.
check_LTLIBRARIES += libcorerig.la
libcorerig_la_SOURCES = tests/core/rig.c tests/core/rig.h
libcorerig_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
CORE_LIBS = libcorerig.la $(TEST_LIBS)

check_PROGRAMS += tests/core/test_agent
tests_core_test_agent_SOURCES = tests/core/test_agent.c tests/core/numbers.c tests/core/numbers.h
tests_core_test_agent_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_agent_LDADD = $(CORE_LIBS)
tests_core_test_agent_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sem_clockwait,--wrap=epoll_pwait2 \
	-Wl,--wrap=epoll_ctl,--wrap=ripc__round,--wrap=ripc__round_part

check_PROGRAMS += tests/core/test_again
tests_core_test_again_SOURCES = tests/core/test_again.c
tests_core_test_again_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_again_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_arrived
tests_core_test_arrived_SOURCES = tests/core/test_arrived.c
tests_core_test_arrived_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_arrived_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_attempt
tests_core_test_attempt_SOURCES = tests/core/test_attempt.c
tests_core_test_attempt_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_attempt_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/core/test_buffer
tests_core_test_buffer_SOURCES = tests/core/test_buffer.c
tests_core_test_buffer_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_buffer_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_done
tests_core_test_done_SOURCES = tests/core/test_done.c
tests_core_test_done_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_done_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_enter
tests_core_test_enter_SOURCES = tests/core/test_enter.c
tests_core_test_enter_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_enter_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/core/test_lane
tests_core_test_lane_SOURCES = tests/core/test_lane.c
tests_core_test_lane_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_lane_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_lock
tests_core_test_lock_SOURCES = tests/core/test_lock.c
tests_core_test_lock_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_lock_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/core/test_message
tests_core_test_message_SOURCES = tests/core/test_message.c
tests_core_test_message_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_message_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_oom
tests_core_test_oom_SOURCES = tests/core/test_oom.c
tests_core_test_oom_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_oom_LDADD = $(CORE_LIBS)
tests_core_test_oom_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=aligned_alloc

check_PROGRAMS += tests/core/test_eviction
tests_core_test_eviction_SOURCES = tests/core/test_eviction.c
tests_core_test_eviction_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_eviction_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_group
tests_core_test_group_SOURCES = tests/core/test_group.c
tests_core_test_group_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_group_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_peer
tests_core_test_peer_SOURCES = tests/core/test_peer.c
tests_core_test_peer_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_peer_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_remote
tests_core_test_remote_SOURCES = tests/core/test_remote.c
tests_core_test_remote_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_remote_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_replay
tests_core_test_replay_SOURCES = tests/core/test_replay.c
tests_core_test_replay_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_replay_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/core/test_rendezvous
tests_core_test_rendezvous_SOURCES = tests/core/test_rendezvous.c
tests_core_test_rendezvous_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_rendezvous_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_request
tests_core_test_request_SOURCES = tests/core/test_request.c tests/core/requests.c tests/core/requests.h
tests_core_test_request_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_request_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_returns
tests_core_test_returns_SOURCES = tests/core/test_returns.c
tests_core_test_returns_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_returns_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_stage
tests_core_test_stage_SOURCES = tests/core/test_stage.c
tests_core_test_stage_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_stage_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_touch
tests_core_test_touch_SOURCES = tests/core/test_touch.c
tests_core_test_touch_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_touch_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_send
tests_core_test_send_SOURCES = tests/core/test_send.c
tests_core_test_send_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_send_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_service
tests_core_test_service_SOURCES = tests/core/test_service.c
tests_core_test_service_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_service_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_wait
tests_core_test_wait_SOURCES = tests/core/test_wait.c tests/core/numbers.c tests/core/numbers.h
tests_core_test_wait_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_wait_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_withdraw
tests_core_test_withdraw_SOURCES = tests/core/test_withdraw.c tests/core/requests.c tests/core/requests.h
tests_core_test_withdraw_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_withdraw_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_window
tests_core_test_window_SOURCES = tests/core/test_window.c
tests_core_test_window_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_window_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/test_register
tests_core_test_register_SOURCES = tests/core/test_register.c
tests_core_test_register_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_test_register_LDADD = $(TEST_LIBS)
tests_core_test_register_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=poll
