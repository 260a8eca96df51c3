#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# ripc-info --doctor: each fault is made, with limits and namespaces, and has to be named.
name=tools/test_doctor
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
doctor=$PWD/tools/ripc-info
unset container RIPC_SHM_DIR RIPC_KEY_FILE

# finds WHAT STATUS LINE COMMAND...: runs the doctor by COMMAND; checks its exit status and output.
finds() {
	if expect "$1" "$2" 60 "${@:4}"; then
		has "$1: the sentence" "$out" "$3"
	fi
}

# lacks WHAT PATTERN: checks that the last output does not match.
lacks() {
	if grep -q -e "$2" "$out"; then
		bad "$1" "$out"
	else
		ok "$1"
	fi
}

# in_net COMMAND: runs a line of shell in a network of its own, whose loopback is up; in_mounts with
# mounts of its own, too.
in_net=$work/in_net in_mounts=$work/in_mounts
cat >"$in_net" <<'SH'
exec unshare -rn bash -c "ip link set lo up && $1"
SH
cat >"$in_mounts" <<'SH'
exec unshare -rmn bash -c "ip link set lo up && $1"
SH
chmod +x "$in_net" "$in_mounts"

expect "looks at this host" 0 60 "$doctor" --doctor
has "says what it looked at" "$out" "^0 faults, [0-9]* warnings*: examined limits"
lacks "no firewall on the loopback" "firewall:"

if [ -d /sys/class/infiniband ] && [ -n "$(ls /sys/class/infiniband)" ]; then
	skip "memlock without an RDMA device: this host has one"
else
	expect "memlock without an RDMA device" 0 60 bash -c "ulimit -l 64; $doctor -d"
	lacks "memlock without an RDMA device: nothing said" "memlock:"
fi
finds "few descriptors" 0 "^warning: descriptors: only 200 files .*ulimit -n" bash \
	-c "ulimit -n 200; $doctor -d"
finds "too few descriptors" 1 "^fault: descriptors: only 20 files" bash \
	-c "ulimit -n 20; $doctor -d"
finds "interface missing" 1 "^fault: library: .*no network interface none0" "$doctor" -d \
	-o interfaces=none0
finds "nonsense in a setting" 1 "^fault: library: .*wait=nonsense" "$doctor" -d -o wait=nonsense
finds "no transport" 1 "^fault: transports: no transport leads out" "$doctor" -d -o transports=self
lacks "no transport: not the firewall" "firewall"
has "one of them is one fault" "$out" "^1 fault, "

# A key file is judged as it lies there, whatever this build makes of it.
key=$work/key
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$key"
chmod 644 "$key"
finds "key file: rights" 1 "^fault: key file: .*(mode 644): \"chmod 600 $key\"" "$doctor" -d \
	-o "key_file=$key"
chmod 600 "$key"
timeout 60 "$doctor" -d -o "key_file=$key" >"$out" 2>"$err"
lacks "key file: none" "fault: key file"
finds "key file: missing" 1 "^fault: key file: the key file $key-none: No such file" "$doctor" -d \
	-o "key_file=$key-none"
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	chmod 755 "$work"
	finds "key file: not ours" 1 "^fault: key file: .* may not be read by this user" \
		setpriv --reuid 65534 --regid 65534 --clear-groups "$doctor" -d -o "key_file=$key"
else
	skip "key file of another user: needs root and setpriv"
fi
# In a user namespace the doctor cannot read the clock's state; adjtimex() works everywhere.
if command -v adjtimex >/dev/null && adjtimex --print | grep -q 'status: .*64'; then
	finds "clock" 0 "^warning: clock: " "$doctor" -d -o "key_file=$key"
fi

id=$(random_id)
mute="^fault: service: no holder answers for service"
finds "a service that nobody holds" 1 "$mute $id: asked .* no answer in 300 ms; .*RIPC_KEY_FILE" \
	"$doctor" -d -s "$id" -o resolve_timeout_ms=300
finds "a name that nobody holds" 1 "$mute [0-9]* (\"test/nobody $id\"): asked" \
	"$doctor" -d -s "test/nobody $id" -o resolve_timeout_ms=300
start server ./examples/server "$id"
server=$pid
ready server "service $id waits"
finds "a service that is well" 0 \
	"^service: service $id was reached over shm at .* in [0-9]* us" "$doctor" -d -s "$id"
lacks "a service that is well: nothing to mend" "^\(warning\|fault\): \(duplicate id\|service\)"
finds "over another transport" 0 \
	"^service: service $id was reached over iwarp/soft at .* in [0-9]* us" \
	"$doctor" -d -s "$id" -o transports=iwarp/soft
# It is there, and does not answer.
kill -STOP "$server"
finds "a service that is stopped" 1 "$mute $id: .*its holder on this host does not answer" \
	"$doctor" -d -s "$id" -o resolve_timeout_ms=300
kill -CONT "$server"
expect "and goes on" 0 60 "$doctor" -d -s "$id"
kill "$server"
gone "$server" 60

# The doctor judges the state of the resolver's back ends.
hosts=$work/hosts
nothing="^fault: resolver: file finds nothing"
printf 'nonsense\n5 no.name\n' >"$hosts"
finds "a list of hosts without a line that is right" 1 \
	"$nothing: $hosts: 0 hosts .*, 2 bad lines, the first is 1: no service id: nonsense" \
	"$doctor" -d -o "resolver=file:$hosts"
printf '5 127.0.0.1\n6 no.name\n' >"$hosts"
finds "a list of hosts with a line that is wrong" 0 \
	"^warning: resolver: file .* 1 host .*, 1 bad line, the first is 2: not the .* no.name" \
	"$doctor" -d -o "resolver=local,file:$hosts"
printf '5 127.0.0.1\n' >"$hosts"
expect "a list of hosts that is right" 0 60 "$doctor" -d -o "resolver=local,file:$hosts"
lacks "a list of hosts that is right: nothing said" "resolver:"
: >"$hosts"
finds "an empty list of hosts" 1 "$nothing: .* 0 hosts" "$doctor" -d -o "resolver=local,file:$hosts"
finds "a list of hosts that is not there" 1 \
	"^fault: library: .*RIPC_RESOLVER.*: file:$hosts-none cannot be read" \
	"$doctor" -d -o "resolver=file:$hosts-none"
nothing="^fault: resolver: zookeeper finds nothing"
ensemble=resolver=local,zookeeper
if "$doctor" -o $ensemble:127.0.0.1:1 2>/dev/null | grep -q "no ZooKeeper client"; then
	finds "no ZooKeeper client in this build" 1 "$nothing: .*no ZooKeeper client" \
		"$doctor" -d -o $ensemble:127.0.0.1:1
else
	finds "an ensemble that is not there" 1 \
		"$nothing: 127.0.0.1 port 1: Connection refused, localhost port 2: Connection" \
		"$doctor" -d -o $ensemble:127.0.0.1:1,localhost:2/root,udp
	finds "an ensemble whose name is not known" 1 \
		"$nothing: the name no-host.invalid is not resolved: " \
		"$doctor" -d -o $ensemble:no-host.invalid:2181
fi

if unshare -rmn ip link set lo up 2>/dev/null; then
	# A network namespace is no container by itself, nor are the marks of an image.
	timeout 60 unshare -rn env container=podman "$doctor" -d >"$out" 2>"$err"
	lacks "a network namespace is no container" "container:"
	if unshare -rnpf --mount-proc true 2>/dev/null; then
		finds "container" 1 "^warning: container: .*another network.*RIPC_SHM_DIR" \
			unshare -rnpf --mount-proc env container=podman "$doctor" -d
	else
		skip "container: no process namespaces"
	fi
	finds "loopback down" 1 "^fault: interface: lo is down, .*ip link set lo up" unshare \
		-rn "$doctor" -d
	no_network="unshare -rn env -u RIPC_INTERFACES $doctor -d"
	# shellcheck disable=SC2086
	finds "loopback down, and nothing needs it" 0 "^warning: interface: no .* is up" $no_network
	lacks "loopback down, and nothing needs it: no fault" "lo is down"
	# shellcheck disable=SC2086
	finds "loopback down, without shared memory" 1 "^fault: interface: lo is down, .* alone" \
		$no_network -o transports=iwarp/soft
	# shellcheck disable=SC2086
	finds "loopback down, without the local resolver" 1 "^fault: interface: lo is down" \
		$no_network -o resolver=udp
	# Multicast of IPv6 has no route on the loopback.
	finds "loopback without IPv4" 1 "^fault: resolver: udp finds nothing: .*unreachable" bash \
		"$in_net" "ip addr del 127.0.0.1/8 dev lo && $doctor -d"
	lacks "loopback without IPv4: not the firewall" "firewall"
	# Another program at the resolver's port: alone, and one that shares it.
	cat >"$work/hold.pl" <<'PERL'
use Socket;
socket(my $s, PF_INET, SOCK_DGRAM, 0) or die;
setsockopt($s, SOL_SOCKET, SO_REUSEADDR, 1) if $ARGV[0];
bind($s, sockaddr_in(7475, INADDR_ANY)) or die;
$| = 1;
print "held\n";
sleep 600;
PERL
	cat >"$work/held" <<'SH'
exec unshare -rn bash -c '
ip link set lo up
exec 3< <(exec perl "$0" "$1")
holder=$!
read -r -u 3
"${@:2}"
rc=$?
kill $holder
exit $rc' "$@"
SH
	finds "port held by another program" 1 \
		"^fault: UDP port: UDP port 7475 (IPv4) is held by .*, process [0-9]* (perl)" \
		bash "$work/held" "$work/hold.pl" 0 "$doctor" -d
	lacks "port held by another program: not the firewall" "firewall"
	finds "port shared with another program" 0 \
		"^warning: UDP port: UDP port 7475 is shared with .*, process [0-9]* (perl)" \
		bash "$work/held" "$work/hold.pl" 1 "$doctor" -d
	lacks "port shared with another program: not the firewall" "firewall"
	finds "another port" 0 "^0 faults" \
		bash "$work/held" "$work/hold.pl" 0 "$doctor" -d -o port=7476
	lacks "another port: nothing said" "UDP port"
	expect "port not asked for" 0 60 \
		bash "$work/held" "$work/hold.pl" 0 "$doctor" -d -o resolver=local
	lacks "port not asked for: nothing said" "UDP port"
	# Programs of libripc share it: neither is another.
	expect "port shared by programs of libripc" 0 60 bash "$in_net" \
		"{ exec 3< <(exec ./examples/server 5); server=\$!; read -r -u 3
		$doctor -d; rc=\$?; kill \$server; exit \$rc; }"
	lacks "port shared by programs of libripc: nothing said" "UDP port"
	finds "small MTU" 0 "^warning: MTU: lo has an MTU of 1400" bash "$in_net" \
		"ip link set lo mtu 1400 && $doctor -d"
	pair='ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up'
	if bash "$in_net" "$pair" 2>/dev/null; then
		finds "MTU mismatch" 0 "^warning: MTU: d[01] has an MTU of .* and d[01] one of " \
			bash "$in_net" \
			"$pair && ip link set d0 mtu 9000 && ip link set d1 mtu 1500 &&
			RIPC_INTERFACES=d0,d1,lo $doctor -d"
		finds "interface down" 1 "^fault: interface: d0 is down, and it is one of those" \
			bash "$in_net" \
			"$pair && ip link set d0 down && RIPC_INTERFACES=d0,lo $doctor -d"
	else
		skip "no pairs of interfaces in this kernel"
	fi
	tun='ip tuntap add t0 mode tun && ip link set t0 multicast off up'
	if bash "$in_net" "$tun" 2>/dev/null; then
		finds "no broadcast" 0 "^warning: broadcast: t0 carries neither" bash "$in_net" \
			"$tun && RIPC_INTERFACES=t0,lo $doctor -d"
	else
		skip "no tunnels in this kernel: an interface without broadcast"
	fi
	# Acts as a firewall: no packet fits into this bucket.
	drop="tc qdisc add dev lo root tbf rate 1kbit burst 10 limit 1"
	if bash "$in_net" "$drop" 2>/dev/null; then
		finds "firewall" 1 "^fault: firewall: .*UDP port 7475" bash "$in_net" \
			"$drop && $doctor -d"
	else
		skip "firewall: nothing that drops packets in this kernel"
	fi
	# Somebody with key A, or none, searches all the while; the doctor listens, with key B,
	# none, and A.
	other=$work/other
	head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$other"
	chmod 600 "$key" "$other"
	cat >"$work/meets" <<'SH'
exec unshare -rn bash -c '
ip link set lo up
search() {
	while :; do
		LD_PRELOAD="$others" "$0"/tools/ripc-ping -n -W 2000 -o resolver=udp $1 5
	done >/dev/null 2>&1
}
search "$@" & one=$!
sleep 1
search "$@" & two=$!
"$0"/tools/ripc-info -d $2
rc=$?
kill $one $two
exit $rc' "$@"
SH
	with_key="-o key_file=$key" with_other="-o key_file=$other"
	if grep -q "no libsodium" <(timeout 60 "$doctor" -d "-o" "key_file=$key" 2>&1); then
		skip "keys: this build of the library has no libsodium"
	else
		finds "key mismatch" 0 "^warning: key: [1-9][0-9]* messages* refused for the key" \
			bash "$work/meets" "$PWD" "$with_key" "$with_other"
		lacks "key mismatch: nothing else" "warning: protocol"
		finds "others without a key" 0 \
			"^warning: key: [1-9][0-9]* messages* refused for the key" \
			bash "$work/meets" "$PWD" "" "$with_other"
		finds "only others have a key" 0 \
			"^warning: key: [1-9][0-9]* messages* sealed with a key" \
			bash "$work/meets" "$PWD" "$with_key" ""
		lacks "only others have a key: nothing else" "warning: protocol"
		expect "the same key" 0 60 bash "$work/meets" "$PWD" "$with_key" "$with_key"
		lacks "the same key: nothing to be said" "^warning: \(key\|protocol\):"
		# Their clock is an hour ahead.
		if [ -e tests/tools/.libs/clock_off.so ] &&
			! grep -qE '^(CC|CFLAGS|RIPC_CFLAGS) = .*-fsanitize' Makefile; then
			finds "clock that is off" 0 \
				"^warning: clock: [1-9][0-9]* messages* sealed with the right key" \
				env others="$PWD/tests/tools/.libs/clock_off.so" \
				bash "$work/meets" "$PWD" "$with_key" "$with_key"
			lacks "clock that is off: not the key" "^warning: \(key\|protocol\):"
		else
			skip "a clock that is off: nothing can be preloaded into this build"
		fi
		# A holder with a key, as on another host: no file or socket shows that it exists.
		cat >"$work/keyed" <<'SH'
exec unshare -rn bash -c '
ip link set lo up
export RIPC_RESOLVER=udp RIPC_RESOLVE_TIMEOUT_MS=300
exec 3< <(exec ./tools/ripc-ping --serve 5 -o "key_file=$0")
holder=$!
read -r -u 3
"$@"
rc=$?
kill $holder
exit $rc' "$@"
SH
		finds "a service with a key, asked for without" 1 "$mute 5: .*RIPC_KEY_FILE" \
			bash "$work/keyed" "$key" "$doctor" -d -s 5
		lacks "a service with a key: not that nobody holds it" "nobody holds"
		finds "a service with a key, asked for with another" 1 "$mute 5: .*only peers" \
			bash "$work/keyed" "$key" "$doctor" -d -s 5 -o "key_file=$other"
		finds "a service with a key, asked for with it" 0 "^service: .* was reached" \
			bash "$work/keyed" "$key" "$doctor" -d -s 5 -o "key_file=$key"
		expect "no keys" 0 60 bash "$work/meets" "$PWD" "" ""
		lacks "no keys: nothing to be said" "^warning: \(key\|protocol\):"
	fi
	finds "protocol" 0 "^warning: protocol: [1-9][0-9]* datagrams* or connections*" \
		bash "$in_net" \
		"{ (while :; do echo RIPRnonsense >/dev/udp/127.0.0.1/7475; sleep 0.002
		done) 2>/dev/null &
		$doctor -d; rc=\$?; kill \$!; exit \$rc; }"
	finds "shared directory that is not there" 1 \
		"^fault: container: the directory shared .*/nowhere" \
		env RIPC_SHM_DIR=/nowhere "$doctor" -d

	# A machine with an RDMA device, simulated by files.
	device='mount -t tmpfs none /sys/class &&
		mkdir -p /sys/class/infiniband/fake0/ports/1/gids &&
		cd /sys/class/infiniband/fake0 && echo "1: CA" >node_type &&
		echo InfiniBand >ports/1/link_layer &&
		echo "4: ACTIVE" >ports/1/state &&
		echo fe80:0000:0000:0000:0000:0000:0000:0001 >ports/1/gids/0'
	node='mount -t tmpfs none /dev && mkdir /dev/infiniband &&
		: >/dev/infiniband/uverbs0 && : >/dev/infiniband/rdma_cm'
	if bash "$in_mounts" "$device && $node" 2>/dev/null; then
		run="{ timeout 60 $doctor -d; }"
		finds "a device that is well" 0 "^0 faults" bash "$in_mounts" \
			"$device; $node; ulimit -l unlimited 2>/dev/null; $run"
		finds "memlock" 0 "^warning: memlock: only 65536 bytes .*ulimit -l" \
			bash "$in_mounts" "$device; $node; ulimit -l 64; $run"
		finds "no device file" 1 \
			"^fault: device files: there is an RDMA device but \
no /dev/infiniband/uverbs0" \
			bash "$in_mounts" "$device; mount -t tmpfs none /dev; $run"
		finds "no device file of the connection manager" 1 \
			"^fault: device files: .* no /dev/infiniband/rdma_cm" \
			bash "$in_mounts" \
			"$device; $node; echo '4: RNIC' >node_type
			rm /dev/infiniband/rdma_cm; $run"
		finds "port down" 1 "^fault: port: port 1 of fake0 is DOWN" \
			bash "$in_mounts" "$device; $node; echo '1: DOWN' >ports/1/state; $run"
		finds "no GID" 1 "^fault: GID: port 1 of fake0 has no GID" \
			bash "$in_mounts" \
			"$device; $node
			echo 0000:0000:0000:0000:0000:0000:0000:0000 >ports/1/gids/0; $run"
		if command -v setpriv >/dev/null && [ "$(id -u)" -eq 0 ]; then
			finds "device file of others" 1 \
				"^fault: device files: /dev/infiniband/uverbs0 may not be opened" \
				unshare -mn bash \
				-c "ip link set lo up; $device; $node; chmod 600 /dev/infiniband/*
				chmod 755 /dev
				setpriv --reuid 65534 --regid 65534 --clear-groups \
				timeout 60 $doctor -d"
		else
			skip "device file of others: needs root and setpriv"
		fi
		if command -v setarch >/dev/null; then
			finds "fork on an old kernel" 0 \
				"^warning: fork: in this kernel (2\.6\..*RDMAV_FORK_SAFE=1" bash \
				"$in_mounts" \
				"$device; $node; ulimit -l unlimited 2>/dev/null
				setarch --uname-2.6 timeout 60 $doctor -d"
			expect "fork: taken care of" 0 60 bash "$in_mounts" \
				"$device; $node; ulimit -l unlimited 2>/dev/null
				RDMAV_FORK_SAFE=1 setarch --uname-2.6 timeout 60 $doctor -d"
			lacks "fork: nothing said" "warning: fork"
		else
			skip "setarch is not installed"
		fi
	else
		skip "no mounts in a user namespace: RDMA devices cannot be imitated"
	fi
else
	skip "no user namespaces: networks and devices cannot be imitated"
fi

expect "--doctor and --json" 3 60 "$doctor" -d -j
expect "--service without --doctor" 3 60 "$doctor" -s 1
expect "--service with nonsense" 3 60 "$doctor" -d -s 0
finish
