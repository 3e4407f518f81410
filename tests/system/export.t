#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Exports and connections in one host: what is refused, what is left alone, what
# comes back after a boot, members by URI.
# lab: --topology nvme
# lab-kernel: debian13
. "${0%/*}/lib.sh"

cfs=/sys/kernel/config/nvmet
host=$(cat /etc/nvme/hostnqn)
other=nqn.2014-08.org.nvmexpress:uuid:99999999-0000-0000-0000-000000000000
tree() { (cd $cfs && find . | sort; grep -rs . --include='addr_*' --include='attr_allow*' --include='device_*' . | sort); }
uri_of() { weftctl exports --json | jq -r ".exports[] | select(.device == \"$1\") | .uri"; }
pieces() { find $cfs/subsystems $cfs/ports $cfs/hosts -mindepth 1 -maxdepth 1 2>/dev/null | wc -l; }

load_weft
# On 6.1 nvme-tcp with target and host in one machine trips hardened usercopy over huge pages, without weft too.
[ ! -e /sys/kernel/mm/transparent_hugepage/enabled ] || echo never >/sys/kernel/mm/transparent_hugepage/enabled
soft_roce 10.0.0.1
for n in a b c d; do make_null $n 64; done

# --- What somebody else configured
modprobe nvme 2>/dev/null
until_true 30 sh -c '[ "$(ls /dev/nvme?n1 | wc -l)" = 4 ]'
modprobe -a nvmet nvmet-tcp
mkdir -p $cfs/subsystems/nqn.others/namespaces/1 $cfs/ports/1 $cfs/hosts/$other
echo /dev/d >$cfs/subsystems/nqn.others/namespaces/1/device_path
echo 1 >$cfs/subsystems/nqn.others/namespaces/1/enable
(cd $cfs/ports/1 && echo tcp >addr_trtype && echo ipv4 >addr_adrfam && echo 127.0.0.1 >addr_traddr && echo 4420 >addr_trsvcid)
ln -s $cfs/subsystems/nqn.others $cfs/ports/1/subsystems/
tree >/tmp/before

# --- Refusals, each of which leaves the target as it was
x() { weftctl export "$@"; }
refused "nobody named who may connect" 2 "who may connect?" x /dev/a --address 10.0.0.1
refused "both a host and any host" 2 "contradict each other" x /dev/a --address 10.0.0.1 --any-host --host "$host"
refused "no address" 2 "--address says where to listen" x /dev/a --any-host
refused "a host's name for an address" 2 "takes no host names" x /dev/a --address node7 --any-host
refused "an NQN that is none" 2 "starts with 'nqn.'" x /dev/a --address 10.0.0.1 --host iqn.2001-04.com.example
refused "a path in an NQN" 2 "slash" x /dev/a --address 10.0.0.1 --host nqn.../../../x
refused "an address that is not here, rdma" 4 "no RDMA device of this host has the address 10.0.0.9" x /dev/a --address 10.0.0.9 --any-host
refused "an address that is not here, tcp" 4 "no interface of this host has the address 10.0.0.9" x /dev/a --address 10.0.0.9 --any-host --transport tcp
refused "no such device" 4 "cannot be found" x /dev/nix --address 10.0.0.1 --any-host
refused "not a block device" 2 "not a block device" x /dev/null --address 10.0.0.1 --any-host
refused "one device twice" 2 "are the same device" x /dev/a /dev/a --address 10.0.0.1 --any-host
refused "exported by others" 3 "is exported already, as nqn.others" x /dev/d --address 10.0.0.1 --any-host
refused "a name that others have" 3 "has a subsystem called nqn.others" x /dev/a --address 10.0.0.1 --any-host --subnqn nqn.others
refused "one name for two devices" 2 "--subnqn names one subsystem" x /dev/a /dev/b --address 10.0.0.1 --any-host --subnqn nqn.x
mkfs.xfs -q /dev/b 2>/dev/null || mkfs.ext4 -q /dev/b
mount /dev/b /mnt
refused "a mounted device" 3 "mounted on /mnt" x /dev/a /dev/b --address 10.0.0.1 --any-host
umount /mnt
dmsetup create held --table "0 2048 linear /dev/b 0"
refused "a device below device mapper" 3 "held by dm-" x /dev/b --address 10.0.0.1 --any-host
dmsetup remove held
weftctl create v /dev/a /dev/b --force >/dev/null
refused "a member of an assembled volume" 3 "held by weft/v" x /dev/a --address 10.0.0.1 --any-host
weftctl stop v >/dev/null
weftctl wipe /dev/a /dev/b >/dev/null
if [ -e $cfs/subsystems/nqn.others/namespaces/1/p2pmem ]; then
	refused "a p2pmem device that is none" 2 "neither auto nor off" x /dev/a --address 10.0.0.1 --any-host --p2pmem 0000:99:00.0
	refused "a p2pmem device without memory" 2 "publishes no memory" x /dev/a --address 10.0.0.1 --any-host --p2pmem 0000:00:00.0
else
	refused "p2pmem where the kernel has none" 2 "CONFIG_PCI_P2PDMA" x /dev/a --address 10.0.0.1 --any-host --p2pmem auto
fi
ok "a dry run" x /dev/a /dev/b --address 10.0.0.1 --any-host --dry-run
tree >/tmp/after
is "nothing of all that is left in the target" "$(diff /tmp/before /tmp/after)" ""
is "and nothing is saved" "$(weftctl exports)" "nothing is exported"
refused "nothing of others' is unexported" 4 "is no export of weftctl's" weftctl unexport nqn.others

# --- Memory of a controller, where kernel and hardware have it
cmb=$(for f in /sys/bus/pci/devices/*/p2pmem/published; do [ "$(cat "$f" 2>/dev/null)" = 1 ] && basename "${f%/p2pmem/published}"; done)
if [ -n "$cmb" ] && [ -e $cfs/subsystems/nqn.others/namespaces/1/p2pmem ]; then
	ok "exported through a controller's memory" weftctl export /dev/a --address 10.0.0.1 --any-host --subnqn nqn.cmb --p2pmem "$cmb"
	is "the target knows which" "$(cat $cfs/subsystems/nqn.cmb/namespaces/1/p2pmem)" "$cmb"
	ok "and no longer" weftctl unexport nqn.cmb
	ok "through whichever is near" weftctl export /dev/a --address 10.0.0.1 --any-host --subnqn nqn.cmb --p2pmem auto
	is "the target chooses" "$(cat $cfs/subsystems/nqn.cmb/namespaces/1/p2pmem)" 1
	ok "and no longer, again" weftctl unexport nqn.cmb
else
	skip "exported through a controller's memory" "no CONFIG_PCI_P2PDMA or no controller memory buffer here"
fi

# --- Exports, beside the others'
ok "two devices for this host, by rdma" weftctl export /dev/a /dev/b --address 10.0.0.1 --host "$host"
ok "a third for any, by tcp, on others' port" weftctl export /dev/c --transport tcp --address 127.0.0.1 --any-host --subnqn nqn.2014-08.org.example:c
refused "a device that is exported" 3 "is exported already" weftctl export /dev/a --address 10.0.0.1 --any-host
is "all three are served" "$(weftctl exports --json | jq '[.exports[] | select(.serving)] | length')" 3
is "and the others' is shown when asked for" "$(weftctl exports --all --json | jq -r '.exports[] | select(.saved | not) | .subnqn')" nqn.others
is "the port of others is used" "$(find $cfs/ports -mindepth 1 -maxdepth 1 | wc -l)" 2
is "the saved file is root's alone" "$(stat -c %a /etc/weft/exports.json)" 600

# --- The other side
is "discovery shows what this host may have" "$(weftctl discover rdma://10.0.0.1 | sort)" "$( (uri_of /dev/a; uri_of /dev/b) | sort)"
is "and nothing to another host" "$(weftctl discover rdma://10.0.0.1 --host-nqn $other --host-id 99999999-0000-0000-0000-000000000000)" "nothing that this host may connect to"
refused "connecting as another host" 1 "cannot be connected" weftctl connect "$(uri_of /dev/a)" --host-nqn $other --host-id 99999999-0000-0000-0000-000000000000
refused "nobody listens" 1 "nobody listens there" weftctl connect tcp://127.0.0.1:4999/nqn.x
refused "a URI that is none" 2 "names no subsystem" weftctl create v rdma://10.0.0.1
refused "one good member and one that is not there" 1 "cannot be connected" weftctl create v "$(uri_of /dev/a)" rdma://10.0.0.1/nqn.nix
is "nothing stays connected of that" "$(weftctl connect)" "nothing is connected"
refused "a namespace that is not there" 4 "has no namespace 9" weftctl create v "$(uri_of /dev/a)" "$(uri_of /dev/b)?ns=9"
is "nor of that" "$(weftctl connect)" "nothing is connected"
ok "a dry run connects for as long as it looks" weftctl create v "$(uri_of /dev/a)" "$(uri_of /dev/b)" --dry-run
is "and leaves nothing" "$(weftctl connect)" "nothing is connected"

ok "a volume of URIs" weftctl create v "$(uri_of /dev/a)" "$(uri_of /dev/b)" tcp://127.0.0.1/nqn.2014-08.org.example:c --keep-alive 5 --queues 2
is "its three connections are listed" "$(weftctl connect --json | jq '[.connections[] | select(.state == "live")] | length')" 3
ok "verified" verify /dev/weft/v size="$(mib 16)"
refused "disconnecting a member in use" 3 "is in use: held by weft/v" weftctl disconnect "$(uri_of /dev/a)"
refused "disconnecting what is not connected" 4 "nothing called nqn.nix is connected" weftctl disconnect nqn.nix
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect "$(uri_of /dev/a)" "$(uri_of /dev/b)" nqn.2014-08.org.example:c
ok "assembled by URIs in another order" weftctl assemble v tcp://127.0.0.1/nqn.2014-08.org.example:c "$(uri_of /dev/b)" "$(uri_of /dev/a)"
ok "with its data" verify /dev/weft/v size="$(mib 16)" verify_only=1

# --- A target that boots again, under a volume
weftctl unexport --all --keep-saved >/dev/null
is "the target is as others left it" "$(tree | diff /tmp/before -)" ""
ok "all is served again" weftctl export --saved
ok "hosts that were connected are back" until_true 60 sh -c "[ \$(weftctl connect --json | jq '[.connections[] | select(.state == \"live\")] | length') = 3 ]"
ok "and the volume works" verify /dev/weft/v size="$(mib 16)" verify_only=1
ok "serving again what is served does nothing" weftctl export --saved
is "there are still three" "$(weftctl exports --json | jq '[.exports[] | select(.serving)] | length')" 3
weftctl stop v >/dev/null
ok "disconnect all" weftctl disconnect --all

# --- A device that is missing at boot
weftctl unexport --all --keep-saved >/dev/null
mv /dev/b /dev/b.away
out=$(weftctl export --saved 2>&1)
is "a missing device fails the command" $? 4
is "and is named" "$(printf '%s\n' "$out" | grep -c '/dev/b is not exported: /dev/b cannot be found')" 1
is "the others are served" "$(weftctl exports --json | jq '[.exports[] | select(.serving)] | length')" 2
(sleep 2; mv /dev/b.away /dev/b) &
ok "one that comes late is waited for" weftctl export --saved --wait 20
wait

# --- Bad books
cp /etc/weft/exports.json /tmp/book
echo '{"version": 1, "exports": [{}' >/etc/weft/exports.json
refused "a torn book" 5 "is not what weftctl wrote" weftctl exports
echo '{"version": 2, "exports": []}' >/etc/weft/exports.json
refused "a book of another version" 5 "is of version 2" weftctl exports
sed 's/nqn.2014-08.org.example:c/nqn.x\/..\/..\/y/' /tmp/book >/etc/weft/exports.json
refused "a path in a book" 5 "slash" weftctl export --saved
cp /tmp/book /etc/weft/exports.json

ok "all of it is unexported" weftctl unexport --all
tree >/tmp/after
is "the target is as others left it, again" "$(diff /tmp/before /tmp/after)" ""
is "nothing is saved" "$(weftctl exports)" "nothing is exported"
rm $cfs/ports/1/subsystems/nqn.others
rmdir $cfs/ports/1 $cfs/subsystems/nqn.others/namespaces/1 $cfs/subsystems/nqn.others $cfs/hosts/$other
is "and nothing else is left there" "$(pieces)" 0
for n in a b c d; do remove_null $n; done
ok_unload
no_soft_roce
done_testing
