#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Memory of a PCIe device (ivshmem): the library's tools in two guests, and in one guest alone.
name=test_pcie
. "$RIPC_LAB_DIR/../tools/lib.sh"
unset RIPC_INTERFACES

device=$(grep -lx 0x1110 /sys/bus/pci/devices/*/device)
device=${device%/device}
id=4712

# RIPC_PCIE_DEVICE is unset: the library must not touch the device.
if [ "$RIPC_LAB_HOST" -eq 0 ]; then
	expect "the device is found" 0 60 ./tools/ripc-info
	has "and its memory is left alone" "$out" \
		"^transport: *pcie: unavailable: .*$device/.*RIPC_PCIE_DEVICE"
fi
"$RIPC_LAB_DIR"/meet pcie-fresh
if [ "$RIPC_LAB_HOST" -eq 0 ]; then
	expect "named, it is made ready for use" 0 60 env RIPC_PCIE_DEVICE="$device" \
		./tools/ripc-info
	has "and used" "$out" "^transport: *pcie: memory "
	sed -n 's/^transport: *window\/pcie: memory \([0-9a-f]*\).*/\1/p' "$out" \
		>"$RIPC_LAB_SHARE/.ctl/pcie"
fi
"$RIPC_LAB_DIR"/meet pcie-ready
expect "then it need not be named" 0 60 ./tools/ripc-info
has "everybody sees the same memory" "$out" \
	"^transport: *pcie: memory $(cat "$RIPC_LAB_SHARE/.ctl/pcie")"

if [ "$RIPC_LAB_HOSTS" -eq 1 ]; then
	finish
fi
for round in 1 2 3; do
	if [ "$RIPC_LAB_HOST" -eq 0 ]; then
		start serve env RIPC_TRANSPORTS=pcie ./tools/ripc-ping --serve $id
		ready serve "answering for service $id"
	fi
	"$RIPC_LAB_DIR"/meet pcie-serving-$round
	if [ "$RIPC_LAB_HOST" -eq 1 ]; then
		for size in 64 2M; do
			expect "a service of the other guest, $round, $size" 0 100 \
				env RIPC_TRANSPORTS=pcie ./tools/ripc-ping -c 5 -i 10 -s $size \
				-W 30000 $id
			has "all are answered" "$out" "^5 sent, 5 answered"
		done
	fi
	"$RIPC_LAB_DIR"/meet pcie-served-$round
	if [ "$RIPC_LAB_HOST" -eq 0 ]; then
		# The second process is killed and cannot sign off: its peers detect the missing
		# heartbeat.
		[ $round -eq 2 ] && signal=KILL || signal=TERM
		kill -$signal "$pid"
		gone "$pid" 60
	fi
	"$RIPC_LAB_DIR"/meet pcie-gone-$round
done
finish
