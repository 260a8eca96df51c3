#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Processes of one host without /proc: they do not know which host that is, and reach each other all
# the same, over shared memory and over the loopback. So does a pair of which only one has /proc.
# shellcheck disable=SC2086
name=test_no_proc
. "${srcdir:-$(dirname "$0")/../../..}/tests/tools/lib.sh"
unset RIPC_SHM_DIR
ns=ripc-noproc-$$

if grep -qE '^(CC|CFLAGS|RIPC_CFLAGS) = .*-fsanitize' Makefile; then
	skip "processes without /proc: the sanitizer of this build needs it"
	finish
fi
trap 'cleanup; ip netns del $ns 2>/dev/null' EXIT
hide='mount -t tmpfs none /proc && exec "$@"'
in_net="ip netns exec $ns"
hidden="$in_net unshare --mount sh -c"
if ! { ip netns add $ns && ip -n $ns link set lo up && $hidden "$hide" hidden true; } 2>"$err"; then
	skip "/proc cannot be hidden from a process here: $(tail -1 "$err")"
	finish
fi

id=$(random_id)
start serve $hidden "$hide" hidden ./tools/ripc-ping --serve "$id"
ready serve "answering for service $id"
expect "neither has /proc" 0 60 $hidden "$hide" hidden ./tools/ripc-ping -c 3 -i 10 -W 10000 "$id"
has "over shared memory" "$out" "shm"
expect "long messages" 0 60 \
	$hidden "$hide" hidden ./tools/ripc-ping -c 5 -i 0 -s 4M -W 20000 "$id"
expect "one has /proc" 0 60 $in_net ./tools/ripc-ping -c 3 -i 10 -W 10000 "$id"
has "over shared memory, too" "$out" "shm"

# As between processes of two users: the loopback is all there is.
tcp=$(random_id)
start tcp $hidden "$hide" hidden env RIPC_TRANSPORTS=iwarp/soft ./tools/ripc-ping --serve "$tcp"
ready tcp "answering for service $tcp"
expect "over the loopback" 0 60 $hidden "$hide" hidden \
	env RIPC_TRANSPORTS=iwarp/soft ./tools/ripc-ping -c 3 -i 10 -W 10000 "$tcp"

$hidden "$hide" hidden ./tools/ripc-info -d >"$out" 2>"$err"
if grep -q firewall "$out"; then
	bad "the doctor blames no firewall" "$out" "$err"
else
	ok "the doctor blames no firewall"
fi
has "it says that there is no /proc" "$out" "^warning: proc: .*mount"
expect "the transport says so" 0 60 $hidden "$hide" hidden ./tools/ripc-info
has "the transport says so: host" "$out" "shm: host not known"
finish
