# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: LGPL-2.1-or-later
# Functions shared by the lab's scripts, on the host and in the guest.

say()
{
	printf 'lab: %s\n' "$*" >&2
}

# die TEXT [CODE]
die()
{
	say "$1"
	exit "${2:-125}"
}

# Kernel messages that fail a run. A crash of a user program is logged as "traps: NAME[PID] general
# protection fault ip:..." and does not match.
complaints='WARNING:|BUG:|Oops|Kernel panic|general protection fault[,:]|refcount_t:|UBSAN:'
complaints+='|blocked for more than'

# lab_devices: finds the RDMA devices. Sets RIPC_LAB_IB and RIPC_LAB_IWARP to the first of each
# kind, or to "", and RIPC_LAB_IB_ADDRESS and RIPC_LAB_IWARP_ADDRESS to the IPv4 addresses of their
# network devices.
lab_devices()
{
	local device type name
	export RIPC_LAB_IB='' RIPC_LAB_IWARP='' RIPC_LAB_IB_ADDRESS='' RIPC_LAB_IWARP_ADDRESS=''
	for device in /sys/class/infiniband/*; do
		[ -e "$device/node_type" ] || continue
		read -r type <"$device/node_type"
		name=${device##*/}
		case $type in
		1:*) [ -n "$RIPC_LAB_IB" ] ||
			{ RIPC_LAB_IB=$name; RIPC_LAB_IB_ADDRESS=$(lab_address "$name"); } ;;
		4:*) [ -n "$RIPC_LAB_IWARP" ] ||
			{ RIPC_LAB_IWARP=$name; RIPC_LAB_IWARP_ADDRESS=$(lab_address "$name"); } ;;
		esac
	done
}

# lab_address DEVICE: the first IPv4 address of its network device.
lab_address()
{
	local netdev
	netdev=$(rdma link show "$1/1" 2>/dev/null | sed -n 's/.* netdev \([^ ]*\).*/\1/p')
	[ -z "$netdev" ] || ip -4 -o address show dev "$netdev" 2>/dev/null |
		sed -n 's|.* inet \([0-9.]*\)/.*|\1|p' | head -n 1
}
