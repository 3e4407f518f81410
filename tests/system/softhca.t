#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The test adapter (tests/hardware/softhca): proved by the stock host and target
# first, and weft's initiator over it, with the faults that it can make.
# lab-own: --topology hca --memory 3G
# lab-kernel: none
. "${0%/*}/lib.sh"

softhca
load_weft 2000
nqn=nqn.2014-08.org.example
for n in 0 1; do
	make_null "hb$n" 64
	nvmet_serve "$nqn:d$n" "$(readlink -f "/dev/hb$n")" rdma 10.9.0.1
done

# --- Others' code first
disk=$(nvme_connect "$nqn:d0" rdma 10.9.0.1)
ok "the stock host connects to the stock target" test -b "$disk"
ok "fio verifies over it" verify "$disk" size="$(mib 64)" bsrange=4k-1100k
knob 0 break_at 300
verify "$disk" size=16m bsrange=4k-256k >/tmp/fio.out 2>&1
result $? "and when a connection breaks on the way"
is "which it did" "$(knob 0 break_at)" 0
ok "disconnected" nvme disconnect-all

# --- Ours: from the second adapter to the target on the first
uris="rdma://10.9.0.1/$nqn:d0 rdma://10.9.0.1/$nqn:d1"
quick="--keep-alive $(slow 5) --reconnect-delay 1"
# shellcheck disable=SC2086
ok "a volume by weft's own initiator" weftctl create v $uris --chunk 64K --force --host-address 10.9.1.1 $quick
ok "verified" verify /dev/weft/v size="$(mib 64)" bsrange=4k-1100k
# has KIND: resources of that kind that the initiator's adapter has given out
has() { rdma resource show softhca1 | sed -n "s/.* $1 \([0-9]*\).*/\1/p"; }
ok "the queue pairs share completion queues" test "$(has cq)" -gt 0 -a "$(has cq)" -lt "$(has qp)"
# plugs DEVICE RW: I/O of 4 KiB that comes in plugs of 32
plugs() {
	fio --name=plugs --filename="$1" --rw="$2" --bs=4k --size=16m --direct=1 --ioengine=io_uring --iodepth=32 \
		--iodepth_batch_submit=32 --iodepth_batch_complete_min=32 --number_ios=3200 --cpus_allowed=0 \
		--output=/tmp/fio.out
}
# doorbells DEVICE: reads for each call that posts work requests
doorbells() {
	local before
	before=$(knob 1 doorbells)
	plugs "$1" randread || return
	echo $((3200 / ($(knob 1 doorbells) - before)))
}
echo 8 >/proc/sys/vm/nr_hugepages
large=$(knob 1 large_pages)
ok "data in huge pages, verified" fio --name=huge --filename=/dev/weft/v --rw=randwrite --bsrange=64k-512k --direct=1 \
	--blockalign=64k --size=8m --ioengine=io_uring --iodepth=4 --mem=mmaphuge --verify=crc32c --output=/tmp/fio.out
ok "they are registered in pages of 64 KiB" test "$(knob 1 large_pages)" -gt "$large"
echo 0 >/proc/sys/vm/nr_hugepages
disks=(/dev/weft-rdma*n1)
ok "32 reads of a disk are posted by one call" test "$(doorbells "${disks[0]}")" -ge 24
ok "32 reads of a volume by one for each member" test "$(doorbells /dev/weft/v)" -ge 12
knob 1 latency_ns 200000
knob 1 bandwidth 200000000
ok "with latency and little bandwidth" verify /dev/weft/v size=8m bsrange=4k-200k
knob 1 latency_ns 0
knob 1 bandwidth 0
knob 1 break_at 300
ok "a connection breaks on the way: no error" verify /dev/weft/v size=16m bsrange=4k-200k
is "it did break" "$(knob 1 break_at)" 0
# Work requests of a read are a registration and a SEND: an odd one is in the middle of a plug.
broken=$(ends queue-pair)
knob 1 post_fail_at 301
ok "a work request of a plug cannot be posted: no error" plugs /dev/weft/v randread
is "it could not" "$(knob 1 post_fail_at)" 0
ok "the association ended for that" test "$(ends queue-pair)" -gt "$broken"
ok "verified after it" verify /dev/weft/v size=4m bsrange=4k-200k
slow 2 >/sys/module/weft_rdma/parameters/io_timeout
weftctl stop v >/dev/null; weftctl disconnect --all >/dev/null
# shellcheck disable=SC2086
ok "assembled" weftctl assemble v $uris --host-address 10.9.1.1 $quick
knob 1 drop_completion 500
ok "a completion is lost: no error" verify /dev/weft/v size=16m bsrange=4k-200k
is "it was lost" "$(knob 1 drop_completion)" 0
# The whole PCI function goes, and is found again: first the initiator's, then the target's.
pull_target() {
	pull_adapter 0
	for n in 0 1; do nvmet_withdraw "$nqn:d$n"; done
	for n in 0 1; do nvmet_offer "$nqn:d$n"; done
}
verify_while "the initiator's adapter is pulled and put back: no error" /dev/weft/v 12 1500 pull_adapter 1
verify_while "the target's likewise: no error" /dev/weft/v 12 1500 pull_target
is "each has its interface again" "$(rdma link | grep -c 'netdev hca')" 2
ok "no byte went to a BAR" test "$(knob 1 bytes_bar)" = 0
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
# Each queue needs 32, the admin queue as well: there is room for one of two.
log_mark
most=$(knob 1 mr_limit)
knob 1 mr_limit 80
ok "an adapter with registrations for one of two queues: connected" \
	weftctl connect "rdma://10.9.0.1/$nqn:d0" --host-address 10.9.1.1 --queues 2 --queue-depth 32
is "with one queue" "$(cat /sys/class/weft-rdma/*/queue_count)" 2
ok "the log says why" log_says "1 I/O queues of 2 can be connected: the RDMA device softhca1 gives queue 2 only"
knob 1 mr_limit "$most"
ok "verified" verify /dev/weft-rdma*n1 size=4m bsrange=4k-64k
ok "disconnected" weftctl disconnect --all
for n in 0 1; do nvmet_unserve "$nqn:d$n"; remove_null "hb$n"; done
ok "the adapter unloads, so nothing holds it" rmmod weft_softhca
# What an adapter can register at once is what a command can move.
ok "the adapter with short page lists" modprobe weft_softhca netdevs=hca0,hca1 page_list_limit=16
make_null hb2 64
nvmet_serve "$nqn:d2" "$(readlink -f /dev/hb2)" rdma 10.9.0.1
ok "connected" weftctl connect "rdma://10.9.0.1/$nqn:d2" --host-address 10.9.1.1
disk=$(basename "$(ls -d /sys/block/weft-rdma*n1)")
is "a command is as long as that" "$(cat "/sys/block/$disk/queue/max_hw_sectors_kb")" 60
ok "verified" verify "/dev/$disk" size=8m bsrange=4k-300k
ok "disconnected" weftctl disconnect --all
nvmet_unserve "$nqn:d2"
remove_null hb2
ok "the adapter unloads again" rmmod weft_softhca
# Memory of many regions is registered in groups, and a lost association does not wait for all of them.
thp=/sys/kernel/mm/transparent_hugepage/enabled
usual=$(sed 's/.*\[\(.*\)\].*/\1/' $thp 2>/dev/null)
# In large pages, a region would be larger.
[ ! -e $thp ] || echo never >$thp
ok "the adapter with regions of a mebibyte" modprobe weft_softhca netdevs=hca0,hca1 page_list_limit=258
make_null hb2 64
nvmet_serve "$nqn:d2" "$(readlink -f /dev/hb2)" rdma 10.9.0.1
# shellcheck disable=SC2086
ok "a volume" weftctl create v "rdma://10.9.0.1/$nqn:d2" --force --host-address 10.9.1.1 $quick
# Each work request takes so long, a registration as well.
knob 1 latency_ns 100000000
before=$(has mr)
more_than() { [ "$(has mr)" -gt $((before + $1)) ]; }
weft-memtest v bench pages --persistent --depth=8 --largest=$((32 << 20)) --count=1 --size=$((64 << 20)) \
	>/tmp/registered 2>&1 & registering=$!
ok "256 regions are being registered" until_true 30 more_than 64
controller=$(echo /sys/class/weft-rdma/weft-rdma*)
reconnects=$(cat "$controller/reconnects")
echo 1 >"$controller/reset_controller"
is_back() { [ "$(cat "$controller/reconnects")" -gt "$reconnects" ]; }
ok "the association ends, and the next one is there" until_true 60 is_back
note "with $(($(has mr) - before)) regions"
more_than 255
is "before all are registered" $? 1
knob 1 latency_ns 0
wait $registering
result $? "they are in the end, and the memory is read"
indented </tmp/registered
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
nvmet_unserve "$nqn:d2"
remove_null hb2
ok "the adapter unloads" rmmod weft_softhca
[ ! -e $thp ] || echo "$usual" >$thp
ok "the adapter with few registrations" modprobe weft_softhca netdevs=hca0,hca1 mr_limit=20
make_null hb2 64
nvmet_serve "$nqn:d2" "$(readlink -f /dev/hb2)" rdma 10.9.0.1
refused "says what it has, and what helps" 1 \
	"it has 20 in all): connect with fewer queues" \
	weftctl connect "rdma://10.9.0.1/$nqn:d2" --host-address 10.9.1.1
nvmet_unserve "$nqn:d2"
remove_null hb2
ok "the adapter unloads once more" rmmod weft_softhca
no_softhca
ok "weft_rdma.ko unloads" rmmod weft_rdma
ok_unload
done_testing
