#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Many members, each with a cache and discard: what a request of the whole costs
# is a request to each, and no more. 256 members with LAB_LONG, 32 without.
# lab-kernel: none
. "${0%/*}/lib.sh"

load_weft
stat_of() { cat "/sys/block/weft!v/members/$1/$2"; }
discards() { # requests so far, summed over members' disks
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
is "all are told of" "$(weftctl status v --json | json '.volumes[0].members | length')" "$count"
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
	before=$(for i in $(seq 0 $last); do stat_of "$i" stat; done | awk '{s += $10} END {print s}')
	python3 -c 'import os; f = os.open("/dev/weft/v", os.O_RDWR); os.fsync(f)'
	after=$(for i in $(seq 0 $last); do stat_of "$i" stat; done | awk '{s += $10} END {print s}')
	is "a flush is one request to each member" $((after - before)) "$count"
}
is "discarded data reads as zeroes" "$(dd if=/dev/weft/v bs=1M count=64 iflag=direct status=none | tr -d '\0' | wc -c)" 0
ok "write zeroes over all members" blkdiscard -z -o 0 -l $((64 * 1048576)) /dev/weft/v
weftctl stop v >/dev/null
# shellcheck disable=SC2086
weftctl wipe $members >/dev/null
for n in $(seq 0 $last); do remove_null "m$n"; done
ok_unload
done_testing
