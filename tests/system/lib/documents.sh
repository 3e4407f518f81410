# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Commands that documents tell users to run.

# commands DOCUMENT HEADING: those below the heading, each in a line.
commands() {
	awk -v head="$2" '/^#/ { on = ($0 ~ head) } on && /^    / { print substr($0, 5) }' "/weft/$1" |
		sed -e ':a;/\\$/N;s/\\\n *//;ta'
}

# readme HEADING: README's, less those that install packages, which packages.t has.
readme() { commands README.md "$1" | grep -v '^apt-get'; }

# by_serial DISK DISK: the commands on standard input with these disks for the first two of the documents. The kernel
# numbers disks in the order in which they answer.
by_serial() { sed "s,/dev/nvme0n1,@0@,; s,/dev/nvme1n1,@1@,; s,@0@,$1,; s,@1@,$2,"; }
