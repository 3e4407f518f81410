#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Two hosts that write to the same disk share it by their weights, without talking to each other. Runs on host0; host1
# is the other host and host2 the target, whose disk is what is scarce.
# lab-own: --hosts 3 --memory 1G --smp 1
# lab-kernel: none
# lab-not: debian12
. "${0%/*}/lib.sh"

nqn=nqn.2014-08.org.example
on_target() { on_host host2 ". tests/system/lib.sh; $1"; }
# One disk, of which each host has a part: their writes wait in one queue, which is longer than both windows. The disk
# has to be scarce, and not the processors. null_blk never sends a request that is larger than what it sends in 20 ms.
# A rate of 0 would be none.
rate=$(per_slow 4)
[ "$rate" -ge 1 ] || rate=1
on_target "set -e; make_null shared 512 mbps=$rate hw_queue_depth=1024
	echo none >/sys/block/shared/queue/scheduler; echo 16 >/sys/block/shared/queue/max_sectors_kb
	printf 'label: gpt\n,240M\n,\n' | sfdisk -q /dev/shared
	until test -b /dev/shared2; do sleep 0.1; done
	soft_roce_on \$(net_device 10.77.2)
	ip link set \$(net_device 10.77.3) mtu 9000 up; rdma link add rxe1 type rxe netdev \$(net_device 10.77.3)
	nvmet_serve $nqn:d0 /dev/shared1 rdma 10.77.2.3 4420
	nvmet_serve $nqn:d1 /dev/shared2 rdma 10.77.3.3 4430"
result $? "the target serves both parts of one disk"
on_host host1 ". tests/system/lib.sh; modprobe -a weft weft_rdma; soft_roce_on \$(net_device 10.77.3)
	weftctl create v rdma://10.77.3.3:4430/$nqn:d1 --force"
result $? "the second host has a volume on its part"
load_weft 2000
modprobe weft_rdma
soft_roce_on "$(net_device 10.77.2)"
ok "the first has one on the other" weftctl create v "rdma://10.77.2.3:4420/$nqn:d0" --force

on_both() { on_host host1 "$1" && bash -c "$1"; }
# shares WEIGHT WEIGHT: what the first host writes for each 100 bytes of the second's, which write at the same time.
shares() {
	local load other
	on_host host1 "weftctl qos v --background-weight $2" >/dev/null || return
	weftctl qos v --background-weight "$1" >/dev/null || return
	load="fio --name=w --filename=/dev/weft/v --rw=randwrite --bs=16k --iodepth=256 --ioengine=io_uring --direct=1"
	load+=" --size=200m --time_based --ramp_time=$(slow 15) --runtime=$(slow 20)"
	load+=" --output-format=json --output=/tmp/w"
	on_host host1 "$load; jq '.jobs[0].write.io_bytes' /tmp/w" >/tmp/other &
	other=$!
	$load || return
	wait $other || return
	echo $((100 * $(jq '.jobs[0].write.io_bytes' /tmp/w) / $(tail -1 /tmp/other)))
}
between() { [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]; }
# At that latency the disk has 1.2 MB in flight, and 1.8 MB with what the rule adds. A window that is larger than the
# queue of a host, 128 writes of 16 KiB, would limit nothing.
ok "both have the same target of latency" on_both "weftctl qos v --background-latency $(slow 300)ms"
# share_is WEIGHT WEIGHT LEAST MOST: asked again, as a host may stand still meanwhile.
share_is() { shares "$1" "$2" >/tmp/share && between "$(cat /tmp/share)" "$3" "$4"; }
ok "with equal weights both write the same" until_true 120 share_is 10 10 90 110
note "$(cat /tmp/share) %"
ok "with weights 2 to 1, twice as much" until_true 120 share_is 20 10 180 220
note "$(cat /tmp/share) %"
ok "with weights 1 to 3, a third" until_true 120 share_is 10 30 30 37
note "$(cat /tmp/share) %"

ok "the second host's volume stops" on_host host1 "weftctl stop v && weftctl disconnect --all"
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
ok_unload
done_testing
