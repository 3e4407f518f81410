#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Asymmetric namespace access (ANA): two rails to the kernel's target, whose ANA
# states change while fio verifies, and under registered memory; two groups of one
# controller.
# lab-kernel: uml
# lab-more: debian12 debian13 previous backports
. "${0%/*}/lib.sh"

load_weft 2000
nqn=nqn.2014-08.org.example
base=/sys/kernel/config/nvmet
rails_up
for n in 0 1; do
	make_null "rb$n" 64
	rails_serve "$nqn:d$n" "/dev/rb$n"
done
uri() { rails_uri "$nqn:d$1" "$2"; }
quick="--keep-alive $(slow 5) --reconnect-delay 1"
# ana PORT STATE [GROUP]: of all namespaces of that group (1) on that port.
ana() { echo "$2" >"$base/ports/$1/ana_groups/${3:-1}/ana_state"; }
# of_port PORT FIELD: of the paths to that port.
of_port() {
	weftctl path list v --json |
		json "[.paths[] | select(.target | endswith(\":$1\")) | $2] | map(tostring) | join(\" \")"
}
usable_is() { [ "$(of_port "$1" .usable)" = "$2 $2" ]; }
state_is() {
	local disk
	for disk in $(of_port "$1" .disk); do [ "$(cat "/sys/block/$disk/ana_state")" = "$2" ] || return; done
}
# ios PORT: how many I/Os its disks have completed.
ios() {
	local disk sum=0
	for disk in $(of_port "$1" .disk); do sum=$((sum + $(awk '{ print $1 + $5 }' "/sys/block/$disk/stat"))); done
	echo $sum
}
# carried PORT COMMAND...: how many I/Os that port has carried during the command.
carried() {
	local before
	before=$(ios "$1")
	"${@:2}" >/dev/null 2>&1
	echo $(($(ios "$1") - before))
}
reads() { dd if=/dev/weft/v of=/dev/null bs=64k count=64 iflag=direct status=none; }
# at_least, at_most N: so many of 64 reads are carried by the rail 4421. Soft-RoCE may end a path for a second.
at_least() { [ "$(carried 4421 reads)" -ge "$1" ]; }
at_most() { [ "$(carried 4421 reads)" -le "$1" ]; }

# shellcheck disable=SC2086
ok "a volume by the first rail" weftctl create v "$(uri 0 0)" "$(uri 1 0)" --chunk 64K --force $quick
# shellcheck disable=SC2086
ok "the second rail is added" weftctl path add v "$(uri 0 1)" "$(uri 1 1)" $quick
ok "its state is optimized" state_is 4421 optimized
is "of the group that the target says" "$(cat "/sys/block/$(of_port 4421 .disk | cut -d' ' -f1)/ana_grpid")" 1
ok "both carry I/O" until_true 20 at_least 10
events_begin

# --- Non-optimized
ana 4421 non-optimized
ok "the target tells that a rail is non-optimized" until_true 30 state_is 4421 non-optimized
ok "it stays usable" usable_is 4421 true
ok "path list tells" sh -c "weftctl path list v | grep -q 'live, non-optimized'"
ok "status tells" sh -c "weftctl status v | grep -q 'live, non-optimized'"
ok "an event, too" until_true 30 grep -q '"path-changed".*is non-optimized now' /tmp/events
ok "and carries next to nothing" until_true 20 at_most 2
drop_best() { ana 4420 inaccessible; until_true 20 usable_is 4420 false; sleep 1; }
verify_while "the optimized rail becomes inaccessible: no error" /dev/weft/v 12 1500 drop_best
ok "the other one carries all" until_true 20 at_least 64
ok "an event reports it" until_true 30 grep -q '"path-lost".*its ANA state' /tmp/events
ended='.ends | del(.["queue-pair"]) | add // 0'
is "no association has ended, but by soft-RoCE itself" "$(of_port 4420 "$ended") $(of_port 4421 "$ended")" "0 0 0 0"
ana 4420 optimized
ok "it is back" until_true 20 usable_is 4420 true
ok "and preferred again" until_true 20 at_most 2

# --- No rail is accessible: I/O waits
ana 4421 optimized
blackout() { ana 4420 inaccessible; ana 4421 inaccessible; sleep "$(slow 4)"; ana 4420 optimized; ana 4421 optimized; }
verify_while "both inaccessible and back: no error" /dev/weft/v 12 1500 blackout
ok "both are usable" until_true 20 usable_is 4421 true
# Shorter than the ANATT of the kernel's target, which is 10 s on any machine.
transition() {
	ana 4420 change
	ana 4421 change
	until_true 8 state_is 4420 change
	until_true 8 state_is 4421 change
	ana 4420 optimized
	ana 4421 non-optimized
}
verify_while "both in transition and back: no error" /dev/weft/v 12 1500 transition
ok "as the target says" until_true 20 state_is 4421 non-optimized
ana 4421 optimized

# --- A transition that does not end: ANATT of the kernel's target is 10 s
# One may have taken too long above, on a machine that stood still.
ends_by_ana() { of_port "$1" '.ends.ana // 0' | awk '{ print $1 + $2 }'; }
before=$(ends_by_ana 4420) before_1=$(ends_by_ana 4421)
ana 4421 change
ended_by_ana() { [ "$(ends_by_ana 4421)" -gt "$before_1" ]; }
ok "the association of a transition that takes too long is ended" until_true 60 ended_by_ana
is "no other one is" "$(ends_by_ana 4420)" "$before"
ana 4421 optimized
ok "it is connected again" until_true 60 usable_is 4421 true

# --- Registered memory
ok "registered for good" weft-memtest v verify pages --persistent --count=12
load_while "states change under registered memory: no error" 12 "pages --persistent --depth=16 --largest=65536" blackout
ok "and what is read is what was written" weft-memtest v verify pages --persistent --count=12

# --- Lost for good
ana 4421 persistent-loss
ok "after persistent loss its paths are gone" until_true 20 usable_is 4421 false
ok "the volume goes on" reads
ok "they are removed" weftctl path remove v "$(uri 0 1)" "$(uri 1 1)"
ok "disconnected" weftctl disconnect "$(uri 0 1)" "$(uri 1 1)"
events_end

# --- A rail that is inaccessible when it is added, as a standby controller's is
ana 4421 inaccessible
# shellcheck disable=SC2086
ok "its paths are added by the disks' identifiers" weftctl path add v "$(uri 0 1)" "$(uri 1 1)" $quick
ok "and not used" usable_is 4421 false
is "the kernel says so" "$(dmesg | grep -c 'has path .* as well, which is not accessible now')" 2
reads
ana 4421 optimized
ok "until it is accessible" until_true 20 usable_is 4421 true
ok "then they carry I/O" until_true 20 at_least 10
ok "registered memory, too" weft-memtest v verify pages --persistent --count=12
ok "stopped" weftctl stop v
ana 4421 inaccessible
make_null rb2 64
rails_serve "$nqn:d2" /dev/rb2
# shellcheck disable=SC2086
refused "what leads to no member of the volume is refused" 1 "its ANA state is inaccessible" \
	weftctl assemble v "$(uri 0 0)" "$(uri 1 0)" "$(uri 2 1)" $quick
# shellcheck disable=SC2086
ok "assembled, with one rail inaccessible" \
	weftctl assemble v "$(uri 0 0)" "$(uri 0 1)" "$(uri 1 0)" "$(uri 1 1)" $quick
ok "its paths are there" usable_is 4421 false
# shellcheck disable=SC2086
refused "another disk is not added" 1 "its ANA state is inaccessible" weftctl path add v "$(uri 2 1)" $quick
# Its identifier says that it is member 0, and its superblock does not.
identity() { cat "$base/subsystems/$nqn:d$1/namespaces/1/device_uuid"; }
nvmet_set "$nqn:d2" device_uuid="$(identity 0)"
# shellcheck disable=SC2086
ok "another disk with the identifier of a member is added" weftctl path add v "$(uri 2 1)" $quick
log_mark
ana 4421 optimized
ok "and is not used, because it has no superblock" until_true 20 log_says "is not used: .*no weft superblock"
ok "path list says so" sh -c "weftctl path list v | grep -q 'live, not used'"
own_used() { [ "$(of_port 4421 .usable | tr ' ' '\n' | grep -c true)" = 2 ]; }
ok "the members' own paths by that rail are" until_true 20 own_used
last() { weftctl path remove v "$(uri 0 0)" "$(uri 0 1)" 2>&1 | grep -q "is the last path"; }
ok "it cannot be the last path" last
# shellcheck disable=SC2086
ok "the one that was removed is added again" weftctl path add v "$(uri 0 0)" $quick
is "nothing was written to it" "$(cmp -n 65536 /dev/rb2 /dev/zero && echo none)" none
ok "it is removed" weftctl path remove v "$(uri 2 1)"
ana 4421 inaccessible
ok "the rail is inaccessible again" until_true 20 usable_is 4421 false
takes_over() { ana 4421 optimized; ana 4420 inaccessible; until_true 20 usable_is 4420 false; sleep 1; }
verify_while "the standby takes over: no error" /dev/weft/v 12 1500 takes_over
ok "it carries all" until_true 20 at_least 64
ana 4420 optimized
ok "both rails are there" until_true 20 usable_is 4420 true

# --- A disk without a volume waits for a transition
ok "a controller of another disk" weftctl connect "$(uri 2 1)"
bare_disk=$(own_disk "$nqn:d2")
reads_bare() { dd if="$bare_disk" of=/dev/null bs=4k count=1 iflag=direct status=none; }
ok "its disk is read" until_true 20 reads_bare
ana 4421 change
reads_bare & reader=$!
sleep 2
ok "in a transition a read waits" kill -0 $reader
ana 4421 optimized
wait $reader
result $? "and ends without an error"

# --- The last rails are lost for good
ana 4421 persistent-loss
ana 4420 persistent-loss
ok "after persistent loss of all paths none is usable" until_true 20 usable_is 4420 false
began=$SECONDS
ok "I/O fails" sh -c '! dd if=/dev/weft/v of=/dev/null bs=64k count=4 iflag=direct status=none 2>/dev/null'
ok "at once, and not after no_path_timeout" test $((SECONDS - began)) -le "$(slow 30)"
ok "stopped again" weftctl stop v
ok "disconnected" weftctl disconnect --all

# --- Two namespaces of one controller, each in a group of its own: one group becomes inaccessible
ana 4420 optimized
nvmet_serve "$nqn:groups" "$(readlink -f /dev/rb0)" rdma 10.9.0.1 4420
second=$base/subsystems/$nqn:groups/namespaces/2
mkdir "$base/ports/4420/ana_groups/2" "$second"
ana 4420 optimized 2
readlink -f /dev/rb1 >"$second/device_path"
echo 2 >"$second/ana_grpid"
echo 1 >"$second/enable"
# The first 16 MiB are of the first member, and the next of the second.
# shellcheck disable=SC2086
ok "groups: a volume of both" \
	weftctl create v "$(rails_uri "$nqn:groups" 0)" "$(rails_uri "$nqn:groups" 0)?ns=2" --chunk 16M --force $quick
is "groups: by one controller" "$(find /sys/class/weft-rdma -mindepth 1 | wc -l)" 1
group_ids() { local disk; for disk in $(of_port 4420 .disk); do cat "/sys/block/$disk/ana_grpid"; done; }
is "groups: of two groups" "$(group_ids | xargs)" "1 2"
usable_are() { [ "$(of_port 4420 .usable)" = "$1" ]; }
ok "groups: both are usable" usable_are "true true"
one_group() {
	ana 4420 inaccessible 2
	until_true 20 usable_are "true false" || return
	dd if=/dev/weft/v of=/dev/null bs=64k skip=256 count=1 iflag=direct status=none & reader=$!
	sleep "$(slow 3)"
}
verify_while "groups: the second is inaccessible, and the first goes on: no error" /dev/weft/v 12 1500 one_group
ok "groups: only the second's path is down" until_true 20 usable_are "true false"
ok "groups: status tells" sh -c "weftctl status v | grep -q 'live, inaccessible'"
ok "groups: its I/O waits" kill -0 "$reader"
ana 4420 optimized 2
ok "groups: it is usable again" until_true 20 usable_are "true true"
wait "$reader"
result $? "groups: and its I/O goes on"
ok "groups: verified on both" verify /dev/weft/v size=24m bsrange=4k-200k
is "groups: no association has ended, but by soft-RoCE itself" "$(of_port 4420 "$ended")" "0 0"
ok "groups: stopped" weftctl stop v
ok "groups: disconnected" weftctl disconnect --all
echo 0 >"$second/enable"
rmdir "$second" "$base/ports/4420/ana_groups/2"
nvmet_unserve "$nqn:groups"
for n in 0 1 2; do
	for rail in 0 1; do rm -f "$base/ports/442$rail/subsystems/$nqn:d$n"; done
	echo 0 >"$base/subsystems/$nqn:d$n/namespaces/1/enable"
	rmdir "$base/subsystems/$nqn:d$n/namespaces/1" "$base/subsystems/$nqn:d$n"
	remove_null "rb$n"
done
rmdir "$base/ports/4420" "$base/ports/4421"
rails_down
ok_unload
done_testing
