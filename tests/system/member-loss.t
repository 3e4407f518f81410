#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Members, volumes and the module are removed while they are used: refused, or
# failed cleanly and reported, and nothing stays behind.
# lab: --topology nvme
# lab-kernel: backports
. "${0%/*}/lib.sh"

load_weft
modprobe xfs
for n in 0 1; do make_null "g$n" 400; done

# gone, back: the disk goer, as PCI removes and finds it.
gone() { echo 1 >"$(readlink -f "/sys/block/${goer##*/}/device/device")/remove"; }
back() {
	echo 1 >/sys/bus/pci/rescan
	until_true 20 nvme_local nvme0 && goer=$(nvme_local nvme0)
}

# --- A member of a mounted volume is removed
remove_member() {
	ok "a volume with a member that will go" weftctl create v /dev/g0 "$goer" /dev/g1 --chunk 64K --force
	mkfs.xfs -q /dev/weft/v && mount /dev/weft/v /mnt && cp -a /weft/kmod /mnt && sync
	refused "stop while mounted" 3 "mounted on /mnt" weftctl stop v
	rmmod weft 2>/dev/null
	is "unload while mounted" $? 1
	events_begin
	before=$(sectors_written /dev/weft/v)
	fio --name=load --directory=/mnt --rw=randrw --bs=16k --size=32m --time_based --runtime="$(slow 60)" \
		--direct=1 --numjobs=2 >/tmp/fio.out 2>&1 & load=$!
	until_true 20 writes_since /dev/weft/v "$before"
	gone
	wait $load
	result $(($? == 0)) "writers of a member that is gone get errors"
	echo x >/mnt/after 2>/dev/null; sync 2>/dev/null
	ok "the volume is failed" until_true 30 grep -q failed '/sys/block/weft!v/weft/state'
	is "the member is gone" "$(status_of v '.members[1].state')" gone
	ok "its errors are counted" test "$(cat '/sys/block/weft!v/members/1/errors')" -gt 0
	is "and no other member has errors" "$(cat '/sys/block/weft!v/members/'[02]/errors | paste -sd ' ')" "0 0"
	dd if=/dev/weft/v of=/dev/null bs=4k count=1 iflag=direct status=none
	result $? "what is on the others can still be read"
	ok "unmounted" umount /mnt
	ok "stopped" weftctl stop v
	until_true 20 grep -q '"member-error"' /tmp/events
	events_end
	ok "an event told of the removal" grep -q '"member-gone".*"member":1' /tmp/events
	ok "and one of errors" grep -q '"member-error"' /tmp/events
	refused "assembly without it" 4 "member 1 of 3 is missing" weftctl assemble v
	back
	result $? "it comes back"
	ok "and the volume with it" until_true 30 weftctl assemble v
	mount /dev/weft/v /mnt
	result $? "XFS recovers its log"
	ok "files are there" diff -r /weft/kmod /mnt/kmod
	umount /mnt
}

# --- The member with the owner record is removed
remove_owner_record() {
	weftctl stop v >/dev/null; weftctl wipe /dev/g0 "$goer" /dev/g1 >/dev/null
	weftctl create v "$goer" /dev/g0 --force >/dev/null
	gone
	ok "without its owner record the claim fails" until_true 20 grep -q failed '/sys/block/weft!v/weft/ownership'
	timeout "$(slow 20)" dd if=/dev/zero of=/dev/weft/v bs=128k seek=1 count=1 oflag=direct status=none 2>/dev/null
	is "and writes fail, also to the member that is there" $? 1
	ok "it stops all the same" weftctl stop v
	back
	refused "it was not released, so another host is refused" 3 "whose heartbeat stopped" \
		weftctl assemble v --host-nqn nqn.2014-08.org.nvmexpress:uuid:another
	ok "the same host comes back without being asked" weftctl assemble v
	weftctl stop v >/dev/null; weftctl wipe "$goer" /dev/g0 >/dev/null
}

if local_nvmes 4 && goer=$(nvme_local nvme0); then
	remove_member
	remove_owner_record
else
	skip "a member is removed" "this machine has no PCI disk that can be removed"
	skip "the member with the owner record is removed" "this machine has no PCI disk that can be removed"
fi

# --- Errors of a member, by fault injection of its own
make_null bad 64
modprobe dm_mod
dmsetup create flaky --table "0 $((64 * 2048)) linear /dev/bad 0"; dmsetup mknodes
weftctl create v /dev/g0 /dev/mapper/flaky --chunk 4K >/dev/null
dmsetup suspend --noflush flaky; dmsetup load flaky --table "0 $((64 * 2048)) error"; dmsetup resume flaky
dd if=/dev/weft/v of=/dev/null bs=4k count=1 iflag=direct status=none
result $? "a read from the good member succeeds"
dd if=/dev/weft/v of=/dev/null bs=4k skip=1 count=1 iflag=direct status=none 2>/dev/null
is "one from the bad member fails" $? 1
dd if=/dev/weft/v of=/dev/null bs=64k count=1 iflag=direct status=none 2>/dev/null
is "one over both fails" $? 1
ok "errors are the bad member's alone" test "$(cat '/sys/block/weft!v/members/0/errors')" -eq 0 -a \
	"$(cat '/sys/block/weft!v/members/1/errors')" -ge 8
python3 -c 'import os; f = os.open("/dev/weft/v", os.O_RDWR); os.fsync(f)' 2>/dev/null
weftctl stop v >/dev/null
dmsetup remove flaky; remove_null bad

# --- A path that writes less as a whole than the volume does
if modprobe -q sd_mod && modprobe -q scsi_debug atomic_wr=1 dev_size_mb=64 && modprobe loop; then
	scsi_disk() { compgen -G "/sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*:*/block/*" >/tmp/scsi; }
	ok "a disk with atomic writes" until_true 20 scsi_disk
	disk=/dev/$(basename "$(cat /tmp/scsi)")
	udevadm settle 2>/dev/null
	weftctl create v "$disk" --force >/dev/null
	if [ "$(cat '/sys/block/weft!v/queue/atomic_write_unit_max_bytes' 2>/dev/null || echo 0)" -gt 0 ]; then
		losetup --direct-io=on /dev/loop0 "$disk"
		refused "a path without atomic writes is refused" 2 "atomic writes" weftctl path add v /dev/loop0
		losetup -d /dev/loop0
	else
		skip "a path without atomic writes is refused" "this kernel's scsi_debug or block layer has none"
	fi
	weftctl stop v >/dev/null
	modprobe -r scsi_debug
else
	skip "a path without atomic writes is refused" "this kernel has no scsi_debug"
fi

# --- Stop and assemble, over and over, while others look and write
weftctl create v /dev/g0 /dev/g1 --force >/dev/null
(while [ ! -e /tmp/enough ]; do
	weftctl status >/dev/null 2>&1; cat '/sys/block/weft!v/members/'*/stat >/dev/null 2>&1
	dd if=/dev/weft/v of=/dev/null bs=64k count=4 iflag=direct status=none 2>/dev/null
done) & looker=$!
bad=0
for _ in $(seq 15); do
	until weftctl stop v >/dev/null 2>&1; do :; done
	weftctl assemble v /dev/g0 /dev/g1 >/dev/null || bad=1
	dd if=/dev/zero of=/dev/weft/v bs=1M count=4 oflag=direct status=none || bad=1
done
touch /tmp/enough; wait $looker
result $bad "15 rounds of stop and assemble beside readers"
until weftctl stop v >/dev/null 2>&1; do :; done
# A signal in the middle of an assembly leaves nothing behind.
echo 30000 >/sys/module/weft/parameters/heartbeat_ms
weftctl assemble v & pid=$!
state_is() { [ "$(weftctl list --json | json '.volumes[0].state')" = "$1" ]; }
ok "a volume that is being assembled says so" until_true 20 state_is assembling
refused "and cannot be stopped" 3 "being assembled" weftctl stop v
kill -TERM $pid; wait $pid 2>/dev/null
ok "and is gone after a signal" until_true 30 state_is stopped
echo 100 >/sys/module/weft/parameters/heartbeat_ms
echo 10 2>/dev/null >/sys/module/weft/parameters/heartbeat_ms
is "a heart that beats too fast is refused" "$(cat /sys/module/weft/parameters/heartbeat_ms)" 100
ok "the members are free" weftctl wipe /dev/g0 /dev/g1
for n in 0 1; do remove_null "g$n"; done
ok_unload
done_testing
