#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Volumes for containers by the Container Storage Interface: staged to write and to read, as filesystem and as device,
# published, taken away, once more each; what is refused; the plugin ends in between.
# lab-kernel: none
# lab-not: lab debian12 debian13 previous backports
. "${0%/*}/lib.sh"

load_weft
work=/tmp/csi
kubelet=$work/kubelet
staging=$work/staging
mkdir -p $staging $work/pods
for n in 0 1; do make_null c$n 384; done
for n in 2 3; do make_null c$n 64; done

plugin_begins() {
	weft-csi --kubelet $kubelet --node-id node17 >>$work/log 2>&1 & plugin=$!
	until_true 20 call Identity.Probe
}
call() { weft-csi-call $kubelet/plugins/weft.csi/csi.sock "$@"; }
# capability TYPE MODE: of a request, as JSON.
capability() {
	local fields=
	[[ $1 != *:* ]] || fields="\"fs_type\": \"${1#*:}\""
	echo "{\"access_mode\": {\"mode\": \"$2\"}, \"${1%:*}\": {$fields}}"
}
# stage TYPE MODE [VOLUME] [MEMBERS]
stage() {
	call Node.NodeStageVolume "{\"volume_id\": \"${3:-data}\", \"staging_target_path\": \"$staging\",
		\"volume_context\": {${4:+\"members\": \"$4\"}}, \"volume_capability\": $(capability "$1" "$2")}"
}
# publish TYPE MODE POD [READ_ONLY] [MEMBERS]
publish() {
	call Node.NodePublishVolume "{\"volume_id\": \"data\", \"staging_target_path\": \"$staging\",
		\"target_path\": \"$work/pods/$3\", \"readonly\": ${4:-false},
		\"volume_context\": {${5:+\"members\": \"$5\"}}, \"volume_capability\": $(capability "$1" "$2")}"
}
unpublish() { call Node.NodeUnpublishVolume "{\"volume_id\": \"data\", \"target_path\": \"$work/pods/$1\"}"; }
unstage() { call Node.NodeUnstageVolume "{\"volume_id\": \"data\", \"staging_target_path\": \"$staging\"}"; }
stats() { call Node.NodeGetVolumeStats "{\"volume_id\": \"data\", \"volume_path\": \"$work/pods/$1\"}"; }
is_up() { [ -e '/sys/block/weft!data' ] && echo up || echo down; }
# is_netdev PLACE: how many mounts there have the option by which systemd unmounts them before the network goes down.
is_netdev() { grep -c " TARGET=$1 .*OPTS=.*_netdev" /run/mount/utab; }
is_mounted() { mountpoint -q "$1" && echo mounted || echo free; }
writer=SINGLE_NODE_WRITER
reader=MULTI_NODE_READER_ONLY

weftctl create data /dev/c0 /dev/c1 >/dev/null
mkfs.xfs -q /dev/weft/data
mount /dev/weft/data /mnt
echo weights >/mnt/model
umount /mnt
weftctl save data >/dev/null
weftctl stop data >/dev/null

# --- What it is
plugin_begins
is "the plugin starts" $? 0
is "its name" "$(call Identity.GetPluginInfo | json .name)" weft.csi
is "it makes no volumes" "$(call Identity.GetPluginCapabilities)" "{}"
is "it is ready" "$(call Identity.Probe | json .ready)" true
is "its node" "$(call Node.NodeGetInfo | json .node_id)" node17
is "what it can do" "$(call Node.NodeGetCapabilities | json '[.capabilities[].rpc.type] | join(" ")')" \
	"STAGE_UNSTAGE_VOLUME GET_VOLUME_STATS VOLUME_CONDITION"
registry=$kubelet/plugins_registry/weft.csi-reg.sock
is "the kubelet finds it" "$(weft-csi-call $registry Registration.GetInfo |
	json '.type + " " + .name + " " + .endpoint')" "CSIPlugin weft.csi $kubelet/plugins/weft.csi/csi.sock"
is "root alone reaches it" "$(stat -c %a $kubelet/plugins/weft.csi/csi.sock $registry | tr '\n' ' ')" "700 700 "
refused "another user cannot start one" 7 "run it as root" setpriv --reuid 65534 weft-csi --kubelet $work/other
refused "an endpoint of another kind" 2 "unix:///PATH" weft-csi --endpoint tcp://127.0.0.1:1

# --- To write
refused "it is not published before it is staged" 9 "is not staged" publish mount $writer a
ok "staged to write" stage mount $writer
is "the volume is assembled" "$(status_of data .read_only)" false
is "its mount is of the network" "$(is_netdev $staging)" 1
ok "staged once more" stage mount $writer
is "and is mounted once" "$(is_netdev $staging) $(findmnt -n -o TARGET -S /dev/weft/data)" "1 $staging"
ok "published" publish mount $writer a
ok "published once more" publish mount $writer a
is "this mount is of the network, too" "$(is_netdev $work/pods/a)" 1
is "a container reads" "$(cat $work/pods/a/model)" weights
ok "and writes" sh -c "echo more >$work/pods/a/more"
ok "published to another, to read" publish mount $writer b true
is "which reads" "$(cat $work/pods/b/more)" more
is "by a mount of the network" "$(is_netdev $work/pods/b)" 1
refused "and does not write" 1 "Read-only file system" cp $work/pods/b/model $work/pods/b/copy
refused "published at the same place, to write" 6 "another filesystem or device is mounted" \
	publish block $writer a
ok "statistics" stats a
is "of bytes and inodes" "$(stats a | json '[.usage[].unit] | join(" ")')" "BYTES INODES"
is "as df has them" "$(stats a | json '.usage[0].total')" "$(df -B1 --output=size $work/pods/a | tail -n 1 | tr -d ' ')"
is "the volume works" "$(stats a | json '.volume_condition.abnormal')" false
refused "statistics of another folder" 5 "volume data is not at" stats ""
refused "it is not unstaged while a container has it" 9 "volume data is in use: mounted on" unstage
ok "taken from one" unpublish a
ok "once more" unpublish a
ok "taken from the other" unpublish b
is "their places are gone" "$(ls $work/pods)" ""
ok "unstaged" unstage
is "the volume is stopped" "$(is_up)" down
is "nothing is mounted" "$(is_mounted $staging)" free
is "and no options of mounts are kept" "$(grep -c "TARGET=$work/" /run/mount/utab)" 0
ok "unstaged once more" unstage
mkdir $work/pods/kept
touch $work/pods/kept/file
refused "a folder with files is left" 13 "cannot be removed: Directory not empty" unpublish kept
rm -r $work/pods/kept

# --- To read
ok "staged to read" stage mount $reader
is "the volume is assembled read-only" "$(status_of data .read_only)" true
refused "it is not staged to write then" 9 "assembled read-only on this host" stage mount $writer
ok "published" publish mount $reader a
is "a container reads" "$(cat $work/pods/a/more)" more
refused "and does not write" 1 "Read-only file system" cp $work/pods/a/model $work/pods/a/copy
ok "taken" unpublish a
ok "unstaged" unstage
is "the volume is stopped" "$(is_up)" down

# --- As a device
ok "staged as a device" stage block $writer
is "nothing is mounted" "$(is_mounted $staging)" free
refused "a device cannot be published read-only" 3 "cannot be published read-only" publish block $writer a true
ok "published" publish block $writer a
ok "published once more" publish block $writer a
is "a container has the device" "$(head -c 4 $work/pods/a)" XFSB
is "statistics" "$(stats a | json '.usage[0].total')" "$(blockdev --getsize64 /dev/weft/data)"
ok "taken" unpublish a
is "its place is gone" "$(ls $work/pods)" ""
ok "unstaged" unstage
is "the volume is stopped" "$(is_up)" down

# --- A filesystem that has failed
ok "staged" stage mount $writer
ok "published" publish mount $writer a
ok "the filesystem fails" xfs_io -x -c shutdown $work/pods/a
is "statistics say so" "$(stats a | json '.volume_condition.abnormal')" true
ok "taken" unpublish a
ok "unstaged" unstage
is "the volume is stopped" "$(is_up)" down

# --- Assembled before
weftctl assemble data >/dev/null
refused "a device that can be written is not for readers" 9 "cannot be published read-only" stage block $reader
ok "a volume that is assembled already is staged" stage mount $writer
refused "and not to read at the same place" 6 "is mounted writable, and should be read-only" stage mount $reader
ok "and unstaged" unstage
ok "it is staged to read" stage mount $reader
refused "and not to write at the same place" 6 "is mounted read-only, and should be writable" stage mount $writer
ok "and unstaged" unstage
is "and is still assembled" "$(is_up)" up
weftctl stop data >/dev/null

# --- Without a file of the volume
rm /etc/weft/volumes/data.toml
refused "a volume without members or file" 5 "weftctl save" stage mount $writer
ok "staged by its members" stage mount $writer data "/dev/c1 /dev/c0"
ok "unstaged" unstage
mkdir $work/pods/other
mount -t tmpfs none $work/pods/other
refused "without the volume, a filesystem of others is left, too" 9 "is not of volume data" unpublish other
umount $work/pods/other
rmdir $work/pods/other

# --- What does not fit
refused "another filesystem" 9 "has the filesystem xfs, not ext4" stage mount:ext4 $writer data "/dev/c0 /dev/c1"
is "the volume is not left assembled" "$(is_up)" down
is "and no mark of it" "$(ls /run/weft-csi 2>/dev/null)" ""
mkdir -p /run/weft-csi
mount -t tmpfs -o ro none /run/weft-csi
refused "a volume that cannot be marked" 13 "/run/weft-csi/" stage mount $writer data "/dev/c0 /dev/c1"
is "is not left assembled either" "$(is_up)" down
umount /run/weft-csi
weftctl create data2 /dev/c2 /dev/c3 >/dev/null
weftctl stop data2 >/dev/null
refused "a member that is another volume's" 15 "not of data" stage mount $writer data "/dev/c0 /dev/c2 /dev/c1"
refused "no filesystem" 9 "mkfs.xfs /dev/weft/data2" stage mount $writer data2 "/dev/c2 /dev/c3"
refused "an option of mount that there is not" 13 "nothing can be mounted at" call Node.NodeStageVolume "{
	\"volume_id\": \"data\", \"staging_target_path\": \"$staging\",
	\"volume_context\": {\"members\": \"/dev/c0 /dev/c1\"},
	\"volume_capability\": {\"access_mode\": {\"mode\": \"$writer\"},
		\"mount\": {\"mount_flags\": [\"nosuchoption\"]}}}"
is "nothing is left assembled" "$(is_up)" down
refused "two hosts that write" 3 "one host writes" stage mount MULTI_NODE_MULTI_WRITER
refused "a name with a path" 3 "not the name of a volume" stage mount $writer ../../etc
echo '/dev/c0 is ours' >$work/pods/file
refused "a file with data is left" 13 "is not what weft-csi published" unpublish file
rm $work/pods/file

# --- Many at a time, and bytes that are no call
members="/dev/c0 /dev/c1"
many=()
for n in 1 2 3 4 5 6; do stage mount $writer data "$members" >/dev/null 2>$work/many.$n & many+=($!); done
good=0
for one in "${many[@]}"; do wait "$one" && good=$((good + 1)); done
is "of calls at the same time, each succeeds or is told to come again" \
	$((good + $(cat $work/many.* | grep -c 'another call for volume data is running'))) 6
is "the volume is there once" "$(findmnt -n -o TARGET -S /dev/weft/data)" $staging
weftctl save data >/dev/null
sed -i 's/^uuid = .*/uuid = "00000000-1111-2222-3333-444444444444"/' /etc/weft/volumes/data.toml
refused "a file of that name for another volume" 9 "its file has" publish mount $writer named
ok "does not count where the members are named" publish mount $writer named false "$members"
ok "unpublished" unpublish named
refused "but other members do" 9 "another volume called data is assembled" publish mount $writer named false \
	"/dev/c2 /dev/c3"
rm /etc/weft/volumes/data.toml
python3 - $kubelet/plugins/weft.csi/csi.sock <<'P'
import os, socket, sys
for size in 1, 100, 100000:
    with socket.socket(socket.AF_UNIX) as to:
        to.connect(sys.argv[1])
        to.settimeout(1)
        try:
            to.sendall(os.urandom(size))
            to.recv(100)
        except OSError:
            pass
P
is "it answers after bytes that are no call" "$(call Identity.Probe | json .ready)" true

# --- It ends in between
kill -9 "$plugin"
wait "$plugin" 2>/dev/null
plugin_begins
is "killed and started again" $? 0
ok "what was staged is published" publish mount $writer a
is "a container reads" "$(cat $work/pods/a/model)" weights
kill "$plugin"
wait "$plugin"
is "it ends at a signal" $? 0
is "and its sockets are gone" "$(find $kubelet -name '*.sock')" ""
is "containers keep the volume" "$(cat $work/pods/a/model)" weights
plugin_begins
is "started again" $? 0
ok "taken" unpublish a
ok "unstaged" unstage
is "the volume is stopped" "$(is_up)" down
weft-csi-call $registry Registration.NotifyRegistrationStatus \
	'{"plugin_registered": false, "error": "another one"}' >/dev/null
is "a refusal of the kubelet is in the log" "$(grep -c 'the kubelet refuses this plugin: another one' $work/log)" 1
kill "$plugin"
for n in 0 1 2 3; do remove_null c$n; done
done_testing
