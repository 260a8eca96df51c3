#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Open MPI over the provider of libripc, over shared memory by itself (ob1, vader), and over two
# other providers of libfabric, on two processors of this host. Takes turns; prints a table of the
# medians. A program that fails, or takes more than 30 s, has "-" for what is missing. NetPIPE, if
# it is installed (netpipe-openmpi), has rows of its own, and so has fi_pingpong, which shows the
# provider without Open MPI.
#
# usage: bench/mpi.sh BUILD [ROUNDS]
set -u
build=$(realpath "${1:?the build directory}") rounds=${2:-5}
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export FI_PROVIDER_PATH=$build/.libs LD_LIBRARY_PATH=$build/.libs RIPC_INTERFACES=lo TMPDIR=$work \
	OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpicc -std=gnu11 -O2 -o "$work/pingpong" bench/mpi_pingpong.c || exit 1
ofi="--mca pml cm --mca mtl ofi --mca osc ^ucx"
declare -A options=(
	[ripc]="-x FI_PROVIDER_PATH -x LD_LIBRARY_PATH -x RIPC_INTERFACES $ofi
		--mca mtl_ofi_provider_include ripc"
	[vader]="--mca pml ob1 --mca btl vader,self"
	[shm]="$ofi --mca mtl_ofi_provider_include shm"
	[tcp_rxm]="$ofi --mca mtl_ofi_provider_include tcp;ofi_rxm"
)
names=(ripc vader shm tcp_rxm)
declare -A providers=([ripc]=ripc [shm]=shm [tcp_rxm]="tcp;ofi_rxm")
# pingpong NAME LENGTH ITERATIONS
pingpong()
{
	local args=(-p "${providers[$1]}" -e rdm -m tagged -S "$2" -I "$3") server try
	timeout 30 taskset -c 0 fi_pingpong "${args[@]}" >/dev/null 2>&1 &
	server=$!
	# The client fails while the server does not yet listen.
	for ((try = 0; try < 50; try++)); do
		timeout 30 taskset -c 1 fi_pingpong "${args[@]}" 127.0.0.1 >"$work/fi" \
			2>/dev/null && break
		sleep 0.1
	done
	awk -v name="$1" -v len="$2" 'NR > 1 { print name, "fi_pingpong:" len, $(NF - 1) }' \
		"$work/fi"
	kill "$server" 2>/dev/null
	wait "$server"
}
for ((round = 0; round < rounds; round++)); do
	for name in "${names[@]}"; do
		# shellcheck disable=SC2086
		timeout 30 mpirun --bind-to core --oversubscribe -np 2 ${options[$name]} \
			"$work/pingpong" 2>"$work/err" | sed "s/^/$name /"
		[ "${PIPESTATUS[0]}" -eq 0 ] || echo "$name: failed, or took more than 30 s" >&2
		command -v NPopenmpi >/dev/null || continue
		# shellcheck disable=SC2086
		(cd "$work" && timeout 30 mpirun --bind-to core --oversubscribe -np 2 \
			${options[$name]} NPopenmpi -o np.out -l 64 -u 1048576 -p 0 -n 300) \
			>"$work/err" 2>&1 ||
			echo "$name: NetPIPE failed, or took more than 30 s" >&2
		[ -e "$work/np.out" ] || continue
		awk -v name="$name" '/^ *(64|1024|16384|65536|1048576) / {
			printf "%s NetPIPE:%d %.2f\n", name, $1, $3 * 1e6
		}' "$work/np.out"
		rm -f "$work/np.out"
	done
	command -v fi_pingpong >/dev/null || continue
	for name in "${names[@]}"; do
		[ -n "${providers[$name]:-}" ] || continue
		for len in 64 1024 4096 16384; do
			pingpong "$name" "$len" 5000
		done
		for len in 65536 1048576; do
			pingpong "$name" "$len" 300
		done
	done
done >"$work/lines"
awk -v names="${names[*]}" '
	function median(list,   v, n, i, k, t) {
		n = split(list, v, " ")
		for (i = 2; i <= n; i++)
			for (k = i; k > 1 && v[k] + 0 < v[k - 1] + 0; k--) {
				t = v[k]; v[k] = v[k - 1]; v[k - 1] = t
			}
		return n ? v[int((n + 1) / 2)] : "-"
	}
	NF == 3 {
		if (!($2 in seen)) {
			seen[$2] = 1
			rows[++nrows] = $2
		}
		values[$2, $1] = values[$2, $1] " " $3
	}
	END {
		n = split(names, name, " ")
		line = "| bytes, us one way |"
		rule = "|---|"
		for (i = 1; i <= n; i++) {
			line = line " " name[i] " |"
			rule = rule "---|"
		}
		print line "\n" rule
		for (r = 1; r <= nrows; r++) {
			label = rows[r] == "rate" ? "8 B messages, M/s" : rows[r]
			sub(/:/, ", ", label)
			line = "| " label " |"
			for (i = 1; i <= n; i++)
				line = line " " median(values[rows[r], name[i]]) " |"
			print line
		}
	}' "$work/lines"
