#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Allocations that fail, by the fault injection of the lab's kernels: writes that wait on one volume hold up no other
# one, and a controller that gets no memory while it connects or scans tries again.
# lab-kernel: uml
# lab-not: debian12 debian13 previous backports
# shellcheck disable=SC2154 # What hostile_begin sets.
. "${0%/*}/lib.sh"

inject=/sys/kernel/debug/failslab
if [ ! -d $inject ]; then
	skip "allocations that fail" "this kernel injects no faults"
	done_testing
fi
# failing CACHE PERCENT TASKS LIMIT: so many allocations of this cache fail, at random, LIMIT of them at most; in all
# tasks (N), or in those that are marked (Y). no_failures CACHE LIMIT: none does any more; sets failures to the number
# of those that did.
failing() {
	echo 1 >"/sys/kernel/slab/$1/failslab" && echo Y >$inject/cache-filter && echo N >$inject/ignore-gfp-wait &&
		echo 0 >$inject/verbose && echo 1 >$inject/interval && echo "$3" >$inject/task-filter &&
		echo "$4" >$inject/times && echo "$2" >$inject/probability
}
no_failures() {
	echo 0 >$inject/probability
	failures=$(($2 - $(cat $inject/times)))
	note "$failures allocations failed"
	echo 0 >"/sys/kernel/slab/$1/failslab"
	echo N | tee $inject/cache-filter $inject/task-filter >/dev/null
	echo Y >$inject/ignore-gfp-wait
}
# mark 1|0: kernel threads, and those that they make.
mark() {
	local pid
	for pid in $(ps --ppid 2 -p 2 -o pid=); do echo "$1" 2>/dev/null >"/proc/$pid/make-it-fail"; done
}

# --- Writes that wait on one volume; a bio to a volume on another volume needs what they need, twice
load_weft 500
modprobe dm_mod
for n in a b c; do make_null $n 64; done
dmsetup create still --table "0 $((64 * 2048)) linear $(readlink -f /dev/b) 0"; dmsetup mknodes
ok "a volume with a member that will stand still" weftctl create v /dev/a /dev/mapper/still --chunk 64K
ok "another volume" weftctl create inner /dev/c
ok "and one on it" weftctl create outer /dev/weft/inner
# write_many: 300 writes at a time to that member.
write_many() {
	python3 - <<-'PY'
	import mmap, os, sys, threading
	threading.stack_size(1 << 17)
	fd = os.open("/dev/weft/v", os.O_WRONLY | os.O_DIRECT)
	page = mmap.mmap(-1, 4096)
	failed = []
	def write(n):
	    try:
	        os.pwrite(fd, page, n // 16 * 131072 + 65536 + n % 16 * 4096)
	    except OSError as error:
	        failed.append(error)
	threads = [threading.Thread(target=write, args=(n,)) for n in range(300)]
	for thread in threads:
	    thread.start()
	for thread in threads:
	    thread.join()
	sys.exit(bool(failed))
	PY
}
beat() { dd if=/dev/weft/inner bs=4096 skip=1 count=1 iflag=direct status=none | sha256sum; }
beats_since() { [ "$(beat)" != "$1" ]; }
others() {
	local before
	dd if=/dev/zero of=/dev/weft/outer bs=4k count=1 oflag=direct status=none || return
	before=$(beat)
	until_true 20 beats_since "$before"
}
ok "each allocation for a bio fails" failing weft_io 100 N 1000000
dmsetup suspend --nolockfs still
write_many & writers=$!
waiting() { [ "$(cat /proc/[0-9]*/task/*/stat 2>/dev/null | grep -c ') D ')" -ge 300 ]; }
ok "300 writes wait for the member" until_true 30 waiting
others & other=$!
ok "a write to a volume on another volume ends meanwhile, and its heartbeats go on" until_true 40 has_ended $other
dmsetup resume still
wait $other
result $? "without an error"
wait $writers
result $? "as do those that waited"
no_failures weft_io 1000000
ok "allocations did fail" test "$failures" -ge 300
held() { [ "$(status_of v .ownership) $(status_of outer .ownership)" = "held held" ]; }
ok "no volume was lost" until_true 20 held
ok "stopped" weftctl stop outer
ok "the others are stopped" weftctl stop inner v
dmsetup remove still
for n in a b c; do remove_null $n; done
ok_unload

# --- A controller is connected again, and some of the pages that it needs for that cannot be had
hostile_begin
hostile none
ok "connected" weftctl connect "$uri" "${patience[@]}"
attribute() { cat "/sys/class/weft-rdma/weft-rdma0/$1"; }
reset() { echo 1 >/sys/class/weft-rdma/weft-rdma0/reset_controller; }
reconnects_since() { [ "$(attribute reconnects)" -gt "$1" ]; }
# comes_back: the association ends and begins anew, and its disk is read.
comes_back() {
	local before reader
	before=$(attribute reconnects)
	until_true 60 reset || { echo "it is not live"; return 1; }
	until_true 60 reconnects_since "$before" || { echo "it is not connected again"; return 1; }
	dd if=/dev/weft-rdma0n1 of=/dev/null bs=4k count=1 iflag=direct status=none & reader=$!
	until_true 60 has_ended $reader || { echo "its disk does not answer"; return 1; }
	wait $reader
}
mark 1
# At random: each fifth would be the last one of each attempt if an attempt needs five. The delay between attempts
# doubles, up to 8 s: five failures, one in each attempt, take 23 s.
failed=0
for n in 1 2 3 4 5 6 7 8; do
	ok "reset $n: up to five allocations of 4 KiB fail, three of ten, in kernel threads" failing kmalloc-4k 30 Y 5
	ok "reset $n: the controller comes back, and its disk with it" comes_back
	no_failures kmalloc-4k 5
	failed=$((failed + failures))
done
mark 0
ok "allocations did fail" test "$failed" -ge 2
ok "disconnected" weftctl disconnect --all
gone
hostile_end
done_testing
