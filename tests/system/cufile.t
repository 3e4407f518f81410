#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# libweft-cufile: fio's own engine for cuFile on a volume, on files and on a
# sealed file, with GPU memory of the stand-in; what is staged, and what strict
# use refuses. The direct route to GPU memory is in mem-rails.t.
# lab-kernel: uml
. "${0%/*}/lib.sh"

standin=/usr/local/lib/weft-standin
engine=$standin/libcufile-fio.so
log=/tmp/cufile.log
# job OPTION...: fio by cuFile, with weft's library; what it says goes to the log.
job() {
	rm -f $log
	LD_LIBRARY_PATH=$standin WEFT_CUFILE_LOG=$log weft-cufile fio --ioengine=external:$engine --thread --name=job \
		--cuda_io=cufile --gpu_dev_ids=0 --direct=1 --verify_state_save=0 "$@" >/tmp/job.log 2>&1
	local status=$?
	[ $status = 0 ] || indented </tmp/job.log
	return $status
}
staged() { sed -n 's/^weft-cufile: direct .* staged \([0-9]*\) bytes.*/\1/p' $log | tail -n 1; }
direct() { sed -n 's/^weft-cufile: direct \([0-9]*\) bytes.*/\1/p' $log | tail -n 1; }

load_weft
for n in a b; do make_null "$n" 160; done
make_null plain 64
ok "a volume" weftctl create v /dev/a /dev/b --chunk 64K --force
verify="--verify=crc32c --verify_fatal=1 --rw=randwrite --bs=4k-256k --bsrange=4k-256k --size=16m --iodepth=1"
# shellcheck disable=SC2086
ok "fio's engine verifies the volume" job --filename=/dev/weft/v $verify
ok "its bytes are counted as staged" test "$(staged)" -ge $((2 << 24))
is "and none as direct" "$(direct)" 0
ok "with the reason" grep -q '/dev/weft/v: staged: .*dma-buf' $log
# shellcheck disable=SC2086
ok "an ordinary block device" job --filename=/dev/plain $verify

mkfs.xfs -q -f /dev/weft/v
mkdir -p /mnt/v
mount /dev/weft/v /mnt/v
# shellcheck disable=SC2086
ok "a new file on XFS, which grows" job --filename=/mnt/v/file --fallocate=none $verify
ok "it says why it is staged" grep -q '/mnt/v/file: staged' $log
ok "bytes that are in no whole blocks" job --filename=/mnt/v/odd --fallocate=none --verify=crc32c --verify_fatal=1 \
	--rw=randwrite --bs=1000 --size=2000000 --direct=0
chattr +i /mnt/v/file
ok "the sealed file is read" job --filename=/mnt/v/file --rw=read --bs=64k --size=16m --readonly
WEFT_CUFILE_STRICT=1 job --filename=/mnt/v/odd --rw=read --bs=4k --size=64k --readonly >/dev/null
result $(($? == 0)) "strict use needs a direct route"
ok "and says so by cuFile's error" grep -q 'the file does not support this I/O' /tmp/job.log
chattr -i /mnt/v/file

# The program that it runs keeps its status.
weft-cufile sh -c 'exit 5'
is "weft-cufile ends with the program's status" $? 5
is "and shows how it is called" "$(weft-cufile --help | head -n 1)" "usage: weft-cufile PROGRAM [ARGUMENT]..."
# The program of docs/library.md loads the library by its name. NVIDIA's has no such function.
cd /tmp || exit
printf 'import ctypes\nctypes.CDLL("libcufile.so.0").weft_cufile_count\n' >load_model.py
run_each "document" < <(commands docs/library.md "^## Programs that use cuFile$")
cd /weft || exit
umount /mnt/v
ok "stopped" weftctl stop v
for n in a b plain; do remove_null "$n"; done
ok_unload
done_testing
