# SPDX-License-Identifier: LGPL-2.1-or-later
# What the tests of the core share: contexts in a simulated network.
check_LTLIBRARIES += libcorerig.la
libcorerig_la_SOURCES = tests/core/rig.c tests/core/rig.h
libcorerig_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
CORE_LIBS = libcorerig.la $(TEST_LIBS)

check_PROGRAMS += tests/core/progress/test_progress_thread
tests_core_progress_test_progress_thread_SOURCES = tests/core/progress/test_progress_thread.c tests/core/numbers.c tests/core/numbers.h
tests_core_progress_test_progress_thread_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_progress_test_progress_thread_LDADD = $(CORE_LIBS)
tests_core_progress_test_progress_thread_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sem_clockwait,--wrap=epoll_pwait2 \
	-Wl,--wrap=epoll_ctl,--wrap=ripc__round,--wrap=ripc__round_part

check_PROGRAMS += tests/core/message/test_short_header
tests_core_message_test_short_header_SOURCES = tests/core/message/test_short_header.c
tests_core_message_test_short_header_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_message_test_short_header_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/rendezvous/test_receive
tests_core_rendezvous_test_receive_SOURCES = tests/core/rendezvous/test_receive.c
tests_core_rendezvous_test_receive_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_rendezvous_test_receive_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/peer/test_attempt
tests_core_peer_test_attempt_SOURCES = tests/core/peer/test_attempt.c
tests_core_peer_test_attempt_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_peer_test_attempt_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/core/memory/test_buffer
tests_core_memory_test_buffer_SOURCES = tests/core/memory/test_buffer.c
tests_core_memory_test_buffer_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_memory_test_buffer_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/rendezvous/test_delayed_ack
tests_core_rendezvous_test_delayed_ack_SOURCES = tests/core/rendezvous/test_delayed_ack.c
tests_core_rendezvous_test_delayed_ack_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_rendezvous_test_delayed_ack_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/progress/test_handle
tests_core_progress_test_handle_SOURCES = tests/core/progress/test_handle.c
tests_core_progress_test_handle_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_progress_test_handle_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/core/peer/test_lane
tests_core_peer_test_lane_SOURCES = tests/core/peer/test_lane.c
tests_core_peer_test_lane_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_peer_test_lane_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/progress/test_lock
tests_core_progress_test_lock_SOURCES = tests/core/progress/test_lock.c
tests_core_progress_test_lock_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_progress_test_lock_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/core/message/test_message
tests_core_message_test_message_SOURCES = tests/core/message/test_message.c
tests_core_message_test_message_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_message_test_message_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/context/test_oom
tests_core_context_test_oom_SOURCES = tests/core/context/test_oom.c
tests_core_context_test_oom_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_context_test_oom_LDADD = $(CORE_LIBS)
tests_core_context_test_oom_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=aligned_alloc

check_PROGRAMS += tests/core/peer/test_eviction
tests_core_peer_test_eviction_SOURCES = tests/core/peer/test_eviction.c
tests_core_peer_test_eviction_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_peer_test_eviction_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/group/test_group
tests_core_group_test_group_SOURCES = tests/core/group/test_group.c
tests_core_group_test_group_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_group_test_group_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/peer/test_peer
tests_core_peer_test_peer_SOURCES = tests/core/peer/test_peer.c
tests_core_peer_test_peer_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_peer_test_peer_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/message/test_network_peer
tests_core_message_test_network_peer_SOURCES = tests/core/message/test_network_peer.c
tests_core_message_test_network_peer_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_message_test_network_peer_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/peer/test_replay
tests_core_peer_test_replay_SOURCES = tests/core/peer/test_replay.c
tests_core_peer_test_replay_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_peer_test_replay_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/core/rendezvous/test_rendezvous
tests_core_rendezvous_test_rendezvous_SOURCES = tests/core/rendezvous/test_rendezvous.c
tests_core_rendezvous_test_rendezvous_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_rendezvous_test_rendezvous_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/rendezvous/test_request
tests_core_rendezvous_test_request_SOURCES = tests/core/rendezvous/test_request.c tests/core/requests.c tests/core/requests.h
tests_core_rendezvous_test_request_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_rendezvous_test_request_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/memory/test_local_returns
tests_core_memory_test_local_returns_SOURCES = tests/core/memory/test_local_returns.c
tests_core_memory_test_local_returns_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_memory_test_local_returns_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/memory/test_bounce
tests_core_memory_test_bounce_SOURCES = tests/core/memory/test_bounce.c
tests_core_memory_test_bounce_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_memory_test_bounce_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/memory/test_app_buffer
tests_core_memory_test_app_buffer_SOURCES = tests/core/memory/test_app_buffer.c
tests_core_memory_test_app_buffer_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_memory_test_app_buffer_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/message/test_send
tests_core_message_test_send_SOURCES = tests/core/message/test_send.c
tests_core_message_test_send_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_message_test_send_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/message/test_service
tests_core_message_test_service_SOURCES = tests/core/message/test_service.c
tests_core_message_test_service_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_message_test_service_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/progress/test_wait
tests_core_progress_test_wait_SOURCES = tests/core/progress/test_wait.c tests/core/numbers.c tests/core/numbers.h
tests_core_progress_test_wait_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_progress_test_wait_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/rendezvous/test_withdraw
tests_core_rendezvous_test_withdraw_SOURCES = tests/core/rendezvous/test_withdraw.c tests/core/requests.c tests/core/requests.h
tests_core_rendezvous_test_withdraw_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_rendezvous_test_withdraw_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/memory/test_receive_window
tests_core_memory_test_receive_window_SOURCES = tests/core/memory/test_receive_window.c
tests_core_memory_test_receive_window_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_memory_test_receive_window_LDADD = $(CORE_LIBS)

check_PROGRAMS += tests/core/message/test_register
tests_core_message_test_register_SOURCES = tests/core/message/test_register.c
tests_core_message_test_register_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CHECK_CFLAGS)
tests_core_message_test_register_LDADD = $(TEST_LIBS)
tests_core_message_test_register_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=poll
