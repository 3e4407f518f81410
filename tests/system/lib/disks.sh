# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Members of local kinds, and their counters.

# make_null NAME MIB [ATTRIBUTE=VALUE...]: makes a null_blk disk /dev/NAME that stores data in memory.
make_null() {
	local dir=/sys/kernel/config/nullb/$1 pair
	[ -d /sys/kernel/config/nullb ] || modprobe null_blk nr_devices=0
	mkdir "$dir"
	echo "$2" >"$dir/size"
	echo 1 >"$dir/memory_backed"
	shift 2
	for pair in "$@"; do echo "${pair#*=}" >"$dir/${pair%%=*}"; done
	echo 1 >"$dir/power"
	# Linux 6.1 names the disk by its number.
	[ -b "/dev/${dir##*/}" ] || ln -s "/dev/nullb$(cat "$dir/index")" "/dev/${dir##*/}"
}

remove_null() {
	echo 0 >"/sys/kernel/config/nullb/$1/power"
	rmdir "/sys/kernel/config/nullb/$1"
	[ ! -L "/dev/$1" ] || rm "/dev/$1"
}

# put_block DEVICE BYTE: standard input becomes the 4 KiB there, past the page cache. get_block DEVICE BYTE prints them.
put_block() { dd of=/dev/"$1" bs=4096 seek=$(($2 / 4096)) oflag=direct status=none; }
get_block() { dd if=/dev/"$1" bs=4096 skip=$(($2 / 4096)) count=1 iflag=direct status=none; }

# make_loop NAME MIB [OPTION...]: makes a loop device with the link /dev/NAME.
make_loop() {
	local name=$1 mib=$2
	shift 2
	modprobe loop
	truncate -s "${mib}M" "/tmp/$name.img"
	ln -s "$(losetup -f --show "$@" "/tmp/$name.img")" "/dev/$name"
}

remove_loop() {
	losetup -d "$(readlink -f "/dev/$1")"
	rm "/dev/$1"
}

# nvme_local SERIAL: the local disk with that serial number. The kernel numbers disks in the order in which they answer.
# User Mode Linux has other disks (LAB_DISKS) in their place.
nvme_local() {
	local disk
	for disk in ${LAB_DISKS:-}; do
		[ "${disk%%=*}" = "$1" ] && { echo "${disk#*=}"; return; }
	done
	for disk in /sys/block/nvme*n1; do
		[ "$(tr -d ' ' 2>/dev/null <"$disk/device/serial")" = "$1" ] && { echo "/dev/${disk##*/}"; return; }
	done
	return 1
}

# local_nvmes COUNT: waits for that many local NVMe disks; fails at once in a machine without PCI.
local_nvmes() {
	[ -z "${LAB_DISKS:-}" ] || return 0
	[ -d /sys/bus/pci/devices ] && modprobe nvme || return 1
	until_true 30 sh -c "[ \$(ls -d /sys/block/nvme*n1 | wc -l) -ge $1 ]"
}

# sectors_written DEVICE: the number of sectors written so far.
sectors_written() { awk '{ print $7 }' "/sys/dev/block/$(lsblk -dno MAJ:MIN "$1" | tr -d ' ')/stat"; }

# writes_since DEVICE SECTORS: the device has written more sectors than that.
writes_since() { [ "$(sectors_written "$1")" -gt "$2" ]; }
