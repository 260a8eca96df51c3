# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += include/ripc.h src/transport/transport.h src/resolver/resolver.h
libripc_internal_la_SOURCES += src/transport/reports.c src/transport/reports.h
libripc_internal_la_SOURCES += src/core/context/context.c src/core/context/context.h \
	src/core/context/default_context.c src/core/context/events.c \
	src/core/context/events.h \
	src/core/context/completion.c src/core/context/info.c src/core/context/list.c
libripc_internal_la_SOURCES += src/core/call/call.h src/core/call/caller.c \
	src/core/call/caller.h src/core/call/result.c src/core/call/table.c \
	src/core/call/callee.c
libripc_internal_la_SOURCES += src/core/message/call.c src/core/message/control.c \
	src/core/message/control.h src/core/message/dispatch.c \
	src/core/message/dispatch.h src/core/message/fast_receive.c \
	src/core/message/fast_receive.h \
	src/core/message/fast_send.h \
	src/core/message/receive.c src/core/message/receive.h \
	src/core/message/pair.c src/core/message/pair.h src/core/message/reliable_send.c \
	src/core/message/request.c src/core/message/request.h src/core/message/send.c \
	src/core/message/send.h src/core/message/service.c src/core/message/service.h \
	src/core/message/watch.c
libripc_internal_la_SOURCES += src/core/watch/watch.c src/core/watch/watch.h
libripc_internal_la_SOURCES += src/core/rendezvous/ack.c src/core/rendezvous/ack.h \
	src/core/rendezvous/arriving.c src/core/rendezvous/arriving.h \
	src/core/rendezvous/dedup.c src/core/rendezvous/dedup.h \
	src/core/rendezvous/delayed_ack.c src/core/rendezvous/delayed_ack.h \
	src/core/rendezvous/delivery.c src/core/rendezvous/delivery.h \
	src/core/rendezvous/failover.c src/core/rendezvous/failover.h \
	src/core/rendezvous/withdrawn.c src/core/rendezvous/withdrawn.h \
	src/core/rendezvous/immediate.c src/core/rendezvous/immediate.h \
	src/core/rendezvous/prepared.c src/core/rendezvous/prepared.h \
	src/core/memory/standing.c src/core/memory/standing.h \
	src/core/rendezvous/receive.c src/core/rendezvous/receive.h \
	src/core/rendezvous/receiver.c src/core/rendezvous/receiver.h \
	src/core/rendezvous/request.c src/core/rendezvous/request.h \
	src/core/rendezvous/selection.c src/core/rendezvous/selection.h \
	src/core/rendezvous/sender.c src/core/rendezvous/sender.h
libripc_internal_la_SOURCES += src/core/reliable/message.c src/core/reliable/message.h \
	src/core/reliable/receiver.c src/core/reliable/reliable.h \
	src/core/reliable/send_now.h src/core/reliable/sender.c \
	src/core/reliable/unacked.c src/core/reliable/unacked.h
libripc_internal_la_SOURCES += src/core/group/coordinator.c src/core/group/coordinator.h \
	src/core/group/group.c src/core/group/group.h src/core/group/local_member.c \
	src/core/group/membership.c src/core/group/membership.h src/core/group/multicast_receive.c \
	src/core/group/multicast_send.c
libripc_internal_la_SOURCES += src/core/peer/attempt.c src/core/peer/attempt.h \
	src/core/peer/connect.c src/core/peer/connect.h \
	src/core/peer/datagram_context.c src/core/peer/datagram_context.h \
	src/core/peer/dest.c src/core/peer/dest.h \
	src/core/peer/endpoint.c src/core/peer/endpoint.h \
	src/core/peer/eviction.c src/core/peer/eviction.h src/core/peer/failover.c \
	src/core/peer/flow.c src/core/peer/lane.c src/core/peer/lane.h \
	src/core/peer/lane_control.c src/core/peer/lane_control.h \
	src/core/peer/lane_memory.c src/core/peer/lane_memory.h \
	src/core/peer/peer_lists.c src/core/peer/peer_lists.h src/core/peer/lane_post.h \
	src/core/peer/lane_progress.c src/core/peer/lane_progress.h \
	src/core/peer/ops.h src/core/peer/path.c src/core/peer/path.h src/core/peer/peer.c \
	src/core/peer/peer.h \
	src/core/peer/replay.c src/core/peer/replay.h
libripc_internal_la_SOURCES += src/core/memory/app_buffer.c src/core/memory/bounce.c \
	src/core/memory/bounce.h src/core/memory/buffer.h src/core/memory/cached_mr.c \
	src/core/memory/detach.c src/core/memory/detach.h \
	src/core/memory/export.c src/core/memory/import.c src/core/memory/local_returns.c \
	src/core/memory/mapped.h src/core/memory/memory.c src/core/memory/memory_object.c \
	src/core/memory/memory_object.h src/core/memory/message.c src/core/memory/message.h \
	src/core/memory/ops.h src/core/memory/pool.c \
	src/core/memory/receive_window.c src/core/memory/region.c \
	src/core/memory/remote_returns.c src/core/memory/remote_returns.h
libripc_internal_la_SOURCES += src/core/service/items.c src/core/service/items.h \
	src/core/service/message.h src/core/service/service.c src/core/service/service.h
libripc_internal_la_SOURCES += src/core/progress/completion.c \
	src/core/progress/completion.h src/core/progress/context.c src/core/progress/context.h \
	src/core/progress/handle.c src/core/progress/handle.h \
	src/core/progress/hooks.h src/core/progress/lock.c src/core/progress/lock.h \
	src/core/progress/descriptors.c src/core/progress/descriptors.h \
	src/core/progress/pass.c src/core/progress/pass.h \
	src/core/progress/progress.c src/core/progress/progress.h \
	src/core/progress/progress_thread.c src/core/progress/progress_thread.h \
	src/core/progress/state.c src/core/progress/state.h \
	src/core/progress/transports.c src/core/progress/transports.h \
	src/core/progress/wait.c src/core/progress/wait.h
