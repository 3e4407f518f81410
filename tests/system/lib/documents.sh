# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Commands that documents tell users to run. tests/lint-docs finds those that no test takes by these functions.

# commands DOCUMENT HEADING [PATTERN]: those below the heading that match, each in a line. In a document, what is
# indented is commands; programs, output and drawings are fenced.
commands() {
	awk -v head="$2" '/^```/ { fenced = !fenced } fenced { next }
		/^#/ { on = ($0 ~ head) } on && /^    / { print substr($0, 5) }' "/weft/$1" |
		sed -e ':a;/\\$/N;s/\\\n *//;ta' | grep -E -- "${3:-}"
}

# readme HEADING: README's, less those that install packages, which packages.t has.
readme() { commands README.md "$1" | grep -v '^apt-get'; }

# in_text BEGIN: the commands that stand in lines of text of README and docs/, between backticks, and begin with these
# words and have more, each once in a line.
in_text() {
	awk '/^```/ { fenced = !fenced } !fenced && !/^    / { print }' /weft/README.md /weft/docs/*.md | tr '\n' ' ' |
		grep -oE "\`$1 [^\`]+\`" | tr -d '`' | tr -s ' ' | sort -u
}

# run_each TITLE: runs each line of standard input, in a shell of its own.
run_each() {
	local line
	while IFS= read -r line; do ok "$1: $line" sh -ec "$line" </dev/null; done
}

# by_serial DISK DISK: the commands on standard input with these disks for the first two of the documents. The kernel
# numbers disks in the order in which they answer.
by_serial() { sed "s,/dev/nvme0n1,@0@,; s,/dev/nvme1n1,@1@,; s,@0@,$1,; s,@1@,$2,"; }
