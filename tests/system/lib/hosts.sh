# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Hosts of a test: the others, and what this one has.

# on_host HOST COMMAND...: runs the command there; its output and status. It uses LAB_SLOW of this host.
on_host() {
	local host=$1
	shift
	lab-peer "$host" run "export LAB_SLOW=$LAB_SLOW; $*"
}

# has_cgroups: cgroups are mounted, if this kernel has them.
has_cgroups() { mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null || [ -e /sys/fs/cgroup/cgroup.procs ]; }

# net_device PREFIX: the network interface whose address begins with the prefix.
net_device() { ip -o -4 address | awk -v prefix="$1." 'index($4, prefix) == 1 { print $2 }'; }
