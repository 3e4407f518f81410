#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Block I/O on other devices' memory that has pages: an NVMe disk's CMB and a
# BAR that weft_p2p lends, mapped by fio, through members that are local NVMe
# disks and through members over RDMA; and a dma-buf of vfio-pci.
# lab-own: --topology hca --memory 3G
# lab-kernel: backports
# shellcheck disable=SC2154 # near, far and switch are what peer_bars sets.
. "${0%/*}/lib.sh"

softhca
modprobe weft_p2p pages_mib=32
load_weft 2000
modprobe weft_rdma io_timeout="$(slow 3)"
peer_bars
bar=$near
local_nvmes 3
for disk in /sys/block/nvme*n1; do
	path=$(realpath "$disk/device/device")
	case $path in
	*/"$switch"/*)
		if [ -e "$path/p2pmem" ]; then
			cmb=${path##*/}
			cmb_disk=/dev/${disk##*/}
		else
			near_disk=/dev/${disk##*/}
		fi
		;;
	*) far_disk=/dev/${disk##*/} ;;
	esac
done
note "CMB of $cmb, $cmb_disk; disks $near_disk, $far_disk elsewhere"
bind weft_p2p "$bar"
is "half of a BAR is pages" "$(cat "/sys/bus/pci/devices/$bar/p2pmem/size")" 33554432

# in_memory DEVICE PCI-ADDRESS [OPTION...]: fio verifies with its buffers in that device's memory.
in_memory() {
	local device=$1 memory=$2
	shift 2
	fio --name=p2p --filename="$device" --ioengine=io_uring --direct=1 --iodepth=8 --rw=randrw --bs=64k --size=16m \
		--iomem="mmapshared:/sys/bus/pci/devices/$memory/p2pmem/allocate" --verify=crc32c --verify_fatal=1 \
		--output=/tmp/fio.out "$@" 2>&1 && return
	tail -5 /tmp/fio.out
	return 1
}

# --- Members that are local disks
ok "a volume on disks below one switch" weftctl create b "$cmb_disk" "$near_disk" --chunk 64K --force
ok "buffers in the CMB" in_memory /dev/weft/b "$cmb"
ok "buffers in a BAR" in_memory /dev/weft/b "$bar"
ok "in pieces of many chunks" in_memory /dev/weft/b "$bar" --bs=1m --iodepth=4
ok "stopped" weftctl stop b
weftctl wipe "$cmb_disk" "$near_disk" >/dev/null
ok "a volume with a disk elsewhere" weftctl create b "$near_disk" "$far_disk" --chunk 64K --force
# The block layer's answers for memory that a device does not reach.
refused_io() { ! in_memory "$@" && grep -qE 'error=(Remote I/O error|Invalid argument)' /tmp/fio.out; }
ok "a disk that does not reach the memory: an error" refused_io /dev/weft/b "$bar"
sed -n 's/.*\(error=[^,]*\).*/# \1/p' /tmp/fio.out | sort -u
is "which is that I/O's alone: nothing failed" "$(weftctl status b --json | jq -r '.volumes[0].state')" live
ok "and other I/O goes on" verify /dev/weft/b size=8m
ok "stopped again" weftctl stop b
weftctl wipe "$near_disk" "$far_disk" >/dev/null
make_null plain 64
ok "a volume with a member that has no such I/O" weftctl create b "$near_disk" /dev/plain --force
ok "refuses it before it is split" refused_io /dev/weft/b "$bar"
ok "and stops" weftctl stop b
weftctl wipe "$near_disk" /dev/plain >/dev/null
remove_null plain

# --- Members over RDMA
nqn=nqn.2014-08.org.example
for n in 0 1; do
	make_null "hb$n" 64
	nvmet_serve "$nqn:d$n" "$(readlink -f "/dev/hb$n")" rdma 10.9.0.1
done
ok "a volume over RDMA" weftctl create v "rdma://10.9.0.1/$nqn:d0" "rdma://10.9.0.1/$nqn:d1" \
	--chunk 64K --force --host-address 10.9.1.1
before=$(knob 1 bytes_bar)
ok "buffers in a disk's CMB" in_memory /dev/weft/v "$cmb"
ok "buffers in the BAR" in_memory /dev/weft/v "$bar"
ok "in long pieces" in_memory /dev/weft/v "$bar" --bs=1m --iodepth=4
ok "which the adapter read and wrote itself" test $(($(knob 1 bytes_bar) - before)) -gt 30000000
ok "buffers in the host's memory beside" verify /dev/weft/v size=8m

# --- A dma-buf of vfio-pci, and one of the same BAR by weft_p2p
by_route "a dma-buf in the half without pages" "0 direct " verify "bar=$bar" --size=8388608
echo "$bar" >/sys/bus/pci/drivers/weft_p2p/unbind
modprobe vfio
noiommu=/sys/module/vfio/parameters/enable_unsafe_noiommu_mode
if [ -e $noiommu ]; then
	echo 1 >$noiommu
	modprobe vfio-pci
	bind vfio-pci "$bar"
	by_route "a dma-buf of vfio-pci" "0 direct " verify "vfio=$bar" --size=8388608
	by_route "registered for good" "0 direct " verify "vfio=$bar" --size=8388608 --persistent
	ok "which revokes it: EFAULT" weft-memtest v load "vfio=$bar" --depth=64 --largest=65536 \
		--revoke=1000 --seconds="$(slow 3)"
	echo "$bar" >/sys/bus/pci/drivers/vfio-pci/unbind
else
	skip "a dma-buf of vfio-pci" "this kernel has vfio with an IOMMU alone, whose group would be all of the switch"
fi
ok "stopped at last" weftctl stop v
ok "disconnected" weftctl disconnect --all
for n in 0 1; do nvmet_unserve "$nqn:d$n"; remove_null "hb$n"; done
ok "the adapters unload, so nothing holds them" rmmod weft_softhca
no_softhca
ok_unload
done_testing
