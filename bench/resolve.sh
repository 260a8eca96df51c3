#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# bench/resolve over the resolver's back ends, on the loopback, with a ZooKeeper server of its own
# where there is one.
# usage: resolve.sh [ROUNDS]   from the build directory
set -u
export RIPC_INTERFACES=lo LC_ALL=C
rounds=${1:-10000}
resolve=${builddir:-.}/bench/resolve
work=$(mktemp -d)
server=

finish()
{
	[ -z "$server" ] || kill -KILL "$server"
	rm -rf "$work"
}
trap finish EXIT

[ -x "$resolve" ] || { echo "resolve.sh: there is no $resolve; make bench/resolve" >&2; exit 1; }

# serving: until the ZooKeeper server answers, half a minute at most
serving()
{
	local i answer
	for ((i = 0; i < 600; i++)); do
		answer=
		if exec 3<>"/dev/tcp/127.0.0.1/$port"; then
			printf srvr >&3
			read -r -t 2 answer <&3
			exec 3>&-
		fi 2>/dev/null
		[[ $answer == Zookeeper* ]] && return 0
		sleep 0.05
	done
	return 1
}

for resolver in local udp; do
	RIPC_RESOLVER=$resolver timeout 600 "$resolve" "$rounds" || exit 1
done
jar=/usr/share/java/zookeeper.jar
if ! command -v java >/dev/null || [ ! -f $jar ]; then
	echo "resolve.sh: not over ZooKeeper: there is no server (package zookeeper)" >&2
	exit 0
fi
classpath=$work
for jar in zookeeper zookeeper-jute slf4j-api slf4j-simple log4j-1.2 netty-all netty-common \
	metrics-core snappy-java \
	commons-io commons-cli jackson-core jackson-databind jackson-annotations; do
	[ -f "/usr/share/java/$jar.jar" ] && classpath=$classpath:/usr/share/java/$jar.jar
done
port=$((20000 + RANDOM % 12000))
printf '%s\n' tickTime=2000 "dataDir=$work" "clientPort=$port" clientPortAddress=127.0.0.1 \
	admin.enableServer=false \
	4lw.commands.whitelist=srvr >"$work/zoo.cfg"
java -Xmx256m -cp "$classpath" -Dzookeeper.jmx.log4j.disable=true \
	-Dorg.slf4j.simpleLogger.logFile="$work/log" \
	org.apache.zookeeper.server.quorum.QuorumPeerMain "$work/zoo.cfg" >"$work/out" 2>&1 \
	</dev/null &
server=$!
serving || { tail -n 3 "$work/out" "$work/log" >&2; exit 1; }
RIPC_RESOLVER=zookeeper:127.0.0.1:$port timeout 600 "$resolve" "$rounds"
