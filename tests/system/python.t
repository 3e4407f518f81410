#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The Python package on a volume of NVMe/RDMA members: its own tests, those with Debian's PyTorch and safetensors,
# sealed files, and the volume itself.
# lab-kernel: none
# lab-needs: software:torch
# lab-not: lab debian12 debian13 previous backports
. "${0%/*}/lib.sh"

load_weft 500
nqn=nqn.2014-08.org.example
rails_up
for n in 0 1; do
	make_null "rb$n" 512
	rails_serve "$nqn:d$n" "/dev/rb$n"
done
ok "a volume" weftctl create v "$(rails_uri $nqn:d0 0)" "$(rails_uri $nqn:d1 0)" --chunk 64K --force
ok "XFS on it" mkfs.xfs -q -f /dev/weft/v
mkdir -p /mnt/v
ok "it is mounted" mount /dev/weft/v /mnt/v

# py ARGUMENT...: Python with PyTorch, which is too large for a copy in the guest, on the volume.
torch=$(software torch)
libraries=$torch/usr/lib/x86_64-linux-gnu
py() {
	(
		cd /mnt/v || exit
		export PYTHONPATH="$torch/usr/lib/python3/dist-packages:/usr/lib/python3/dist-packages"
		export LD_LIBRARY_PATH="$libraries:$libraries/blas:$libraries/lapack:$torch/usr/lib"
		OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo FOLDER=/mnt/v timeout "$(slow 300)" python3 -B -W ignore "$@"
	)
}
ip link set lo up
ok "the package's own tests" py /weft/tests/python/test_weft.py
ok "those with PyTorch and safetensors" py /weft/tests/python/test_torch.py Tensors Samples Safetensors \
	Checkpoints.test_one_process Checkpoints.test_async Checkpoints.test_what_is_none

# --- Sealed files
head -c 8000000 /dev/urandom >/mnt/v/data
chmod 644 /mnt/v/data
sync /mnt/v/data
cat >/tmp/sealed.py <<'E'
import hashlib, sys, torch, weft
with weft.open("/mnt/v/data") as file:
    tensor = torch.empty(file.size, dtype=torch.uint8)
    result = file.read_into(tensor)
    print(result.route, file.reason or "sealed")
    sys.exit(hashlib.sha256(tensor.numpy()).hexdigest() != hashlib.sha256(open("/mnt/v/data", "rb").read()).hexdigest())
E
is "a file is read through its filesystem" "$(py /tmp/sealed.py | sed 's/:.*//')" \
	"staged file data is not sealed"
ok "it is sealed" chattr +i /mnt/v/data
is "and read without it" "$(py /tmp/sealed.py)" "direct sealed"
ok "the data is that of the file" py /tmp/sealed.py
cat >/tmp/user.py <<'E'
import os, weft
os.setuid(65534)
print(weft.open("/mnt/v/data").reason or "sealed")
E
is "by a user who may not open the volume" "$(py /tmp/user.py)" sealed
chattr -i /mnt/v/data
ok "unmounted" umount /mnt/v

# --- The volume itself
cat >/tmp/volume.py <<'E'
import os, weft
data = os.urandom(3 << 20)
with weft.open("v", "r+") as volume:
    print(volume.member_count, volume.chunk_size, volume.write_from(data, 1 << 20).route)
    volume.flush()
    assert bytes(volume.read((1 << 20) + 7, len(data) - 7)) == data[7:]
    buffer = weft.empty(1 << 20)
    with volume.register(buffer, persistent=True) as registered:
        print(volume.read_into(registered, 1 << 20).route, bytes(buffer) == data[:1 << 20])
E
is "is written and read" "$(py /tmp/volume.py)" "2 65536 direct
direct True"
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
rails_unserve "$nqn:d0" "$nqn:d1"
for n in 0 1; do remove_null "rb$n"; done
ok_unload
done_testing
