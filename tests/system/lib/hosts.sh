# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The other hosts of a test.

# on_host HOST COMMAND...: runs the command there; its output and status. It uses LAB_SLOW of this host.
on_host() {
	local host=$1
	shift
	lab-peer "$host" run "export LAB_SLOW=$LAB_SLOW; $*"
}

# net_device PREFIX: the network interface whose address begins with the prefix.
net_device() { ip -o -4 address | awk -v prefix="$1." 'index($4, prefix) == 1 { print $2 }'; }
