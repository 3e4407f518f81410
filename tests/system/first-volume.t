#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The main story on one host, small enough for every edit: a volume on members that weft's own initiator reaches by two
# rails, XFS and files, verified I/O while a rail goes and comes back, registered memory, a second assembly.
# lab-kernel: uml
. "${0%/*}/lib.sh"

load_weft 500
nqn=nqn.2014-08.org.example
rails_up
for n in 0 1; do
	make_null "rb$n" 512 discard=1
	rails_serve "$nqn:d$n" "/dev/rb$n"
done
uri() { rails_uri "$nqn:d$1" "$2"; }
quick="--keep-alive $(slow 5) --reconnect-delay 1"
usable() { weftctl status v --json | json '[.volumes[0].members[].paths[] | select(.usable)] | length'; }
all_usable() { [ "$(usable)" = 4 ]; }
two_usable() { [ "$(usable)" = 2 ]; }

# --- A volume
# shellcheck disable=SC2086
ok "a volume on two RDMA members" weftctl create v "$(uri 0 0)" "$(uri 1 0)" --chunk 64K --force $quick
# shellcheck disable=SC2086
ok "a second path to each member" weftctl path add v "$(uri 0 1)" "$(uri 1 1)" $quick
ok "all four paths are usable" until_true 20 all_usable
refused "a second volume of that name" 3 "assembled already" weftctl create v /dev/rb0
ok "XFS on it" mkfs.xfs -q -f /dev/weft/v
ok "it is mounted" mount /dev/weft/v /mnt
cp -r /weft/kmod /weft/docs /mnt/ && umount /mnt && mount /dev/weft/v /mnt
ok "files are what was copied" diff -r /weft/kmod /mnt/kmod
refused "a volume that is mounted does not stop" 3 "mounted on /mnt" weftctl stop v
ok "unmounted" umount /mnt

# --- I/O, while a rail goes and comes back
drop_rail() { for n in 0 1; do nvmet_withdraw "$nqn:d$n" 4421; done; }
restore_rail() { for n in 0 1; do nvmet_offer "$nqn:d$n" 4421; done; }
one_rail() { drop_rail; until_true 20 two_usable || return; restore_rail; }
verify_while "verified while one rail is gone and comes back" /dev/weft/v 8 3000 one_rail
ok "its paths come back by themselves" until_true 30 all_usable

# --- Registered memory
ok "I/O on registered pages" weft-memtest v verify pages --count=12
ok "the same, registered for good" weft-memtest v verify pages --persistent --count=12
if [ -e /dev/udmabuf ] || modprobe -q udmabuf; then
	ok "I/O on a dma-buf" weft-memtest v verify udmabuf --vmap --count=12
fi

# --- A second assembly
dd if=/dev/weft/v bs=1M count=8 iflag=direct status=none | sha256sum >/tmp/sum
ok "stopped" weftctl stop v
# shellcheck disable=SC2086
ok "assembled again, members in reverse" weftctl assemble v "$(uri 1 0)" "$(uri 0 1)" $quick
is "its data is the same" "$(dd if=/dev/weft/v bs=1M count=8 iflag=direct status=none | sha256sum)" "$(cat /tmp/sum)"
ok "stopped again" weftctl stop v
ok "disconnected" weftctl disconnect --all
for n in 0 1; do
	nvmet_withdraw "$nqn:d$n" 4421
	nvmet_unserve "$nqn:d$n"
	remove_null "rb$n"
done
rmdir /sys/kernel/config/nvmet/ports/4421
for n in 0 1; do rdma link delete "rxe$n"; ip link delete "rail$n"; done
ok_unload
done_testing
