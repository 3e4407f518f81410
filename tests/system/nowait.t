#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Requests that may not wait, over members that are always full: a fragment of a
# split one that is turned away is done again, once.
# lab-kernel: uml
. "${0%/*}/lib.sh"

load_weft 1000
for n in 0 1 2; do make_null "w$n" 64 hw_queue_depth=2 submit_queues=1 irqmode=2 completion_nsec=1000000; done
ok "a volume of members with two tags each" weftctl create v /dev/w0 /dev/w1 /dev/w2 --chunk 16K
for iostats in 1 0; do
	echo $iostats >'/sys/block/weft!v/queue/iostats'
	ok "registered memory verified, iostats $iostats" \
		weft-memtest v verify pages --largest=524288 --size=4194304 --count=32
	ok "verified, each I/O in many fragments, iostats $iostats" fio_verify --ioengine=io_uring \
		--rw=randwrite --bsrange=4k-512k --blockalign=4k --iodepth=16 --size="$(mib 24)"
	ok "and read by several at once, iostats $iostats" fio --name=read --filename=/dev/weft/v --direct=1 \
		--ioengine=io_uring --rw=randread --bs=256k --iodepth=16 --numjobs=3 --size=32m --io_size="$(mib 24)"
done
is "nothing is in flight afterwards" "$(awk '{print $9}' '/sys/block/weft!v/stat')" 0
ok "stopped" weftctl stop v
for n in 0 1 2; do remove_null "w$n"; done

# The outer volume's first chunk is on a disk whose one tag is taken; its second on a volume that splits once more.
ms=$(slow 700) # each of its commands takes that long
make_null tag 64 hw_queue_depth=1 submit_queues=1 irqmode=2 completion_nsec="${ms}000000"
for n in 0 1; do make_null "f$n" 64; done
ok "a volume of a disk with one tag" weftctl create v /dev/tag --force
# The machine may stand still for that long, but not each time.
for _ in 1 2 3; do
	took=$(weft-memtest v submit pages --depth=8 --largest=4096) || took=99999
	note "submitted in $took ms"
	[ "$took" -ge $((ms - 100)) ] || break
done
ok "a ring that has more to read than there are tags does not wait" test "$took" -lt "$((ms - 100))"
ok "stopped" weftctl stop v
ok "a volume that splits" weftctl create inner /dev/f0 /dev/f1 --chunk 16K
# Its members' superblocks are written and read by one tag, one command at a time.
ok "a volume of it and of a disk with one tag" weftctl create outer /dev/tag /dev/weft/inner --chunk 64K --force
nowait_write() {
	python3 - "$(basename "$(readlink -f /dev/tag)")" <<-'PY'
	import errno, mmap, os, sys, threading, time
	fd = os.open("/dev/weft/outer", os.O_RDWR | os.O_DIRECT)
	def page(size, byte):
	    m = mmap.mmap(-1, size)
	    m.write(bytes([byte]) * size)
	    return m
	old, new, far = page(131072, 0x11), page(131072, 0x22), page(4096, 0x33)
	os.pwritev(fd, [old], 0)
	busy = threading.Thread(target=lambda: os.pwritev(fd, [far], 1 << 20))
	busy.start()
	# One command has the tag.
	limit = time.monotonic() + 60
	while open(f"/sys/block/{sys.argv[1]}/inflight").read().split() == ["0", "0"]:
	    if time.monotonic() > limit:
	        sys.exit("no command is in flight")
	    time.sleep(0.001)
	try:
	    done = os.pwritev(fd, [new], 0, os.RWF_NOWAIT)
	except OSError as e:
	    if e.errno != errno.EAGAIN:
	        raise
	    done = 0
	busy.join()
	back = mmap.mmap(-1, 131072)
	os.preadv(fd, [back], 0)
	good = back[:] == (new[:] if done else old[:])
	print("accepted" if done else "refused", "whole" if good else "in parts")
	sys.exit(not good)
	PY
}
written() { awk '{ print $5 }' '/sys/block/weft!outer/members/1/stat'; }
for iostats in 1 0; do
	for volume in inner outer; do echo $iostats >"/sys/block/weft!$volume/queue/iostats"; done
	before=$(written)
	is "a write that may not wait is written whole or not at all, iostats $iostats" \
		"$(nowait_write)" "accepted whole"
	# The program writes 128 sectors there, once or twice. Only the other member turned a part away.
	after=$(($(written) - before))
	ok "no part is sent twice, iostats $iostats ($after sectors)" test "$after" -le 256
done
ok "the outer one is stopped" weftctl stop outer
ok "and the inner one" weftctl stop inner
for n in f0 f1; do remove_null "$n"; done

# Reads that were turned away are done again: those of the disk whose tag is taken, and those of others, which do not
# wait for them.
for n in 0 1 2; do make_null "g$n" 64 hw_queue_depth=1 submit_queues=1 irqmode=2 completion_nsec=1000000; done
ok "a volume of it and of fast disks with one tag" weftctl create v /dev/tag /dev/g0 /dev/g1 /dev/g2 --chunk 64K --force
# reads_at OFFSET SIZE: many at a time of the two members there; prints the longest in nanoseconds.
reads_at() {
	fio --name=read --filename=/dev/weft/v --direct=1 --ioengine=io_uring --rw=read --bs=128k --zonemode=strided \
		--zonesize=128k --zonerange=256k --offset="$1" --size=63m --io_size="$2" --iodepth=16 \
		--output-format=json --output="/tmp/reads.$1" && json '.jobs[0].read.clat_ns.max' <"/tmp/reads.$1"
}
reads_at 0 3m >/tmp/longest & long=$!
sleep 3
# The machine may stand still for longer than that, but not each time.
for _ in 1 2 3; do
	longest=$(reads_at 128k 8m)
	[ "$longest" -ge "${ms}000000" ] || break
done
ok "the reads of the slow disk are not done yet" test ! -s /tmp/longest
note "the longest of the others took $longest ns"
ok "those of other members did not wait for them" test "$longest" -lt "${ms}000000"
wait $long
result $? "they end, too"
ok "the volume is stopped" weftctl stop v
for n in tag g0 g1 g2; do remove_null "$n"; done
ok_unload
done_testing
