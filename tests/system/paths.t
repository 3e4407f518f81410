#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Several paths to local members, by device-mapper: a path is removed, and its
# device with it, while a flush of all members waits for another member; other
# commands go on while one waits for a path; and what a path has to support.
# lab-kernel: uml
# lab-more: debian12
. "${0%/*}/lib.sh"

load_weft 2000
modprobe dm_mod
dm_disk() { dmsetup info -c --noheadings -o blkdevname "$1"; }
# A disk with one tag, which each command has for 0.3 seconds; it holds up those that come behind it.
make_null slow 64 hw_queue_depth=1 submit_queues=1 irqmode=2 completion_nsec=300000000 cache_size=16
members=(/dev/slow)
for n in 1 2 3 4; do
	make_null "disk$n" 64 cache_size=16
	for path in a b; do
		dmsetup create "$path$n" --table "0 $((64 * 2048)) linear $(readlink -f "/dev/disk$n") 0"
	done
	members+=("/dev/mapper/a$n")
done
# Both lead to the fourth disk, which promises more than one of them keeps.
dmsetup create lesser --table "0 $((64 * 2048)) delay $(readlink -f /dev/disk4) 0 0"
dmsetup mknodes
ok "a volume whose first member is slow" weftctl create v "${members[@]}" --chunk 64K
# A path that does not answer, as a target that hangs: whoever asks for something else is not kept waiting.
dmsetup suspend b1
python3 /weft/tests/system/weft_netlink.py path-add v 1 /dev/mapper/b1 >/tmp/added & adder=$!
claimed() { dmsetup info -c --noheadings -o open b1 | grep -q 1; }
ok "a path is added that does not answer" until_true 30 claimed
ok "status answers meanwhile, of all volumes and of this one" timeout "$(slow 60)" weftctl status
refused "other commands on the volume are refused" 3 "changed by another command" timeout "$(slow 60)" weftctl stop v
dmsetup resume b1
wait $adder
is "it answers, and is added" "$(cat /tmp/added)" "done"
# The same when it leaves. Its disk has a page to write, behind the superblocks, and is closed when it has written it.
disk=$(dm_disk b1)
dmsetup suspend --nolockfs b1
head -c 4096 /dev/zero | dd of=/dev/mapper/b1 bs=4096 seek=128 conv=notrunc status=none iflag=fullblock
python3 /weft/tests/system/weft_netlink.py path-remove v 1 "$disk" >/tmp/removed & remover=$!
has_left() { [ ! -e "/sys/block/$disk/holders/weft!v" ]; }
ok "a path leaves its member, and its disk does not answer" until_true 20 has_left
ok "status answers meanwhile" timeout "$(slow 60)" weftctl status
ok "and the removal waits for the disk" kill -0 $remover
dmsetup resume b1
wait $remover
is "it answers, and is removed" "$(cat /tmp/removed)" "done"
ok "each other member has two paths" \
	weftctl path add v /dev/mapper/b1 /dev/mapper/b2 /dev/mapper/b3 /dev/mapper/b4
# lacks SENTENCE TEXT INDEX DEVICE: volume v refuses the device as a path of that member, and names TEXT.
lacks() {
	local out
	out=$(python3 /weft/tests/system/weft_netlink.py path-add v "$3" "$4")
	case $out in
	"refused: "*"does not support $2, and volume v does") result 0 "$1" ;;
	*) note "$out"; result 1 "$1" ;;
	esac
}
lacks "a path that does less than the volume promises is refused" "NOWAIT requests" 4 /dev/mapper/lesser
dmsetup remove lesser
is "both usable" "$(status_of v '[.members[1:][].paths | length] | unique | join(" ")')" 2
is "the volume has a cache to flush" "$(cat '/sys/block/weft!v/queue/write_cache')" "write back"

busy() { awk '{ exit !$9 }' "/sys/block/$(basename "$(readlink -f /dev/slow)")/stat"; }
dd if=/dev/zero of=/dev/weft/v bs=4k count=1 oflag=direct status=none & writer=$!
ok "the slow member is busy" until_true 30 busy
python3 -c 'import os; os.fsync(os.open("/dev/weft/v", os.O_RDWR))' & flusher=$!
sleep 0.2
for n in 1 2 3 4; do
	ok "path a$n is removed" weftctl path remove v "/dev/mapper/a$n"
	ok "and its device" dmsetup remove "a$n"
done
wait $flusher
result $? "the flush succeeds by the other paths"
wait $writer
result $? "as does the write before it"
is "no member failed" "$(cat '/sys/block/weft!v/members/'*/errors | sort -u)" 0
ok "stopped" weftctl stop v
for n in 1 2 3 4; do
	dmsetup remove "b$n"
	remove_null "disk$n"
done
remove_null slow

# --- Other things that a volume has promised when it was assembled
make_null whole 64 discard=1
for path in all less; do
	dmsetup create $path --table "0 $((64 * 2048)) linear $(readlink -f /dev/whole) 0"
done
dmsetup mknodes
ok "a volume whose disk discards" weftctl create v /dev/mapper/all
queue=/sys/block/$(dm_disk less)/queue
echo 0 >"$queue/discard_max_bytes"
lacks "a path that does not discard is refused" discards 0 /dev/mapper/less
dmsetup remove less
dmsetup create less --table "0 $((64 * 2048)) linear $(readlink -f /dev/whole) 0"
dmsetup mknodes
queue=/sys/block/$(dm_disk less)/queue
echo 1 >"$queue/stable_writes"
lacks "one that needs pages that do not change is refused" "data that changes during a write" 0 /dev/mapper/less
echo 0 >"$queue/stable_writes"
ok "one that does all is a path" weftctl path add v /dev/mapper/less
ok "stopped" weftctl stop v
for path in all less; do dmsetup remove $path; done
remove_null whole

# --- A member gets a cache that it did not have when the volume was assembled
make_null plain 16
make_null cached 16 cache_size=16
linear() { echo "0 $((16 * 2048)) linear $(readlink -f "/dev/$1") 0"; }
dmsetup create one --table "$(linear plain)"
dmsetup mknodes
ok "a volume whose disk has no cache" weftctl create v /dev/mapper/one
has_cache() { cat "/sys/block/$(dm_disk one)/queue/write_cache"; }
is "none" "$(has_cache)" "write through"
fsync() { dd if=/dev/zero of=/dev/weft/v bs=4k count=1 conv=fsync,notrunc status=none; }
flushes() { awk '{ print $16 }' "/sys/block/$(basename "$(readlink -f /dev/cached)")/stat"; }
ok "an fsync there" fsync
dmsetup suspend --nolockfs one
dd if=/dev/plain of=/dev/cached bs=1M iflag=direct oflag=direct status=none
dmsetup load one --table "$(linear cached)"
dmsetup resume one
is "its disk is one with a cache now" "$(has_cache)" "write back"
before=$(flushes)
ok "an fsync" fsync
ok "flushes that cache" test "$(flushes)" -gt "$before"
ok "stopped" weftctl stop v
dmsetup remove one
for disk in plain cached; do remove_null $disk; done

# --- A write that a local disk fails is not sent again, also where there is another path
make_null good 64
make_null bad 64
for path in one other; do
	dmsetup create $path --table "0 $((64 * 2048)) linear $(readlink -f /dev/bad) 0"
done
dmsetup mknodes
ok "a volume whose second disk has a bad block" weftctl create v /dev/good /dev/mapper/one --chunk 64K
ok "and two paths" weftctl path add v /dev/mapper/other
echo +2048-2055 >/sys/kernel/config/nullb/bad/badblocks
writes() { awk '{ print $5 }' "/sys/block/$(basename "$(readlink -f /dev/bad)")/stat"; }
before=$(writes)
dd if=/dev/zero of=/dev/weft/v bs=4k seek=16 count=1 oflag=direct status=none 2>/dev/null
is "a write to that block fails" $? 1
is "and was sent once" $(($(writes) - before)) 1
ok "stopped" weftctl stop v
for path in one other; do dmsetup remove $path; done
for disk in good bad; do remove_null $disk; done

# --- Disks that have no write zeroes and no discard, and find that out by the first one, as a SCSI disk does
if modprobe -q weft_test_disk disks=2 size_mib=16 unlearned=1; then
	ok "a volume on such disks" weftctl create v /dev/testdisk0 /dev/testdisk1 --chunk 64K
	before=$(cat '/sys/block/weft!v/members/'*/errors | paste -sd+ | bc)
	dd if=/dev/urandom of=/dev/weft/v bs=64k count=12 oflag=direct status=none
	ok "zeroes are written in another way" blkdiscard -z -o $((256 << 10)) -l $((256 << 10)) /dev/weft/v
	dd if=/dev/weft/v of=/tmp/zeroes bs=256k skip=1 count=1 iflag=direct status=none
	ok "and are read" cmp -n $((256 << 10)) /tmp/zeroes /dev/zero
	is "and no member counts an error" "$(cat '/sys/block/weft!v/members/'*/errors | paste -sd+ | bc)" "$before"
	ok "a discard does nothing, and succeeds" blkdiscard -o 0 -l $((256 << 10)) /dev/weft/v
	ok "stopped" weftctl stop v
	rmmod weft_test_disk
	# Disks of which the second and the third lack one thing each.
	modprobe weft_test_disk disks=3 size_mib=16 unlike=1
	ok "a volume whose disk takes memory of PCI devices" weftctl create v /dev/testdisk0
	lacks "a path that takes none is refused" "memory of PCI devices (P2PDMA)" 0 /dev/testdisk1
	lacks "one that needs a larger alignment is refused" "memory at so small an alignment" 0 /dev/testdisk2
	ok "stopped" weftctl stop v
	rmmod weft_test_disk
	# On Linux 6.1, which has no weft_test_disk, a volume takes such a path.
	make_null polled 16 poll_queues=1
	make_null unpolled 16 poll_queues=0
	ok "a volume whose disk can be polled" weftctl create v /dev/polled
	lacks "a path that cannot is refused" "polled I/O" 0 /dev/unpolled
	ok "stopped" weftctl stop v
	for disk in polled unpolled; do remove_null $disk; done
else
	skip "disks without write zeroes that learn it late" "this kernel has no weft_test_disk"
fi
ok_unload
done_testing
