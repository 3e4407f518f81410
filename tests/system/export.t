#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# weftctl export, change-export, discover and connect in one host: refusals, what
# other programs configured stays, exports after a boot, members by URI.
# lab: --topology nvme
# lab-kernel: none
# lab-not: uml
. "${0%/*}/lib.sh"

cfs=/sys/kernel/config/nvmet
host=$(cat /etc/nvme/hostnqn)
uuid=99999999-0000-0000-0000-000000000000
other=nqn.2014-08.org.nvmexpress:uuid:$uuid
as_other=(--host-nqn "$other" --host-id "$uuid")
here=(--address 10.0.0.1)
any=(--address 10.0.0.1 --any-host)
nqn_c=nqn.2014-08.org.example:c
uri_c=tcp://127.0.0.1/$nqn_c

# tree: all of the target's configuration.
tree() {
	(
		cd $cfs || exit
		find . | sort
		grep -rs . --include='addr_*' --include='attr_allow*' --include='device_*' . | sort
	)
}
# exports FILTER, connections FILTER: what jq makes of their lists.
exports() { weftctl exports --json | json ".exports | $1"; }
connections() { weftctl connect --json | json ".connections | $1"; }
uri_of() { exports ".[] | select(.device == \"$1\") | .uri"; }
served() { exports 'map(select(.serving)) | length'; }
live() { connections 'map(select(.state == "live")) | length'; }
live_are() { [ "$(live)" = "$1" ]; }
pieces() { find $cfs/subsystems $cfs/ports $cfs/hosts -mindepth 1 -maxdepth 1 2>/dev/null | wc -l; }
verify_v() { verify /dev/weft/v size="$(mib 16)" "$@"; }

load_weft
# On 6.1 nvme-tcp with target and host in one machine trips hardened usercopy over huge pages, without weft too.
[ ! -e /sys/kernel/mm/transparent_hugepage/enabled ] || echo never >/sys/kernel/mm/transparent_hugepage/enabled
soft_roce 10.0.0.1
for n in a b c d; do make_null $n 64; done

# --- What another program configured
local_nvmes 4
modprobe -a nvmet nvmet-tcp
mkdir -p $cfs/subsystems/nqn.others/namespaces/1 $cfs/hosts/$other
echo /dev/d >$cfs/subsystems/nqn.others/namespaces/1/device_path
echo 1 >$cfs/subsystems/nqn.others/namespaces/1/enable
nvmet_port 1 tcp 127.0.0.1
nvmet_offer nqn.others 1
tree >/tmp/before

# --- Refusals, each of which leaves the target as it was
# bad SENTENCE STATUS TEXT ARGUMENT...: weftctl export refuses that.
bad() {
	local sentence=$1 status=$2 text=$3
	shift 3
	refused "$sentence" "$status" "$text" weftctl export "$@"
}
bad "no host named that may connect" 2 "who may connect?" /dev/a "${here[@]}"
bad "both a host and any host" 2 "contradict each other" /dev/a "${any[@]}" --host "$host"
bad "no address" 2 "--address is missing" /dev/a --any-host
bad "a host's name for an address" 2 "takes no host names" /dev/a --address node7 --any-host
bad "an NQN that is none" 2 "starts with 'nqn.'" /dev/a "${here[@]}" --host iqn.2001-04.com.example
bad "a path in an NQN" 2 "slash" /dev/a "${here[@]}" --host nqn.../../../x
bad "an address that is not here, rdma" 4 "no RDMA device of this host has the address 10.0.0.9" \
	/dev/a --address 10.0.0.9 --any-host
bad "an address that is not here, tcp" 4 "no interface of this host has the address 10.0.0.9" \
	/dev/a --address 10.0.0.9 --any-host --transport tcp
bad "no such device" 4 "cannot be found" /dev/nix "${any[@]}"
bad "not a block device" 2 "not a block device" /dev/null "${any[@]}"
bad "one device twice" 2 "are the same device" /dev/a /dev/a "${any[@]}"
bad "a device that another program exports" 3 "is exported already, as nqn.others" /dev/d "${any[@]}"
bad "a name that another program uses" 3 "has a subsystem called nqn.others" /dev/a "${any[@]}" --subnqn nqn.others
bad "one name for two devices" 2 "--subnqn names one subsystem" /dev/a /dev/b "${any[@]}" --subnqn nqn.x
mkfs.xfs -q /dev/b 2>/dev/null || mkfs.ext4 -q /dev/b
mount /dev/b /mnt
bad "a mounted device" 3 "mounted on /mnt" /dev/a /dev/b "${any[@]}"
umount /mnt
dmsetup create held --table "0 2048 linear /dev/b 0"
bad "a device below device mapper" 3 "held by dm-" /dev/b "${any[@]}"
dmsetup remove held
weftctl create v /dev/a /dev/b --force >/dev/null
bad "a member of an assembled volume" 3 "held by weft/v" /dev/a "${any[@]}"
weftctl stop v >/dev/null
weftctl wipe /dev/a /dev/b >/dev/null
if [ -e $cfs/subsystems/nqn.others/namespaces/1/p2pmem ]; then
	bad "a p2pmem device that is none" 2 "neither auto nor off" /dev/a "${any[@]}" --p2pmem 0000:99:00.0
	bad "a p2pmem device without memory" 2 "publishes no memory" /dev/a "${any[@]}" --p2pmem 0000:00:00.0
else
	bad "p2pmem where the kernel has none" 2 "CONFIG_PCI_P2PDMA" /dev/a "${any[@]}" --p2pmem auto
fi
ok "a dry run" weftctl export /dev/a /dev/b "${any[@]}" --dry-run
tree >/tmp/after
is "the target has nothing of all that" "$(diff /tmp/before /tmp/after)" ""
is "and nothing is saved" "$(weftctl exports)" "nothing is exported"
refused "another program's subsystem is not unexported" 4 "is not an export of weftctl" weftctl unexport nqn.others

# --- Memory of a controller, where kernel and hardware have it: its own disk reaches it for sure
cmb='' cmb_disk=''
for published in /sys/bus/pci/devices/*/p2pmem/published; do
	device=${published%/p2pmem/published}
	[ "$(cat "$published" 2>/dev/null)" != 1 ] || cmb=${device##*/}
done
for disk in /sys/block/nvme*n1; do
	case $(readlink -f "$disk/device") in */"$cmb"/*) cmb_disk=/dev/${disk##*/} ;; esac
done
p2pmem() { cat $cfs/subsystems/nqn.cmb/namespaces/1/p2pmem; }
if [ -n "$cmb" ] && [ -n "$cmb_disk" ] && [ -e $cfs/subsystems/nqn.others/namespaces/1/p2pmem ]; then
	ok "exported through a controller's memory" \
		weftctl export "$cmb_disk" "${any[@]}" --subnqn nqn.cmb --p2pmem "$cmb"
	is "the target knows which" "$(p2pmem)" "$cmb"
	ok "and no longer" weftctl unexport nqn.cmb
	ok "through a near one" weftctl export "$cmb_disk" "${any[@]}" --subnqn nqn.cmb --p2pmem auto
	is "the target chooses" "$(p2pmem)" 1
	ok "and no longer, again" weftctl unexport nqn.cmb
	bad "a disk that cannot use it" 2 "cannot do peer-to-peer DMA" /dev/a "${any[@]}" --p2pmem "$cmb"
else
	skip "exported through a controller's memory" "no CONFIG_PCI_P2PDMA or no controller memory buffer here"
fi

# --- A disk and its partitions
make_null parted 200
printf 'size=80M\nsize=80M\n' | sfdisk -q /dev/parted
parts() { lsblk -lnpo NAME,TYPE "$(readlink -f /dev/parted)" | awk '$2 == "part" { print $1 }'; }
has_parts() { [ "$(parts | wc -l)" = 2 ]; }
ok "a disk with two partitions" until_true 30 has_parts
mapfile -t parts < <(parts)
ok "one is exported" weftctl export "${parts[0]}" "${any[@]}" --subnqn nqn.part
shares="shares blocks with ${parts[0]}, which is exported"
bad "its disk is not" 3 "/dev/parted $shares already, as nqn.part" /dev/parted "${any[@]}"
refused "nor is its disk made a member" 3 "/dev/parted $shares to other hosts, as nqn.part" weftctl create w /dev/parted
ok "the other partition is exported, too" weftctl export "${parts[1]}" "${any[@]}" --subnqn nqn.part2
ok "a dry run of an unexport" weftctl unexport nqn.part nqn.part2 --dry-run
is "both are still exported" "$(exports length)" 2
ok "both no longer" weftctl unexport nqn.part nqn.part2
weftctl create w "${parts[0]}" --no-assemble >/dev/null
ok "the disk is exported" weftctl export /dev/parted "${any[@]}" --subnqn nqn.whole
shares="shares blocks with /dev/parted, which is exported"
bad "a partition of it is not" 3 "${parts[0]} $shares already, as nqn.whole" "${parts[0]}" "${any[@]}"
refused "nor wiped" 3 "${parts[0]} $shares to other hosts, as nqn.whole" weftctl wipe "${parts[0]}"
refused "nor is its volume renamed" 3 "${parts[0]} $shares to other hosts" weftctl rename w x
head -c 4096 /dev/zero | dd of="${parts[0]}" bs=4096 oflag=direct status=none
refused "nor repaired" 3 "${parts[0]} $shares to other hosts" weftctl check --repair "${parts[0]}"
ok "and no longer, too" weftctl unexport nqn.whole
remove_null parted

# --- A disk that was made anew under its name
make_null under 64
modprobe dm_mod
begin() { # NAME UUID: the disk /dev/mapper/NAME
	dmsetup create "$1" --uuid "$2" --table "0 131072 linear $(readlink -f /dev/under) 0" && dmsetup mknodes
}
end() { dmsetup remove --retry "$1" && dmsetup mknodes; }
begin one WEFT-1
ok "a disk with an identifier is exported" weftctl export /dev/mapper/one "${any[@]}"
uri=$(uri_of /dev/mapper/one)
weftctl unexport /dev/mapper/one --keep-saved >/dev/null
end one; begin one WEFT-2
anew="another disk is there: it has dm/uuid WEFT-2, and the one that was exported had dm/uuid WEFT-1"
bad "another one of its name is not served at boot" 3 "$anew" --saved
bad "as a dry run says" 3 "$anew" --saved --dry-run
end one; begin one WEFT-1
ok "the same one is" weftctl export --saved
is "as before" "$(uri_of /dev/mapper/one) $(served)" "$uri 1"
weftctl unexport /dev/mapper/one --keep-saved >/dev/null
end one; begin two WEFT-1
bad "by another name it is exported already" 3 "has the identifier of /dev/mapper/one" /dev/mapper/two "${any[@]}"
weftctl unexport --all >/dev/null
ok "it is exported by that name" weftctl export /dev/mapper/two "${any[@]}"
is "which hosts do not see" "$(uri_of /dev/mapper/two)" "$uri"
weftctl unexport --all >/dev/null
end two; begin two WEFT-2
ok "another one of that name is exported" weftctl export /dev/mapper/two "${any[@]}"
ok "which hosts see" test "$(uri_of /dev/mapper/two)" != "$uri"
uri=$(uri_of /dev/mapper/two)
weftctl unexport --all --keep-saved >/dev/null
sed -i '/"identity"/d' /etc/weft/exports.json
end two; begin two WEFT-3
ok "an older version did not save what it is: it is served" weftctl export --saved
is "under its UUID, and known from then on" \
	"$(uri_of /dev/mapper/two) $(grep -c '"identity": "dm/uuid WEFT-3"' /etc/weft/exports.json)" "$uri 1"
weftctl unexport --all >/dev/null
end two
remove_null under

# --- Exports beside those of another program
ok "two devices for this host, by rdma" weftctl export /dev/a /dev/b "${here[@]}" --host "$host"
ok "a third for any host, by tcp, on the other program's port" \
	weftctl export /dev/c --transport tcp --address 127.0.0.1 --any-host --subnqn $nqn_c
bad "a device that is exported" 3 "is exported already" /dev/a "${any[@]}"
is "all three are served" "$(served)" 3
is "--all shows the other program's subsystem" \
	"$(weftctl exports --all --json | json '.exports[] | select(.saved | not) | .subnqn')" nqn.others
is "the other program's port is used" "$(find $cfs/ports -mindepth 1 -maxdepth 1 | wc -l)" 2
is "only root may read the saved file" "$(stat -c %a /etc/weft/exports.json)" 600
# Another program adds a namespace of its own to an export.
mkdir $cfs/subsystems/$nqn_c/namespaces/2
refused "an export with a namespace of another program is not removed" 3 "another program changed it" \
	weftctl unexport /dev/c
ok "and still served" test -e "$(echo $cfs/ports/*/subsystems/$nqn_c)"
rmdir $cfs/subsystems/$nqn_c/namespaces/2
is "all three are served still" "$(served)" 3

# --- The other side
a=$(uri_of /dev/a)
b=$(uri_of /dev/b)
is "discovery shows what this host may have" "$(weftctl discover rdma://10.0.0.1 | sort)" \
	"$(printf '%s\n' "$a" "$b" | sort)"
# Its output is a list of members for another command.
is "and nothing to another host" "$(weftctl discover rdma://10.0.0.1 "${as_other[@]}" 2>/tmp/said)" ""
ok "which it says elsewhere" grep -q "nothing that this host may connect to" /tmp/said
refused "connecting as another host" 1 "cannot be connected" weftctl connect "$a" "${as_other[@]}"
refused "no listener" 1 "no listener at that address" weftctl connect tcp://127.0.0.1:4999/nqn.x
refused "a URI that is none" 2 "names no subsystem" weftctl create v rdma://10.0.0.1
refused "one good member and one that is not there" 1 "cannot be connected" \
	weftctl create v "$a" rdma://10.0.0.1/nqn.nix
is "nothing stays connected of that" "$(weftctl connect)" "nothing is connected"
refused "a namespace that is not there" 4 "has no namespace 9" weftctl create v "$a" "$b?ns=9"
is "nor of that" "$(weftctl connect)" "nothing is connected"
by_interface() { weftctl connect $uri_c --host-interface "$1" --json | json '.connections[0].controller'; }
first=$(by_interface lo)
is "what is connected by an interface is known again" "$(by_interface lo) $(live)" "$first 1"
refused "by another one it is another path" 1 "cannot be connected" weftctl connect $uri_c --host-interface none0
ok "a dry run of a disconnection" weftctl disconnect $nqn_c --dry-run
is "disconnects nothing" "$(live)" 1
ok "disconnected" weftctl disconnect $nqn_c
ok "a dry run of a connection" weftctl connect $uri_c --dry-run
is "connects nothing" "$(weftctl connect)" "nothing is connected"
ok "a dry run connects for as long as it looks" weftctl create v "$a" "$b" --dry-run
is "and leaves nothing" "$(weftctl connect)" "nothing is connected"

ok "a volume of URIs" weftctl create v "$a" "$b" $uri_c --keep-alive "$(slow 20)" --queues 2
is "its three connections are listed" "$(live)" 3
ok "verified" verify_v
# --- An export changes while a host uses it
ip address add 10.0.0.2/24 dev dummy0
# bad_change SENTENCE STATUS TEXT ARGUMENT...: weftctl change-export refuses that.
bad_change() {
	local sentence=$1 status=$2 text=$3
	shift 3
	refused "$sentence" "$status" "$text" weftctl change-export "$@"
}
tree >/tmp/exported
bad_change "no change" 2 "give at least one of --add-host" /dev/a
bad_change "no export" 4 "is not an export of weftctl" /dev/d --add-address 10.0.0.2
bad_change "a second device that is not exported" 4 "is not an export of weftctl" /dev/a /dev/d --add-address 10.0.0.2
bad_change "an address that is not here" 4 "no RDMA device of this host has the address 10.0.0.9" \
	/dev/a --add-address 10.0.0.9
bad_change "the last address" 2 "would not be served at any address" /dev/a --remove-address 10.0.0.1
bad_change "an address that it has not" 4 "is not exported at rdma://10.0.0.2:4420" /dev/a --remove-address 10.0.0.2
bad_change "the last host" 2 "no host could connect" /dev/a --remove-host "$host"
bad_change "a host that it has not" 4 "is not a host that may connect" /dev/a --remove-host "$other"
bad_change "hosts where all may connect" 2 "every host may connect" $nqn_c --add-host "$other"
bad_change "the same added and removed" 2 "both name" /dev/a --add-address 10.0.0.2 --remove-address 10.0.0.2
ok "a dry run" weftctl change-export /dev/a /dev/b --add-address 10.0.0.2 --add-host "$other" --dry-run
tree >/tmp/after
is "none of that changes anything" "$(diff /tmp/exported /tmp/after)" ""
lost() { ends "$(not_soft_roce)"; }
is "an address that it has changes nothing" "$(weftctl change-export /dev/a --add-address 10.0.0.1)" \
	"the export has these hosts and addresses already"
add_both() { weftctl change-export /dev/a /dev/b --add-address 10.0.0.2 --add-host "$other"; }
verify_while "an address and a host are added: no error" /dev/weft/v 4 1500 add_both
is "no association has ended" "$(lost)" 0
is "the other host finds both there" "$(weftctl discover rdma://10.0.0.2 "${as_other[@]}" | sort)" \
	"$(printf '%s\n' "${a/0.1/0.2}" "${b/0.1/0.2}" | sort)"
is "each export has two addresses" "$(exports 'map(.addresses | length) | join(" ")')" "2 2 1"
ok "the volume takes the new paths" weftctl path add v "${a/0.1/0.2}" "${b/0.1/0.2}"
remove_first() { weftctl change-export /dev/a /dev/b --remove-address 10.0.0.1; }
verify_while "the first address is removed: no error" /dev/weft/v 4 1500 remove_first
is "discovery there finds no export" "$(weftctl discover rdma://10.0.0.1 2>&1 | grep -c "$nqn_c\|uuid")" 0
two_lost() { [ "$(ends)" -ge 2 ]; }
ok "its two associations have ended" until_true 30 two_lost
left=$(lost)
out=$(weftctl change-export /dev/a /dev/b --remove-host "$other")
is "no association of another host has ended" "$(lost)" "$left"
is "a host is removed; its connection is named" "$(grep -c 'a connection that it has stays until it ends' <<<"$out")" 2
is "it finds nothing" "$(weftctl discover rdma://10.0.0.2 "${as_other[@]}" 2>/dev/null)" ""
back() { weftctl change-export /dev/a /dev/b --add-address 10.0.0.1 --remove-address 10.0.0.2; }
verify_while "the first address is back, and the second is removed: no error" /dev/weft/v 4 1500 back
ok "its paths are removed" weftctl path remove v "${a/0.1/0.2}" "${b/0.1/0.2}"
tree >/tmp/after
is "the target is as before" "$(diff /tmp/exported /tmp/after)" ""
refused "disconnecting a member in use" 3 "is in use: held by weft/v" weftctl disconnect "$a"
refused "disconnecting what is not connected" 4 "nothing called nqn.nix is connected" weftctl disconnect nqn.nix
ok "stopped" weftctl stop v
refused "a member that is exported is not wiped" 3 "is exported to other hosts, as" weftctl wipe /dev/a
ok "disconnected" weftctl disconnect "$a" "$b" $nqn_c
refused "its volume is not renamed, either" 3 "is exported to other hosts, as" weftctl rename v w
ok "assembled by URIs in another order" weftctl assemble v $uri_c "$b" "$a"
ok "with its data" verify_v verify_only=1

# --- A target that boots again, under a volume
weftctl unexport --all --keep-saved >/dev/null
is "the target is as the other program left it" "$(tree | diff /tmp/before -)" ""
is "a dry run says what it would serve" "$(weftctl export --saved --dry-run | grep -c '^would: ')" 3
is "and serves nothing" "$(tree | diff /tmp/before -)" ""
ok "all is served again" weftctl export --saved
ok "hosts that were connected are back" until_true 60 live_are 3
ok "and the volume works" verify_v verify_only=1
ok "serving again what is served does nothing" weftctl export --saved
is "there are still three" "$(served)" 3
weftctl stop v >/dev/null
ok "disconnect all" weftctl disconnect --all

# --- A device that is missing at boot
weftctl unexport --all --keep-saved >/dev/null
mv /dev/b /dev/b.away
out=$(weftctl export --saved 2>&1)
is "a missing device fails the command" $? 4
is "and is named" "$(printf '%s\n' "$out" | grep -c '/dev/b is not exported: /dev/b cannot be found')" 1
is "the others are served" "$(served)" 2
rm -f /tmp/typed
(until_true 30 grep -q ', [0-9]* s' /tmp/typed; mv /dev/b.away /dev/b) &
ok "one that comes late is waited for" env TERM=linux script -qfec "weftctl export --saved --wait $(slow 60)" /tmp/typed
ok "which a terminal shows" grep -q "waiting for the devices and addresses of saved exports, [0-9]* s" /tmp/typed
wait
weftctl unexport --all --keep-saved >/dev/null
mv /dev/b /dev/b.away
weftctl export --saved --wait 600 >/dev/null & waiting=$!
served_are() { [ "$(served)" = "$1" ]; }
ok "while one is awaited, the others are served" until_true 20 served_are 2
ok "one of them is withdrawn" weftctl unexport /dev/a --keep-saved
mv /dev/b.away /dev/b
wait $waiting
is "the command ends when the last one is there" $? 0
is "and does not serve again what was withdrawn" "$(exports '.[] | select(.serving | not) | .device')" /dev/a
ok "another command does" weftctl export --saved
weftctl unexport --all --keep-saved >/dev/null
mv /dev/b /dev/b.away
weftctl export --saved --wait 600 >/dev/null 2>&1 & waiting=$!
ok "again, one is awaited" until_true 20 served_are 2
kill -TERM $waiting
ok "a signal ends the wait" until_true 30 has_ended $waiting
mv /dev/b.away /dev/b
ok "all are served" weftctl export --saved

# --- A device of another size at boot
of_size() { # of_size BYTES: the book says that they had it when they were exported.
	weftctl unexport --all --keep-saved >/dev/null
	sed -Ei "s/(\"size\": *)[0-9]+/\1$1/" /etc/weft/exports.json
}
of_size 33554432
ok "those that have grown are served" weftctl export --saved
is "with their size from then on" "$(grep -Eo '"size": *[0-9]+' /etc/weft/exports.json | sort -u | grep -c 67108864)" 1
of_size 134217728
out=$(weftctl export --saved 2>&1)
is "those that have shrunk are not" "$? $(grep -c 'is not exported: .* or it has shrunk' <<<"$out")" "3 3"
of_size 67108864
ok "they are served again" weftctl export --saved

# --- An address that is missing at boot
ok "an export gets a second address" weftctl change-export /dev/a --add-address 10.0.0.2:4421
weftctl unexport --all --keep-saved >/dev/null
ip address del 10.0.0.2/24 dev dummy0
out=$(weftctl export --saved 2>&1)
is "it fails the command" $? 4
is "and is named" "$(grep -c '/dev/a is not exported at all of its addresses: rdma://10.0.0.2:4421' <<<"$out")" 1
is "the export is served at the other one" "$(exports '.[] | select(.device == "/dev/a") |
	[.serving, .addresses[].serving] | join(" ")')" "true true false"
is "and doctor says so" "$(weftctl doctor | grep -c '/dev/a is not served at rdma://10.0.0.2:4421')" 1
weftctl unexport --all --keep-saved >/dev/null
weftctl export --saved --wait 600 >/dev/null 2>&1 & waiting=$!
ok "while the address is awaited, the export is served" until_true 20 served_are 3
ok "it is withdrawn" weftctl unexport /dev/a --keep-saved
wait $waiting
is "which ends the wait" $? 0
is "and it is not served again" "$(exports '.[] | select(.serving | not) | .device')" /dev/a
ip address add 10.0.0.2/24 dev dummy0
ok "it is there again" weftctl export --saved --wait "$(slow 20)"
is "and served at both" "$(exports '.[] | select(.device == "/dev/a") | .addresses | map(.serving) | all')" true
ok "removed" weftctl change-export /dev/a --remove-address 10.0.0.2:4421

# --- Bad books
cp /etc/weft/exports.json /tmp/book
echo '{"version": 1, "exports": [{}' >/etc/weft/exports.json
refused "a torn book" 5 "is not what weftctl wrote" weftctl exports
echo '{"version": 2, "exports": []}' >/etc/weft/exports.json
refused "a book of another version" 5 "is of version 2" weftctl exports
sed "s/$nqn_c/nqn.x\/..\/..\/y/" /tmp/book >/etc/weft/exports.json
refused "a path in a book" 5 "slash" weftctl export --saved
cp /tmp/book /etc/weft/exports.json

# --- An unexport that is interrupted
exec 9>/run/weft/exports.lock
flock 9
weftctl unexport --all >/tmp/out 2>&1 9>&- & waiting=$!
queues() { grep -q -- "-> FLOCK .* $waiting " /proc/locks; }
ok "an unexport waits for another command" until_true 20 queues
kill -TERM $waiting
wait $waiting
is "a signal ends its wait, by an error" "$? $(grep -c 'exports.lock cannot be locked: Interrupted' /tmp/out)" "7 1"
exec 9>&-
is "all is served" "$(served)" 3
# The file is a pipe here: what goes through it is what is saved.
rm /etc/weft/exports.json
mkfifo /etc/weft/exports.json
cat /tmp/book >/etc/weft/exports.json &
weftctl unexport --all >/dev/null & removing=$!
saves() { for _ in 1 2 3; do timeout "$(slow 10)" cat /etc/weft/exports.json; done; }
until_true 20 test ! -e $cfs/subsystems/"${a##*/}"
is "each export is forgotten as it ends" "$(saves | json '.exports | length' | paste -sd' ')" "2 1 0"
wait $removing
rm /etc/weft/exports.json
cp /tmp/book /etc/weft/exports.json

ok "all of it is unexported" weftctl unexport --all
tree >/tmp/after
is "the target is as the other program left it, again" "$(diff /tmp/before /tmp/after)" ""
is "nothing is saved" "$(weftctl exports)" "nothing is exported"
rm $cfs/ports/1/subsystems/nqn.others
rmdir $cfs/ports/1 $cfs/subsystems/nqn.others/namespaces/1 $cfs/subsystems/nqn.others $cfs/hosts/$other
is "and nothing else is left there" "$(pieces)" 0
for n in a b c d; do remove_null $n; done
ok_unload
no_soft_roce
done_testing
