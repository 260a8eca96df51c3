#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Contract of tests/lab/run: output, exit codes, environment, files; every failure ends the run and
# is reported.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
passed=0 failed=0

# check WHAT: checks the exit code of the previous command.
check()
{
	if [ $? -eq 0 ]; then
		passed=$((passed + 1))
		echo "ok: $1"
	else
		failed=$((failed + 1))
		echo "FAILED: $1"
		sed 's/^/    /' out err 2>/dev/null | tail -n 40
	fi
}

# lab CODE OPTION... COMMAND...: expects exit code CODE; output in ./out and ./err.
lab()
{
	local code=$1 rc
	shift
	"$here/run" --timeout 900 "$@" >out 2>err
	rc=$?
	[ $rc -eq "$code" ] || echo "exit code $rc, not $code" >>err
	[ $rc -eq "$code" ]
}

export RIPC_LABTEST="two words; \$none 'quoted'" OTHER=passed UNNAMED=not RIPC_INTERFACES=lo
echo "of the host" >seen
cat >script <<'END'
echo "to stdout"
echo "to stderr" >&2
echo "by name" >/dev/stderr
pwd
cat seen
echo "changed" >seen
echo "RIPC_LABTEST=$RIPC_LABTEST"
echo "OTHER=$OTHER ${UNNAMED-unset} ${RIPC_INTERFACES-unset} SET=$SET"
echo "locked $(ulimit -l) core $(ulimit -c)"
echo "name $(cat /proc/sys/kernel/hostname)"
echo "devices" /sys/class/infiniband/*
ls -d /dev/infiniband/rdma_cm
echo result >"$RIPC_LAB_OUT/result"
[ -w /tmp ] && [ -w /dev/shm ] && ip -br link show lo | grep -q LOOPBACK,UP && echo "a machine"
khz=$(sed 's/.*tsc_early_khz=\([0-9]*\).*/\1/' /proc/cmdline)
dmesg | grep -q "tsc: Detected $((khz / 1000))\." && echo "its clock was set"
sleep 1000 &
"$RIPC_LAB_DIR/resources" >before
"$RIPC_LAB_DIR/resources" same before 1 && echo "nothing held"
ibv_rc_pingpong -d rxe0 -g 1 >/dev/null &
for i in {1..40}; do
	sleep 1
	"$RIPC_LAB_DIR/resources" of $! | grep -q '^rxe0 .*qp 1' && echo "held by it" && break
done
"$RIPC_LAB_DIR/resources" same before 1 | grep -q '^> rxe0 .* qp 2 ' && echo "a queue pair more"
exit 7
END
lab 7 --env OTHER --env SET=yes --out results --script script
check "the exit code is the command's"
[ "$(head -n 1 out)" = "to stdout" ] && ! grep -q "stderr" out
check "standard output"
[ "$(head -n 2 err)" = $'to stderr\nby name' ]
check "standard error, also opened by its name"
grep -qx "$work" out && grep -qx "of the host" out && [ "$(cat seen)" = "of the host" ]
check "files of the host are seen and stay as they are"
grep -qxF "RIPC_LABTEST=$RIPC_LABTEST" out && grep -qx "OTHER=passed unset unset SET=yes" out
check "the environment: what is named, and of RIPC_* all but RIPC_INTERFACES"
grep -qx "locked unlimited core 0" out && grep -qx "name lab0" out && grep -qx "a machine" out
check "limits, host name, places to write"
grep -qx "devices /sys/class/infiniband/rxe0 /sys/class/infiniband/siw0" out &&
	grep -qx /dev/infiniband/rdma_cm out
check "one device of each kind"
grep -qx "its clock was set" out
check "the rate of its clock is told, not guessed"
grep -qx "nothing held" out && grep -qx "held by it" out && grep -qx "a queue pair more" out
check "resources sees what programs hold"
[ "$(cat results/result)" = result ] && [ -s results/kernel.log ] && [ ! -e results/.ctl ]
check "results and the kernel's messages come back"

lab 120 bash -c 'echo c >/proc/sysrq-trigger; sleep 100'
check "a panic ends the guest and fails the run"
grep -q "Kernel panic" err
check "and is shown"

start=$SECONDS
"$here/run" --timeout 5 sleep 1000 >out 2>err
[ $? -eq 124 ] && [ $((SECONDS - start)) -lt 200 ] && grep -q "not finished after 5 s" err
check "the time-out ends the guest"

lab 3 --hosts 2 --netem "loss 1% delay 2ms reorder 5%" bash \
	-c 'tc qdisc show dev iwarp0
		"$RIPC_LAB_DIR/meet" here && echo "met on $(cat /proc/sys/kernel/hostname)"
		exit $((RIPC_LAB_HOST * 3))'
check "two hosts: an exit code that is not 0 counts"
grep -qx "0: met on lab0" out && grep -qx "1: met on lab1" out
check "output of both, labelled"
[ "$(grep -c "^[01]: .*netem.* delay 2ms loss 1% reorder 5%" out)" -eq 2 ]
check "a spoilt link is what was asked for"
lab 125 --netem "nonsense" true
check "nonsense for netem fails"
lab 125 --hosts 3 true
check "a wrong option fails"
lab 125
check "no command fails"

cat >list <<'END'
boot one
# a comment
good 60 echo "good: 2 passed, 0 failed, 1 skipped"
bad 60 echo "bad: 1 passed, 1 failed, 0 skipped"; exit 1
silent 60 exit 0
slow 3 sleep 1000
liar 60 echo "liar: 1 passed, 0 failed, 0 skipped"; exit 1
warning 60 echo "<4>WARNING: a test" >/dev/kmsg; echo "warning: 1 passed, 0 failed, 0 skipped"
last 60 echo "last: 1 passed, 0 failed, 0 skipped"
END
"$here/suite" --out suite list >out 2>err
[ $? -eq 1 ] && [ "$(tail -n 1 out)" = "lab: 6 passed, 6 failed, 1 skipped" ]
check "a suite counts the results of its programs, and programs without results"
[ "$(awk '{ print $1, $3 }' suite/results)" = "0 one/good
1 one/bad
0 one/silent
124 one/slow
1 one/liar
120 one/warning
0 one/last
120 one" ]
check "and how they ended"
# The command of this boot, tests/lab/programs, succeeds.
[ "$(cat suite/one.rc)" = 120 ] && grep -q "the kernel complained" suite/one/run.log &&
	grep -q "WARNING: a test" suite/one/run.log
check "a warning of the kernel fails a run whose command succeeds, and is shown"
grep -q "WARNING: a test" suite/one/warning.log && ! grep -q WARNING suite/one/last.log
check "a complaint of the kernel is its who ran"

if [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
	lab 125 --native true
	check "--native without devices fails"
	grep -q "no RDMA device here" err
	check "and says why"
fi
echo "test_run: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
