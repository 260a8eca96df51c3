# SPDX-License-Identifier: LGPL-2.1-or-later
libtests_la_SOURCES += tests/core/groups.c tests/core/groups.h tests/core/invariants.c \
	tests/core/invariants.h tests/core/numbers.c tests/core/numbers.h \
	tests/core/requests.c tests/core/requests.h tests/core/rig.c tests/core/rig.h

check_PROGRAMS += tests/core/progress/test_progress_thread
tests_core_progress_test_progress_thread_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=sem_clockwait,--wrap=ripc__descriptors_mask,--wrap=ripc__transports_arm \
	-Wl,--wrap=pthread_create

# CALLS, FUNCTIONS, RELIABLES, ROUND_TRIPS: each defines the rig of its programs.
ROUND_TRIPS = tests/core/round_trips.c tests/core/round_trips.h
CALLS = tests/core/call/calls.c tests/core/call/calls.h
check_PROGRAMS += tests/core/call/test_callee
tests_core_call_test_callee_SOURCES = tests/core/call/test_callee.c $(CALLS)
check_PROGRAMS += tests/core/call/test_callee_ends
tests_core_call_test_callee_ends_SOURCES = tests/core/call/test_callee_ends.c $(CALLS)
check_PROGRAMS += tests/core/call/test_caller
tests_core_call_test_caller_SOURCES = tests/core/call/test_caller.c $(CALLS)
check_PROGRAMS += tests/core/call/test_caller_ends
tests_core_call_test_caller_ends_SOURCES = tests/core/call/test_caller_ends.c $(CALLS)
check_PROGRAMS += tests/core/call/test_result
tests_core_call_test_result_SOURCES = tests/core/call/test_result.c $(CALLS)
check_PROGRAMS += tests/core/call/test_table
check_PROGRAMS += tests/core/call/test_chaos
tests_core_call_test_chaos_SOURCES = tests/core/call/test_chaos.c \
	tests/core/call/chaos.c tests/core/call/chaos.h \
	tests/scale/call_history.c tests/scale/call_history.h
check_PROGRAMS += tests/core/call/test_kills
tests_core_call_test_kills_SOURCES = tests/core/call/test_kills.c \
	tests/core/call/board.c tests/core/call/board.h \
	tests/core/call/mortal.c tests/core/call/mortal.h \
	tests/scale/call_history.c tests/scale/call_history.h
check_PROGRAMS += tests/core/context/test_completion
check_PROGRAMS += tests/core/context/test_context
tests_core_context_test_context_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=eventfd,--wrap=ripc__resolver_close
FUNCTIONS = tests/core/context/functions.c tests/core/context/functions.h
check_PROGRAMS += tests/core/context/test_errors
tests_core_context_test_errors_SOURCES = tests/core/context/test_errors.c $(FUNCTIONS)
check_PROGRAMS += tests/core/context/test_info
check_PROGRAMS += tests/core/context/test_threads
check_PROGRAMS += tests/core/context/test_list
check_PROGRAMS += tests/core/sim/test_world
check_PROGRAMS += tests/core/message/test_call
tests_core_message_test_call_SOURCES = tests/core/message/test_call.c $(CALLS)
check_PROGRAMS += tests/core/message/test_hostile
check_PROGRAMS += tests/core/message/test_moves
check_PROGRAMS += tests/core/peer/test_lane_control
check_PROGRAMS += tests/core/peer/test_lane_post
check_PROGRAMS += tests/core/rendezvous/test_receive
check_PROGRAMS += tests/core/rendezvous/test_unreadable
check_PROGRAMS += tests/core/peer/test_attempt
check_PROGRAMS += tests/core/peer/test_connect
check_PROGRAMS += tests/core/peer/test_connect_keys
tests_core_peer_test_connect_keys_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=ripc__handshake_confirm,--wrap=calloc
check_PROGRAMS += tests/core/memory/test_cached_mr
check_PROGRAMS += tests/core/memory/test_pool
check_PROGRAMS += tests/core/rendezvous/test_delayed_ack
tests_core_rendezvous_test_delayed_ack_SOURCES = tests/core/rendezvous/test_delayed_ack.c \
	$(ROUND_TRIPS)
check_PROGRAMS += tests/core/progress/test_handle
check_PROGRAMS += tests/core/peer/test_lane
check_PROGRAMS += tests/core/progress/test_lock
check_PROGRAMS += tests/core/memory/test_memory_object
check_PROGRAMS += tests/core/memory/test_message
check_PROGRAMS += tests/core/memory/test_remote_returns
check_PROGRAMS += tests/core/memory/test_region
tests_core_memory_test_region_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=calloc,--wrap=realloc,--wrap=free
check_PROGRAMS += tests/core/context/test_oom
tests_core_context_test_oom_SOURCES = tests/core/context/test_oom.c $(FUNCTIONS)
tests_core_context_test_oom_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=aligned_alloc

check_PROGRAMS += tests/core/peer/test_eviction
check_PROGRAMS += tests/core/peer/test_idle_memory
check_PROGRAMS += tests/core/group/test_crossed_lanes
check_PROGRAMS += tests/core/group/test_group
check_PROGRAMS += tests/core/group/test_group_random
check_PROGRAMS += tests/core/group/test_group_control
check_PROGRAMS += tests/core/group/test_multicast
check_PROGRAMS += tests/core/group/test_membership
check_PROGRAMS += tests/core/group/test_multicast_receive
check_PROGRAMS += tests/core/group/test_multicast_send
check_PROGRAMS += tests/core/peer/test_dest
tests_core_peer_test_dest_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=ripc__resolver_lookup_cancel
check_PROGRAMS += tests/core/peer/test_dest_fold
check_PROGRAMS += tests/core/peer/test_dest_unreachable
check_PROGRAMS += tests/core/peer/test_datagram_context
check_PROGRAMS += tests/core/peer/test_flow
tests_core_peer_test_flow_SOURCES = tests/core/peer/test_flow.c $(ROUND_TRIPS)
check_PROGRAMS += tests/core/peer/test_flow_end
check_PROGRAMS += tests/core/peer/test_pending_conn
check_PROGRAMS += tests/core/peer/test_silence
check_PROGRAMS += tests/core/message/test_dispatch
tests_core_message_test_dispatch_SOURCES = tests/core/message/test_dispatch.c $(ROUND_TRIPS)
check_PROGRAMS += tests/core/peer/test_path
check_PROGRAMS += tests/core/peer/test_peer
check_PROGRAMS += tests/core/rendezvous/test_dedup
check_PROGRAMS += tests/core/memory/test_standing_grant
check_PROGRAMS += tests/core/rendezvous/test_withdrawn
check_PROGRAMS += tests/core/rendezvous/test_immediate
# FAST_MESSAGES defines the rig of its programs, too.
FAST_MESSAGES = tests/core/message/fast_messages.c tests/core/message/fast_messages.h
check_PROGRAMS += tests/core/message/test_fast_receive
tests_core_message_test_fast_receive_SOURCES = tests/core/message/test_fast_receive.c \
	$(FAST_MESSAGES)
check_PROGRAMS += tests/core/message/test_fast_receive_call
tests_core_message_test_fast_receive_call_SOURCES = tests/core/message/test_fast_receive_call.c \
	$(FAST_MESSAGES)
check_PROGRAMS += tests/core/peer/test_replay
RELIABLES = tests/core/reliable/reliables.c tests/core/reliable/reliables.h
check_PROGRAMS += tests/core/message/test_pair
tests_core_message_test_pair_SOURCES = tests/core/message/test_pair.c $(RELIABLES)
check_PROGRAMS += tests/core/message/test_reliable_send
tests_core_message_test_reliable_send_SOURCES = tests/core/message/test_reliable_send.c \
	$(RELIABLES)
check_PROGRAMS += tests/core/reliable/test_receiver
tests_core_reliable_test_receiver_SOURCES = tests/core/reliable/test_receiver.c $(RELIABLES)
check_PROGRAMS += tests/core/reliable/test_message
check_PROGRAMS += tests/core/reliable/test_send_now
tests_core_reliable_test_send_now_SOURCES = tests/core/reliable/test_send_now.c $(RELIABLES)
check_PROGRAMS += tests/core/reliable/test_sender
tests_core_reliable_test_sender_SOURCES = tests/core/reliable/test_sender.c $(RELIABLES)
check_PROGRAMS += tests/core/reliable/test_unacked
tests_core_reliable_test_unacked_SOURCES = tests/core/reliable/test_unacked.c $(RELIABLES)
# TRANSFERS defines the rig of its programs, too.
TRANSFERS = tests/core/rendezvous/transfers.c tests/core/rendezvous/transfers.h
check_PROGRAMS += tests/core/rendezvous/test_delivery
tests_core_rendezvous_test_delivery_SOURCES = tests/core/rendezvous/test_delivery.c $(TRANSFERS)
check_PROGRAMS += tests/core/rendezvous/test_arriving
tests_core_rendezvous_test_arriving_SOURCES = tests/core/rendezvous/test_arriving.c $(TRANSFERS)
check_PROGRAMS += tests/core/rendezvous/test_receiver
tests_core_rendezvous_test_receiver_SOURCES = tests/core/rendezvous/test_receiver.c $(TRANSFERS)
check_PROGRAMS += tests/core/rendezvous/test_receiver_gone
tests_core_rendezvous_test_receiver_gone_SOURCES = tests/core/rendezvous/test_receiver_gone.c \
	$(TRANSFERS)
check_PROGRAMS += tests/core/memory/test_standing
check_PROGRAMS += tests/core/rendezvous/test_sender
# RETURN_BUFFERS defines the rig of its programs, too.
RETURN_BUFFERS = tests/core/memory/return_buffers.c tests/core/memory/return_buffers.h
check_PROGRAMS += tests/core/memory/test_local_returns
tests_core_memory_test_local_returns_SOURCES = tests/core/memory/test_local_returns.c \
	$(RETURN_BUFFERS)
check_PROGRAMS += tests/core/memory/test_local_returns_read
tests_core_memory_test_local_returns_read_SOURCES = tests/core/memory/test_local_returns_read.c \
	$(RETURN_BUFFERS)
check_PROGRAMS += tests/core/memory/test_bounce
check_PROGRAMS += tests/core/memory/test_app_buffer
check_PROGRAMS += tests/core/message/test_receive
tests_core_message_test_receive_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=ripc__now,--wrap=ripc__full_pass,--wrap=ripc__partial_pass \
	-Wl,--wrap=ripc__delayed_ack_idle,--wrap=ripc__dispatch_event
check_PROGRAMS += tests/core/message/test_request
check_PROGRAMS += tests/core/message/test_send
check_PROGRAMS += tests/core/service/test_service
check_PROGRAMS += tests/core/service/test_items
check_PROGRAMS += tests/core/service/test_service_fd
tests_core_service_test_service_fd_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=eventfd
check_PROGRAMS += tests/core/watch/test_watch
tests_core_watch_test_watch_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc
check_PROGRAMS += tests/core/progress/test_descriptors
tests_core_progress_test_descriptors_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=ripc__now,--wrap=ripc__resolver_fd,--wrap=epoll_pwait2,--wrap=epoll_wait
check_PROGRAMS += tests/core/progress/test_pass
tests_core_progress_test_pass_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=ripc__now,--wrap=ripc__resolver_progress
STATE_NAMES = tests/core/progress/state_names.h
check_PROGRAMS += tests/core/progress/test_state
tests_core_progress_test_state_SOURCES = tests/core/progress/test_state.c $(STATE_NAMES)
check_PROGRAMS += tests/core/progress/test_state_world
tests_core_progress_test_state_world_SOURCES = tests/core/progress/test_state_world.c \
	$(STATE_NAMES)
check_PROGRAMS += tests/core/progress/test_transports
check_PROGRAMS += tests/core/context/test_default_context
check_PROGRAMS += tests/core/progress/test_deadline
tests_core_progress_test_deadline_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=ripc__now
check_PROGRAMS += tests/core/progress/test_wait
tests_core_progress_test_wait_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=ripc__now,--wrap=ripc__full_pass,--wrap=ripc__partial_pass \
	-Wl,--wrap=ripc__transports_arm,--wrap=ripc__descriptors_sleep
check_PROGRAMS += tests/core/progress/test_wait_threads
check_PROGRAMS += tests/core/rendezvous/test_failover
tests_core_rendezvous_test_failover_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=fopen
check_PROGRAMS += tests/core/rendezvous/test_request
check_PROGRAMS += tests/core/rendezvous/test_order
check_PROGRAMS += tests/core/memory/test_receive_window
check_PROGRAMS += tests/core/message/test_service
tests_core_message_test_service_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=poll,--wrap=malloc,--wrap=calloc
