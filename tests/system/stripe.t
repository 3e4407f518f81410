#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Every byte where it belongs: the layout, splits, flushes, both data paths,
# counters, limits, volumes below volumes.
# lab: --topology nvme
# lab-kernel: backports
. "${0%/*}/lib.sh"

load_weft
stat=/sys/block/weft\!v/stat

# --- The layout, byte by byte, against the arithmetic in uapi/weft_format.h
for n in 0 1 2; do make_null "s$n" 64 cache_size=4; done
ok "a volume of three members in chunks of 64 KiB" weftctl create v /dev/s0 /dev/s1 /dev/s2 --chunk 64K
is "its size is what the smallest member holds, in whole chunks" \
	"$(blockdev --getsize64 /dev/weft/v)" $((3 * ((64 * 1048576 - 1048576 - 4096) / 65536) * 65536))
python3 - <<-'PY'
	with open("/tmp/pattern", "wb") as f:
	    for chunk in range(100):
	        f.write(chunk.to_bytes(8, "little") * 8192)
PY
ok "100 numbered chunks are written" dd if=/tmp/pattern of=/dev/weft/v bs=6400k oflag=direct status=none
wrong=0
for chunk in 0 1 2 3 50 98 99; do
	at=$((1048576 + chunk / 3 * 65536))
	got=$(dd if=/dev/s$((chunk % 3)) bs=8 count=1 skip=$((at / 8)) status=none | od -An -tu8)
	[ "$got" -eq "$chunk" ] || wrong=$((wrong + 1))
done
is "each is on the member and at the byte that the format says" $wrong 0
cmp -n 6553600 /tmp/pattern /dev/weft/v
result $? "and reads back through the page cache"

# --- fio's own verification, over every border, on both data paths
nowait_reads() {
	python3 - <<-'PY'
	import errno, mmap, os, random, sys
	fd, done = os.open("/dev/weft/v", os.O_RDONLY | os.O_DIRECT), 0
	for _ in range(400):
	    size, at = 4096 * random.randrange(1, 76), 4096 * random.randrange(3000)
	    got, wanted = mmap.mmap(-1, size), mmap.mmap(-1, size)
	    try:
	        n = os.preadv(fd, [got], at, os.RWF_NOWAIT)
	    except OSError as error:
	        if error.errno != errno.EAGAIN:
	            raise
	        continue
	    os.preadv(fd, [wanted], at)
	    if got[:n] != wanted[:n]:
	        sys.exit(f"{size} bytes at {at} are others")
	    done += 1
	print(f"{done} of 400 were not refused")
	sys.exit(not done)
	PY
}
for iostats in 1 0; do
	echo $iostats >'/sys/block/weft!v/queue/iostats'
	ok "fio verify, random sizes, iostats $iostats" verify /dev/weft/v size="$(mib 64)"
	ok "reads that may not wait are right, iostats $iostats" nowait_reads
done
echo 1 >'/sys/block/weft!v/queue/iostats'

# --- io_uring over many chunks may not be turned away once it is under way
ok "1 MiB reads and writes through io_uring, verified" \
	fio_verify --ioengine=io_uring --rw=write --bs=1m --iodepth=8 --size="$(mib 96)"

# --- What is counted is what was done
before=$(cat "$stat"); member_before=$(members_sum 2)
dd if=/dev/weft/v of=/dev/null bs=192k count=10 iflag=direct status=none
after=$(cat "$stat"); member_after=$(members_sum 2)
is "ten reads of a stripe count as ten on the volume" \
	"$(echo "$before $after" | awk '{print $18 - $1, $20 - $3}')" "10 3840"
is "and as their sectors on the members" $((member_after - member_before)) 3840
is "nothing is in flight afterwards" "$(awk '{print $9}' "$stat")" 0
is "latencies were measured" "$(awk '{print ($3 > 0)}' '/sys/block/weft!v/members/0/stat')" 1

# --- Fan-out: as many requests as members
flushes=$(awk '{print $10}' '/sys/block/weft!v/members/0/stat')
sync -f /dev/weft/v; blockdev --flushbufs /dev/weft/v
python3 -c 'import os; f = os.open("/dev/weft/v", os.O_RDWR); os.write(f, b"x" * 4096); os.fsync(f)'
is "an fsync flushes each member once" "$(members_sum 10)" $((3 * flushes + 3))
ok "flushes beside writes, verified" fio_verify --rw=randwrite --bs=16k --size="$(mib 16)" \
	--numjobs=4 --offset_increment=16m --fsync=4 --group_reporting
ok "FUA writes, verified" fio_verify --sync=dsync --rw=randwrite --bs=4k --size="$(mib 4)"
issued=/sys/kernel/tracing/events/block/block_rq_issue
if [ -d $issued ]; then
	echo 1 >$issued/enable
	dd if=/dev/zero of=/dev/weft/v bs=4k count=1 oflag=direct,dsync status=none
	echo 0 >$issued/enable
	# A worker may send it. The first chunk is 1 MiB into each member, behind the owner record.
	is "a FUA write is one for the member that has its data, and for no other" \
		"$(sed -n 's/.*block_rq_issue: \([0-9,]*\) WFS .* 2048 + 8 .*/\1/p' /sys/kernel/tracing/trace)" \
		"$(lsblk -dno MAJ:MIN /dev/s0 | tr -d ' ' | tr : ,)"
	echo >/sys/kernel/tracing/trace
else
	skip "a FUA write is one for the member that has its data" "no tracefs"
fi
ok "the volume stops" weftctl stop v
weftctl wipe /dev/s0 /dev/s1 /dev/s2 >/dev/null
for n in 0 1 2; do remove_null "s$n"; done

# --- Limits
for n in 0 1; do make_null "l$n" 64 blocksize=4096; done
make_null l2 64 blocksize=4096 discard=1
weftctl create v /dev/l0 /dev/l1 --chunk 1M >/dev/null
is "blocks of 4096 bytes are reported" "$(cat '/sys/block/weft!v/queue/logical_block_size')" 4096
is "the stripe is the optimal I/O size" "$(cat '/sys/block/weft!v/queue/optimal_io_size')" 2097152
is "the chunk is the minimal" "$(cat '/sys/block/weft!v/queue/minimum_io_size')" 1048576
is "no discard without a member that can" "$(cat '/sys/block/weft!v/queue/discard_max_bytes')" 0
ok "verified writes in blocks of 4096 bytes" verify /dev/weft/v size="$(mib 64)"
weftctl stop v >/dev/null
weftctl create v /dev/l0 /dev/l2 --force >/dev/null
is "nor when only some can" "$(cat '/sys/block/weft!v/queue/discard_max_bytes')" 0
weftctl stop v >/dev/null
ok "one member alone" weftctl create v /dev/l2 --force
ok "verified, and never split" verify /dev/weft/v size="$(mib 48)"
is "discard passes" "$(test "$(cat '/sys/block/weft!v/queue/discard_max_bytes')" -gt 0; echo $?)" 0
weftctl stop v >/dev/null
weftctl wipe /dev/l0 /dev/l1 /dev/l2 >/dev/null 2>&1
for n in 0 1 2; do remove_null "l$n"; done

# --- A volume below a volume, a volume below dm, tracepoints
for n in 0 1 2 3; do make_null "t$n" 400; done
weftctl create in0 /dev/t0 /dev/t1 >/dev/null
weftctl create in1 /dev/t2 /dev/t3 --chunk 32K >/dev/null
ok "volumes are members of a volume" weftctl create v /dev/weft/in0 /dev/weft/in1 --chunk 256K
ok "verified through both" verify /dev/weft/v size="$(mib 96)"
refused "a volume that is a member cannot be stopped" 3 "held by weft/v" weftctl stop in0
if [ -d /sys/kernel/tracing/events/weft ]; then
	echo 1 >/sys/kernel/tracing/events/weft/enable
	dd if=/dev/weft/v of=/dev/null bs=4k count=1 iflag=direct status=none
	echo 0 >/sys/kernel/tracing/events/weft/enable
	# The upper volume's heartbeats go through the lower one, so there may be more.
	ok "tracepoints report a read on both levels" \
		test "$(grep -c 'weft_map:.*sector' /sys/kernel/tracing/trace)" -ge 2
else
	skip "tracepoints report a read" "no tracefs"
fi
modprobe xfs
ok "XFS on it" mkfs.xfs -q /dev/weft/v
ok "is mounted" mount /dev/weft/v /mnt
cp -a /weft/kmod /mnt/ && umount /mnt && mount /dev/weft/v /mnt
ok "files are what was copied" diff -r /weft/kmod /mnt/kmod
umount /mnt
weftctl stop v >/dev/null
ok "all stop" weftctl stop --all
for n in 0 1 2 3; do remove_null "t$n"; done
ok_unload
done_testing
