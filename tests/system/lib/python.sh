# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Volume v of two NVMe/RDMA members with XFS at /mnt/v, and Python with PyTorch on it.

python_nqn=nqn.2014-08.org.example

python_volume_up() {
	load_weft 500
	rails_up
	local n
	for n in 0 1; do
		make_null "rb$n" 512
		rails_serve "$python_nqn:d$n" "/dev/rb$n"
	done
	ok "a volume" weftctl create v "$(rails_uri $python_nqn:d0 0)" "$(rails_uri $python_nqn:d1 0)" \
		--chunk 64K --force
	ok "XFS on it" mkfs.xfs -q -f /dev/weft/v
	mkdir -p /mnt/v
	ok "it is mounted" mount /dev/weft/v /mnt/v
	ip link set lo up
}

# Its filesystem is unmounted before.
python_volume_down() {
	ok "stopped" weftctl stop v
	ok "disconnected" weftctl disconnect --all
	rails_unserve "$python_nqn:d0" "$python_nqn:d1"
	local n
	for n in 0 1; do remove_null "rb$n"; done
	ok_unload
}

# py ARGUMENT...: Python with PyTorch, which is too large for a copy in the guest, on the volume.
py() {
	local torch libraries
	torch=$(software torch)
	libraries=$torch/usr/lib/x86_64-linux-gnu
	(
		cd /mnt/v || exit
		export PYTHONPATH="$torch/usr/lib/python3/dist-packages:/usr/lib/python3/dist-packages"
		export LD_LIBRARY_PATH="$libraries:$libraries/blas:$libraries/lapack:$torch/usr/lib"
		OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo FOLDER=/mnt/v timeout "$(slow 1200)" python3 -B -W ignore "$@"
	)
}
