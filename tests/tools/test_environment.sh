#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Nonsense in any RIPC_* variable is named in the error, never ignored.
name=test_environment
top=${srcdir:-$(dirname "$0")/../..}
. "$top/tests/tools/lib.sh"

# refused VARIABLE VALUE
refused() {
	if expect "$1=$2" 3 60 env "$1=$2" ./tools/ripc-info; then
		has "$1=$2 is named" "$err" "$1.*$2"
	fi
}

accepted() {
	expect "$1=$2 is accepted" 0 60 env "$1=$2" ./tools/ripc-info
}

refused RIPC_TRANSPORTS nonsense
accepted RIPC_TRANSPORTS auto
refused RIPC_RESOLVER nonsense
refused RIPC_RESOLVER local,nonsense
accepted RIPC_RESOLVER local
refused RIPC_INTERFACES nonsense0
accepted RIPC_INTERFACES lo
for value in nonsense POLL poll,block 0; do
	refused RIPC_WAIT $value
done
for value in adaptive poll block; do
	accepted RIPC_WAIT $value
done
refused RIPC_CRC nonsense
accepted RIPC_CRC on
refused RIPC_SHORT tcp
accepted RIPC_SHORT udp
accepted RIPC_SHORT auto
refused RIPC_MULTICAST nonsense
accepted RIPC_MULTICAST off
refused RIPC_IB_QP ud
accepted RIPC_IB_QP uc
refused RIPC_PATH_MTU 1500
accepted RIPC_PATH_MTU 256
refused RIPC_INLINE -1
refused RIPC_INLINE 1K
accepted RIPC_INLINE 0
refused RIPC_SIGNAL_EVERY 0
refused RIPC_SIGNAL_EVERY 65536
accepted RIPC_SIGNAL_EVERY 1
refused RIPC_GID_INDEX -1
refused RIPC_GID_INDEX 65536
accepted RIPC_GID_INDEX 0
for value in nonsense 0 65536 -1 7475x 99999999999999999999; do
	refused RIPC_PORT $value
done
refused RIPC_PEER_TIMEOUT_MS 99
refused RIPC_PEER_TIMEOUT_MS 2s
accepted RIPC_PEER_TIMEOUT_MS 100
refused RIPC_RESOLVE_TIMEOUT_MS 9
refused RIPC_RESOLVE_TIMEOUT_MS 3600001
accepted RIPC_RESOLVE_TIMEOUT_MS 10
refused RIPC_RESOLVER file:relative
refused RIPC_RESOLVER zookeeper:host-without-port
refused RIPC_RESOLVER file:/nonexistent/list
refused RIPC_KEY_FILE relative
refused RIPC_KEY_FILE /nonexistent/file
refused RIPC_ZOOKEEPER_TIMEOUT_MS 499
accepted RIPC_ZOOKEEPER_TIMEOUT_MS 500
refused RIPC_ZOOKEEPER_AUTH_FILE relative
refused RIPC_ZOOKEEPER_AUTH_FILE /nonexistent/file
refused RIPC_SHM_DIR relative
refused RIPC_SHM_DIR /nonexistent/directory
accepted RIPC_SHM_DIR /tmp
refused RIPC_PCIE_DEVICE relative
refused RIPC_PCIE_DEVICE /nonexistent/device
# One that is there and cannot be used is a transport that is unavailable.
: >"$work/no_memory"
accepted RIPC_PCIE_DEVICE "$work/no_memory"
refused RIPC_SERVICE_WINDOW 65535
refused RIPC_SERVICE_WINDOW 256K
accepted RIPC_SERVICE_WINDOW 65536
refused RIPC_POOL_BYTES -1
accepted RIPC_POOL_BYTES 0
accepted RIPC_HANDOVER off
refused RIPC_HANDOVER maybe
refused RIPC_LOG loud
accepted RIPC_LOG error
refused RIPC_NONSENSE 1
refused RIPC_wait poll
for empty in TRANSPORTS RESOLVER INTERFACES WAIT PORT; do
	if expect "RIPC_$empty empty" 3 60 env "RIPC_$empty=" ./tools/ripc-info; then
		has "RIPC_$empty empty is named" "$err" "RIPC_$empty="
	fi
done

# Every setting there is has been tried above.
for setting in $(sed -n 's/^	{"\([a-z_]*\)", KIND_.*/\1/p' "$top/src/base/options.c"); do
	variable=RIPC_$(echo "$setting" | tr a-z A-Z)
	if grep -q "^\(refused\|	refused\) $variable " \
		"$top/tests/tools/test_environment.sh"; then
		ok "$variable is tested here"
	else
		bad "$variable is tested here"
	fi
done
finish
