#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The tags of a controller, which all its disks share: a path is lost while disks without a volume have all of them, and
# a write waits for one until its volume's lease is over. A path is removed while its target stands still.
# lab-kernel: uml
# lab-more: debian12
. "${0%/*}/lib.sh"

load_weft 1000
nqn=nqn.2014-08.org.example
base=/sys/kernel/config/nvmet
rails_up
# Longer than a target stands still here.
modprobe weft_rdma io_timeout="$(slow 60)"
quick="--keep-alive $(slow 5) --reconnect-delay 1"
member() { status_of v ".members[$1]$2"; }
usable() { member "$1" '.paths | map(select(.usable)) | length'; }
one_usable() { [ "$(usable 0)" = 1 ]; }
two_usable() { [ "$(usable 0)" = 2 ]; }

modprobe dm_mod
make_null slow 64 cache_size=8
dmsetup create still --table "0 $((64 * 2048)) linear $(readlink -f /dev/slow) 0"
dmsetup mknodes
still=$(readlink -f /dev/mapper/still)
nvmet_serve "$nqn:still" "$still" rdma 10.9.0.1 4420
shared=$base/subsystems/$nqn:still/namespaces
for n in 2 3 4 5 6; do
	mkdir "$shared/$n"
	echo "$still" >"$shared/$n/device_path"
	echo 1 >"$shared/$n/enable"
done
# The second path leads to the same disk, and does not stand still with the first.
nvmet_serve "$nqn:slow" "$(readlink -f /dev/slow)" rdma 10.9.1.1 4421 device_uuid="$(cat "$shared/1/device_uuid")"
# shellcheck disable=SC2086
ok "a volume by a controller of few tags" \
	weftctl create v "$(rails_uri "$nqn:still" 0)" --force $quick --queues 1 --queue-depth 16
few=$(status_of v '.members[0].paths[0].disk')
few=${few%n1}
# shellcheck disable=SC2086
ok "a second path" weftctl path add v "$(rails_uri "$nqn:slow" 1)" $quick
ok "the disks of the first one's other namespaces" until_true 20 test -b "/dev/${few}n6"
# begin COUNT COMMAND...: the pids are added to pids.
begin() {
	local _
	for _ in $(seq "$1"); do "${@:2}" & pids+=($!); done
}
read_of() { dd if="$1" of=/dev/null bs=4k count=1 iflag=direct status=none; }
write_to() { dd if=/dev/zero of="$1" bs=4k count=1 oflag=direct conv=fsync status=none; }
# running PID...: how many of them.
running() { local pid some=0; for pid; do [ -d "/proc/$pid" ] && some=$((some + 1)); done; echo $some; }
all_ended() { [ "$(running "$@")" = 0 ]; }
# all_well PID...: they have ended without an error.
all_well() { local pid; for pid; do wait "$pid" || return; done; }
# both_ways COMMAND: eight of it, at least one of which takes the first path, wait there until the association is lost.
both_ways() {
	pids=()
	dmsetup suspend --noflush --nolockfs still
	begin 8 "$1" /dev/weft/v
	sleep "$(slow 2)"
	waiting=$(running "${pids[@]}")
	ok "$1: some wait for the target of the first path ($waiting of 8)" test "$waiting" -ge 1
	nvmet_withdraw "$nqn:still" 4420
	ok "$1: the path is lost" until_true 20 one_usable
	ok "$1: all go to the other path" until_true 30 all_ended "${pids[@]}"
	ok "$1: without an error" all_well "${pids[@]}"
	dmsetup resume still
	nvmet_offer "$nqn:still" 4420
	ok "$1: the path is back" until_true 30 two_usable
}
both_ways read_of
both_ways write_to

# --- A path is removed whose target stands still: the removal waits for its reads, and other commands go on
pids=()
dmsetup suspend --noflush --nolockfs still
begin 8 read_of /dev/weft/v
sleep "$(slow 2)"
waiting=$(running "${pids[@]}")
ok "reads wait for the target of the first path ($waiting of 8)" test "$waiting" -ge 1
weftctl path remove v "$(rails_uri "$nqn:still" 0)" >/tmp/removed 2>&1 & remover=$!
sleep "$(slow 1)"
ok "status answers while the path is being removed" timeout "$(slow 60)" weftctl status
is "which waits for its reads" "$(running $remover)" 1
dmsetup resume still
ok "the reads end" until_true 20 all_ended "${pids[@]}"
ok "without an error" all_well "${pids[@]}"
wait $remover
result $? "and the path is removed"
indented </tmp/removed
# shellcheck disable=SC2086
ok "it is added again" weftctl path add v "$(rails_uri "$nqn:still" 0)" $quick
ok "two paths" until_true 20 two_usable

# --- Disks without a volume have all tags of a controller that is lost: bios of a volume's path wait for one
# take_tags: the target stands still, and reads of its other disks have all tags.
take_tags() {
	local n
	pids=()
	dmsetup suspend --noflush --nolockfs still
	for n in 2 3 4 5 6; do begin 6 read_of "/dev/${few}n$n"; done
	others=("${pids[@]}")
	sleep "$(slow 2)"
	is "the target answers no read of its other disks" "$(running "${others[@]}")" 30
}
take_tags
# I/O on registered memory needs a tag as well. Its submitter returns at once, and the I/O waits for the tag.
weft-memtest v submit pages --depth=8 --largest=4096 >/tmp/submitted & submitter=$!
pids=()
begin 8 read_of /dev/weft/v
some_ended() { [ "$(running "${pids[@]}")" -lt 8 ]; }
ok "some reads of the volume end, by the other path" until_true 30 some_ended
sleep "$(slow 2)"
waiting=$(running "${pids[@]}")
ok "those by that path wait ($waiting)" test "$waiting" -ge 1
ok "those of registered memory are submitted without a wait" until_true 30 test -s /tmp/submitted
note "in $(cat /tmp/submitted) ms"
nvmet_withdraw "$nqn:still" 4420
ok "the path is lost" until_true 20 one_usable
ok "they go to the other path" until_true 20 all_ended "${pids[@]}"
ok "as do those of registered memory" wait $submitter
ok "without an error" all_well "${pids[@]}"
is "reads of the disks without a volume wait" "$(running "${others[@]}")" 30
dmsetup resume still
nvmet_offer "$nqn:still" 4420
ok "until the controller is back" until_true 30 all_ended "${others[@]}"
ok "and then succeed" all_well "${others[@]}"
ok "the path is back, too" until_true 20 two_usable

# --- A write waits for a tag until the lease is over, and another host takes the volume meanwhile
ok "the path without the other disks is removed" weftctl path remove v "$(rails_uri "$nqn:slow" 1)"
ok "stopped" weftctl stop v
# claim: what a host writes that takes the volume. That of another assembly is another host's.
claim() { dd if=/dev/slow bs=4096 skip=2 count=1 iflag=direct status=none; }
data() { dd if=/dev/slow bs=64k skip=1 iflag=direct status=none | sha256sum; }
assemble() { weftctl assemble v "$(rails_uri "$nqn:still" 0)"; }
ok "assembled, by an assembly that is over soon" assemble
claim >/tmp/claim
ok "stopped again" weftctl stop v
# Its lease lasts until all tags are taken, also in a slow guest: eight intervals.
heartbeat_every 2000
ok "assembled again" assemble
ok "its claim is another one" test "$(claim | sha256sum)" != "$(sha256sum </tmp/claim)"
before=$(data)
take_tags
head -c 4096 /dev/urandom >/tmp/new
ownership() { cat '/sys/block/weft!v/weft/ownership'; }
ownership_is() { ownership | grep -q "$1"; }
dd if=/tmp/new of=/dev/weft/v bs=4k oflag=direct status=none 2>/dev/null & writer=$!
# One of bytes 0x01, from registered memory.
weft-memtest v late pages --largest=65536 --count=1 >/tmp/late 2>&1 & late=$!
sleep "$(slow 1)"
is "the lease is valid when the writes begin" "$(ownership)" held
ok "the lease is over" until_true 60 ownership_is suspended
is "and the writes wait" "$(running $writer $late)" 2
put_block slow 8192 </tmp/claim
dmsetup resume still
ok "there are tags again" until_true 20 all_ended "${others[@]}"
ok "the reads of the other disks succeed" all_well "${others[@]}"
ok "another host has the volume" until_true 20 ownership_is lost
wait "$writer"
is "the write fails" $? 1
wait "$late"
is "as does that from registered memory" "$? $(cat /tmp/late)" "1 write 1 Input/output error"
is "and none was sent" "$(data)" "$before"
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
for n in 2 3 4 5 6; do echo 0 >"$shared/$n/enable"; rmdir "$shared/$n"; done
for n in 0 1; do rm -f "/sys/kernel/config/nvmet/ports/442$n/subsystems/$nqn:"s*; done
for n in still slow; do
	echo 0 >"$base/subsystems/$nqn:$n/namespaces/1/enable"
	rmdir "$base/subsystems/$nqn:$n/namespaces/1" "$base/subsystems/$nqn:$n"
done
dmsetup remove still
remove_null slow
ok "the rails are taken away" rails_down
ok_unload
done_testing
