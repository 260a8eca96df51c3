# SPDX-License-Identifier: LGPL-2.1-or-later
# The simulated network, and contexts on it, for programs with and without the check framework.
noinst_LTLIBRARIES += libsim.la
libsim_la_SOURCES = tests/transport/sim/channel.c tests/transport/sim/conn.c \
	tests/transport/sim/datagram.c tests/transport/sim/fault.c tests/transport/sim/memory.c \
	tests/transport/sim/net.c tests/transport/sim/net.h tests/transport/sim/op.c \
	tests/transport/sim/packet.c tests/transport/sim/sim.c tests/transport/sim/sim.h \
	tests/core/sim/world.c tests/core/sim/world.h tests/resolver/sim.c tests/resolver/sim.h
libtests_la_SOURCES += tests/transport/sim/sim_pair.h

check_PROGRAMS += tests/transport/sim/test_conn
check_PROGRAMS += tests/transport/sim/test_channel
check_PROGRAMS += tests/transport/sim/test_net
