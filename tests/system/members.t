#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Members of every local kind, alone and mixed, each with fio's verification and
# a second assembly.
# lab: --topology nvme
# lab-kernel: oldest
. "${0%/*}/lib.sh"

load_weft
make_loop loop-a 64; make_loop loop-b 64
ok_members "loop devices" /dev/loop-a /dev/loop-b

local_nvmes 4
first=$(nvme_local nvme0); second=$(nvme_local nvme1)
if [ -z "$first" ] && [ "${LAB_KERNEL:-}" = uml ]; then
	skip "local NVMe, pmem, partitions" "User Mode Linux has no PCI devices"
	remove_loop loop-a; remove_loop loop-b
	ok_unload
	done_testing
fi
ok_members "local NVMe" "$first" "$second"
four_k=
for d in /sys/block/nvme*n1; do
	[ "$(cat "$d/queue/logical_block_size" 2>/dev/null)" != 4096 ] || four_k=/dev/${d##*/}
done
ok_members "local NVMe with 4 KiB blocks" "$four_k"

modprobe -a nfit nd_pmem
until_true 30 test -b /dev/pmem1
ok_members "pmem" /dev/pmem0 /dev/pmem1
ok_members "all kinds at once" /dev/loop-a "$first" /dev/pmem0

printf 'label: gpt\n,40M\n,\n' | sfdisk -q "$second" && until_true 30 test -b "${second}p2"
ok_members "partitions" "${second}p1" "${second}p2"

for n in a b; do remove_loop loop-$n; done
ok_unload
done_testing
