#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Members behind a fabric, NVMe/RDMA and NVMe/TCP of the stock host and target,
# alone and mixed, each with fio's verification and a second assembly.
# lab-kernel: none
# lab-not: uml
. "${0%/*}/lib.sh"

# Under the checkers a heartbeat over soft-RoCE takes longer than the shortest interval.
load_weft 200
# On 6.1 nvme-tcp hands the pages of a huge page's end and of the next one's start to the network as one piece. Where
# initiator and target are one host, hardened usercopy then stops the target, without weft too.
[ ! -e /sys/kernel/mm/transparent_hugepage/enabled ] || echo never >/sys/kernel/mm/transparent_hugepage/enabled

rdma=1
if [ -n "${LAB_CHECKERS:-}" ]; then
	# A packet takes milliseconds there, and each that is late is sent again after four seconds.
	rdma=
	skip "nvme-rdma" "soft-RoCE does not keep up under the checkers"
fi
make_loop loop-a 64
for n in 0 1 2 3; do make_null "back$n" 64; done
soft_roce 10.9.0.1
if [ -n "$rdma" ]; then
	for n in 0 1; do nvmet_serve "weft-rdma$n" "$(readlink -f /dev/back$n)" rdma 10.9.0.1 4420; done
	rdma0=$(nvme_connect weft-rdma0 rdma 10.9.0.1); rdma1=$(nvme_connect weft-rdma1 rdma 10.9.0.1)
	ok_members "nvme-rdma" "$rdma0" "$rdma1"
fi
for n in 2 3; do nvmet_serve "weft-tcp$n" "$(readlink -f /dev/back$n)" tcp 10.9.0.1 4421; done
tcp0=$(nvme_connect weft-tcp2 tcp 10.9.0.1 4421); tcp1=$(nvme_connect weft-tcp3 tcp 10.9.0.1 4421)
ok_members "nvme-tcp" "$tcp0" "$tcp1"
[ -z "$rdma" ] || ok_members "both and a local device" /dev/loop-a "$rdma0" "$tcp0"

nvme disconnect-all
[ -z "$rdma" ] || for n in 0 1; do nvmet_unserve "weft-rdma$n" 4420; done
for n in 2 3; do nvmet_unserve "weft-tcp$n" 4421; done
for n in 0 1 2 3; do remove_null "back$n"; done
remove_loop loop-a
ok_unload
no_soft_roce
done_testing
