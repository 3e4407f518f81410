#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# /dev/weft/NAME.mem: I/O on registered memory where bytes go by pages: the
# caller's own, a software RDMA device's mapping, and bounced ones.
# lab-kernel: oldest uml
. "${0%/*}/lib.sh"

load_weft
# The checkers make everything some times slower: less of it there.
[ -n "${LAB_CHECKERS:-}" ] && less=--count=12 deep=512 || less='' deep=4096
for n in a b c; do make_null "$n" 64; done
# verified SENTENCE ROUTE MEMORY [OPTION...]: on volume v, all bytes by that route.
verified() {
	local sentence=$1 route=$2
	shift 2
	# shellcheck disable=SC2086
	by_route "$sentence" "$route " verify "$@" $less
}

# --- Block devices
ok "a volume" weftctl create v /dev/a /dev/b /dev/c --chunk 64K --force
verified "the caller's own pages, to block devices" 0 pages
# A command whose submission takes long does not hold up its ring: a worker of io_uring submits it.
workers() { weft-memtest v workers "$@"; }
ok "a command of many chunks is left to a worker" test "$(workers pages --largest=4194304)" -ge 1
is "one of few is not" "$(workers pages --largest=65536)" 0
# Somebody who reads the block device without O_DIRECT, and has it open: the page cache keeps what he read.
exec 8</dev/weft/v
dd if=/dev/weft/v of=/dev/null bs=1M count=16 status=none
verified "while the page cache has other bytes" 0 pages
bytes() { dd if=/dev/weft/v bs=1M count=16 "$@" status=none | sha256sum; }
is "who reads by the page cache reads what was written" "$(bytes)" "$(bytes iflag=direct)"
verified "while it has bytes that are not written yet" 0 pages --buffered
exec 8<&-
verified "in commands of many chunks" 0 pages --size=16777216 --largest=8388608 --count=8
verified "in small ones" 0 pages --count=512 --largest=8192
refused "nothing is registered for good with a block device" 1 "registered for good" \
	weft-memtest v register pages --persistent
if [ -e /dev/udmabuf ] || modprobe -q udmabuf; then
	refused "a dma-buf on block devices" 1 "member 0 of v (/dev/a) is a block device" \
		weft-memtest v register udmabuf
	refused "with vmap likewise" 1 "allow bounce" weft-memtest v register udmabuf --vmap
	verified "a dma-buf that may bounce does" 2 udmabuf --bounce
	ok "a copy of many bytes is left to a worker" test "$(workers udmabuf --bounce --largest=1048576)" -ge 1
	is "one of few is not" "$(workers udmabuf --bounce --largest=16384)" 0
	verified "from an odd place in it on" 2 udmabuf --bounce --shift=1300
else
	skip "dma-bufs" "this kernel has no udmabuf"
fi
if [ -e /dev/dma_heap/system ] || modprobe -q system_heap; then
	verified "a dma-heap's" 2 heap --bounce
else
	skip "a dma-heap's" "this kernel has no dma-heaps"
fi
if modprobe -q weft_test_exporter; then
	verified "an exporter's that moves would like to" 2 exporter --bounce --move=20
	verified "one that pins" 2 exporter,pin --bounce
	refused "one that the CPU cannot map" 1 "map it for the CPU" weft-memtest v register exporter,novmap --bounce
	refused "one that is for reading alone" 1 "is a read-only dma-buf" weft-memtest v register exporter,ro --bounce
	ok "nothing strayed, and it unloads" rmmod weft_test_exporter
else
	skip "the test exporter's" "this kernel has no weft_test_exporter"
fi
tap "wrong input" weft-memtest v bad
ok "the end of a registration does not wait" weft-memtest v waits pages --count=100 --largest=4096
# given_back WHAT COUNT SECONDS: that many targets, or memories registered for good, are given back in that time.
given_back() {
	python3 - "$@" <<-'PY'
	import ctypes, fcntl, mmap, os, struct, sys, time
	mem, volume = os.open("/dev/weft/v.mem", os.O_RDWR), os.open("/dev/weft/v", os.O_RDONLY)
	what, count, limit = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
	room = mmap.mmap(-1, 8192 * count)
	at = ctypes.addressof(ctypes.c_char.from_buffer(room))
	def add_target():
	    target = bytearray(struct.pack("<iIIIQ512x", volume, 1, 0, 0, 0))
	    fcntl.ioctl(mem, 3 << 30 | 536 << 16 | ord("w") << 8 | 0x44, target)
	def add_memory(i):
	    memory = bytearray(struct.pack("<IIiIQQII512x", 0, 8, -1, 0, at + i * 8192, 8192, 0, 0))
	    fcntl.ioctl(mem, 3 << 30 | 552 << 16 | ord("w") << 8 | 0x41, memory)
	# Memory is registered only where there is a target.
	for _ in range(count if what == "targets" else 1):
	    add_target()
	for i in range(count if what == "memories" else 0):
	    add_memory(i)
	try:
	    with open("/sys/fs/cgroup/targets/memory.stat") as stat:
	        print("".join(line for line in stat if line.startswith("percpu ")))
	except OSError:
	    pass
	begin = time.monotonic()
	os.close(mem)
	seconds = time.monotonic() - begin
	print(f"{seconds:.1f} s")
	sys.exit(seconds > limit)
	PY
}
# page_arrays SECONDS: 16 MiB are registered 64 times, and the arrays for that, 2 MiB, are in memory.stat in that time.
# One registration of more memory shows less: its page tables, which are the caller's as well, have as many bytes.
page_arrays() {
	python3 - "$@" <<-'PY'
	import ctypes, fcntl, mmap, os, struct, sys, time
	mem, volume = os.open("/dev/weft/v.mem", os.O_RDWR), os.open("/dev/weft/v", os.O_RDONLY)
	size, count, limit = 16 << 20, 64, float(sys.argv[1])
	arrays = count * size // mmap.PAGESIZE * 8
	room = mmap.mmap(-1, size)
	room[::mmap.PAGESIZE] = bytes(size // mmap.PAGESIZE)
	at = ctypes.addressof(ctypes.c_char.from_buffer(room))
	def charged():
	    with open("/sys/fs/cgroup/targets/memory.stat") as stat:
	        return next(int(line.split()[1]) for line in stat if line.startswith("kernel "))
	target = bytearray(struct.pack("<iIIIQ512x", volume, 1, 0, 0, 0))
	fcntl.ioctl(mem, 3 << 30 | 536 << 16 | ord("w") << 8 | 0x44, target)
	before = charged()
	for _ in range(count):
	    memory = bytearray(struct.pack("<IIiIQQII512x", 0, 0, -1, 0, at, size, 0, 0))
	    fcntl.ioctl(mem, 3 << 30 | 552 << 16 | ord("w") << 8 | 0x41, memory)
	# The kernel adds up some of what its processors have counted every two seconds.
	end = time.monotonic() + limit
	while (grown := charged() - before) < arrays * 3 // 4 and time.monotonic() < end:
	    time.sleep(0.2)
	print(f"{grown} bytes more, of {arrays}")
	sys.exit(grown < arrays * 3 // 4)
	PY
}
paid=/sys/fs/cgroup/targets
in_paid() { (echo $BASHPID >$paid/cgroup.procs && "$@"); }
! { has_cgroups && echo +memory >/sys/fs/cgroup/cgroup.subtree_control; } || mkdir $paid
(
	[ ! -d $paid ] || echo $BASHPID >$paid/cgroup.procs
	given_back targets 4096 "$(($(slow 5) + 10))"
) >/tmp/paid
result $? "4096 targets are given back in little time"
indented </tmp/paid
if [ -d $paid ]; then
	ok "their counters, one a processor, are the caller's memory" \
		awk '/^percpu/ { paid = $2 } END { exit paid < 4096 * 8 }' /tmp/paid
	# Another one: the kernel frees some seconds later what was given back.
	rmdir $paid
	mkdir $paid
	ok "the arrays of a memory's pages are the caller's memory" in_paid page_arrays "$(slow 10)"
	rmdir $paid
else
	skip "counters are the caller's memory" "this kernel has no cgroups"
	skip "arrays of pages are the caller's memory" "this kernel has no cgroups"
fi
# Any user can open the device: that alone keeps no volume from being stopped.
tap "a volume whose .mem is open" weft-memtest v stopped
ok "and is assembled" weftctl assemble v
# As many commands in flight, and the program is killed.
weft-memtest v load pages --depth="$deep" --largest=65536 >/tmp/load.out 2>&1 & loader=$!
until_true 30 grep -q loaded /tmp/load.out
sleep 1
refused "a volume whose .mem is in use stays" 3 "open in weft-memtest" weftctl stop v
kill -9 $loader
wait $loader 2>/dev/null
mkfs.ext4 -q -F /dev/weft/v
mkdir -p /tmp/mnt
mount /dev/weft/v /tmp/mnt
refused "no raw write under a mounted filesystem" 3 "volume v is in use" weft-memtest v verify pages
umount /tmp/mnt
# A limit, and a user who is not root: the device is for all users, its volume is not.
ok "all may open it" test "$(stat -c %a /dev/weft/v.mem)" = 666
cp "$(command -v weft-memtest)" /tmp/memtest
as_user="setpriv --reuid=65534 --clear-groups"
# shellcheck disable=SC2086
refused "a user who may not open the volume has no target" 3 "Permission denied" $as_user /tmp/memtest v verify pages
chmod 666 /dev/weft/v
# shellcheck disable=SC2086
refused "more than RLIMIT_MEMLOCK is refused" 3 "RLIMIT_MEMLOCK" \
	$as_user prlimit --memlock=65536 /tmp/memtest v verify pages
# shellcheck disable=SC2086
ok "within it it is not" $as_user prlimit --memlock=8388608 /tmp/memtest v verify pages
chmod 660 /dev/weft/v
ok "stopped" weftctl stop v
ok "wiped" weftctl wipe /dev/a /dev/b /dev/c
if [ -e /dev/udmabuf ]; then
	dmsetup create still --table "0 $(blockdev --getsz /dev/c) linear /dev/c 0"; dmsetup mknodes
	ok "a volume with a member that will stand still" \
		weftctl create v /dev/a /dev/b /dev/mapper/still --chunk 64K --force
	dmsetup suspend --nolockfs still
	! grep -qw memory /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || mkdir $paid
	(
		[ ! -d $paid ] || echo $BASHPID >$paid/cgroup.procs
		exec weft-memtest v crowd udmabuf
	) >/tmp/crowd 2>&1 & crowd=$!
	until_true 60 grep -q refused /tmp/crowd
	if [ -d $paid ]; then
		ok "the pages of bounced bytes are the caller's memory" until_true 30 \
			awk '/^kernel / { paid = $2 } END { exit paid < 256 * 1024 * 1024 }' $paid/memory.stat
	else
		skip "pages of bounced bytes are the caller's memory" "this kernel has no cgroups"
	fi
	dmsetup resume still
	wait $crowd
	[ ! -d $paid ] || rmdir $paid
	is "no more bytes bounce at a time than may" "$(tail -n 1 /tmp/crowd)" "4 done, 4 refused"
	ok "stopped" weftctl stop v
	weftctl wipe /dev/a /dev/b /dev/mapper/still >/dev/null
	dmsetup remove still
fi

# --- Software RDMA
nqn=nqn.2014-08.org.example
soft_roce 10.9.0.1
for n in a b; do nvmet_serve "$nqn:$n" "$(readlink -f /dev/$n)" rdma 10.9.0.1; done
# The writes may keep a slow guest's heartbeats from their target for a while.
heartbeat_every 1000
ok "a volume over soft-RoCE" weftctl create v "rdma://10.9.0.1/$nqn:a" "rdma://10.9.0.1/$nqn:b" --chunk 64K --force
verified "the caller's own pages, over soft-RoCE" 0 pages
ok "the end of a registration does not wait" weft-memtest v waits pages --count=100 --largest=4096
verified "registered for good" 0 pages --persistent --size=16777216 --largest=8388608 --count=8
ok "a command of many parts is left to a worker" test "$(workers pages --persistent --largest=8388608)" -ge 1
# Soft-RoCE may end a path for a second.
no_workers() { [ "$(workers pages --persistent --largest=65536)" = 0 ]; }
ok "one of few is not" until_true 20 no_workers
ok "512 memories that are registered for good are given back in little time" \
	given_back memories 512 "$(($(slow 3) + 8))"
if [ -e /dev/udmabuf ]; then
	refused "no direct route" 1 "is software and has no DMA engine" weft-memtest v register udmabuf
	verified "a dma-buf by the CPU's mapping" 1 udmabuf --vmap
	verified "from the middle of a page on" 1 udmabuf --vmap --shift=1536
	verified "and from an odd place" 1 udmabuf --vmap --shift=1301
	verified "registered for good" 1 udmabuf --vmap --persistent
	verified "or bounced" 2 udmabuf --bounce
fi
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
for n in a b; do nvmet_unserve "$nqn:$n"; done
for n in a b c; do remove_null "$n"; done
ok_unload
no_soft_roce
done_testing
