#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Memory of a PCIe device with interrupts (ivshmem-doorbell, driver vfio-pci), shared by guests: a
# message wakes a sleeping receiver.
name=test_doorbell
. "$RIPC_LAB_DIR/../tools/lib.sh"
unset RIPC_INTERFACES

device=$(grep -lx 0x1110 /sys/bus/pci/devices/*/device)
device=${device%/device}
id=4713
export RIPC_TRANSPORTS=pcie RIPC_LOG=info

# interrupts: prints how many interrupts this guest has received from the device.
interrupts() {
	sed -n 's/^ *[0-9]*: *\([0-9]*\).*vfio-msix.*/\1/p' /proc/interrupts
}

# naps PID: prints how often the threads of the process went to sleep.
naps() {
	cat /proc/"$1"/task/*/status | sed -n 's/^voluntary_ctxt_switches:[^0-9]*//p' | {
		n_sum=0
		while read -r n_one; do
			n_sum=$((n_sum + n_one))
		done
		echo $n_sum
	}
}

"$RIPC_LAB_DIR"/meet doorbell-fresh
if [ "$RIPC_LAB_HOST" -eq 0 ]; then
	expect "the memory is made ready for use" 0 60 env RIPC_PCIE_DEVICE="$device" \
		./tools/ripc-info
	has "and used" "$out" "^transport: *pcie: memory "
fi
"$RIPC_LAB_DIR"/meet doorbell-ready

for round in 1 2; do
	if [ "$RIPC_LAB_HOST" -eq 0 ]; then
		start serve env RIPC_WAIT=block ./tools/ripc-ping --serve $id
		ready serve "answering for service $id"
		if grep -q "no interrupts" "$work/serve.err"; then
			bad "interrupts can be had, $round" "$work/serve.err"
		else
			ok "interrupts can be had, $round"
		fi
		before=$(interrupts)
	fi
	"$RIPC_LAB_DIR"/meet doorbell-serving-$round
	if [ "$RIPC_LAB_HOST" -eq 1 ]; then
		before=$(interrupts)
		for size in 64 2M; do
			expect "a service of the other guest, $round, $size" 0 100 \
				env RIPC_WAIT=block ./tools/ripc-ping -c 10 -i 150 -s $size \
				-W 30000 $id
			has "all are answered" "$out" "^10 sent, 10 answered"
		done
	fi
	"$RIPC_LAB_DIR"/meet doorbell-served-$round
	after=$(interrupts)
	echo "interrupts: before ${before:-0}, after ${after:-0}"
	if [ "$RIPC_LAB_HOST" -eq 0 ]; then
		# The receiver was asleep for each of the twenty messages.
		if [ $((${after:-0} - ${before:-0})) -ge 20 ]; then
			ok "messages woke the sleeping receiver, $round"
		else
			bad "receiver not woken, $round: interrupts ${before:-0}, ${after:-0}"
		fi
		# Without messages the process wakes only for its heartbeat, ten times a second,
		# which may involve two threads.
		before=$(naps "$pid")
		sleep 5
		after=$(naps "$pid")
		echo "naps: $((after - before))"
		if [ $((after - before)) -le 300 ]; then
			ok "who waits sleeps, $round"
		else
			bad "who waits woke $((after - before)) times in 5 s, $round"
		fi
		# The first process of the guest owns the interrupts; another process works without
		# and logs that.
		expect "another process of the guest, $round" 0 60 ./tools/ripc-info
		has "it uses the memory" "$out" "^transport: *pcie: memory "
		has "and looks by itself" "$err" "no interrupts: another context has them"
		[ $round -eq 1 ] && signal=KILL || signal=TERM
		kill -$signal "$pid"
		gone "$pid" 60
	fi
	"$RIPC_LAB_DIR"/meet doorbell-gone-$round
done
finish
