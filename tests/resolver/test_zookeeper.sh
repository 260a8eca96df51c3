#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The ZooKeeper back end with real servers: plain java processes on the loopback, with data and
# ports of their own.
# usage: test_zookeeper.sh (the test program is looked for in the build tree)
set -u
# A network of its own: nobody else takes a port between the look at it and its use.
# shellcheck disable=SC2016
if [ -z "${RIPC_TEST_OWN_NETWORK-}" ] && unshare -rn ip link set lo up 2>/dev/null; then
	RIPC_TEST_OWN_NETWORK=yes exec unshare -rn bash -c 'ip link set lo up && exec bash "$0"' \
		"$0"
fi
export RIPC_INTERFACES=lo LC_ALL=C.UTF-8
declare -A servers pid
name=zookeeper program=resolver_tool
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

at_end()
{
	pids+=("${servers[@]}")
}

"$tool" lookup 1 "resolver=zookeeper:127.0.0.1:1 resolve_timeout_ms=10" >"$tmp/probe" 2>&1
grep -q 'no ZooKeeper client' "$tmp/probe" && skip "this build has no ZooKeeper client"
command -v java >/dev/null ||
	skip "there is no java to run a ZooKeeper server with (default-jre-headless)"
jar=/usr/share/java/zookeeper.jar
[ -f $jar ] || skip "there is no ZooKeeper server (package zookeeper)"
classpath=$tmp
for jar in zookeeper zookeeper-jute slf4j-api slf4j-simple log4j-1.2 netty-all netty-common \
	metrics-core snappy-java \
	commons-io commons-cli jackson-core jackson-databind jackson-annotations; do
	[ -f "/usr/share/java/$jar.jar" ] && classpath=$classpath:/usr/share/java/$jar.jar
done

ok()
{
	passed=$((passed + 1))
	echo "ok: $1"
}

bad()
{
	failed=$((failed + 1))
	echo "FAIL: $1"
	shift
	for file in "$@"; do
		echo "--- $file"
		tail -n 20 "$file"
	done
}

# shows TEXT FILE PATTERN [COUNT]
shows()
{
	if await "$2" "$3" "${4:-1}"; then
		ok "$1"
	else
		bad "$1 ($3)" "$2"
	fi
}

# free_ports COUNT: ports that nobody listens at now, no two the same
free_ports()
{
	local n=0 port drawn=' '
	while [ $n -lt "$1" ]; do
		port=$((20000 + RANDOM % 12000))
		[[ $drawn != *" $port "* ]] || continue
		drawn+="$port "
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && continue
		echo $port
		n=$((n + 1))
	done
}

# server NAME PORT [LINE...]: starts a server with this data and these lines of configuration
server()
{
	local name=$1 port=$2
	shift 2
	mkdir -p "$tmp/$name"
	{
		echo "tickTime=250"
		echo "minSessionTimeout=500"
		echo "maxSessionTimeout=60000"
		echo "initLimit=20"
		echo "syncLimit=20"
		echo "dataDir=$tmp/$name"
		echo "clientPort=$port"
		echo "clientPortAddress=127.0.0.1"
		echo "admin.enableServer=false"
		echo "4lw.commands.whitelist=srvr"
		printf '%s\n' "$@"
	} >"$tmp/$name.cfg"
	java -Xmx128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$classpath" \
		-Dzookeeper.jmx.log4j.disable=true \
		-Dorg.slf4j.simpleLogger.logFile="$tmp/$name.log" \
		org.apache.zookeeper.server.quorum.QuorumPeerMain "$tmp/$name.cfg" \
		>>"$tmp/$name.out" 2>&1 </dev/null &
	servers[$name]=$!
}

# answers PORT: whether the server there answers clients
answers()
{
	local answer=
	if exec 3<>"/dev/tcp/127.0.0.1/$1"; then
		printf srvr >&3
		read -r -t 2 answer <&3
		exec 3>&-
	fi 2>/dev/null
	[[ $answer == Zookeeper* ]]
}

serving()
{
	wait_until 120 answers "$1"
}

stop_server()
{
	kill -KILL "${servers[$1]}"
	wait "${servers[$1]}" 2>/dev/null
	unset "servers[$1]"
}

# start NAME COMMAND ID [OPTIONS]: the tool in the background, its output in $tmp/NAME
start()
{
	local name=$1
	shift
	# Not left to the child: who waits for a line may not see what an earlier one of that name
	# wrote.
	: >"$tmp/$name"
	: >"$tmp/$name.err"
	"$tool" "$1" "$2" "${*:3} log=info" >"$tmp/$name" 2>"$tmp/$name.err" &
	pids+=($!)
	pid[$name]=$!
}

stop()
{
	local name
	for name in "$@"; do
		kill -TERM "${pid[$name]}"
		wait "${pid[$name]}"
	done 2>/dev/null
}

mapfile -t port < <(free_ports 10)
server one "${port[0]}"
if ! serving "${port[0]}"; then
	tail -n 5 "$tmp/one.out" "$tmp/one.log"
	skip "the ZooKeeper server does not start here"
fi
# Sessions and lookups tolerate processes and servers that get no processor time for a while. A
# lookup of a missing service has a timeout long enough for the server's answer.
zk="resolver=zookeeper:127.0.0.1:${port[0]} zookeeper_timeout_ms=5000 resolve_timeout_ms=30000"
in_vain=resolve_timeout_ms=5000

# --- one server ---
start holder register 42 "$zk"
shows "a service is registered" "$tmp/holder" '^registered 42'
start client watch 42 "$zk"
shows "it is found" "$tmp/client" "^resolved 42 at pid-${pid[holder]}"
start second register 42 "$zk"
shows "a second one is refused, and the holder is named" "$tmp/second" \
	"^conflict: .*held by instance .*pid-${pid[holder]}"
start random random 0x8000000000000001 "$zk"
shows "an id drawn at random is registered" "$tmp/random" '^registered 9223372036854775809'
start found lookup 0x8000000000000001 "$zk"
shows "it is found by its node" "$tmp/found" "^resolved 9223372036854775809 at pid-${pid[random]}"
stop random
build=${tool%tests/resolver/*}
if [ -x "${build}tools/ripc-ping" ]; then
	"${build}tools/ripc-ping" --serve camera/left -o "$zk" >"$tmp/named" 2>&1 &
	pids+=($!)
	pid[named]=$!
	shows "a name is registered" "$tmp/named" '^answering for service 5686882471791066349'
	"${build}tools/ripc-info" --services -W 5000 -o "$zk" >"$tmp/list" 2>&1
	shows "all are listed, with their names" "$tmp/list" '^5686882471791066349 .* camera/left '
	shows "those without one, too" "$tmp/list" '^42 '
	stop named
fi
start nobody lookup 43 "$zk" $in_vain
shows "one that nobody holds is not found" "$tmp/nobody" \
	'^unresolved 43: .*zookeeper (it has no node)'
stop holder
shows "a farewell is told" "$tmp/client" '^gone 42'
start holder register 42 "$zk"
start late lookup 42 "$zk"
shows "another registers it, and is found" "$tmp/late" "^resolved 42 at pid-${pid[holder]}"
kill -USR1 "${pid[client]}"
shows "by the one that knew the former holder, too" "$tmp/client" \
	"^resolved 42 at pid-${pid[holder]}"
kill -KILL "${pid[holder]}"
wait "${pid[holder]}" 2>/dev/null
start third register 44 "$zk"
shows "of one that died without a word the node goes with its session" "$tmp/client" '^gone 42' 2

# --- the server goes and comes back ---
start moving register 45 "$zk"
start user watch 45 "$zk"
shows "before the server goes" "$tmp/user" "^resolved 45 at pid-${pid[moving]}"
stop_server one
shows "the loss is told once" "$tmp/user.err" 'the ensemble .* is lost.* 1 records are stale'
kill -USR1 "${pid[user]}"
shows "what is known is used on" "$tmp/user" "^resolved 45 at pid-${pid[moving]}" 2
shows "and marked stale" "$tmp/user" \
	'lost [0-9]* s ago in session [0-9a-f]*, .*known, 1 of them stale'
start cold lookup 45 "$zk" resolve_timeout_ms=500
shows "without the ensemble nothing new is found" "$tmp/cold" \
	'^unresolved 45: .*no connection to the ensemble'
start early register 48 "$zk" resolve_timeout_ms=1000
shows "a service that is registered now does not wait longer" "$tmp/early" '^registered 48'
shows "which is logged" "$tmp/early.err" 'no connection to the ensemble'
server one "${port[0]}"
serving "${port[0]}"
shows "it is back" "$tmp/user.err" 'the ensemble is back'
shows "it is there" "$tmp/early.err" 'the ensemble is connected'
start early_found lookup 48 "$zk"
shows "the early service is found now" "$tmp/early_found" "^resolved 48 at pid-${pid[early]}"
start warm lookup 45 "$zk"
shows "and all is found again" "$tmp/warm" "^resolved 45 at pid-${pid[moving]}"
stop third early

# --- a farewell that meets no server ---
start leaving register 46 "$zk" zookeeper_timeout_ms=30000
shows "a service that will be given up" "$tmp/leaving" '^registered 46'
stop_server one
shows "its holder knows that the server is gone" "$tmp/leaving.err" 'the ensemble .* is lost'
kill -USR1 "${pid[leaving]}"
shows "and gives it up" "$tmp/leaving" '^unregistered 46'
server one "${port[0]}"
serving "${port[0]}"
shows "the server is back" "$tmp/leaving.err" 'the ensemble is back'
start next register 46 "$zk"
shows "another registers it at once" "$tmp/next" '^registered 46'
stop next leaving

# --- a session that expires ---
generation=$(sed -n 's/^resolved 45 .* generation //p' "$tmp/user" | tail -n 1)
later=$(seq -s '\|' $((generation + 1)) $((generation + 9)))
kill -STOP "${pid[moving]}"
shows "a holder that stands still loses its session" "$tmp/user" '^gone 45'
kill -CONT "${pid[moving]}"
shows "it notices, and begins a new one" "$tmp/moving.err" 'back, in a new session'
kill -USR1 "${pid[user]}"
shows "in which it registers again, with a new generation" "$tmp/user" \
	"^resolved 45 at pid-${pid[moving]} generation \($later\)\$"
stop moving user client

# --- two holders, of whom neither knew of the other ---
start first register 70 "$zk"
shows "a service is registered" "$tmp/first" '^registered 70'
start seer watch 70 "$zk"
shows "and known" "$tmp/seer" '^resolved 70'
kill -STOP "${pid[first]}"
shows "its holder stands still, and loses its session" "$tmp/seer" '^gone 70'
start heir register 70 "$zk" zookeeper_timeout_ms=30000
shows "another registers it meanwhile" "$tmp/heir" '^registered 70'
kill -CONT "${pid[first]}"
shows "who comes back is told whose it is now" "$tmp/first" \
	"^conflict: .*held by .*pid-${pid[heir]}"
shows "and who keeps it is told of the other" "$tmp/heir" "^rival: .*held by .*pid-${pid[first]}"
stop heir seer

# --- a client whose service moves all the time ---
move=${tool%/*}/test_move
for chain in local,zookeeper zookeeper; do
	if [ ! -x "$move" ]; then
		echo "SKIP: $move was not built"
		skipped=$((skipped + 1))
	elif RIPC_TEST_CHAIN="resolver=$chain:127.0.0.1:${port[0]} zookeeper_timeout_ms=3000" \
		timeout 300 "$move" >"$tmp/move" 2>&1; then
		ok "a service that moves is followed, $chain: $(grep 'the longest' "$tmp/move" |
			head -n 1)"
	else
		bad "a service that moves is followed, $chain" "$tmp/move"
	fi
done

# --- roots and credentials ---
root=resolver=zookeeper:127.0.0.1:${port[0]}/a/b
patience="zookeeper_timeout_ms=5000 resolve_timeout_ms=30000"
start rooted register 46 "$root $patience"
shows "a root of its own is made" "$tmp/rooted" '^registered 46'
start other lookup 46 "$zk" $in_vain
shows "another root does not see it" "$tmp/other" '^unresolved 46: .*it has no node'
start inside lookup 46 "$root $patience"
shows "the same one does" "$tmp/inside" "^resolved 46 at pid-${pid[rooted]}"
start all list 46 "$root $patience"
shows "and lists it" "$tmp/all" '^listed 46 generation 1 age [0-9]* s'
stop rooted
(umask 077 && echo 'cluster:secret' >"$tmp/auth" && echo 'stranger:guess' >"$tmp/wrong")
closed="resolver=zookeeper:127.0.0.1:${port[0]}/closed $patience"
start closed register 47 "$closed" "zookeeper_auth_file=$tmp/auth"
shows "with credentials a service is registered" "$tmp/closed" '^registered 47'
start friend lookup 47 "$closed" "zookeeper_auth_file=$tmp/auth"
shows "and found" "$tmp/friend" "^resolved 47 at pid-${pid[closed]}"
start stranger lookup 47 "$closed" $in_vain "zookeeper_auth_file=$tmp/wrong"
shows "with others it is not" "$tmp/stranger" '^unresolved 47'
shows "and the log says why" "$tmp/stranger.err" 'not authenticated'
chmod 640 "$tmp/auth"
start open lookup 47 "$closed" "zookeeper_auth_file=$tmp/auth"
shows "credentials that others can read are refused" "$tmp/open" 'error: .*others have access'
stop closed

# --- keys: the ensemble is no part of the cluster, and nodes are believed for their stamp alone ---
key()
{
	(umask 077 && printf "%s\n" "${@:2}" >"$tmp/$1")
}
first=$(od -An -v -N32 -tx1 /dev/urandom | tr -d ' \n')
second=$(od -An -v -N32 -tx1 /dev/urandom | tr -d ' \n')
key a "$first"
key b "$second"
key ab "$first" "$second"
key ba "$second" "$first"
start keyed register 60 "$zk" "key_file=$tmp/a"
shows "with a key a service is registered" "$tmp/keyed" '^registered 60\|no libsodium'
if grep -q 'no libsodium' "$tmp/keyed"; then
	echo "SKIP: this build has no keys"
	skipped=$((skipped + 1))
else
	start ka lookup 60 "$zk" "key_file=$tmp/a"
	shows "and found with the same one" "$tmp/ka" "^resolved 60 at pid-${pid[keyed]}"
	start kb lookup 60 "$zk $in_vain" "key_file=$tmp/b"
	shows "with another one it is not, and why" "$tmp/kb" \
		"^unresolved 60: .*its node is rejected: \
it was not made with a key of this cluster"
	start kn lookup 60 "$zk $in_vain"
	shows "nor without one, and why" "$tmp/kn" \
		"^unresolved 60: .*its node is rejected: \
it was made with a key, and this context has none"
	start kba lookup 60 "$zk" "key_file=$tmp/ba"
	shows "while keys are exchanged it is found with both" "$tmp/kba" \
		"^resolved 60 at pid-${pid[keyed]}"
	start bare register 61 "$zk"
	shows "without a key another one is registered" "$tmp/bare" '^registered 61'
	start ki lookup 61 "$zk $in_vain" "key_file=$tmp/a"
	shows "which those with one do not believe" "$tmp/ki" \
		'^unresolved 61: .*it was not made with a key of this cluster'
	start both register 62 "$zk" "key_file=$tmp/ba"
	shows "one that has both keys is registered" "$tmp/both" '^registered 62'
	start kboth lookup 62 "$zk" "key_file=$tmp/ab"
	shows "and found by others that have both" "$tmp/kboth" "^resolved 62 at pid-${pid[both]}"
	start kold lookup 62 "$zk $in_vain" "key_file=$tmp/a"
	shows "and not by those with the second alone, since it says all with the first" \
		"$tmp/kold" '^unresolved 62: .*not made with a key'
	stop bare both
fi
stop keyed

# --- nothing but our own words on the standard error stream ---
if cat "$tmp"/*.err | grep -vE '^libripc|^ripc|^zookeeper: |^local: |^$' >"$tmp/noise"; then
	bad "ZooKeeper's library logs by way of the log hook only" "$tmp/noise"
else
	ok "ZooKeeper's library logs by way of the log hook only"
fi
stop_server one

# --- three servers, of which one dies ---
ensemble=("server.1=127.0.0.1:${port[1]}:${port[2]}" "server.2=127.0.0.1:${port[3]}:${port[4]}"
	"server.3=127.0.0.1:${port[5]}:${port[6]}")
for n in 1 2 3; do
	mkdir -p "$tmp/s$n"
	echo $n >"$tmp/s$n/myid"
	server "s$n" "${port[6 + n]}" "${ensemble[@]}"
done
three="127.0.0.1:${port[7]},127.0.0.1:${port[8]},127.0.0.1:${port[9]}"
for n in 1 2 3; do
	serving "${port[6 + n]}" || bad "server $n of the ensemble starts" "$tmp/s$n.log"
done
# The remaining servers may take long to agree; no session may expire meanwhile.
three="resolver=zookeeper:$three zookeeper_timeout_ms=60000 resolve_timeout_ms=50000"
for n in 1 2 3 4; do
	start "e$n" register $((50 + n)) "$three"
	shows "service $n of the ensemble" "$tmp/e$n" "^registered $((50 + n))"
done
start watcher watch 51 "$three"
shows "is found" "$tmp/watcher" '^resolved 51'
stop_server s2
for n in 1 2 3 4; do
	start "f$n" lookup $((50 + n)) "$three"
	shows "with one server dead service $n is found" "$tmp/f$n" \
		"^resolved $((50 + n)) at pid-${pid[e$n]}"
done
start e5 register 55 "$three"
shows "and others can be registered" "$tmp/e5" '^registered 55'
if grep -q '^gone' "$tmp/watcher"; then
	bad "nobody is told that a service had gone" "$tmp/watcher"
else
	ok "nobody is told that a service had gone"
fi
stop e1 e2 e3 e4 e5 watcher
