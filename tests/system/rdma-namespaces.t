#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# weft's own NVMe/RDMA initiator: namespaces that grow and shrink under a
# volume, controllers that a user resets and rescans, nvme-cli.
# lab-kernel: uml
# lab-more: debian12 debian13 previous backports
. "${0%/*}/lib.sh"

load_weft 1000
nqn=nqn.2014-08.org.example
base=/sys/kernel/config/nvmet/subsystems
soft_roce 10.9.0.1
for n in 0 1; do
	make_loop "grow$n" 64
	nvmet_serve "$nqn:d$n" "$(readlink -f "/dev/grow$n")" rdma 10.9.0.1
done
uri() { echo "rdma://10.9.0.1/$nqn:d$1"; }
quick=(--keep-alive "$(slow 5)" --reconnect-delay 1)
# resize N MIB: the target's disk has that size from now on, and the target tells its hosts.
resize() {
	truncate -s "$2M" "/tmp/grow$1.img"
	losetup -c "$(readlink -f "/dev/grow$1")"
	echo 1 >"$base/$nqn:d$1/namespaces/1/revalidate_size"
}
attribute() { cat "/sys/class/weft-rdma/weft-rdma$1/$2"; }
size_is() { [ "$(blockdev --getsize64 "$1")" = "$(($2 << 20))" ]; }
usable() { status_of v ".members[$1].paths[0].usable"; }
not_live() { [ "$(attribute 0 state)" = connecting ]; }
usable_is() { [ "$(usable "$1")" = "$2" ]; }

# more NSID DEVICE: the target has one more namespace.
more() {
	mkdir "$base/$nqn:d0/namespaces/$1"
	readlink -f "$2" >"$base/$nqn:d0/namespaces/$1/device_path"
	echo 1 >"$base/$nqn:d0/namespaces/$1/enable"
}

# --- Identifiers: that of d0 is a random UUID, as the target makes one when it starts; that of d1 is made of a name
nvmet_set "$nqn:d1" device_uuid=886313e1-3b8a-5372-9b90-0c9aee199e5d
ok "connected" sh -c "weftctl connect '$(uri 0)' ${quick[*]} >/tmp/random"
ok "an identifier that may be made up is reported" grep -q 'identifier of /dev/weft-rdma0n1 may be made up' /tmp/random
ok "by doctor, too" sh -c "weftctl doctor | grep -q 'the identifier of /dev/weft-rdma0n1 may be made up: uuid'"
ok "connected to the other one" sh -c "weftctl connect '$(uri 1)' ${quick[*]} >/tmp/named"
is "a fixed identifier is not reported" "$(grep -c 'made up' /tmp/named)" 0
is "nor by doctor" "$(weftctl doctor | grep -c 'the identifier of .* may be made up')" 1
ok "disconnected" weftctl disconnect "$(uri 1)"
nvmet_set "$nqn:d1" device_nguid=550e8400-e29b-41d4-a716-446655440000
ok "connected, with another NGUID" sh -c "weftctl connect '$(uri 1)' ${quick[*]} >/tmp/named"
ok "one that may be made up is reported beside a fixed UUID" \
	grep -q 'may be made up (nguid 550e8400-e29b-41d4-a716-446655440000)' /tmp/named
ok "disconnected again" weftctl disconnect "$(uri 1)"

# --- The disk of no volume
resize 0 96
ok "a disk grows with its namespace" until_true 30 size_is /dev/weft-rdma0n1 96
resize 0 64
ok "and shrinks" until_true 30 size_is /dev/weft-rdma0n1 64
# Who changes the scheduler waits for the disk's requests. I/O that waits for the controller is held, and has none.
make_loop more 64
nvmet_withdraw "$nqn:d0"
ok "its target is away" until_true 20 not_live
dd if=/dev/weft-rdma0n1 of=/dev/null bs=4k count=1 iflag=direct status=none & reader=$!
sleep "$(slow 1)"
echo mq-deadline >/sys/block/weft-rdma0n1/queue/scheduler & changer=$!
sleep "$(slow 1)"
ok "its I/O waits" kill -0 $reader
ok "and who changes its scheduler does not" until_true 30 has_ended $changer
more 2 /dev/more
nvmet_offer "$nqn:d0"
ok "the target is back with one more namespace: the I/O ends" until_true 30 has_ended $reader
ok "and well" wait $reader
ok "the scheduler is changed" grep -q '\[mq-deadline\]' /sys/block/weft-rdma0n1/queue/scheduler
ok "the new namespace is a disk" until_true 30 test -b /dev/weft-rdma0n2
rmdir_namespace() { echo 0 >"$base/$nqn:d0/namespaces/2/enable" && rmdir "$base/$nqn:d0/namespaces/2"; }
ok "and no longer when it is gone" rmdir_namespace
ok "its disk goes" until_true 30 test ! -e /dev/weft-rdma0n2
remove_loop more

# While the association lives, the I/O waits in the target, and who changes the scheduler waits for the I/O, with a lock
# that a new disk of the controller needs. The association ends under the new disk.
modprobe dm_mod
make_loop more 64
make_loop third 64
stand_still() {
	nvmet_withdraw "$nqn:d0"
	echo "0 $(blockdev --getsz /dev/grow0) linear $(readlink -f /dev/grow0) 0" | dmsetup create still
	dmsetup mknodes
	nvmet_set "$nqn:d0" device_path="$(readlink -f /dev/mapper/still)"
	nvmet_offer "$nqn:d0"
}
is_live() { [ "$(attribute 0 state)" = live ]; }
stand_still
ok "its namespace can stand still" until_true 30 is_live
ok "it is read" dd if=/dev/weft-rdma0n1 of=/dev/null bs=4k count=1 iflag=direct status=none
dmsetup suspend --noflush --nolockfs still
dd if=/dev/weft-rdma0n1 of=/dev/null bs=4k count=1 iflag=direct status=none & reader=$!
sleep "$(slow 1)"
echo none >/sys/block/weft-rdma0n1/queue/scheduler & changer=$!
sleep "$(slow 1)"
ok "its I/O waits for the target" kill -0 $reader
ok "and who changes its scheduler for the I/O" kill -0 $changer
more 2 /dev/more
sleep "$(slow 2)"
nvmet_withdraw "$nqn:d0"
ok "its target is away" until_true 20 not_live
dmsetup resume still
more 3 /dev/third
nvmet_offer "$nqn:d0"
ok "the target is back: the I/O ends" until_true 30 has_ended $reader
ok "and well" wait $reader
ok "who changes the scheduler ends" until_true 30 has_ended $changer
ok "the new namespace is a disk" until_true 30 test -b /dev/weft-rdma0n2
ok "and the one after it" until_true 30 test -b /dev/weft-rdma0n3
for n in 2 3; do
	echo 0 >"$base/$nqn:d0/namespaces/$n/enable" && rmdir "$base/$nqn:d0/namespaces/$n"
	ok "namespace $n is gone, and so is its disk" until_true 30 test ! -e /dev/weft-rdma0n$n
done
nvmet_withdraw "$nqn:d0"
nvmet_set "$nqn:d0" device_path="$(readlink -f /dev/grow0)"
nvmet_offer "$nqn:d0"
ok "and back" until_true 30 is_live
dmsetup remove still
for n in more third; do remove_loop $n; done
losses=$(ends "$(not_soft_roce)")

# --- A member
ok "a volume" weftctl create v "$(uri 0)" "$(uri 1)" --chunk 64K --force "${quick[@]}"
size=$(blockdev --getsize64 /dev/weft/v)
ok "verified" verify /dev/weft/v size="$(mib 16)"
events_begin
resize 0 96
ok "a member grows" until_true 30 size_is /dev/weft-rdma0n1 96
ok "an event tells of it" until_true 30 grep -q '"member-resized".*the volume keeps its size' /tmp/events
is "the volume has the size that it had" "$(blockdev --getsize64 /dev/weft/v)" "$size"
ok "it carries I/O" dd if=/dev/weft/v of=/dev/null bs=64k count=16 iflag=direct status=none
resize 0 32
ok "a member that shrinks is refused" until_true 30 usable_is 0 false
ok "an event says why" until_true 30 \
	grep -q '"path-lost".*it has 65536 blocks, but the volume needs 131072' /tmp/events
ok "and that its I/O waits" until_true 30 grep -q '"stalled"' /tmp/events
is "its disk does not lose what the volume counts on" "$(blockdev --getsize64 /dev/weft-rdma0n1)" $((96 << 20))
dd if=/dev/weft/v of=/dev/null bs=64k count=16 iflag=direct status=none & reader=$!
sleep "$(slow 2)"
ok "reads wait" kill -0 $reader
resize 0 64
wait $reader
is "they end well when it has its size again" $? 0
ok "it is used again" until_true 20 usable_is 0 true
is "the association has not ended, but by soft-RoCE itself" "$(ends "$(not_soft_roce)")" "$losses"
events_end

# --- Reset and rescan
reset() { echo 1 >/sys/class/weft-rdma/weft-rdma0/reset_controller; }
resets() { until_true 30 reset; until_true 30 usable_is 0 true; }
verify_while "a controller is reset: no error" /dev/weft/v 8 1500 resets
is "it was ended for that reason" "$(attribute 0 ends | grep reset)" "reset 1"
ok "it is connected again" until_true 30 usable_is 0 true
once_each() { [ "$(attribute 0 reconnects)" = "$(attribute 0 errors)" ]; }
ok "once for each end" until_true 30 once_each
ok "a rescan" sh -c 'echo 1 >/sys/class/weft-rdma/weft-rdma0/rescan_controller'
is "leaves the association alone" "$(ends "$(not_soft_roce)")" $((losses + 1))
is "only root may reset" "$(stat -c %a /sys/class/weft-rdma/weft-rdma0/reset_controller)" 200
for n in 0 1; do nvmet_withdraw "$nqn:d$n"; done
ok "without its target it is not live" until_true 20 not_live
is "so that it cannot be reset" "$(reset 2>&1 | grep -o 'not connected')" "not connected"
for n in 0 1; do nvmet_offer "$nqn:d$n"; done
ok "it comes back" until_true 60 usable_is 0 true

# --- nvme-cli
if command -v nvme >/dev/null; then
	c=/dev/weft-rdma0
	ok "nvme id-ctrl" sh -c "nvme id-ctrl $c | grep -q '^subnqn.*$nqn:d0'"
	ok "nvme id-ns" sh -c "nvme id-ns ${c}n1 -n 1 | grep -q nsze"
	ok "nvme smart-log" sh -c "nvme smart-log $c | grep -q '^temperature'"
	ok "nvme error-log" sh -c "nvme error-log $c -e 1 | grep -q '^error_count'"
	ok "nvme ana-log" sh -c "nvme ana-log $c | grep -q optimized"
	# They look at the stock host's controllers alone.
	is "nvme list has no disk of weft's" "$(nvme list | grep -c weft)" 0
	is "nor has nvme list-subsys" "$(nvme list-subsys | grep -c weft)" 0
	ok "weftctl connect lists it" sh -c "weftctl connect | grep -q weft-rdma0"
	ok "a format is refused" sh -c "! nvme admin-passthru $c --opcode=0x80 --namespace-id=1"
	ok "nvme ns-rescan" nvme ns-rescan $c
	ok "nvme reset" nvme reset $c
	ok "which ends the association" until_true 30 sh -c "grep -q '^reset 2' /sys/class/weft-rdma/weft-rdma0/ends"
	ok "and it comes back" until_true 60 usable_is 0 true
else
	skip "nvme-cli" "it is not installed"
fi

# --- The namespace of a member's only path is taken away while nothing is in flight
state_is() { [ "$(status_of v .state)" = "$1" ]; }
echo 0 >"$base/$nqn:d0/namespaces/1/enable"
ok "the volume has failed" until_true 20 state_is failed
timeout "$(slow 20)" dd if=/dev/weft/v of=/dev/null bs=4k count=1 iflag=direct status=none
is "a read of it fails, and ends" $? 1
is "the association goes on" "$(attribute 0 state)" live
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
for n in 0 1; do nvmet_unserve "$nqn:d$n"; remove_loop "grow$n"; done
no_soft_roce
ok_unload
done_testing
