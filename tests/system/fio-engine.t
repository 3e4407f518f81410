#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# libweft's engine for fio: the jobs by it, on ordinary devices and files, on a
# volume of local members and one over soft-RoCE, and a sealed file.
# lab-kernel: none
# lab-not: lab debian12 debian13 previous backports
. "${0%/*}/lib.sh"

engine=/usr/local/lib/libweft-fio.so
# Debian's fio, where the engine was built for its version.
fio=/usr/bin/fio
[ "$($fio --version)" = "$(fio --version)" ] || fio=$(command -v fio)
memories=host
{ [ -c /dev/udmabuf ] || modprobe -q udmabuf; } && memories="host udmabuf"

is "it shows its options, as docs/library.md says" "$(cd ${engine%/*} && PATH=${fio%/*}:$PATH \
	sh -ec "$(commands docs/library.md "^## fio$" 'enghelp')" | grep -c '^weft_memory ')" 1

# job NAME DEVICE MEMORY [LINE...]: one of the jobs, smaller, with more lines.
job() {
	local name=$1 device=$2 memory=$3 text
	shift 3
	text=$(sed 's/^size=.*/size=24m/; s/^offset_increment=.*/offset_increment=24m/' "/weft/fio-jobs/$name.fio")
	printf '%s\n' "$text" "$@" >/tmp/job.fio
	WEFT_DEV=$device WEFT_FIO_ENGINE=$engine WEFT_MEMORY=$memory "$fio" /tmp/job.fio >/tmp/job.log 2>&1
	local status=$?
	grep "^weft: " /tmp/job.log | indented
	return $status
}

# job_fails SENTENCE WORDS NAME...: that job does, and says these words.
job_fails() {
	local sentence=$1 words=$2
	shift 2
	if job "$@"; then result 1 "$sentence: it does not fail"; else ok "$sentence" says "$words"; fi
}

# says WORDS: the last job did.
says() { grep -qF -- "$1" /tmp/job.log || { cat /tmp/job.log; return 1; }; }

load_weft
for n in a b; do make_null "$n" 160; done
for memory in $memories; do
	# A dma-buf is nothing that an ordinary device takes.
	allow='' route="host memory, direct"
	[ "$memory" = host ] || { allow=weft_allow=staged; route="a udmabuf, staged"; }
	ok "a block device, verified, $memory" job gpu-verify /dev/a "$memory" $allow
	ok "it says by which route" says "$route"
done
head -c 8M /dev/urandom >/tmp/file
ok "a file" job gpu-feed /tmp/file host size=8m
new_file() {
	cd /tmp && "$fio" --name=new --filename=new --size=8m --rw=randwrite --bs=64k --fallocate=none \
		--verify=crc32c --verify_backlog=4 --verify_fatal=1 --verify_state_save=0 --ioengine="external:$engine"
}
ok "one that the job makes, read again while it grows" new_file
ok "and not the volume of that name" test -s /tmp/new
job_fails "synchronous writes" "sync= is not supported" gpu-verify /dev/a host sync=1
job_fails "an unknown route" "weft_allow takes" gpu-feed /dev/a host weft_allow=staged,fast
job_fails "a device that is not there" "allow_file_create=0" gpu-feed /dev/nothing host
job_fails "odd blocks" "a multiple of 512 bytes" gpu-feed /dev/a host bssplit=1000/100
job_fails "a GPU where there is none" "there is no libcuda.so.1 here" gpu-verify /dev/a cuda
job_fails "trim" "trim is not supported" gpu-feed /dev/a host rw=randtrim bssplit=4k/100

ok "a volume" weftctl create v /dev/a /dev/b --chunk 64K --force
ok "verified, by registered pages" job gpu-verify /dev/weft/v host
ok "directly" says "/dev/weft/v: host memory, direct"
ok "random reads" job gpu-feed /dev/weft/v host
ok "large ones" job gpu-restore /dev/weft/v host
ok "with flushes" job gpu-verify /dev/weft/v host fsync=8
if [ "$memories" != host ]; then
	job_fails "a dma-buf is not copied unless that is allowed" "no direct route" gpu-verify /dev/weft/v udmabuf
	ok "by the kernel" job gpu-verify /dev/weft/v udmabuf weft_allow=bounce
	ok "which it calls by its name" says "a udmabuf, bounce"
	ok "by libweft" job gpu-verify /dev/weft/v udmabuf weft_allow=staged
	ok "which it calls by its name" says "a udmabuf, staged"
fi
mkfs.ext4 -q -F /dev/weft/v
mkdir -p /mnt/f
ok "mounted" mount /dev/weft/v /mnt/f
head -c 8M /dev/urandom >/mnt/f/shard
sync /mnt/f/shard
job_fails "a file that is not sealed" "weft: /mnt/f/shard" gpu-feed /mnt/f/shard host weft_volume=v size=8m
chattr +i /mnt/f/shard
ok "a sealed one, past its filesystem" job gpu-feed /mnt/f/shard host weft_volume=v size=8m
ok "says so" says "/mnt/f/shard: host memory, direct"
job_fails "is not written" "can only be read" gpu-feed /mnt/f/shard host weft_volume=v size=8m rw=randwrite
chattr -i /mnt/f/shard
ok "unmounted" umount /mnt/f
mkdir -p /tmp/fio
ln -sf "$fio" /tmp/fio/fio
ok "the set of jobs by run, with the engine" env PATH="/tmp/fio:$PATH" /weft/fio-jobs/run /dev/weft/v \
	--engine "$engine" --memory host --destroy --size 16m --output /tmp/results \
	--jobs gpu-feed,gpu-restore,gpu-verify
ok "has the routes" grep -q '"weft: /dev/.*: host memory, direct"' /tmp/results/run.json
ok "stopped" weftctl stop v
weftctl wipe /dev/a /dev/b >/dev/null

nqn=nqn.2014-08.org.example
soft_roce 10.9.0.1
for n in a b; do nvmet_serve "$nqn:$n" "$(readlink -f /dev/$n)" rdma 10.9.0.1; done
# The writes may keep a slow guest's heartbeats from their target for a while.
heartbeat_every 1000
ok "a volume over soft-RoCE" weftctl create v "rdma://10.9.0.1/$nqn:a" "rdma://10.9.0.1/$nqn:b" --chunk 64K --force
for mr in per-io persistent; do
	ok "verified, $mr" job gpu-verify /dev/weft/v host weft_mr=$mr
	ok "random reads by four jobs, $mr" job gpu-feed /dev/weft/v host weft_mr=$mr
done
if [ "$memories" != host ]; then
	job_fails "soft RDMA never is direct" "weft: /dev/weft/v" gpu-verify /dev/weft/v udmabuf
	ok "a dma-buf, verified" job gpu-verify /dev/weft/v udmabuf weft_allow=vmap
	ok "which it calls by its name" says "a udmabuf, vmap"
fi
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
for n in a b; do nvmet_unserve "$nqn:$n"; remove_null "$n"; done
ok_unload
no_soft_roce
done_testing
