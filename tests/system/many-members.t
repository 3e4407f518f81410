#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Many members, each with a cache and discard: a discard or flush of the whole
# volume costs one request to each member. 256 members with LAB_LONG, 32 without.
# lab-kernel: none
# lab-not: lab debian12 debian13 previous backports
. "${0%/*}/lib.sh"

load_weft
# discards DISK...: requests so far, of all these disks.
discards() {
	local sum=0 disk
	for disk in "$@"; do
		sum=$((sum + $(awk '{print $12}' "/sys/block/$(basename "$(readlink -f "$disk")")/stat")))
	done
	echo $sum
}

count=${LAB_LONG:+256}
count=${count:-32}
last=$((count - 1))
members=
for n in $(seq 0 $last); do
	make_null "m$n" $((6144 / count)) discard=1 cache_size=1
	members="$members /dev/m$n"
done
# shellcheck disable=SC2086
ok "a volume of $count members" weftctl create v $members --chunk 64K --force
is "status reports all" "$(status_of v '.members | length')" "$count"
# shellcheck disable=SC2086
{
	ok "verified writes over all members" verify /dev/weft/v size="$(mib 96)"
	before=$(discards $members)
	blkdiscard -f -o 0 -l $((4095 * 1048576)) /dev/weft/v
	is "a discard of 4 GiB less 1 MiB is one request to each member" $(($(discards $members) - before)) "$count"
	before=$(discards $members)
	blkdiscard -f -o 0 -l $((4096 * 1048576)) /dev/weft/v
	# A bio holds less than 4 GiB, so the block layer makes two of it, the second of one block.
	is "one of 4 GiB is one more" $(($(discards $members) - before)) $((count + 1))
	before=$(members_sum 10)
	python3 -c 'import os; f = os.open("/dev/weft/v", os.O_RDWR); os.fsync(f)'
	is "a flush is one request to each member" $(($(members_sum 10) - before)) "$count"
}
zeroes() { dd if=/dev/weft/v bs=1M count=64 iflag=direct status=none | cmp -n $((64 << 20)) - /dev/zero; }
ok "discarded data reads as zeroes" zeroes
ok "other data" dd if=/dev/urandom of=/dev/weft/v bs=1M count=64 oflag=direct status=none
ok "write zeroes over all members" blkdiscard -z -o 0 -l $((64 * 1048576)) /dev/weft/v
ok "they read as zeroes" zeroes
weftctl stop v >/dev/null
# shellcheck disable=SC2086
weftctl wipe $members >/dev/null
for n in $(seq 0 $last); do remove_null "m$n"; done
ok_unload
done_testing
