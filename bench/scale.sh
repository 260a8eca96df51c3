#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The resolver at scale, simulated: runs every scenario of bench/scale at growing sizes, and writes
# tables and pictures.
# usage: scale.sh [--quick|--draw] [DIR]   from the build directory; DIR is where results go,
#                                          doc/scaling of the source tree by default
#
# Writes DIR/scale.tsv, one line per run, and with gnuplot DIR/*.svg. --quick stops at a thousand
# contexts; --draw draws the pictures of the DIR/scale.tsv that is there.
set -eu
export LC_ALL=C
src=$(cd "$(dirname "$0")/.." && pwd)
most=10000
[ "${1:-}" != --quick ] || { most=1000; shift; }
[ "${1:-}" != --draw ] || { most=0; shift; }
out=${1:-$src/doc/scaling}
scale=${builddir:-.}/bench/scale
[ $most -eq 0 ] || [ -x "$scale" ] ||
	{ echo "scale.sh: there is no $scale; make bench/scale" >&2; exit 1; }
mkdir -p "$out"
out=$(cd "$out" && pwd)
tsv=$out/scale.tsv
[ $most -eq 0 ] || "$scale" names >"$tsv"

# run SCENARIO MODE CONTEXTS [LOSS_PPM]
run()
{
	[ "$3" -gt "$most" ] || "$scale" "$@" | tee -a "$tsv"
}

for contexts in 10 30 100 300 1000 3000 10000; do
	for mode in broadcast zookeeper; do
		for scenario in boot rush steady herd; do
			run $scenario $mode $contexts
		done
	done
	run partition broadcast $contexts
	run boot broadcast $contexts 10000
	run boot broadcast $contexts 100000
done

command -v gnuplot >/dev/null || { echo "scale.sh: no gnuplot, no pictures" >&2; exit 0; }

# column NAME: its number
column()
{
	head -n 1 "$tsv" | tr '\t' '\n' | grep -nx "$1" | cut -d: -f1
}

# rows SCENARIO MODE LOSS X Y: two columns, for gnuplot
rows()
{
	awk -F '\t' -v s="$1" -v m="$2" -v l="$3" -v x="$(column "$4")" -v y="$(column "$5")" \
		-v per="$(column seconds)" \
		-v rate="${6:-}" \
		'$1 == s && $2 == m && $5 == l { print $x, rate ? $y / $per : $y }' "$tsv"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for scenario in boot rush steady herd; do
	for mode in broadcast zookeeper; do
		rows $scenario $mode 0 contexts heard_per_s >"$work/heard.$scenario.$mode"
		rows $scenario $mode 0 contexts ensemble rate >"$work/ensemble.$scenario.$mode"
		for p in p50 p99; do
			rows $scenario $mode 0 contexts resolve_${p}_us |
				awk '{ print $1, $2 / 1000 }' \
				>"$work/$p.$scenario.$mode"
		done
	done
done
rows steady broadcast 0 contexts memory_all >"$work/memory.all"
rows steady broadcast 0 contexts memory_own >"$work/memory.own"
cd "$work"
# shellcheck source=pictures.sh
. "$src/bench/pictures.sh"

# picture NAME TITLE YLABEL FILE:TITLE...: curves over the number of contexts, with both axes
# logarithmic.
picture()
{
	local name=$1 title=$2 ylabel=$3 i=0 curve plot='' files=()
	shift 3
	for curve in "$@"; do
		i=$((i + 1))
		[ -s "${curve%%:*}" ] || continue
		files+=("${curve%%:*}")
		plot+="${plot:+, }'${curve%%:*}' with linespoints lw 2 ps 0.8 lt $i"
		plot+=" title '${curve#*:}'"
	done
	draw "$name" "set title '$title'
set xlabel 'contexts (one to each host)'
set ylabel '$ylabel'
$(log_axis x 1 "${files[@]}")
$(log_axis y 2 "${files[@]}")
plot ${extra:+$extra, }$plot"
}

extra="2000 title '1 % of a processor' lc rgb 'gray40' lw 2 dt 2" \
	picture heard "Broadcast load of one host" "broadcast messages received per second" \
	heard.steady.broadcast:steady \
	heard.boot.broadcast:"all start within 1 s" heard.rush.broadcast:"all start within 10 ms" \
	heard.herd.broadcast:"all want one service"
picture ensemble "ZooKeeper (model)" "messages of the ensemble, per second" \
	ensemble.steady.zookeeper:steady ensemble.boot.zookeeper:"all start within 1 s" \
	ensemble.herd.zookeeper:"all want one service"
picture resolve "From the first question to the answer" "time to resolve, ms" \
	p50.steady.broadcast:"steady, broadcast, p50" \
	p99.steady.broadcast:"steady, broadcast, p99" \
	p99.rush.broadcast:"rush, broadcast, p99" p99.herd.broadcast:"herd, broadcast, p99" \
	p99.rush.zookeeper:"rush, ZooKeeper, p99" p99.herd.zookeeper:"herd, ZooKeeper, p99"
picture memory "Memory" "bytes of the resolver of one context" \
	memory.all:"a context that hears everything" memory.own:"its own services and needs alone"
