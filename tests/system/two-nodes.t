#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The README's own commands on two nodes, a storage node (host0, here) and a
# compute node (host1), both booted by systemd. Then faults between two nodes:
# exports that come late, a storage node that is switched off and on, an export
# that is missing, one with another volume's data.
# lab-own: --hosts 2 --topology nvme --systemd --memory 1536M
# lab-kernel: none
# lab-not: lab
. "${0%/*}/lib.sh"

compute() { on_host host1 "$@"; }
in_background() { compute "($1) >/dev/null 2>&1 &"; }
# What a compute node has after it booted: soft-RoCE over the lab's network, where a node has adapters.
find_nic="NETDEV=\$(ip -br link | awk '/52:54:00/ { print \$1; exit }')"
soft_roce_of_docs=$(commands docs/setup.md "Without an adapter")
rail="$find_nic; $soft_roce_of_docs && ip address add 10.0.0.2/24 dev \$NETDEV"
# Loss of the first packet to a new neighbour is seconds to RDMA CM.
greeting="ping -c 3 -i 0.3 10.0.0.1"
assemble='weftctl assemble data $(weftctl discover rdma://10.0.0.1)'
exports() { weftctl exports --json | json ".exports | $1"; }
run_readme() { # NODE HEADING
	local node=$1 line
	while IFS= read -r line; do
		if [ "$node" = compute ]; then
			ok "compute: $line" compute "$line"
		else
			ok "storage: $line" \
				bash -c "$(by_serial "$(nvme_local nvme0)" "$(nvme_local nvme1)" <<<"$line")"
		fi
	done < <(readme "$2")
}

is "the documents make an RDMA device" "$(wc -l <<<"$soft_roce_of_docs")" 2
eval "$find_nic; $soft_roce_of_docs" && ip address add 10.0.0.1/24 dev "$NETDEV"
compute "$rail"
result $? "both nodes have an RDMA device"
ok "which receives on UDP port 4791" sh -c 'ss -Hlun "sport = :4791" | grep -q .'
compute "$greeting" >/dev/null
COMPUTE_NQN=$(compute weftctl host-nqn)
export COMPUTE_NQN
ok "the disks are there" until_true 60 test -b /dev/nvme2n1

run_readme storage "storage node"
run_readme compute "compute node"
is "it is mounted" "$(compute "findmnt -no SOURCE,FSTYPE /mnt" | tr -s ' ')" "/dev/weft/data xfs"
compute "udevadm settle"
is "lsblk shows a volume above its members" \
	"$(compute "lsblk -no NAME,FSTYPE /dev/weft/data" | tr -s ' ')" "weft/data xfs"
is "blkid knows what is on it" "$(compute "blkid -s TYPE -o value /dev/weft/data")" xfs
is "and udev what a member is" "$(compute "lsblk -dno FSTYPE /dev/weft-rdma0n1")" weft_member
is "iostat has a line for it" "$(compute "iostat -d /dev/weft/data | grep -c '^weft'")" 1
is "systemd has a device for it" "$(compute "systemctl is-active dev-weft-data.device")" active
compute "weftctl doctor --quiet" | indented
ok "a file is written" compute "head -c 20000000 /dev/urandom >/mnt/file; sync; sha256sum /mnt/file >/root/sum"

# --- The storage node is switched off and on under it: here, its exports go and come
compute "sha256sum -c /root/sum" >/dev/null
ok "the unit restores exports" sh -c "systemctl enable --now weft-exports && systemctl is-active weft-exports"
systemctl stop weft-exports
is "stopped, nothing is served" "$(exports 'map(select(.serving)) | length')" 0
is "and all is still saved" "$(exports 'map(select(.saved)) | length')" 2
in_background "echo 3 >/proc/sys/vm/drop_caches; sha256sum -c /root/sum >/root/result 2>&1; echo done >>/root/result"
sleep "$(slow 3)"
ok "started, they are served again" systemctl start weft-exports
ok "the compute node's read waited and is right" until_true 90 compute "grep -q 'file: OK' /root/result"
ok "unmounted" compute "umount /mnt"
ok "stopped" compute "weftctl stop data"
ok "disconnected" compute "weftctl disconnect --all"

# --- The compute node is switched off without warning and boots
ok "assembled by what discovery shows" compute "$assemble"
compute sync
lab-peer host1 kill
lab-peer host1 boot
compute "$rail; $greeting" >/dev/null
ok "it has its volume and its mount back by itself" \
	until_true 200 compute "mountpoint -q /mnt && sha256sum -c /root/sum"
ok "the service unmounts and stops it" compute "systemctl disable --now weft-assemble@data && ! weftctl status data"

# --- Paths that its targets announce
follow='follow = [ "rdma://10.0.0.1:4420", "rdma://10.0.0.3:4420" ]'
compute "cp /etc/weft/volumes/data.toml /root && sed -i '1i $follow' /etc/weft/volumes/data.toml"
paths() { compute "weftctl status data --json" | json '[.volumes[].members[].paths | length] | join(" ")'; }
paths_are() { [ "$(paths)" = "$1" ]; }
ok "the file says which services the volume follows" compute "weftctl config check"
# As README and docs/operations.md start and stop them.
starts=$(in_text "systemctl enable --now" | grep weft; in_text "systemctl start")
ok "the services start" compute "set -e; $starts"
is "each member has one path, one service answers" "$(paths)" "1 1"
mapfile -t devices < <(exports '.[].device')
ip address add 10.0.0.3/24 dev "$NETDEV"
ok "the exports have a second address" weftctl change-export "${devices[@]}" --add-address 10.0.0.3:4420
ok "it becomes a path to each member" until_true 120 paths_are "2 2"
ok "the volume stops, and with it what follows" compute "set -e; $(in_text "systemctl stop")"
is "both services have ended" "$(compute "systemctl is-active weft-assemble@data weft-follow@data" | tr '\n' ' ')" \
	"inactive inactive "
ok "the address is taken back" weftctl change-export "${devices[@]}" --remove-address 10.0.0.3:4420
ip address del 10.0.0.3/24 dev "$NETDEV"
compute "mv /root/data.toml /etc/weft/volumes/; weftctl disconnect --all" >/dev/null
# From here on it is assembled by hand, and would be mounted.
compute "sed -i /weft/d /etc/fstab; systemctl daemon-reload"
compute "weftctl disconnect --all" >/dev/null

# --- Exports that come up late, in the wrong order, one missing, one with other data
u0=$(exports '.[0].uri')
u1=$(exports '.[1].uri')
weftctl unexport --all --keep-saved >/dev/null
refused "no export is up" 1 "cannot be connected" compute "weftctl assemble data $u0 $u1"
in_background "weftctl assemble data $u1 $u0 --wait $(slow 60) >/root/out 2>&1; echo \$? >/root/rc"
sleep "$(slow 3)"
weftctl export --saved >/dev/null
ok "late exports, named in the wrong order, are waited for" until_true 70 compute "grep -x 0 /root/rc"
compute "weftctl stop data; weftctl disconnect --all" >/dev/null
refused "one missing is named" 4 "member 1 of 2 is missing" compute "weftctl assemble data $u0"
is "and nothing stays connected" "$(compute "weftctl connect")" "nothing is connected"
d1=$(exports '.[1].device')
weftctl unexport "$d1" >/dev/null
foreign=$(nvme_local nvme2)
weftctl create foreign "$foreign" --no-assemble >/dev/null
ok "another volume's member is exported under the old name" \
	weftctl export "$foreign" --address 10.0.0.1 --host "$COMPUTE_NQN" --subnqn "${u1##*/}"
refused "it is refused by name" 5 "is member 0 of volume foreign" compute "weftctl assemble data $u0 $u1"
is "and nothing stays connected of that" "$(compute "weftctl connect")" "nothing is connected"
weftctl unexport "$foreign" >/dev/null
weftctl export "$d1" --address 10.0.0.1 --host "$COMPUTE_NQN" >/dev/null
ok "the volume is whole again" compute "$assemble && weftctl stop data && weftctl disconnect --all"
ok "all is unexported" weftctl unexport --all

# --- Secrets, as docs/setup.md says
if [ "${LAB_KERNEL:-}" = debian12 ]; then
	skip "secrets" "this kernel's target has no authentication"
	done_testing
fi
mapfile -t steps < <(commands docs/setup.md "^## Authentication$")
is "the document has commands" ${#steps[@]} 3
ok "compute: ${steps[0]}" compute "${steps[0]}"
ok "compute: ${steps[1]}" compute "${steps[1]}"
(umask 077; mkdir -p /etc/weft; compute "cat /etc/weft/dhchap-secret" >/etc/weft/compute-secret)
(umask 077; compute "cat /etc/weft/dhchap-ctrl-secret" >/etc/weft/own-secret)
ok "storage: ${steps[2]}" bash -c "$(by_serial "$(nvme_local nvme0)" "$(nvme_local nvme1)" <<<"${steps[2]}")"
connect='weftctl connect $(weftctl discover rdma://10.0.0.1)'
ok "the compute node connects by them" compute "$connect"
is "both have authenticated" "$(compute "cat /sys/class/weft-rdma/*/authentication" | grep -c mutual)" 1
compute "weftctl disconnect --all; rm /etc/weft/dhchap-*" >/dev/null
u0=$(exports '.[0].uri')
refused "without them it is refused" 7 "wants this host to authenticate, and no secret is given" \
	compute "weftctl connect $u0"
ok "unexported" weftctl unexport --all
done_testing
