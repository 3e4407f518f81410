# SPDX-License-Identifier: GPL-2.0-only
"""What the benchmarks' guests share: memory disks, what stripes over them, and fio's time as instructions per I/O.

Under icount the guest's clock counts instructions, one a nanosecond, and with memory for a disk the processor never
waits: a job's time divided by its I/Os is instructions per I/O.
"""
import contextlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

CHUNK_KIB = 128
MEMBER_MIB = 256
SPAN_MIB = 128  # of the volume that jobs touch; written before it is read


def run(*argv):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, argv))}: {done.stderr or done.stdout}")
    return done.stdout


NULLB = Path("/sys/kernel/config/nullb")


def make_null(count, **settings):
    """null_blk disks with memory; settings are the attributes of its folder in configfs."""
    for i in range(count):
        (NULLB / f"n{i}").mkdir()
        for key, value in {"memory_backed": 1, "queue_mode": 2, **settings, "power": 1}.items():
            (NULLB / f"n{i}" / key).write_text(str(value))
    return [f"/dev/n{i}" for i in range(count)]


def schedule(disks, scheduler):
    for disk in disks:
        Path(f"/sys/block/{Path(disk).name}/queue/scheduler").write_text(scheduler)


def make_members(count):
    members = make_null(count, size=MEMBER_MIB, discard=1, irqmode=0, cache_size=0)
    schedule(members, "none")
    return members


@contextlib.contextmanager
def raw(members):
    yield members[0]


def weft(*options):
    @contextlib.contextmanager
    def subject(members):
        run("weftctl", "create", "bench", *members, "--chunk", f"{CHUNK_KIB}K", "--force", *options)
        yield "/dev/weft/bench"
        run("weftctl", "stop", "bench")
        run("weftctl", "wipe", *members)
    return subject


def with_qos(subject, *settings):
    """A volume of weft with these settings."""
    @contextlib.contextmanager
    def both(members):
        with subject(members) as device:
            run("weftctl", "qos", "bench", *settings)
            yield device
    return both


def md_raid0(iostats):
    @contextlib.contextmanager
    def subject(members):
        if len(members) == 1:
            yield None  # a raid0 of one is refused
            return
        run("mdadm", "--create", "/dev/md9", "--run", "--level=0", f"--chunk={CHUNK_KIB}", "--metadata=1.2",
            f"--raid-devices={len(members)}", *members)
        Path("/sys/block/md9/queue/iostats").write_text(str(int(iostats)))
        yield "/dev/md9"
        run("mdadm", "--stop", "/dev/md9")
        run("mdadm", "--zero-superblock", *members)
    return subject


@contextlib.contextmanager
def dm_stripe(members):
    chunk = CHUNK_KIB * 2
    sectors = (MEMBER_MIB * 2048 // chunk) * chunk * len(members)
    table = f"0 {sectors} striped {len(members)} {chunk} " + " ".join(f"{m} 0" for m in members)
    run("dmsetup", "create", "bench", "--table", table)
    run("dmsetup", "mknodes")  # no udev runs here
    yield "/dev/mapper/bench"
    run("dmsetup", "remove", "bench")


MARK = Path("/share/mark")  # of the lab's profiler; there where the bench put it
windows = 0


@contextlib.contextmanager
def profiled():
    """One window of the profiler; gives its number, or None where there is no profiler."""
    global windows
    if not MARK.exists():
        yield None
        return
    run(MARK, "start")
    yield windows
    run(MARK, "stop")
    windows += 1


def fio_job(*options, program="fio"):
    """What fio reports of a job with these options."""
    out = run(program, "--name=job", *options, "--randrepeat=1", "--norandommap", "--output-format=json")
    return json.loads(out[out.index("{"):])["jobs"][0]


def measure(device, rw, block, depth, amount):
    """A row's figures; amount is what is moved, as fio takes it."""
    if not stat.S_ISBLK(os.stat(device).st_mode):
        sys.exit(f"{device} is not a block device")
    with profiled() as window:
        job = fio_job(f"--filename={device}", "--direct=1", "--ioengine=io_uring", f"--rw={rw}", f"--bs={block}",
                      f"--iodepth={depth}", f"--size={SPAN_MIB}m", f"--io_size={amount}")
    side = job["write" if "write" in rw else "read"]
    seconds = max(side["runtime"], 1) / 1e3
    return {"window": window, "ios": side["total_ios"], "iops": side["total_ios"] / seconds,
            "mb_s": side["io_bytes"] / 1e6 / seconds, "insn_per_io": seconds * 1e9 / side["total_ios"]}


def fill(device):
    """Memory for the members is allocated at the first write, which is nobody's cost."""
    run("fio", "--name=fill", f"--filename={device}", "--direct=1", "--rw=write", "--bs=1m", f"--size={SPAN_MIB}m")
