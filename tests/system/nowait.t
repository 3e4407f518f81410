#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Requests that may not wait, over members that are always full: a split one of
# which a fragment is turned away is done again as a whole, once.
# lab-kernel: backports lab
. "${0%/*}/lib.sh"

load_weft 1000
for n in 0 1 2; do make_null "w$n" 64 hw_queue_depth=2 submit_queues=1 irqmode=2 completion_nsec=1000000; done
ok "a volume of members with two tags each" weftctl create v /dev/w0 /dev/w1 /dev/w2 --chunk 16K
for iostats in 1 0; do
	echo $iostats >'/sys/block/weft!v/queue/iostats'
	ok "verified, each I/O in many fragments, iostats $iostats" fio --name=full --filename=/dev/weft/v --direct=1 --ioengine=io_uring \
		--rw=randwrite --bsrange=4k-512k --blockalign=4k --iodepth=16 --size="$(mib 24)" --verify=crc32c --verify_fatal=1 --verify_state_save=0
	ok "and read by several at once, iostats $iostats" fio --name=read --filename=/dev/weft/v --direct=1 --ioengine=io_uring \
		--rw=randread --bs=256k --iodepth=16 --numjobs=3 --size=32m --io_size="$(mib 24)"
done
is "nothing is in flight afterwards" "$(awk '{print $9}' '/sys/block/weft!v/stat')" 0
ok "stopped" weftctl stop v
for n in 0 1 2; do remove_null "w$n"; done
ok_unload
done_testing
