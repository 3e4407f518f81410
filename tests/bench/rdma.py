# SPDX-License-Identifier: GPL-2.0-only
"""What the benchmarks over NVMe/RDMA share: the target, the fabric, and who is the host."""
import contextlib
import glob
import os
import time
from pathlib import Path

from common import CHUNK_KIB, make_members, run

MEMBERS = 4
ADDRESS = "10.9.0.1"  # of the target in the same guest
SUBJECT_MODULES = ("weft", "weft_rdma", "nvme-rdma", "raid0", "dm_mod")


def load():
    """What is measured; large pages would make the cost of a buffer a matter of luck."""
    Path("/sys/kernel/mm/transparent_hugepage/enabled").write_text("never")
    run("modprobe", "-a", *SUBJECT_MODULES)


def nqn(index):
    return f"nqn.2014-08.org.example:bench{index}"


def soft_roce(interface):
    run("modprobe", "rdma_rxe")
    run("ip", "link", "set", interface, "mtu", "9000", "up")
    run("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", interface)


NVMET = Path("/sys/kernel/config/nvmet")


def listen(address):
    run("modprobe", "-a", "nvmet-rdma")
    port = NVMET / "ports/1"
    port.mkdir()
    for key, value in (("addr_trtype", "rdma"), ("addr_adrfam", "ipv4"), ("addr_traddr", address), ("addr_trsvcid", "4420")):
        (port / key).write_text(value)


def offer(disks):
    """Each disk as a namespace of a subsystem of its own."""
    for index, disk in enumerate(disks):
        subsystem = NVMET / "subsystems" / nqn(index)
        subsystem.mkdir()
        (subsystem / "attr_allow_any_host").write_text("1")
        (subsystem / "namespaces/1").mkdir()
        (subsystem / "namespaces/1/device_path").write_text(disk)
        (subsystem / "namespaces/1/enable").write_text("1")
        (NVMET / "ports/1/subsystems" / nqn(index)).symlink_to(subsystem)


def withdraw(count):
    for index in range(count):
        subsystem = NVMET / "subsystems" / nqn(index)
        (NVMET / "ports/1/subsystems" / nqn(index)).unlink()
        (subsystem / "namespaces/1/enable").write_text("0")
        (subsystem / "namespaces/1").rmdir()
        subsystem.rmdir()


def serve(address):
    run("modprobe", "null_blk", "nr_devices=0")
    listen(address)
    offer(make_members(MEMBERS))


def weft(*options, members=MEMBERS):
    @contextlib.contextmanager
    def subject(address):
        uris = [f"rdma://{address}/{nqn(index)}" for index in range(members)]
        run("weftctl", "create", "bench", *uris, "--chunk", f"{CHUNK_KIB}K", "--force", *options)
        yield "/dev/weft/bench"
        run("weftctl", "stop", "bench")
        run("weftctl", "disconnect", "--all")
    return subject


def stock(stripe, *options, members=MEMBERS):
    """The stock host's disks under something else that stripes; the options are those of nvme connect."""
    @contextlib.contextmanager
    def subject(address):
        disks = []
        for index in range(members):
            run("nvme", "connect", "-t", "rdma", "-a", address, "-s", "4420", "-n", nqn(index), *options)
            for _ in range(100):
                # With nvme_core's multipath, and without.
                places = glob.glob("/sys/class/nvme-subsystem/*/nvme*n1") + glob.glob("/sys/class/nvme/nvme*/nvme?n1")
                found = [f"/dev/{Path(p).name}" for p in places
                         if (Path(p).parent / "subsysnqn").read_text().strip() == nqn(index)]
                if found and os.path.exists(found[0]):
                    break
                time.sleep(0.1)
            disks.append(found[0])
        for disk in disks:
            run("wipefs", "-qa", disk)
        with stripe(disks) as device:
            yield device
        run("nvme", "disconnect-all")
    return subject


def adapter(device):
    """An RDMA device of this guest, called rxe or softhca. Returns its address."""
    run("ip", "link", "add", "dummy0", "type", "dummy")
    run("ip", "address", "add", f"{ADDRESS}/24", "dev", "dummy0")
    if device == "rxe":
        soft_roce("dummy0")
    else:
        run("ip", "link", "set", "dummy0", "up")
        run("modprobe", "weft_softhca", "netdevs=dummy0")
    return ADDRESS


def fabric(device):
    """The target in this guest, over such a device. Returns its address."""
    address = adapter(device)
    serve(address)
    return address
