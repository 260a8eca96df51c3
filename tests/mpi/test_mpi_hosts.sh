#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Open MPI over the provider on three hosts: network namespaces behind a bridge, with host names of
# their own. mpirun runs in the namespace of the bridge.
#
#	h1 10.7.3.1 ──┐
#	h2 10.7.3.2 ──┼─ bridge 10.7.3.254, mpirun
#	h3 10.7.3.3 ──┘
if [ -z "${MPI_HOSTS_INSIDE-}" ] && unshare -mn true 2>/dev/null; then
	MPI_HOSTS_INSIDE=yes exec unshare -mn --propagation private "$0" "$@"
fi
name=test_mpi_hosts
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
unset RIPC_INTERFACES

network() {
	mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && ip link set lo up &&
		ip link add br0 type bridge forward_delay 0 && ip addr add 10.7.3.254/24 dev br0 &&
		ip link set br0 up || return 1
	for i in 1 2 3; do
		ip netns add h$i && ip link add p$i type veth peer name v0 netns h$i &&
			ip link set p$i master br0 up && ip -n h$i link set lo up &&
			ip -n h$i addr add 10.7.3.$i/24 dev v0 && ip -n h$i link set v0 up ||
			return 1
	done
}

if [ ! -e .libs/libripc-fi.so ] || ! command -v mpicc >/dev/null ||
	! command -v mpirun >/dev/null; then
	skip "the libfabric provider is not built, or Open MPI is not installed"
	finish
fi
if ldd .libs/libripc-fi.so | grep -q -e libasan -e libtsan -e libubsan; then
	skip "the provider needs a sanitizer's library"
	finish
fi
if [ -z "${MPI_HOSTS_INSIDE-}" ] || ! network >"$out" 2>"$err"; then
	skip "network namespaces cannot be made here: $(head -1 "$err" 2>/dev/null)"
	finish
fi
for program in collectives messages killed; do
	mpicc -std=gnu11 -O1 -o "$work/$program" "$srcdir/tests/mpi/$program.c" 2>"$err" ||
		bad "$program.c compiles" "$err"
done
# Instead of ssh: rsh HOST COMMAND...
cat >"$work/rsh" <<'END'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare -u sh -c "hostname $host; $*"
END
chmod +x "$work/rsh"

# job RANKS PROGRAM: the hosts take the ranks in turns.
job() {
	ranks=$1
	shift
	env FI_PROVIDER_PATH="$PWD/.libs" LD_LIBRARY_PATH="$PWD/.libs" TMPDIR="$work" \
		OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 \
		mpirun --oversubscribe -H h1:2,h2:2,h3:2 --map-by node \
		-x FI_PROVIDER_PATH -x LD_LIBRARY_PATH \
		-x RIPC_PEER_TIMEOUT_MS -x RIPC_RESOLVE_TIMEOUT_MS --mca plm_rsh_agent "$work/rsh" \
		--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include ripc --mca osc ^ucx \
		--mca btl self --mca mpi_yield_when_idle 1 -np "$ranks" "$@" >"$out" 2>"$err"
}

job 3 hostname
if [ "$(sort "$out" | tr '\n' ' ')" = "h1 h2 h3 " ]; then
	ok "each rank has a host of its own"
else
	bad "each rank has a host of its own" "$out" "$err"
	finish
fi
for ranks in 3 5; do
	job "$ranks" "$work/collectives"
	has "collectives of $ranks ranks" "$out" "^collectives: $ranks ranks, [1-9]"
done
job 3 "$work/messages"
has "messages of 3 ranks" "$out" "^messages: 3 ranks, [1-9]"
if job 3 "$work/killed"; then
	bad "a killed rank ends the job with an error" "$out" "$err"
else
	has "the end of a killed rank names it and its host" "$err" \
		"rank 2 .*on node h3 exited on signal 9"
fi
finish
