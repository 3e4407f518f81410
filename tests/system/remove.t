#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What goes away while it is used: members, volumes, the module. Refused or
# failed cleanly, told of, and nothing stays behind.
# lab: --topology nvme
# lab-kernel: backports
. "${0%/*}/lib.sh"

load_weft
modprobe -a nvme xfs
until_true 30 nvme_local nvme0
goer=$(nvme_local nvme0)
for n in 0 1; do make_null "g$n" 400; done

ok "a volume with a member that will go" weftctl create v /dev/g0 "$goer" /dev/g1 --chunk 64K --force
mkfs.xfs -q /dev/weft/v && mount /dev/weft/v /mnt && cp -a /weft/kmod /mnt && sync
refused "stop while mounted" 3 "mounted on /mnt" weftctl stop v
rmmod weft 2>/dev/null
is "unload while mounted" $? 1
timeout 60 weftctl events --json >/tmp/events & listener=$!
sleep 1
fio --name=load --directory=/mnt --rw=randrw --bs=16k --size=32m --time_based --runtime=6 --direct=1 --numjobs=2 \
	>/tmp/fio.out 2>&1 & load=$!
sleep 2
pci=$(readlink -f "/sys/block/${goer##*/}/device/device")
echo 1 >"$pci/remove"
wait $load
result $(($? == 0)) "writers of a member that is gone get errors"
echo x >/mnt/after 2>/dev/null; sync 2>/dev/null
ok "the volume is failed" until_true 10 grep -q failed '/sys/block/weft!v/weft/state'
is "the member is gone" "$(weftctl status v --json | json '.volumes[0].members[1].state')" gone
ok "its errors are counted" test "$(cat '/sys/block/weft!v/members/1/errors')" -gt 0
is "and nobody else's" "$(cat '/sys/block/weft!v/members/0/errors' '/sys/block/weft!v/members/2/errors' | paste -sd+ | bc)" 0
dd if=/dev/weft/v of=/dev/null bs=4k count=1 iflag=direct status=none
result $? "what is on the others can still be read"
ok "unmounted" umount /mnt
ok "stopped" weftctl stop v
sleep 1.5; kill $listener; wait $listener 2>/dev/null
sed 's/^/# /' /tmp/events
ok "an event told of the removal" grep -q '"member-gone".*"member":1' /tmp/events
ok "and one of errors" grep -q '"member-error"' /tmp/events
refused "assembly without it" 4 "member 1 of 3 is missing" weftctl assemble v
echo 1 >/sys/bus/pci/rescan
ok "it comes back" until_true 20 nvme_local nvme0
goer=$(nvme_local nvme0)
ok "and the volume with it" until_true 10 weftctl assemble v
mount /dev/weft/v /mnt
result $? "XFS recovers its log"
ok "files are there" diff -r /weft/kmod /mnt/kmod
umount /mnt

# --- The member with the owner record
weftctl stop v >/dev/null; weftctl wipe /dev/g0 "$goer" /dev/g1 >/dev/null
weftctl create v "$goer" /dev/g0 --force >/dev/null
pci=$(readlink -f "/sys/block/${goer##*/}/device/device")
echo 1 >"$pci/remove"
ok "without its owner record the claim fails" until_true 20 grep -q failed '/sys/block/weft!v/weft/ownership'
timeout 20 dd if=/dev/zero of=/dev/weft/v bs=128k seek=1 count=1 oflag=direct status=none 2>/dev/null
is "and writes fail, also to the member that is there" $? 1
ok "it stops all the same" weftctl stop v
echo 1 >/sys/bus/pci/rescan; until_true 20 nvme_local nvme0
goer=$(nvme_local nvme0)
refused "nobody released it, and another host is told so" 3 "whose heart stopped" \
	weftctl assemble v --host-nqn nqn.2014-08.org.nvmexpress:uuid:another
ok "the same host comes back without being asked" weftctl assemble v
weftctl stop v >/dev/null; weftctl wipe "$goer" /dev/g0 >/dev/null

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
	dd if=/dev/zero of=/dev/weft/v bs=1M count=4 oflag=direct status=none 2>/dev/null
done
touch /tmp/enough; wait $looker
result $bad "15 rounds of stop and assemble beside readers"
until weftctl stop v >/dev/null 2>&1; do :; done
# A signal in the middle of an assembly leaves nothing behind.
echo 30000 >/sys/module/weft/parameters/heartbeat_ms
weftctl assemble v & pid=$!
sleep 1
is "a volume that is being assembled says so" "$(weftctl list --json | json '.volumes[0].state')" assembling
refused "and cannot be stopped" 3 "being assembled" weftctl stop v
kill -TERM $pid; wait $pid 2>/dev/null
ok "and is gone after a signal" until_true 10 sh -c 'weftctl list --json | jq -e ".volumes[0].state == \"stopped\""'
echo 100 >/sys/module/weft/parameters/heartbeat_ms
echo 10 2>/dev/null >/sys/module/weft/parameters/heartbeat_ms
is "a heart that beats too fast is refused" "$(cat /sys/module/weft/parameters/heartbeat_ms)" 100
ok "the members are free" weftctl wipe /dev/g0 /dev/g1
for n in 0 1; do remove_null "g$n"; done
ok_unload
done_testing
