# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# For the tests that run in a guest, one file a subject. Sourced by bash, which also runs the commands for other hosts;
# see any *.t beside this file.

set -u
# What is printed for people at a terminal is no TAP, and the guest's console is a terminal.
export TERM=dumb
# The lab's fio starts faster than Debian's.
PATH=/usr/local/lib/weft-lab:$PATH
for lib_part in tap time hosts documents disks nvmet rdma rails hostile software dkms volume python chaos; do
	. "/weft/tests/system/lib/$lib_part.sh"
done
unset lib_part
