# SPDX-License-Identifier: GPL-2.0-only
"""What hardware a guest has beside its disk: a name, and the QEMU arguments and kernel parameters for it. User Mode Linux can
have its disks alone."""
import dataclasses
from pathlib import Path

from . import LabError


@dataclasses.dataclass
class Topology:
    machine: list = dataclasses.field(default_factory=list)  # properties of -machine
    memory: str = ""                                         # added to -m
    smp: str = ""                                            # added to -smp
    args: list = dataclasses.field(default_factory=list)
    cmdline: list = dataclasses.field(default_factory=list)
    disks: dict = dataclasses.field(default_factory=dict)    # of User Mode Linux: serial number to file


def _file(work, name, size=256 << 20):
    path = Path(work) / f"{name}.raw"
    with open(path, "wb") as image:
        image.truncate(size)
    return path


def _nvme(work, name, bus, extra=""):
    return ["-drive", f"file={_file(work, name)},if=none,id={name},format=raw,cache=unsafe,discard=unmap",
            "-device", f"nvme,drive={name},serial={name},bus={bus}{extra}"]


def _switch(ports):
    """A PCIe switch below a root port of its own, with buses down0, down1, ..."""
    args = ["-device", "pcie-root-port,id=rp0,chassis=1,slot=1", "-device", "x3130-upstream,id=up0,bus=rp0"]
    for i in range(ports):
        args += ["-device", f"xio3130-downstream,id=down{i},bus=up0,chassis={i + 10},slot={i + 10}"]
    return args


def plain(work):
    """Nothing more."""
    return Topology()


def nvme(work):
    """Four local NVMe disks (one with 4 KiB blocks, one with a CMB), and two NVDIMMs."""
    topo = Topology(machine=["nvdimm=on"], memory=",slots=4,maxmem=16G")
    for i in range(4):
        topo.args += ["-device", f"pcie-root-port,id=rp{i},chassis={i + 1},slot={i + 1}"]
    topo.args += _nvme(work, "nvme0", "rp0")
    topo.args += _nvme(work, "nvme1", "rp1")
    topo.args += _nvme(work, "nvme2", "rp2", extra=",cmb_size_mb=64")
    topo.args += _nvme(work, "nvme3", "rp3", extra=",logical_block_size=4096,physical_block_size=4096")
    for i in range(2):
        path = Path(work) / f"nvdimm{i}.raw"
        with open(path, "wb") as image:
            image.truncate(256 << 20)
        topo.args += ["-object", f"memory-backend-file,id=mem{i},share=on,mem-path={path},size=256M",
                      "-device", f"nvdimm,id=nvdimm{i},memdev=mem{i}"]
    return topo


def numa(work):
    """Two NUMA nodes with a processor and a network interface each, the first with all memory; for 2 processors."""
    topo = Topology(smp=",sockets=2")
    topo.args += ["-object", "memory-backend-ram,id=ram,size={memory}", "-numa", "node,nodeid=0,cpus=0,memdev=ram",
                  "-numa", "node,nodeid=1,cpus=1", "-numa", "dist,src=0,dst=1,val=20"]
    for node in range(2):
        topo.args += ["-device", f"pxb-pcie,id=px{node},bus=pcie.0,bus_nr={0x40 + 0x20 * node},numa_node={node}",
                      "-device", f"pcie-root-port,id=rp{node},bus=px{node},chassis={node + 30},slot={node + 30}",
                      "-netdev", f"hubport,id=rail{node},hubid={node}",
                      "-device", f"virtio-net-pci,bus=rp{node},netdev=rail{node},mac=52:54:01:00:00:{node + 1:02x}"]
    return topo


def p2p(work):
    """One PCIe switch with two NVMe disks (one with a CMB) and an ivshmem device, and one NVMe disk elsewhere."""
    topo = Topology()
    topo.args += _switch(3)
    topo.args += ["-device", "pcie-root-port,id=rp1,chassis=2,slot=2"]
    topo.args += _nvme(work, "nvme0", "down0", extra=",cmb_size_mb=64")
    topo.args += _nvme(work, "nvme1", "down1")
    topo.args += ["-object", f"memory-backend-file,id=shm,share=on,mem-path={Path(work) / 'ivshmem'},size=64M",
                  "-device", "ivshmem-plain,memdev=shm,bus=down2"]
    topo.args += _nvme(work, "nvme2", "rp1")
    return topo


def hca(work):
    """One PCIe switch with two functions that the test adapter takes for its own, ivshmem memory, and two NVMe disks, one
    with a CMB; and more such memory, and an NVMe disk, elsewhere."""
    topo = Topology()
    topo.args += _switch(5)
    for i in range(2):
        topo.args += ["-device", f"e1000e,bus=down{i},mac=52:54:01:01:00:{i + 1:02x}"]
    topo.args += ["-object", "memory-backend-ram,id=peer,size=64M,share=on",
                  "-device", "ivshmem-plain,memdev=peer,bus=down2"]
    topo.args += _nvme(work, "nvme0", "down3", extra=",cmb_size_mb=64")
    topo.args += _nvme(work, "nvme1", "down4")
    topo.args += ["-device", "pcie-root-port,id=rp1,chassis=2,slot=2",
                  "-object", "memory-backend-ram,id=far,size=16M,share=on", "-device", "ivshmem-plain,memdev=far,bus=rp1",
                  "-device", "pcie-root-port,id=rp2,chassis=3,slot=3"]
    topo.args += _nvme(work, "nvme2", "rp2")
    return topo


def hca_rails(work):
    """As hca, and a third such function behind a second switch, below the first."""
    topo = hca(work)
    topo.args += ["-device", "xio3130-downstream,id=down5,bus=up0,chassis=15,slot=15",
                  "-device", "x3130-upstream,id=up1,bus=down5",
                  "-device", "xio3130-downstream,id=down6,bus=up1,chassis=16,slot=16",
                  "-device", "e1000e,bus=down6,mac=52:54:01:01:00:03"]
    return topo


def _behind_iommu(topo):
    topo.machine += ["kernel-irqchip=split"]
    topo.args = ["-device", "intel-iommu,intremap=on", *topo.args]
    topo.cmdline += ["intel_iommu=on"]
    return topo


def iommu(work):
    """As p2p, behind an emulated Intel IOMMU."""
    return _behind_iommu(p2p(work))


def hca_iommu(work):
    """As hca, likewise."""
    return _behind_iommu(hca(work))


def uml_nvme(work):
    """What User Mode Linux has in place of nvme: three disks."""
    return Topology(disks={name: _file(work, name) for name in ("nvme0", "nvme1", "nvme2")})


TOPOLOGIES = {f.__name__.replace("_", "-"): f for f in (plain, nvme, numa, p2p, hca, hca_rails, iommu, hca_iommu)}


UML_TOPOLOGIES = {"plain": plain, "nvme": uml_nvme}


def get(name, work, uml=False):
    if name not in TOPOLOGIES:
        raise LabError(f"no topology is called {name}; there are {', '.join(TOPOLOGIES)}")
    if uml and name not in UML_TOPOLOGIES:
        raise LabError(f"User Mode Linux has no PCI devices: take another --kernel for the topology {name}")
    return (UML_TOPOLOGIES if uml else TOPOLOGIES)[name](work)
