#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A volume is saved and comes back from its file: members by two rails with their options, a block device, settings and
# QoS; members and paths that come late; files that are wrong.
# lab-kernel: uml
. "${0%/*}/lib.sh"

load_weft 500
nqn=nqn.2014-08.org.example
rails_up
for n in 0 1; do
	make_null "sv$n" 64
	rails_serve "$nqn:d$n" "/dev/sv$n"
done
make_null here 64
uri() { rails_uri "$nqn:d$1" "$2"; }
file=/etc/weft/volumes/v.toml
base=/sys/kernel/config/nvmet
usable() { status_of v '[.members[].paths | map(select(.usable)) | length] | join(" ")'; }
usable_are() { [ "$(usable)" = "$1" ]; }
# gone: as after a reboot: the volume and its connections are not there.
gone() { weftctl stop v && weftctl disconnect --all; } >/dev/null

# --- Save
ok "a volume of two targets and a disk" weftctl create v "$(uri 0 0)" "$(uri 1 0)" /dev/here --chunk 64K --force \
	--keep-alive 7 --reconnect-delay 1 --queue-depth 64 --tos 104
ok "the second rail" weftctl path add v "$(uri 0 1)" "$(uri 1 1)" --keep-alive 9 --reconnect-delay 1
echo 33 >'/sys/block/weft!v/weft/no_path_timeout'
ok "numa" weftctl path iopolicy v numa
ok "QoS" weftctl qos v --feed-latency 700us --background-max 100M/s --background-from 1M
refused "another volume is not saved" 4 "no volume is called nix" weftctl save nix
refused "one that is not saved is not assembled" 4 "weftctl save v" weftctl assemble v --saved
ok "a dry run" weftctl save v --dry-run
ok "writes nothing" test ! -e $file
ok "saved" weftctl save v
indented <$file
is "root alone reads the file" "$(stat -c %a $file)" 600
is "config check finds it good" "$(weftctl config check)" "$file is good: 5 paths"
facts() {
	status_of v '[.uuid, .chunk_size, .iopolicy, ([.members[].paths | length] | join(" "))] | join(", ")'
	cat '/sys/block/weft!v/weft/no_path_timeout'
	weftctl qos v --json | json '.qos | del(.members)'
	for at in 0,0 1,0 0,1 1,1; do
		for controller in /sys/class/weft-rdma/*; do
			grep -q "10.9.${at#*,}.1,trsvcid=442${at#*,}" "$controller/address" &&
				grep -q ":d${at%,*}$" "$controller/subsysnqn" || continue
			echo "$at: $(cat "$controller"/{kato,reconnect_delay,queue_size,io_queues,tos} | tr '\n' ' ')"
		done
	done
}
facts >/tmp/before
indented </tmp/before
before=$(sha256sum <$file)
ok "data on it" verify /dev/weft/v size=1m
ok "stopped and disconnected" gone
ok "assembled from the file" weftctl assemble v --saved
facts >/tmp/after
ok "all is as it was" diff /tmp/before /tmp/after
ok "and is saved" weftctl save v
is "as the same file" "$(sha256sum <$file)" "$before"
is "once more changes nothing" "$(weftctl assemble v --saved)" "volume v is assembled already"
is "nor do all that are saved" "$(weftctl assemble --all --saved)" "volume v is assembled already"

# --- A setting is changed in the file
sed -i 's/^feed_latency = .*/feed_latency = "900us"/' $file
ok "it is set again" weftctl assemble v --saved
is "QoS has it" "$(weftctl qos v --json | json .qos.feed_latency_us)" 900

# --- Paths and members that come late
drop_port() { rails_withdraw "$1" "$nqn:d0" "$nqn:d1"; }
restore_port() { rails_offer "$1" "$nqn:d0" "$nqn:d1"; }
ok "gone" gone
drop_port 0
ok "one rail suffices" weftctl assemble v --saved
ok "its paths are there" until_true 30 usable_are "1 1 1"
ok "gone" gone
weftctl assemble v --saved --wait "$(slow 60)" >/tmp/late & late=$!
volume_is_up() { [ -e '/sys/block/weft!v/weft/uuid' ] && usable_are "1 1 1"; }
ok "assembled by one rail" until_true 30 volume_is_up
restore_port 0
wait $late
result $? "the command ends when the other is back"
ok "with all paths" until_true 30 usable_are "2 2 1"
ok "gone" gone
drop_port 0
drop_port 1
refused "without a member it is not assembled" 4 "member 0 of 3 is missing; rdma://10.9.0.1:4420/" \
	weftctl assemble v --saved
is "and nothing is left connected" "$(weftctl connect --json | json '.connections | length')" 0
weftctl assemble v --saved --wait "$(slow 60)" >/tmp/late 2>&1 & late=$!
ok "it waits for its members, and says so" until_true 30 \
	grep -q "weftctl: volume v is awaited: .*member 0 of 3 is missing" /tmp/late
restore_port 1
restore_port 0
wait $late
result $? "it ends when they are there"
ok "and has all paths" until_true 30 usable_are "2 2 1"
# Another command is not done with it.
ok "gone" gone
interval=/sys/module/weft/parameters/heartbeat_ms
usual=$(cat $interval)
long=$(slow 8000)
echo $((long < 60000 ? long : 60000)) >$interval
weftctl assemble v --saved >/dev/null & first=$!
state_is() { [ "$(status_of v .state)" = "$1" ]; }
ok "a command assembles it, which takes a while" until_true 20 state_is assembling
refused "another one does not" 4 "volume v is assembled already by another command, which has not ended" \
	weftctl assemble v --saved
weftctl assemble v --saved --wait "$(slow 60)" >/tmp/waited 2>&1 & second=$!
waits_for_first() { grep -q "weftctl: volume v is awaited: .* which has not ended" /tmp/waited; }
ok "but may wait for it" until_true 30 waits_for_first
wait $first
result $? "the first is done"
echo "$usual" >$interval
wait $second
is "and so is the second" "$? $(tail -n 1 /tmp/waited)" "0 volume v is assembled already"
python3 - <<-'PY' & listener=$!
import os, socket
at = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
at.bind("/tmp/notify")
open("/tmp/notified", "w").write(at.recv(100).decode())
PY
until_true 30 test -S /tmp/notify
ok "systemd is told" env NOTIFY_SOCKET=/tmp/notify weftctl assemble v --saved
wait $listener
is "that it is ready" "$(cat /tmp/notified)" "READY=1"

# --- Two paths to a member that have no identifier, only its superblock
modprobe dm_mod
make_null twice 64
for path in a b; do
	dmsetup create "tw$path" --table "0 $((64 * 2048)) linear $(readlink -f /dev/twice) 0"
done
dmsetup mknodes
ok "a member by device-mapper" weftctl create d /dev/mapper/twa --force
ok "and by another of its devices" weftctl path add d /dev/mapper/twb
ok "saved" weftctl save d
ok "stopped" weftctl stop d
ok "assembled from the file" weftctl assemble d --saved
is "with both paths" "$(status_of d '.members[0].paths | length')" 2
is "once more changes nothing" "$(weftctl assemble d --saved)" "volume d is assembled already"
ok "stopped" weftctl stop d
rm /etc/weft/volumes/d.toml
dmsetup remove twa twb
remove_null twice

# --- Members by the stock host, partitions, and paths that lead to something else
make_null served 64
make_null parted 200
make_null other 64
rails_serve "$nqn:t" /dev/served
printf 'size=80M\nsize=80M\n' | sfdisk -q /dev/parted
part=$(lsblk -lnpo NAME,TYPE "$(readlink -f /dev/parted)" | awk '$2 == "part" { print $1; exit }')
by_stock=(--transport nvme --keep-alive 9)
ok "a volume of a member by the stock host and a partition" \
	weftctl create p "$(rails_uri "$nqn:t" 0)" "$part" --force "${by_stock[@]}"
ok "with two controllers below its disk" weftctl connect "$(rails_uri "$nqn:t" 1)" "${by_stock[@]}"
ok "saved" weftctl save p
indented </etc/weft/volumes/p.toml
ok "stopped" weftctl stop p
stock() { find /sys/class/nvme -mindepth 1 | wc -l; }
for controller in /sys/class/nvme/nvme*; do echo 1 >"$controller/delete_controller"; done
no_stock() { [ "$(stock)" = 0 ]; }
ok "the stock host has no connection" until_true 20 no_stock
sed -i 's|^members = \[|&"/dev/other", "/dev/sv0", |' /etc/weft/volumes/p.toml
weftctl assemble p --saved >/tmp/lacks
result $? "assembled"
is "the partition and both controllers are there" "$(status_of p '.members | length') $(stock)" "2 2"
is "with their options" "$(cat /sys/class/nvme/nvme*/kato | uniq)" 9
ok "a disk without a superblock is named" grep -q "lacks: /dev/other: no weft superblock" /tmp/lacks
ok "and a member of another volume" grep -q "lacks: /dev/sv0 leads to another volume" /tmp/lacks
ok "stopped" weftctl stop p
rm /etc/weft/volumes/p.toml
for n in 0 1; do weftctl disconnect "$(rails_uri "$nqn:t" $n)" >/dev/null; nvmet_withdraw "$nqn:t" "442$n"; done
echo 0 >"$base/subsystems/$nqn:t/namespaces/1/enable"
rmdir "$base/subsystems/$nqn:t/namespaces/1" "$base/subsystems/$nqn:t"
for disk in served parted other; do remove_null $disk; done

# --- Files that are wrong
wrong() { # wrong SENTENCE SED WORDS: the file, changed by sed, is refused.
	sed "$2" $file >/etc/weft/volumes/w.toml
	refused "$1" 2 "/etc/weft/volumes/w.toml:$3" weftctl config check w
	refused "$1: assemble says so, too" 2 "w.toml:$3" weftctl assemble w --saved
}
wrong "a key that is not known" "1i colour = 3" "1:1: colour is not a key here"
wrong "a value of another kind" 's/^uuid.*/uuid = 12/' "2:8: uuid must be a text in quotes"
wrong "no TOML" "1i members" "1:"
is "the other file is still good" "$(weftctl config check v)" "$file is good: 5 paths"
ok "all are checked" grep -q "w.toml:1:" <<<"$(weftctl config check 2>&1)"
rm /etc/weft/volumes/w.toml
refused "an option that the file has is not given beside it" 2 "leave --keep-alive out" \
	weftctl assemble v --saved --keep-alive 7
cp $file /tmp/good.toml
sed -i '1i colour = 3' $file
refused "a file that is wrong is not overwritten" 2 "correct or remove it first" weftctl save v
cp /tmp/good.toml $file
uuid=$(status_of v .uuid)
cp $file /etc/weft/volumes/w.toml
refused "a volume of another name is not assembled" 2 "is called v, not w" weftctl assemble w --saved
sed -i "s/$uuid/00000000-0000-4000-8000-000000000000/" /etc/weft/volumes/w.toml
refused "nor one with another UUID" 4 "no volume called 00000000" weftctl assemble w --saved
rm /etc/weft/volumes/w.toml
ok "the volume is as it was" until_true 30 usable_are "2 2 1"

ok "gone" gone
is "the doctor names a saved volume that is not assembled" \
	"$(weftctl doctor | grep -c 'volume v is saved and not assembled')" 1
ok "a dry run" weftctl assemble v --saved --dry-run
is "assembles nothing" "$(ls -d /sys/block/weft!* 2>/dev/null)" ""
is "and leaves nothing connected" "$(weftctl connect --json | json '.connections | length')" 0
rails_unserve "$nqn:d0" "$nqn:d1"
for n in 0 1; do remove_null "sv$n"; done
remove_null here
ok "the rails are taken away" rails_down
ok "weft_rdma.ko unloads, so nothing holds it" rmmod weft_rdma
# --- The host's name: nvme-cli, installed later, would make a random one
for file in hostnqn hostid; do mv "/etc/nvme/$file" "/tmp/$file"; done
made=$(sed -E 's/^(.{8})(.{4})(.{4})(.{4})/\1-\2-\3-\4-/' /etc/machine-id)
is "without a file, the host's name is made of the machine's id" "$(weftctl host-nqn)" \
	"nqn.2014-08.org.nvmexpress:uuid:$made"
is "and written" "$(cat /etc/nvme/hostnqn)" "nqn.2014-08.org.nvmexpress:uuid:$made"
is "with its id" "$(cat /etc/nvme/hostid)" "$made"
for file in hostnqn hostid; do mv "/tmp/$file" "/etc/nvme/$file"; done
ok_unload
done_testing
