#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# libweft on weft volumes: streams, gathers, long I/O, dma-bufs and sealed files.
# lab-kernel: oldest uml
. "${0%/*}/lib.sh"

make_loop l 160
tap "a loop device" weft-libtest /dev/l
mkfs.ext4 -q -F /dev/l
mkdir -p /mnt/l
ok "a filesystem on it is mounted" mount /dev/l /mnt/l
is "which no route overwrites" \
	"$(weft-bench /dev/l --write --destroy --routes direct,staged,pread | grep -c 'Device or resource busy')" 3
ok "unmounted" umount /mnt/l
remove_loop l
load_weft
for n in a b c; do make_null "$n" 160; done
modprobe -q udmabuf
ok "a volume" weftctl create v /dev/a /dev/b /dev/c --chunk 64K --force
tap "block devices" weft-libtest v
tap "an I/O longer than a command" weft-libtest long v
ln -sf /dev/weft/v /tmp/by-id
is "a link to a volume is that volume" "$(weft-libtest /tmp/by-id | grep -c 'ok 1 - a weft volume tells')" 1
mkfs.ext4 -q -F /dev/weft/v
mkdir -p /mnt/f
ok "mounted" mount /dev/weft/v /mnt/f
head -c 3000001 /dev/urandom >/mnt/f/shard
sync /mnt/f/shard
chattr +i /mnt/f/shard
tap "a file" weft-libtest v /mnt/f/shard
mv /dev/weft/v.mem /dev/weft/away
is "without the volume's device for registered memory, the reason names it" \
	"$(weft-libtest bench /mnt/f/shard 1 1 65536 1 | sed -n 's/^not ok 1 - //p')" \
	"/dev/weft/v.mem: No such file or directory"
mv /dev/weft/away /dev/weft/v.mem
chattr -i /mnt/f/shard
ok "unmounted" umount /mnt/f
ok "stopped" weftctl stop v
weftctl wipe /dev/a /dev/b /dev/c >/dev/null
nqn=nqn.2014-08.org.example
soft_roce 10.9.0.1
for n in a b; do nvmet_serve "$nqn:$n" "$(readlink -f /dev/$n)" rdma 10.9.0.1; done
# The writes may keep a slow guest's heartbeats from their target for a while.
heartbeat_every 1000
ok "a volume over soft-RoCE" weftctl create v "rdma://10.9.0.1/$nqn:a" "rdma://10.9.0.1/$nqn:b" --chunk 64K --force
tap "soft-RoCE" weft-libtest v
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
for n in a b; do nvmet_unserve "$nqn:$n"; done
for n in a b c; do remove_null "$n"; done
ok_unload
no_soft_roce
done_testing
