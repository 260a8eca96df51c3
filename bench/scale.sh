#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The resolver at scale, simulated: runs every scenario of bench/scale at growing sizes, and writes tables and pictures.
# usage: scale.sh [--quick] [DIR]   from the build directory; DIR is where results go, doc/scaling of the source tree by default
#
# Writes DIR/scale.tsv, one line per run, and with gnuplot DIR/*.svg. --quick stops at a thousand contexts.
set -eu
export LC_ALL=C
src=$(cd "$(dirname "$0")/.." && pwd)
most=10000
[ "${1:-}" != --quick ] || { most=1000; shift; }
out=${1:-$src/doc/scaling}
scale=${builddir:-.}/bench/scale
[ -x "$scale" ] || { echo "scale.sh: there is no $scale; make bench/scale" >&2; exit 1; }
mkdir -p "$out"
tsv=$out/scale.tsv
"$scale" names >"$tsv"

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
	awk -F '\t' -v s="$1" -v m="$2" -v l="$3" -v x="$(column "$4")" -v y="$(column "$5")" -v per="$(column seconds)" \
		-v rate="${6:-}" '$1 == s && $2 == m && $5 == l { print $x, rate ? $y / $per : $y }' "$tsv"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for scenario in boot rush steady herd; do
	for mode in broadcast zookeeper; do
		rows $scenario $mode 0 contexts heard_per_s >"$work/heard.$scenario.$mode"
		rows $scenario $mode 0 contexts ensemble rate >"$work/ensemble.$scenario.$mode"
		for p in p50 p99; do
			rows $scenario $mode 0 contexts resolve_${p}_us | awk '{ print $1, $2 / 1000 }' \
				>"$work/$p.$scenario.$mode"
		done
	done
done
rows steady broadcast 0 contexts memory_all >"$work/memory.all"
rows steady broadcast 0 contexts memory_own >"$work/memory.own"
cd "$work"
gnuplot <<END
set terminal svg size 760,460 font "sans,13" background "white"
set key left top
set grid
set logscale xy
set xlabel "contexts (one to each host)"

set output "$out/heard.svg"
set ylabel "messages to all that each host hears, per second"
set title "What everybody has to hear"
plot 2000 title "1 % of a processor" lc "gray" dt 2, \
	"heard.steady.broadcast" with linespoints title "steady", \
	"heard.boot.broadcast" with linespoints title "all start within 1 s", \
	"heard.rush.broadcast" with linespoints title "all start within 10 ms", \
	"heard.herd.broadcast" with linespoints title "all want one service"

set output "$out/ensemble.svg"
set ylabel "messages of the ensemble, per second"
set title "ZooKeeper (model)"
plot "ensemble.steady.zookeeper" with linespoints title "steady", \
	"ensemble.boot.zookeeper" with linespoints title "all start within 1 s", \
	"ensemble.herd.zookeeper" with linespoints title "all want one service"

set output "$out/resolve.svg"
set ylabel "time to resolve, ms"
set title "From the first question to the answer"
plot "p50.steady.broadcast" with linespoints title "steady, broadcast, p50", \
	"p99.steady.broadcast" with linespoints title "steady, broadcast, p99", \
	"p99.rush.broadcast" with linespoints title "rush, broadcast, p99", \
	"p99.herd.broadcast" with linespoints title "herd, broadcast, p99", \
	"p99.rush.zookeeper" with linespoints title "rush, ZooKeeper, p99", \
	"p99.herd.zookeeper" with linespoints title "herd, ZooKeeper, p99"

set output "$out/memory.svg"
set ylabel "bytes of one context's resolver"
set title "Memory"
plot "memory.all" with linespoints title "of a context that hears everything", \
	"memory.own" with linespoints title "of this, for its own services and needs"
END
