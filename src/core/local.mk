# SPDX-License-Identifier: LGPL-2.1-or-later
libripc_internal_la_SOURCES += include/ripc.h \
	src/core/appbuffer.c src/core/arrival.c src/core/attempt.c src/core/attempt.h \
	src/core/buffer.c src/core/buffer.h \
	src/core/connect.c src/core/context.c src/core/context.h src/core/done.c src/core/done.h \
	src/core/eviction.c src/core/eviction.h \
	src/core/finished.c src/core/flow.c src/core/group.c \
	src/core/group.h src/core/groupcast.c src/core/handle.c src/core/handle.h \
	src/core/handover.c src/core/handover.h \
	src/core/hooks.h \
	src/core/info.c src/core/keeper.c src/core/keeper.h src/core/lane.c \
	src/core/lane.h src/core/lock.c src/core/lock.h src/core/member.c src/core/member.h src/core/message.c \
	src/core/message.h src/core/offer.c src/core/peer.c src/core/peer.h src/core/plain.c \
	src/core/plain.h src/core/prepare.c src/core/prepare.h src/core/remote.c src/core/remote.h \
	src/core/replay.c src/core/replay.h \
	src/core/progress.c src/core/protocol.c src/core/rendezvous.c src/core/rendezvous.h src/core/request.c \
	src/core/request.h src/core/returns.c src/core/seat.c src/core/send.c src/core/send.h src/core/sender.c src/core/service.c \
	src/core/service.h src/core/stage.c src/core/stage.h src/core/start.c src/core/transports.c src/core/transports.h src/core/wait.c src/core/wait.h src/core/window.c \
	src/transport/transport.h src/resolver/resolver.h
