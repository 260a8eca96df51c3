# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: LGPL-2.1-or-later
# What the scripts of the lab share, on the host and in the guest.

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

# Kernel messages that fail a run. That a program of user space crashed is a message too, but
# nothing of the kernel's: "traps: NAME[PID] general protection fault ip:...".
complaints='WARNING:|BUG:|Oops|Kernel panic|general protection fault[,:]|refcount_t:|UBSAN:|blocked for more than'

# lab_devices: names the devices for the programs. RIPC_LAB_IB and RIPC_LAB_IWARP are the first of
# each kind or empty, RIPC_LAB_IB_ADDRESS and RIPC_LAB_IWARP_ADDRESS the IPv4 addresses of their
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
