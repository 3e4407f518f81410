#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The Python package on a volume of NVMe/RDMA members: its own tests, those with Debian's PyTorch and safetensors,
# sealed files, packed datasets, and the volume itself.
# lab-kernel: none
# lab-needs: software:torch
# lab-not: lab debian12 debian13 previous backports
. "${0%/*}/lib.sh"

python_volume_up
ok "the package's own tests" py /weft/tests/python/test_weft.py
# checkpoints.t has the rest: each start of PyTorch takes long here.
ok "those with PyTorch and safetensors" py /weft/tests/python/test_torch.py Tensors Sealed Safetensors \
	Checkpoints.test_one_process

if [ -n "${LAB_LONG:-}" ]; then
	# Each rank is a process that starts PyTorch.
	for test in async_of_two_ranks other_numbers_of_ranks killed_ranks; do
		ok "checkpoints on the volume: ${test//_/ }" \
			py /weft/tests/python/test_torch.py "Checkpoints.test_$test"
	done
	ok "a restart of packed samples on the volume" \
		py /weft/tests/python/test_torch.py Packed.test_a_restart_at_a_step
fi

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

# --- Packed datasets
ok "the tests of packed datasets, of which others run on the host" py /weft/tests/python/test_pack.py RoundTrip
mkdir -p /mnt/v/tree
for n in $(seq 200); do head -c $((n * 100)) /dev/urandom >"/mnt/v/tree/$n.bin"; done
pack() { py /weft/userspace/python/weft-pack "$@"; }
is "a dataset is bound to the volume and sealed" "$(pack pack /mnt/v/tree /mnt/v/tree.weft | sed 's/.*, on/on/')" \
	"on volume v, sealed"
info() { pack info --json /mnt/v/tree.weft | py -c "import json, sys; print(json.load(sys.stdin)['$1'])"; }
is "its UUID is that of the volume" "$(info volume_uuid)" "$(cat '/sys/block/weft!v/weft/uuid')"
is "and its generation" "$(info volume_generation)" "$(cat '/sys/block/weft!v/weft/generation')"
is "it is immutable" "$(lsattr /mnt/v/tree.weft | cut -c5)" i
ok "verified" pack verify /mnt/v/tree.weft
cat >/tmp/packed.py <<'E'
import weft, weft.pack
with weft.open("/mnt/v/tree.weft") as file:
    print(file.reason or "sealed")
with weft.pack.Pack("/mnt/v/tree.weft") as pack:
    for number in weft.pack.Sampler(len(pack), seed=1):
        sample = pack[number]
        with open(f"/mnt/v/tree/{sample['__key__'].decode()}.bin", "rb") as file:
            assert file.read() == sample["bin"]
    print(len(pack))
E
is "it is read without its filesystem" "$(py /tmp/packed.py)" "sealed
200"
ok "unpacked" pack unpack /mnt/v/tree.weft /mnt/v/out
ok "the files are the same" diff -r /mnt/v/tree /mnt/v/out
cp /mnt/v/tree.weft /tmp/copy.weft
refused "a copy on another disk" 1 "is on none here: it is a copy" pack info /tmp/copy.weft
ok "which is read if that is wanted" pack verify --any-volume /tmp/copy.weft
rm /tmp/copy.weft
# A filesystem that is full.
mkdir -p /tmp/full
mount -t tmpfs -o size=2M none /tmp/full
refused "no room" 1 "no room after" pack pack /mnt/v/tree /tmp/full/a.weft --no-seal
ok "with more room" mount -o remount,size=64M /tmp/full
ok "the same command goes on" pack pack /mnt/v/tree /tmp/full/a.weft --no-seal
ok "and the dataset is whole" pack verify /tmp/full/a.weft
umount /tmp/full
# Read-only, as on other nodes.
ok "unmounted" umount /mnt/v
ok "stopped" weftctl stop v
# This host has the targets' disks as well.
disks=$(echo /dev/weft-rdma*n1)
# shellcheck disable=SC2086
ok "assembled read-only" weftctl assemble v $disks --read-only
ok "mounted read-only" mount -o ro,norecovery /dev/weft/v /mnt/v
ok "the dataset is verified there" pack verify /mnt/v/tree.weft
ok "unmounted again" umount /mnt/v
ok "stopped again" weftctl stop v
# shellcheck disable=SC2086
ok "assembled" weftctl assemble v $disks

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
python_volume_down
done_testing
