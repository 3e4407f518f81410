#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Paths that are lost and come back: two rails to one target in one guest, fio's
# verification running over every fault, and no error in it. Over soft-RoCE, and
# over the test adapter from softhca-faults.t.
# lab-kernel: uml
# lab-more: debian12
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
member() { status_of v ".members[$1]$2"; }
usable() { member "$1" '.paths | map(select(.usable)) | length'; }
all_usable() { [ "$(usable 0)$(usable 1)" = "$1" ]; }

# shellcheck disable=SC2086
ok "a volume by the first rail" weftctl create v "$(uri 0 0)" "$(uri 1 0)" --chunk 64K --force $quick
is "no association has ended, but by soft-RoCE itself" \
	"$(status_of v '[.members[].paths[].ends | del(.["queue-pair"])] | add')" "{}"
[ "$(ends)" != 0 ] ||
	is "the text of the status has none, either" "$(weftctl status v | grep -c 'associations ended')" 0
# shellcheck disable=SC2086
ok "the second rail is added" weftctl path add v "$(uri 0 1)" "$(uri 1 1)" $quick
ok "two paths each" until_true 20 all_usable 22
weftctl status v | indented
# shellcheck disable=SC2086
make_null other 64
# shellcheck disable=SC2086
refused "a path to something else" 2 "no weft superblock" weftctl path add v /dev/other $quick
stat_of() { awk '{ print $1 + $5 }' "/sys/block/$1/stat"; }
# On one cpu: each takes its turns by itself. Soft-RoCE may end a path for a second.
both_carry() {
	local d1 d2 first second
	first=$(stat_of weft-rdma0n1) second=$(stat_of weft-rdma2n1)
	taskset 1 dd if=/dev/weft/v of=/dev/null bs=64k count=64 iflag=direct status=none || return
	d1=$(($(stat_of weft-rdma0n1) - first)) d2=$(($(stat_of weft-rdma2n1) - second))
	echo "$d1 by one path, $d2 by the other"
	[ "$d1" -ge 10 ] && [ "$d2" -ge 10 ]
}
ok "both carry I/O" until_true 20 both_carry

# Soft-RoCE registers a megabyte at once.
ok "a memory of many regions is registered for good" \
	weft-memtest v verify pages --persistent --size=$((96 << 20))

# --- A killed program: what QoS held of it, for half a minute, is not sent any more
# kill_timed PID: took is how many seconds the program still lives.
kill_timed() {
	local start=$SECONDS
	kill -9 "$1"
	wait "$1" 2>/dev/null
	took=$((SECONDS - start))
}
held() { [ "$(weftctl qos v --json | json '[.qos.members[].background.held] | add')" -gt 20 ]; }
ok "background I/O is limited" weftctl qos v --background-max 1M/s
weft-memtest v load pages --depth=512 --largest=262144 >/dev/null 2>&1 & loader=$!
ok "commands on registered memory are held" until_true 20 held
kill_timed $loader
ok "a killed program is gone at once ($took s)" test "$took" -lt 15
none_held() { [ "$(weftctl qos v --json | json '[.qos.members[].background.held] | add')" = 0 ]; }
ok "and so is what was held of it" until_true 20 none_held
weft-memtest v remove pages --depth=100 --largest=262144 >/dev/null 2>&1 & remover=$!
ok "a program removes its memory, which waits for held commands" until_true 20 held
sleep 1
kill_timed $remover
ok "it is gone at once, too, when it is killed ($took s)" test "$took" -lt 15
ok "it is not limited any more" weftctl qos v --off
ok "registered memory, verified" weft-memtest v verify pages --count=12

# ended PORT REASON: of each path to that port, how many associations of its controller ended for it.
ended() {
	status_of v "[.members[].paths[] | select(.target | endswith(\":$1\")) |
		[.ends | to_entries[] | select(.key | test(\"^($2)$\")) | .value] | add // 0] | join(\" \")"
}
events_begin

# --- One rail of two
ok "both paths of both members" until_true 20 all_usable 22
# messages: what weft_rdma has said of associations, to be seen if the next test fails.
messages() { dmesg | grep 'weft_rdma: weft-rdma' | tail -n 25 | indented; }
messages
is "no association has ended until now, but by soft-RoCE itself" "$(ends "$(not_soft_roce)")" 0
# drop_port, restore_port NUMBER: no listener, no connections.
drop_port() { rails_withdraw "$1" "$nqn:d0" "$nqn:d1"; }
restore_port() { rails_offer "$1" "$nqn:d0" "$nqn:d1"; }
one_port() { drop_port 1; sleep "$(slow 3)"; restore_port 1; }
verify_while "a target's port removed and restored: no error" /dev/weft/v 12 1500 one_port
ok "the paths come back by themselves" until_true 30 all_usable 22
ok "an event reports the loss" until_true 30 grep -q '"path-lost"' /tmp/events
ok "an event reports the return" until_true 30 grep -q '"path-restored"' /tmp/events
weftctl status v | indented
# The target's queue pair may be gone before the connection is.
away='connection|queue-pair'
ok "an association of each path ended with its connection" \
	grep -qx '[1-9][0-9]* [1-9][0-9]*' <<<"$(ended 4421 "$away")"
messages
is "none on the other rail did" "$(ended 4420 "$(not_soft_roce)")" "0 0"
ok "the text of the status says so" \
	grep -Eq "weft-rdma2 *associations ended: .*($away) [1-9]" <<<"$(weftctl status v)"

# The target loses its port with the device, and has it back when it is told to.
remove_rail() { rail_gone 1; sleep "$(slow 2)"; drop_port 1; rail_back 1; restore_port 1; }
before=$(ends 'device|connection|queue-pair')
verify_while "an RDMA device removed and back: no error" /dev/weft/v 12 1500 remove_rail
ok "its paths come back" until_true 40 all_usable 22
ok "the device or the target, which loses it as well, ended an association of each path" \
	test "$(ends 'device|connection|queue-pair')" -ge $((before + 2))
is "each association that ended has a reason" "$(ends)" "$(cat /sys/class/weft-rdma/*/errors | paste -sd+ | bc)"
grep . /sys/class/weft-rdma/*/ends | indented

# --- Both rails: I/O waits
lists() { timeout "$(slow 20)" weftctl list >/dev/null; echo $? >/tmp/listed; }
both_ports() {
	drop_port 0; drop_port 1
	sleep "$(slow 4)"
	lists
	restore_port 0; restore_port 1
}
verify_while "both rails lost and back: no error" /dev/weft/v 12 1500 both_ports
is "weftctl list did not wait for them" "$(cat /tmp/listed)" 0
ok "all paths come back" until_true 30 all_usable 22
ok "an event reports that I/O waits" until_true 30 grep -q '"stalled"' /tmp/events
note "requests sent again: $(member 0 .retried) $(member 1 .retried)"

# --- A processor is offline while connections are made anew
cpu=/sys/devices/system/cpu/cpu1/online
if [ -w "$cpu" ]; then
	echo 0 >"$cpu"
	drop_port 1
	ok "a processor goes offline, and a rail is lost" until_true 20 all_usable 11
	restore_port 1
	ok "the rail comes back without it" until_true 40 all_usable 22
	echo 1 >"$cpu"
	ok "and serves it when it is back" \
		taskset 2 dd if=/dev/weft/v of=/dev/null bs=64k count=64 iflag=direct status=none
else
	skip "a processor goes offline" "this machine has one processor, or keeps it online"
fi

# --- Patience
# Blocks with generations, of which some are on two members. Registered memory is used before them.
generations=/weft/tests/system/weft_generations.py
collector=127.0.0.1:7700
$generations collect $collector /tmp/generations & collecting=$!
ok "generations are collected" until_true 30 bash -c ": </dev/tcp/${collector/://}"
work_begin generations $generations write /dev/weft/v $collector --from=$(((96 << 20) + (62 << 10))) --blocks=32 \
	--stride=$((68 << 10)) --errors=wait --until=/tmp/work.end
ok "and written" until_true 30 test -s /tmp/generations
echo 2 >'/sys/block/weft!v/weft/no_path_timeout'
load_begins 30 "pages --depth=1 --span=$((64 << 20))"
drop_port 0; drop_port 1
ok "no path is left" until_true 20 all_usable 00
is "the member says so" "$(member 0 .state)" stalled
timeout "$(slow 60)" dd if=/dev/weft/v of=/dev/null bs=4k count=1 iflag=direct status=none 2>/dev/null
is "after no_path_timeout I/O fails" $? 1
ownership='/sys/block/weft!v/weft/ownership'
ok "and so do writes when the lease is over" until_true 60 grep -q failed "$ownership"
wait "$loader"
failed=$(sed -n 's/.* \([0-9]*\) failed.*/\1/p' /tmp/load.out)
# One after the other: with 2 s each they would be half as many as seconds, at most.
ok "and so do commands on registered memory, each at once ($failed failed)" test "$failed" -gt "$(slow 15)"
echo -1 >'/sys/block/weft!v/weft/no_path_timeout'
ok "with a no_path_timeout of -1 they wait again" until_true 20 grep -q suspended "$ownership"
restore_port 0; restore_port 1
ok "all paths come back then" until_true 40 all_usable 22
ok "and I/O does" dd if=/dev/weft/v of=/dev/null bs=4k count=1 iflag=direct status=none
ok "the claim is held again" until_true 20 grep -q held "$ownership"
ok "each sector of a failed write has its old or its new data, and keeps it" work_end 60
ok "some writes failed" grep -q ' [1-9][0-9]* failed' /tmp/work.generations.out
tail -n 1 /tmp/work.generations.out | indented
kill $collecting
echo 600 >'/sys/block/weft!v/weft/no_path_timeout'

# --- Other data
drop_port 1
nvmet_set "$nqn:d1" device_path="$(readlink -f /dev/other)" device_uuid="$(cat /proc/sys/kernel/random/uuid)"
sleep "$(slow 3)"
log_mark
restore_port 1
ok "a namespace that is another one is refused" \
	until_true 30 log_says "1 is another one than before.* its UUID is .*device_uuid in configfs"
weftctl status v | indented
events_end
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all

# --- A path is removed and its disk is gone, while parts that the disk split off wait for the other path
# shellcheck disable=SC2086
ok "a volume with large chunks" weftctl create v "$(uri 0 0)" --chunk 4M --force $quick
# shellcheck disable=SC2086
ok "and a second path" weftctl path add v "$(uri 0 1)" $quick
for disk in $(status_of v '.members[0].paths[].disk'); do echo 64 >"/sys/block/$disk/queue/max_sectors_kb"; done
one_usable() { [ "$(usable 0)" = 1 ]; }
none_usable() { [ "$(usable 0)" = 0 ]; }
writers_begin() {
	rm -f /tmp/enough
	before=$(sectors_written /dev/weft/v)
	writers=()
	for n in 1 2 3 4; do
		until [ -e /tmp/enough ]; do
			dd if=/dev/zero of=/dev/weft/v bs=4M count=14 oflag=direct status=none || exit
		done &
		writers+=($!)
	done
	until_true 20 writes_since /dev/weft/v "$before"
}
# writers_end SENTENCE
writers_end() {
	local failed=0
	touch /tmp/enough
	for n in "${writers[@]}"; do wait "$n" || failed=1; done
	result $failed "$1"
}
writers_begin
for n in 0 1; do nvmet_withdraw "$nqn:d0" "442$n"; done
ok "both are lost under large writes" until_true 20 none_usable
ok "and gave back what was in flight" test "$(member 0 .retried)" -gt 0
refused "a path to another namespace is not removed" 4 "has no path" weftctl path remove v "$(uri 0 0)?ns=7"
ok "one is removed" weftctl path remove v "$(uri 0 0)"
ok "and its controller" weftctl disconnect "$(uri 0 0)"
for n in 0 1; do nvmet_offer "$nqn:d0" "442$n"; done
ok "the other comes back" until_true 30 one_usable
writers_end "and the writes succeed"
# The same while both are up: the parts wait for tags.
writers_begin
failed=0
for _ in 1 2 3; do
	# Beside large writes, the target of a slow guest answers a connection late.
	# shellcheck disable=SC2086
	until_true 60 weftctl path add v "$(uri 0 0)" $quick || failed=1
	for disk in $(status_of v '.members[0].paths[].disk'); do echo 64 >"/sys/block/$disk/queue/max_sectors_kb"; done
	before=$(sectors_written /dev/weft/v)
	until_true 20 writes_since /dev/weft/v "$before"
	weftctl path remove v "$(uri 0 0)" >/dev/null || failed=1
	# From here on its disk fails what it still has.
	weftctl disconnect "$(uri 0 0)" >/dev/null || failed=1
done
result $failed "a path that works is removed, and its controller, three times"
writers_end "without a failed write"
is "and none counts as failed" "$(member 0 .errors)" 0
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all

# --- A target takes the namespace away, and another path leads to the same disk
twin=$base/subsystems/$nqn:twin
nvmet_serve "$nqn:twin" "$(readlink -f /dev/rb0)" rdma 10.9.1.1 4421 \
	device_uuid="$(cat "$base/subsystems/$nqn:d0/namespaces/1/device_uuid")"
# shellcheck disable=SC2086
refused "two paths to one namespace are not two members" 2 "two paths to one namespace" \
	weftctl create w "$(uri 1 0)" "$(uri 1 1)" --force
# shellcheck disable=SC2086
ok "a volume of one member" weftctl create v "$(uri 0 0)" --force $quick
# shellcheck disable=SC2086
ok "a path to it by another subsystem" weftctl path add v "rdma://10.9.1.1:4421/$nqn:twin" $quick
clone=$base/subsystems/$nqn:clone
nvmet_serve "$nqn:clone" "$(readlink -f /dev/rb0)" rdma 10.9.1.1 4421
# shellcheck disable=SC2086
refused "a path to a disk with its superblock and another identifier" 2 "is another disk" \
	weftctl path add v "rdma://10.9.1.1:4421/$nqn:clone" $quick
# shellcheck disable=SC2086
ok "a controller with that disk" weftctl connect "rdma://10.9.1.1:4421/$nqn:clone" $quick
python3 /weft/tests/system/weft_netlink.py path-add v 0 "$(own_disk "$nqn:clone")" >/tmp/asked
indented </tmp/asked
ok "the kernel module refuses it as well" grep -q "^refused: .*another disk" /tmp/asked
ok "disconnected" weftctl disconnect "rdma://10.9.1.1:4421/$nqn:clone"
stock=$(nvme_connect "$nqn:clone" rdma 10.9.1.1 4421)
refused "so is the stock host's disk" 2 "is another disk" weftctl path add v "$stock"
nvme disconnect -n "$nqn:clone" >/dev/null
nvmet_withdraw "$nqn:clone" 4421
echo 0 >"$clone/namespaces/1/enable"
rmdir "$clone/namespaces/1" "$clone"
take_away() { echo 0 >"$twin/namespaces/1/enable"; until_true 20 one_usable; }
verify_while "its namespace is disabled: no error" /dev/weft/v 12 1500 take_away
ok "that path is gone" until_true 20 one_usable
echo 1 >"$twin/namespaces/1/enable"
by_twin=rdma://10.9.1.1:4421/$nqn:twin
is_back() { weftctl path add v "$by_twin" 2>&1 | grep -q 'whose disk was removed: remove that path first'; }
ok "the namespace is back, and its path is told from the former one" until_true 20 is_back
ok "which is removed" weftctl path remove v "$by_twin"
# shellcheck disable=SC2086
ok "it is a path again" weftctl path add v "$by_twin" $quick
events_begin
nvmet_withdraw "$nqn:d0"
ok "the other path is lost" until_true 20 one_usable
echo 0 >"$twin/namespaces/1/enable"
ok "and then its namespace is disabled" until_true 20 none_usable
ok "an event names the path" until_true 30 grep -q '"path-lost".*its disk was removed' /tmp/events
ok "another one reports that I/O waits" until_true 30 grep -q '"stalled"' /tmp/events
events_end
nvmet_offer "$nqn:d0"
ok "the other path is back" until_true 30 one_usable
nvmet_withdraw "$nqn:twin" 4421
rmdir "$twin/namespaces/1" "$twin"

# --- Paths of the stock host, whose disks the kernel module tells apart by their NGUID
# stock_serve NAME NGUID: prints the stock host's disk.
stock_serve() {
	nvmet_serve "$nqn:$1" "$(readlink -f /dev/other)" rdma 10.9.1.1 4421 device_nguid="$2" &&
		nvme_connect "$nqn:$1" rdma 10.9.1.1 4421
}
nguid=00000000-0000-0000-0000-0000000000
one=$(stock_serve one ${nguid}01) && unlike=$(stock_serve unlike ${nguid}02)
result $? "two disks of the stock host"
ok "a volume on one, by weft's initiator" weftctl create w "rdma://10.9.1.1:4421/$nqn:one" --force
ok "the stock host's disk is another path to it" weftctl path add w "$one"
python3 /weft/tests/system/weft_netlink.py path-add w 0 "$unlike" >/tmp/asked
indented </tmp/asked
if grep -q nvme_ns_head_get_unique_id /proc/kallsyms; then
	ok "one with its superblock and another NGUID is refused" \
		grep -q "^refused: .*its identifier is not that of" /tmp/asked
else
	skip "a disk with another NGUID" "this kernel's NVMe host does not give the NGUID of its disks to other modules"
fi
ok "stopped" weftctl stop w
ok "disconnected" weftctl disconnect "rdma://10.9.1.1:4421/$nqn:one"
for name in one unlike; do
	nvme disconnect -n "$nqn:$name" >/dev/null
	nvmet_unserve "$nqn:$name" 4421
done

# --- A controller is given up while memory is registered
# shellcheck disable=SC2086
ok "a path that is given up soon" weftctl path add v "$(uri 0 1)" $quick --ctrl-loss-timeout 1
load_begins 300 pages
result $? "memory is registered"
log_mark
nvmet_withdraw "$nqn:d0" 4421
ok "its controller is given up" until_true 60 log_says "disconnected from $nqn:d0"
# shellcheck disable=SC2154 # load_begins sets it.
kill -9 "$loader"
wait "$loader" 2>/dev/null
# Commands that are held keep the file open for a minute.
ok "the memory is closed, and the volume stops" until_true 90 weftctl stop v
ok "disconnected" weftctl disconnect --all
rails_unserve "$nqn:d0" "$nqn:d1"
for n in 0 1; do remove_null "rb$n"; done
remove_null other
ok "the rails are taken away" rails_down
ok "weft_rdma.ko unloads, so nothing holds it" rmmod weft_rdma
ok_unload
done_testing
