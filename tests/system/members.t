#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Members of every local kind, alone and mixed, each with fio's verification and
# a second assembly.
# lab: --topology nvme
# lab-kernel: debian12 backports
. "${0%/*}/lib.sh"

load_weft
make_loop loop-a 64; make_loop loop-b 64
ok_members "loop devices" /dev/loop-a /dev/loop-b

modprobe nvme
until_true 30 test -b /dev/nvme3n1
[ -b /dev/nvme0n1 ] && ok_members "local NVMe" /dev/nvme0n1 /dev/nvme1n1 || skip "local NVMe" "no NVMe disk here"
four_k=$(for d in /sys/block/nvme*n1; do [ "$(cat "$d/queue/logical_block_size")" = 4096 ] && echo "/dev/${d##*/}"; done)
[ -n "$four_k" ] && ok_members "local NVMe with 4 KiB blocks" "$four_k"

modprobe -a nfit nd_pmem
until_true 10 test -b /dev/pmem1
if [ -b /dev/pmem1 ]; then
	ok_members "pmem" /dev/pmem0 /dev/pmem1
else
	skip "pmem" "no pmem device here"
fi

if [ -b /dev/pmem1 ] && [ -b /dev/nvme0n1 ]; then
	ok_members "all kinds at once" /dev/loop-a /dev/nvme0n1 /dev/pmem0
fi

printf 'label: gpt\n,40M\n,\n' | sfdisk -q "$(readlink -f /dev/nvme1n1)" && until_true 10 test -b /dev/nvme1n1p2
[ -b /dev/nvme1n1p2 ] && ok_members "partitions" /dev/nvme1n1p1 /dev/nvme1n1p2 || skip "partitions" "none were made"

for n in a b; do remove_loop loop-$n; done
ok_unload
done_testing
