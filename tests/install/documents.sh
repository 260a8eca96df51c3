# shellcheck shell=bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Extracts links, programs and commands from the Markdown documents for the tests, so that a change
# of a document is tested. Needs bash, awk and coreutils.

# broken_links DIRECTORY: prints "FILE: LINK" for each relative link of the Markdown files below
# DIRECTORY that leads to no file or no heading there. Fails if there are any, or no links at all.
broken_links()
{
	local top file link path anchor links=0 broken=0
	top=$(realpath "$1") || return
	while read -r file; do
		while read -r link; do
			[[ $link =~ ^[a-z]+: ]] && continue
			links=$((links + 1))
			path=${link%%#*}
			anchor=''
			[[ $link != *#* ]] || anchor=${link#*#}
			path=$(realpath -m "$(dirname "$file")/$path")
			[[ $link != '#'* ]] || path=$file
			if [[ $path == "$top"/* ]] && [ -e "$path" ] &&
				{ [ -z "$anchor" ] || anchors "$path" |
				grep -qxF -- "$anchor"; }; then
				continue
			fi
			echo "${file#"$top"/}: $link"
			broken=$((broken + 1))
		done < <(awk '/^```/ { code = !code; next } !code' "$file" |
			grep -oE '\]\([^) ]+\)' | sed 's/^](//; s/)$//')
	done < <(find "$top" -name build -prune -o -name .git -prune -o -name '*.md' -print | sort)
	[ $links -gt 0 ] && [ $broken -eq 0 ]
}

# anchors FILE: the names of its headings as links have them.
anchors()
{
	awk '/^```/ { code = !code; next } !code && /^#+ /' "$1" | sed 's/^#* //' |
		tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

# programs_of FILE DIRECTORY: writes each C block to the name that stands last, in backticks, in the
# lines before it (`server.c`). Prints the names. A block without such a name is left out.
programs_of()
{
	awk -v dir="$2" '
		/^```c$/ {
			on = 1
			if (name) { print name; file = dir "/" name; printf "" >file }
			next
		}
		/^```/ && on { if (name) close(file); on = 0; name = ""; next }
		on { if (name) print >file; next }
		match($0, /`[a-z_0-9]+\.c`[^`]*$/) {
			name = substr($0, RSTART + 1)
			sub(/`.*/, "", name)
		}' "$1"
}

# blocks_of FILE LANGUAGE: all blocks of a language, one after the other.
blocks_of()
{
	awk -v start="^\`\`\`$2\$" '$0 ~ start { on = 1; next } /^```/ { on = 0 } on' "$1"
}

# commands_of FILE HEADING [NUMBER]: the blocks of shell commands under this heading (a regular
# expression), or only one of them, from 1.
commands_of()
{
	awk -v heading="$2" -v number="${3:-0}" '
		!code && /^#/ { here = $0 ~ "^#+ *(" heading ")" }
		/^```/ {
			code = !code
			sh = code && here && $0 == "```sh"
			n += sh
			next
		}
		sh && (!number || n == number)' "$1"
}
