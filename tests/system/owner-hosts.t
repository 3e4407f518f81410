#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# One volume, one writer: two hosts on one target, both orders, one of them
# frozen, stuck, thawed and cut off. Then both read one file. Runs on host0; host1 is
# the other host and host2 the target.
# lab-own: --hosts 3 --memory 1G
# lab-kernel: none
. "${0%/*}/lib.sh"

peer() { on_host host1 "$@"; }
# What the other host does each time it boots.
connect="modprobe weft heartbeat_ms=$(slow 200); . tests/system/lib.sh
	nvme_connect t0 tcp 10.77.3.3 >/tmp/d0 && nvme_connect t1 tcp 10.77.3.3 >/tmp/d1"
on_host host2 "modprobe -a null_blk nvmet nvmet-tcp nvme-tcp; . tests/system/lib.sh
	for n in 0 1; do make_null t\$n 64; nvmet_serve t\$n \$(readlink -f /dev/t\$n) tcp 10.77.2.3 4420; done
	nvmet_port 4430 tcp 10.77.3.3
	for n in 0 1; do nvmet_offer t\$n 4430; done"
result $? "the target serves two disks to both hosts"
load_weft 200
d0=$(nvme_connect t0 tcp 10.77.2.3); d1=$(nvme_connect t1 tcp 10.77.2.3)
peer "$connect"
result $? "both hosts are connected"
peer "cat /tmp/d0 /tmp/d1" | indented

is_held() { [ "$(cat "/sys/block/weft!${1:-v}/weft/ownership")" = held ]; }
ok "the first host creates and owns" weftctl create v "$d0" "$d1"
is "its machine is in the owner record" "$(weftctl examine "$d0" --json | json '.owners[0].machine')" \
	"$(cat /sys/class/dmi/id/product_uuid)"
refused "the second is refused while its heartbeat is seen" 3 "whose heartbeat is seen" peer "weftctl assemble v"
refused "also with --take-over" 3 "whose heartbeat is seen" peer "weftctl assemble v --take-over"
is "it is told who owns" "$(peer 'weftctl assemble v' | grep -c 'uuid:00000000-0000-0000-0000-000000000001')" 1
ok "it may read" peer "weftctl assemble v --read-only && weftctl stop v"
ok "and the owner did not notice" until_true 10 is_held
ok "the first stops" weftctl stop v
ok "the second owns now" peer "weftctl assemble v"
refused "the first is refused now" 3 "whose heartbeat is seen" weftctl assemble v
second=$(peer "weftctl host-nqn")
refused "with the second's name as well, as a cloned machine has it" 3 "another machine with this host's name" \
	weftctl assemble v --host-nqn "$second"

# --- A machine that stands still, clock and all, as a paused virtual machine does
peer "(while sleep 0.05; do
	dd if=/dev/zero of=/dev/weft/v bs=4k count=1 oflag=direct status=none || echo failed >/tmp/writer
done) >/dev/null 2>&1 &"
ok "it writes, and nothing fails" peer "sleep $(slow 1); test ! -e /tmp/writer"
lab-peer host1 freeze
refused "a frozen owner's heartbeat has stopped" 3 "whose heartbeat stopped" weftctl assemble v
ok "and the volume can be taken over" weftctl assemble v --take-over
head -c 1048576 /dev/urandom >/tmp/new
dd if=/tmp/new of=/dev/weft/v bs=1M oflag=direct status=none
lab-peer host1 thaw
ok "thawed, it learns that it lost the volume" until_true 30 peer "grep -q lost '/sys/block/weft!v/weft/ownership'"
ok "and its writes fail" until_true 30 peer "test -s /tmp/writer"
sleep "$(slow 2)"
ok "the new owner keeps it" until_true 10 is_held
peer "pkill dd; sleep $(slow 1); dmesg | grep 'another host took'" | indented
dd if=/tmp/new of=/dev/weft/v bs=1M oflag=direct status=none
sleep "$(slow 1)"
cmp -n 1048576 /tmp/new <(dd if=/dev/weft/v bs=1M count=1 iflag=direct status=none)
result $? "and its data is its own"
peer "pkill -f 'while sleep'"
ok "the loser stops without touching the record" until_true 20 peer "weftctl stop v"
sleep "$(slow 1)"
ok "the new owner still holds it" until_true 10 is_held

# --- A machine that stands still while its clock goes on: its lease runs out
weftctl stop v
ok "the second owns again" peer "weftctl assemble v"
lab-peer host1 halt
ok "taken over while it is stuck" weftctl assemble v --take-over
lab-peer host1 continue
# Where the write of a beat was on its way it comes late, over the new owner's record, and takes nothing back.
ok "it learns that it lost the volume" until_true 30 peer "grep -q lost '/sys/block/weft!v/weft/ownership'"
sleep "$(slow 1)"
ok "the new owner keeps it" until_true 10 is_held
write_one="timeout $(slow 10) dd if=/dev/zero of=/dev/weft/v bs=4k count=1 oflag=direct status=none"
# shellcheck disable=SC2086
ok "and can write" $write_one
peer "$write_one"
is "the loser cannot" $? 1
peer "weftctl stop v"
# --- A machine that dies, and comes back
weftctl stop v
ok "the second owns once more" until_true 30 peer "weftctl assemble v"
lab-peer host1 kill
refused "its death alone gives nothing away" 3 "whose heartbeat stopped" weftctl assemble v
refused "not to a cloned machine either" 3 "another machine with this host's name, $second, whose heartbeat stopped" \
	weftctl assemble v --host-nqn "$second"
lab-peer host1 boot
peer "$connect"
ok "rebooted, it has its own volume back without being told to" peer "weftctl assemble v && weftctl stop v"
ok "the volume is free" weftctl assemble v
weftctl stop v >/dev/null
nvme disconnect-all
peer "nvme disconnect-all" | indented

# --- Over weft_rdma, which keeps writes while a path is lost: the link of one host is gone for longer than its lease
nqn=nqn.2014-08.org.example
on_host host2 "modprobe rdma_rxe; . tests/system/lib.sh
	for net in 2 3; do rdma link add rxe\$net type rxe netdev \$(net_device 10.77.\$net); done
	for n in 0 1; do make_null r\$n 64; nvmet_serve $nqn:r\$n \$(readlink -f /dev/r\$n) rdma 10.77.2.3 4440; done
	nvmet_port 4450 rdma 10.77.3.3 4450
	for n in 0 1; do nvmet_offer $nqn:r\$n 4450; done"
result $? "the target serves two disks by RDMA"
modprobe rdma_rxe
rdma link add rxe0 type rxe netdev "$(net_device 10.77.2)"
peer ". tests/system/lib.sh; modprobe rdma_rxe; rdma link add rxe0 type rxe netdev \$(net_device 10.77.3)"
here="rdma://10.77.2.3:4440/$nqn:r0 rdma://10.77.2.3:4440/$nqn:r1"
there="rdma://10.77.3.3:4450/$nqn:r0 rdma://10.77.3.3:4450/$nqn:r1"
quick="--keep-alive $(slow 2) --reconnect-delay 1"
# shellcheck disable=SC2086
ok "a volume by RDMA" weftctl create r $here --chunk 64K $quick
ok "stopped" weftctl stop r
ok "the second host has it" peer "weftctl assemble r $there $quick"
# Each write of the second host is one chunk of 'A', so that all members keep some.
peer ". tests/system/lib.sh
	head -c 65536 /dev/zero | tr '\\0' A >/tmp/old
	netem \$(net_device 10.77.3) loss 100%
	for n in \$(seq 0 15); do
		{
			dd if=/tmp/old of=/dev/weft/r bs=64k seek=\$n count=1 oflag=direct status=none
			echo \$?
		} >>/tmp/writes 2>/dev/null &
	done >/dev/null 2>&1"
# shellcheck disable=SC2086
ok "its link is gone: the first takes it over" weftctl assemble r $here --take-over $quick
dd if=/tmp/new of=/dev/weft/r bs=1M count=1 oflag=direct status=none
result $? "and writes"
ok "the second keeps its writes for a path" until_true 60 \
	peer "grep -q stalled '/sys/block/weft!r/members/'*/state"
is "none has ended" "$(peer "cat /tmp/writes 2>/dev/null | wc -l")" 0
peer ". tests/system/lib.sh; netem \$(net_device 10.77.3)"
ok "its link is back: it learns that it lost the volume" until_true 60 \
	peer "grep -q lost '/sys/block/weft!r/weft/ownership'"
ok "its writes end" until_true 60 peer "[ \$(wc -l </tmp/writes) = 16 ]"
is "each with an error" "$(peer "sort -u /tmp/writes")" 1
cmp -n 1048576 /tmp/new <(dd if=/dev/weft/r bs=1M count=1 iflag=direct status=none)
result $? "and the data is the new owner's"
ok "which keeps it" until_true 10 is_held r
ok "the loser stops" until_true 20 peer "weftctl stop r"
peer "weftctl disconnect --all" | indented

# --- Both read what one has written, each by its own connection, as docs/packed.md says
ok "the owner makes a filesystem" mkfs.ext4 -q -F /dev/weft/r
mkdir -p /mnt/r
ok "mounts it" mount /dev/weft/r /mnt/r
head -c 4096000 /dev/urandom >/mnt/r/samples
sum=$(sha256sum </mnt/r/samples)
ok "seals a file" chattr +i /mnt/r/samples
ok "unmounts it" umount /mnt/r
ok "and stops" weftctl stop r
mount_to_read="mkdir -p /mnt/r && mount -o ro,norecovery /dev/weft/r /mnt/r"
# shellcheck disable=SC2086
ok "the first assembles it read-only" weftctl assemble r $here $quick --read-only
ok "and mounts it" sh -c "$mount_to_read"
ok "so does the second" \
	peer "weftctl assemble r $there $quick --read-only --wait $(slow 30) && $mount_to_read"
# All samples, in an order of this host's own.
read_samples='python3 -B -c "
import hashlib, random, weft
with weft.open(\"/mnt/r/samples\") as file:
    data, numbers = bytearray(file.size), list(range(file.size // 4096))
    random.shuffle(numbers)
    file.gather(data, [(4096 * number, 4096, 4096 * number) for number in numbers])
    print(hashlib.sha256(data).hexdigest(), file.reason)
" 2>&1'
why="volume r is assembled read-only: another host can move the blocks of file samples"
peer "$read_samples" >/tmp/second & second=$!
is "the first reads each sample, through the filesystem" "$(bash -c "$read_samples")" "${sum%% *} $why"
wait $second
is "and the second at the same time" "$(cat /tmp/second)" "${sum%% *} $why"
is "the first claims nothing" "$(cat '/sys/block/weft!r/weft/ownership')" none
is "nor does the second" "$(peer "cat '/sys/block/weft!r/weft/ownership'")" none
ok "the first unmounts it" umount /mnt/r
ok "and stops again" weftctl stop r
# shellcheck disable=SC2086
ok "a reader keeps no writer away" weftctl assemble r $here $quick
ok "this host owns it" until_true 10 is_held r
is "the second still reads the same" "$(peer "$read_samples")" "${sum%% *} $why"
ok "it stops" peer "umount /mnt/r && weftctl stop r && weftctl disconnect --all"
ok "and the owner" weftctl stop r
ok "disconnected" weftctl disconnect --all
rmmod weft_rdma
rdma link delete rxe0
ok_unload
done_testing
