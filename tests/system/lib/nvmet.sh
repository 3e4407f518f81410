# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The kernel's NVMe target and the stock host.

# nvmet_offer, nvmet_withdraw SUBNQN [PORT]: adds the subsystem to a port, or removes it, which ends its connections.
nvmet_offer() {
	local base=/sys/kernel/config/nvmet
	ln -s "$base/subsystems/$1" "$base/ports/${2:-4420}/subsystems/$1"
}
nvmet_withdraw() { rm "/sys/kernel/config/nvmet/ports/${2:-4420}/subsystems/$1"; }

# nvmet_port NUMBER TRANSPORT ADDRESS [SERVICE]: makes a port, without a subsystem.
nvmet_port() {
	local port=/sys/kernel/config/nvmet/ports/$1
	mkdir -p "$port"
	echo "$2" >"$port/addr_trtype"
	echo ipv4 >"$port/addr_adrfam"
	echo "$3" >"$port/addr_traddr"
	echo "${4:-4420}" >"$port/addr_trsvcid"
}

# nvmet_serve SUBNQN DEVICE TRANSPORT ADDRESS [PORT [ATTRIBUTE=VALUE...]]: serves the device as a namespace with these
# attributes; PORT is the port's number and its service.
nvmet_serve() {
	local base=/sys/kernel/config/nvmet nqn=$1 device=$2 type=$3 address=$4 port=${5:-4420} pair
	modprobe nvmet
	modprobe "nvmet-$type"
	mkdir -p "$base/subsystems/$nqn/namespaces/1" "$base/ports/$port"
	echo 1 >"$base/subsystems/$nqn/attr_allow_any_host"
	echo "$device" >"$base/subsystems/$nqn/namespaces/1/device_path"
	for pair in "${@:6}"; do echo "${pair#*=}" >"$base/subsystems/$nqn/namespaces/1/${pair%%=*}"; done
	echo 1 >"$base/subsystems/$nqn/namespaces/1/enable"
	[ "$(cat "$base/ports/$port/addr_trtype")" = "$type" ] || nvmet_port "$port" "$type" "$address" "$port"
	nvmet_offer "$nqn" "$port"
}

nvmet_unserve() {
	local base=/sys/kernel/config/nvmet nqn=$1 port=${2:-4420}
	rm -f "$base/ports/$port/subsystems/$nqn"
	rmdir "$base/ports/$port" 2>/dev/null
	echo 0 >"$base/subsystems/$nqn/namespaces/1/enable"
	rmdir "$base/subsystems/$nqn/namespaces/1" "$base/subsystems/$nqn"
}

# nvmet_set SUBNQN ATTRIBUTE=VALUE...: sets attributes of its namespace, which is disabled meanwhile.
nvmet_set() {
	local namespace=/sys/kernel/config/nvmet/subsystems/$1/namespaces/1 pair
	shift
	echo 0 >"$namespace/enable"
	for pair in "$@"; do echo "${pair#*=}" >"$namespace/${pair%%=*}"; done
	echo 1 >"$namespace/enable"
}

# nvme_disk SUBNQN: the block device of a connected subsystem.
nvme_disk() {
	local dir
	for dir in /sys/class/nvme-subsystem/*; do
		[ "$(cat "$dir/subsysnqn" 2>/dev/null)" = "$1" ] || continue
		for disk in "$dir"/nvme*n*; do
			[ -b "/dev/${disk##*/}" ] && { echo "/dev/${disk##*/}"; return; }
		done
	done
	return 1
}

# own_disk SUBNQN: the first namespace's block device of weft's own controller of that subsystem.
own_disk() { echo "/dev/$(basename "$(dirname "$(grep -lx "$1" /sys/class/weft-rdma/*/subsysnqn)")")n1"; }

# nvme_connect SUBNQN TRANSPORT ADDRESS [PORT]: connects with the stock host and prints the block device.
nvme_connect() {
	modprobe "nvme-$2"
	nvme connect -t "$2" -a "$3" -s "${4:-4420}" -n "$1" >/dev/null || return 1
	until_true 20 nvme_disk "$1" && nvme_disk "$1"
}
