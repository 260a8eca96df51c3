# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=sh disable=SC2034,SC2154
# What the shell tests share. They run in the top build directory; set name= and source this file.
# Each ends with finish.
# shellcheck source=../wait.sh
. "${RIPC_LAB_DIR:-${srcdir:-$(dirname "$0")/../..}/tests/lab}/../wait.sh"
RIPC_INTERFACES=lo
export RIPC_INTERFACES
# A process without processor time looks dead to its peers. In the lab, the list of programs sets
# the timeout.
if [ -z "${RIPC_LAB_DIR-}" ]; then
	RIPC_PEER_TIMEOUT_MS=10000 RIPC_RESOLVE_TIMEOUT_MS=5000
	export RIPC_PEER_TIMEOUT_MS RIPC_RESOLVE_TIMEOUT_MS
fi
passed=0 failed=0 skipped=0
pids=
if [ ! -x tools/ripc-perf ] || [ ! -x examples/fetch ]; then
	echo "$name: 0 passed, 1 failed, 0 skipped: run it in a build directory, after make" >&2
	exit 1
fi
work=$(mktemp -d) || exit 1
out=$work/out err=$work/err

cleanup() {
	for p in $pids; do
		kill -9 "$p" 2>/dev/null
	done
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP

ok() {
	passed=$((passed + 1))
	echo "ok: $1"
}

bad() {
	failed=$((failed + 1))
	echo "FAILED: $1" | cut -c 1-300
	shift
	for f in "$@"; do
		[ -s "$f" ] && sed "s|^|    |" "$f" | tail -20
	done
}

skip() {
	skipped=$((skipped + 1))
	echo "SKIP: $1"
}

finish() {
	echo "$name: $passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ]
	exit
}

# two_hosts NAME COMMAND...: network namespaces $a and $b, whose v0 a cable connects. The command
# runs before the cable is there. Ends the test if it fails, or if they cannot be made.
two_hosts() {
	a=ripc-$1-$$-a b=ripc-$1-$$-b
	shift
	trap 'cleanup; ip netns del $a 2>/dev/null; ip netns del $b 2>/dev/null' EXIT
	if ! { ip netns add "$a" && ip netns add "$b" && ip netns exec "$a" true &&
		"$@" &&
		ip link add v0 netns "$a" type veth peer name v0 netns "$b"; } 2>"$err"; then
		skip "network namespaces cannot be made here: $(tail -1 "$err")"
		finish
	fi
	for t_ns in "$a" "$b"; do
		ip -n "$t_ns" link set lo up
		ip -n "$t_ns" link set v0 up
	done
}

# two_addresses: their IPv4 addresses.
two_addresses() {
	ip -n "$a" addr add 198.51.100.1/24 brd + dev v0
	ip -n "$b" addr add 198.51.100.2/24 brd + dev v0
}

# expect WHAT STATUS SECONDS COMMAND...: the command ends by itself in time, with this exit status.
# Its output is in $out and $err afterwards.
expect() {
	e_what=$1 e_status=$2 e_seconds=$3
	shift 3
	timeout -k 2 "$e_seconds" "$@" >"$out" 2>"$err"
	e_rc=$?
	if [ "$e_rc" -eq "$e_status" ]; then
		ok "$e_what"
		return 0
	fi
	bad "$e_what: exit status $e_rc, not $e_status: $*" "$out" "$err"
	return 1
}

# The tool itself, not the script by which libtool starts it.
catches_sigint() {
	case $(readlink "/proc/$pid/exe") in
	*"$i_tool") grep -q '^SigCgt:.*[2367abef]$' "/proc/$pid/status" ;;
	*) false ;;
	esac
}

# interrupted WHAT STATUS COMMAND...: SIGINT, once the command catches it, ends it in time.
interrupted() {
	i_what=$1 i_status=$2 status=''
	shift 2
	start interrupted "$@"
	i_tool=${1##*/}
	wait_until 60 catches_sigint
	kill -INT "$pid"
	if gone "$pid" 20 && [ "$status" -eq "$i_status" ]; then
		ok "SIGINT: $i_what"
	else
		bad "SIGINT: $i_what: exit status ${status-none}" "$work/interrupted.err"
	fi
}

# has WHAT FILE PATTERN: a line of the file matches.
has() {
	if grep -q -e "$3" "$2"; then
		ok "$1"
	else
		bad "$1: no line matches '$3' in" "$2"
	fi
}

# ranges MAN TOOL [WORD...]: each option that takes a number refuses one that is out of its range;
# the error, --help and the man page name the same range.
ranges() {
	r_man=$1
	shift
	"$1" --help >"$work/help"
	r_number=0
	r_numbers="N|MS|NS|HZ|CPU|BYTES|LIST"
	for r_option in $(sed -nE "s/^ +(-[a-zA-Z], )?(--[a-z-]+) +($r_numbers) .*/\2/p" \
		"$work/help"); do
		r_number=$((r_number + 1))
		expect "$1 $r_option: out of range" 3 60 "$@" "$r_option" 99999999999999999999
		r_range=$(sed -nE 's/.* from ([0-9]+ to [0-9]+[KMG]?)$/\1/p' "$err")
		if [ -n "$r_range" ] && grep -q -e "^$(basename "$1"): $r_option 9" "$err" &&
			sed -nE "/^ .*$r_option /,/^ +-/p" "$work/help" | tr '\n' ' ' |
			grep -q -e "[, ]${r_range}[ ,)]" &&
			sed -n "/^\.It.*Fl -${r_option#--} /,/^\.It/p" "$r_man" |
			grep -q -e " ${r_range}[,.; ]"; then
			ok "$1 $r_option: $r_range, wherever it stands"
		else
			bad "$1 $r_option: '$r_range' in error, --help and man page" "$err"
		fi
	done
	[ $r_number -gt 0 ] || bad "$1 --help has options that take a number"
}

# full WHAT COMMAND...: standard output cannot be written, which is an error with a message.
full() {
	f_what=$1
	shift
	"$@" >/dev/full 2>"$err"
	f_rc=$?
	if [ $f_rc -eq 3 ]; then
		has "$f_what to a full device: says so" "$err" "cannot write"
	else
		bad "$f_what to a full device: exit status $f_rc, not 3" "$err"
	fi
}

# unread WHAT LINES COMMAND...: the reader of a pipe goes after so many lines, and SIGPIPE ends it.
unread() {
	u_what=$1 u_lines=$2
	shift 2
	# shellcheck disable=SC2016
	expect "nobody reads any more: $u_what" 141 60 \
		bash -o pipefail -c '"$@" | head -n '"$u_lines" - "$@"
}

# start LOG COMMAND...: runs it in the background; $pid is its process id.
start() {
	s_log=$work/$1
	shift
	# Not left to the child: ready may look before it runs, and see what an earlier one of that
	# name wrote.
	: >"$s_log"
	: >"$s_log.err"
	"$@" >"$s_log" 2>"$s_log.err" &
	pid=$!
	pids="$pids $pid"
}

# ready LOG PATTERN: waits until the line is there, at most a minute.
ready() {
	wait_until 60 grep -q -e "$2" "$work/$1" && return
	bad "no line '$2' from $1" "$work/$1" "$work/$1.err"
	return 1
}

ended() {
	! kill -0 "$1" 2>/dev/null
}

# at_work PID: waits until the process has used a twentieth of a second of processor time.
at_work() {
	# shellcheck disable=SC2016
	wait_until 60 awk '{ exit $14 + $15 < 5 }' "/proc/$1/stat"
}

# gone PID SECONDS: the process, a child, ends in time; $status is its exit status.
gone() {
	wait_until "$2" ended "$1" || return 1
	wait "$1" 2>/dev/null
	status=$?
}

# A service id that nobody else uses.
random_id() {
	# Not awk: some print large numbers as 1e+09.
	echo $(($(od -An -N4 -tu4 /dev/urandom) + 1000))
}
