#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Members of every kind, alone and mixed, each with fio's verification and a
# second assembly.
# lab: --topology nvme
. "${0%/*}/lib.sh"

load_weft
# On 6.1 nvme-tcp hands the pages of a huge page's end and of the next one's start to the network as one piece, and where
# initiator and target are one host, hardened usercopy stops the target: without weft, too.
[ ! -e /sys/kernel/mm/transparent_hugepage/enabled ] || echo never >/sys/kernel/mm/transparent_hugepage/enabled
use() { # SENTENCE DEVICE...
	local sentence=$1
	shift
	ok "a volume on $sentence" weftctl create v "$@" --chunk 64K --force
	ok "verified on $sentence" env WEFT_DEV=/dev/weft/v fio /weft/fio-jobs/verify.fio --size="$(mib 24)" --bsrange=4k-300k
	dd if=/dev/weft/v bs=1M count=8 iflag=direct status=none | sha256sum >/tmp/sum
	ok "stopped" weftctl stop v
	# Any order, as udev may find them.
	# shellcheck disable=SC2046
	ok "assembled again, members in reverse" weftctl assemble v $(printf '%s\n' "$@" | tac)
	is "with its data" "$(dd if=/dev/weft/v bs=1M count=8 iflag=direct status=none | sha256sum)" "$(cat /tmp/sum)"
	ok "stopped again" weftctl stop v
	ok "wiped" weftctl wipe "$@"
}

make_loop loop-a 64; make_loop loop-b 64
use "loop devices" /dev/loop-a /dev/loop-b

modprobe nvme
until_true 30 test -b /dev/nvme3n1
[ -b /dev/nvme0n1 ] && use "local NVMe" /dev/nvme0n1 /dev/nvme1n1 || skip "local NVMe" "no NVMe disk here"
four_k=$(for d in /sys/block/nvme*n1; do [ "$(cat "$d/queue/logical_block_size")" = 4096 ] && echo "/dev/${d##*/}"; done)
[ -n "$four_k" ] && use "local NVMe with 4 KiB blocks" "$four_k"

modprobe -a nfit nd_pmem
until_true 10 test -b /dev/pmem1
if [ -b /dev/pmem1 ]; then
	use "pmem" /dev/pmem0 /dev/pmem1
else
	skip "pmem" "no pmem device here"
fi

fabrics=1
if [ "${LAB_KERNEL:-}" = lab ] && [ -z "${LAB_LONG:-}" ]; then
	fabrics=
	skip "nvme-rdma, nvme-tcp and all kinds at once" "too slow under the checkers; LAB_LONG=1 runs them"
fi
if [ -n "$fabrics" ]; then
	for n in 0 1 2 3; do make_null "back$n" 64; done
	soft_roce 10.9.0.1
	for n in 0 1; do nvmet_serve "weft-rdma$n" "$(readlink -f /dev/back$n)" rdma 10.9.0.1 4420; done
	rdma0=$(nvme_connect weft-rdma0 rdma 10.9.0.1); rdma1=$(nvme_connect weft-rdma1 rdma 10.9.0.1)
	use "nvme-rdma" "$rdma0" "$rdma1"
	for n in 2 3; do nvmet_serve "weft-tcp$n" "$(readlink -f /dev/back$n)" tcp 10.9.0.1 4421; done
	tcp0=$(nvme_connect weft-tcp2 tcp 10.9.0.1 4421); tcp1=$(nvme_connect weft-tcp3 tcp 10.9.0.1 4421)
	use "nvme-tcp" "$tcp0" "$tcp1"
	# shellcheck disable=SC2046
	use "all kinds at once" /dev/loop-a /dev/nvme0n1 $(ls /dev/pmem0 2>/dev/null) "$rdma0" "$tcp0"
fi

printf 'label: gpt\n,40M\n,\n' | sfdisk -q "$(readlink -f /dev/nvme1n1)" && until_true 10 test -b /dev/nvme1n1p2
[ -b /dev/nvme1n1p2 ] && use "partitions" /dev/nvme1n1p1 /dev/nvme1n1p2 || skip "partitions" "none were made"

if [ -n "$fabrics" ]; then
	nvme disconnect-all
	for n in 0 1; do nvmet_unserve "weft-rdma$n" 4420; done
	for n in 2 3; do nvmet_unserve "weft-tcp$n" 4421; done
	for n in 0 1 2 3; do remove_null "back$n"; done
fi
for n in a b; do remove_loop loop-$n; done
ok_unload
done_testing
