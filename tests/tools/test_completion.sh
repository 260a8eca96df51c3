#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The completion for bash offers what the tools take: their options, the settings of the library and
# their values.
name=tools/test_completion
. "${srcdir:-$(dirname "$0")/../..}/tests/tools/lib.sh"
PATH=$PWD/tools:$PATH
file=tools/completion/ripc-info
[ -e "$file" ] || file=${srcdir:-.}/$file
# shellcheck source=/dev/null
. "$file"

# offers WHAT WORDS... :: WANTED: the words as the shell splits them; the last one is being
# completed.
offers() {
	local what=$1 wanted
	shift
	COMP_WORDS=()
	while [ "$1" != :: ]; do
		COMP_WORDS+=("$1")
		shift
	done
	wanted=$2
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	COMP_LINE=${line:-$(printf '%s ' "${COMP_WORDS[@]}" | sed 's/ = */=/g; s/ *$//')}
	_ripc_tools "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
	printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ' >"$out"
	has "$what" "$out" "^$wanted *\$"
}

offers "an option" ripc-info --do :: "--doctor"
offers "options of another tool" ripc-ping --co :: "--count"
offers "all options" ripc-info -- :: \
	"--doctor --help --json --option --service --services --timeout --version"
offers "what ripc-perf does" ripc-perf l :: "latency"
offers "what ripc-perf does: all" ripc-perf "" :: "bandwidth latency paced rate server stop verbs"
offers "a setting" ripc-ping -o wa :: "wait="
offers "its values" ripc-ping -o wait = :: "adaptive block poll"
offers "a value" ripc-ping -o wait = po :: "poll"
offers "interfaces" ripc-info --option interfaces = lo :: "lo"
offers "nothing where there is nothing" ripc-info -o port = 7 :: ""
line="ripc-info -o =" offers "nothing without a setting" ripc-info -o = :: "" 2>"$err"
if [ -s "$err" ]; then
	bad "and no error in the middle of the line" "$err"
else
	ok "and no error in the middle of the line"
fi
# Options with a choice offer it, in their short and their long form.
transports="auto ib iwarp/soft iwarp/verbs pcie ring/sim self shm sim"
offers "transports" ripc-perf latency -t "" :: "$transports"
offers "a transport" ripc-perf server --transport ib :: "ib"
offers "ways to wait" ripc-perf latency -w "" :: "adaptive block poll"
offers "a way to wait" ripc-perf latency --wait po :: "poll"
offers "kinds" ripc-perf latency -k "" :: "auto long short"
offers "a kind" ripc-perf latency --kind l :: "long"
offers "baselines" ripc-perf latency --baseline "" :: "tcp udp"
offers "queue pairs" ripc-perf verbs --qp "" :: "rc uc ud"
offers "operations" ripc-perf verbs --op wr :: "write write-imm"
offers "experiments" ripc-perf --experiment l :: "list"
offers "an experiment" ripc-perf --experiment E1 :: "E1.*"
# Where a number is wanted there is nothing to choose from, and no option either.
offers "no count" ripc-perf latency -c "" :: ""
offers "no size" ripc-ping -s "" :: ""
(cd "$work" && : >report.json && mkdir reports)
offers "a file" ripc-perf latency -j "$work/report.j" :: "$work/report.json"
offers "a directory" ripc-perf --experiment E1 --out "$work/rep" :: "$work/reports"
offers "options of ripc-gateway" ripc-gateway -- :: \
	"--help --metrics --option --test --version"
offers "a setting of ripc-gateway" ripc-gateway --option wa :: "wait="
offers "a file of ripc-gateway" ripc-gateway -m "$work/report.j" :: "$work/report.json"
offers "an option behind one without a value" ripc-ping -n --ti :: "--timeout"
# Each setting that the library knows.
settings=$(sed -n 's/^\t{"\([a-z_]*\)", KIND_.*/\1=/p' "${srcdir:-.}/src/base/options.c" | sort |
	tr '\n' ' ')
offers "every setting" ripc-info -o "" :: "${settings% }"
for tool in gateway ping perf; do
	if (cd "${srcdir:-.}" && bash -n tools/completion/ripc-$tool) &&
		grep -q '/ripc-info"$' "${srcdir:-.}/tools/completion/ripc-$tool"; then
		ok "ripc-$tool has the same"
	else
		bad "ripc-$tool has the same"
	fi
done
finish
