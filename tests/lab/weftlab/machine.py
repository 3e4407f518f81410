# SPDX-License-Identifier: GPL-2.0-only
"""The two kinds of machine a guest can be: a PC that QEMU emulates, and User Mode Linux. Each makes a command line."""
import contextlib
import shutil
import socket
from pathlib import Path

from . import LabError, cache, payload

GDB_PORT = 1234

# What a link of User Mode Linux may hold for one host; more is lost.
LINK_BYTES = 4 << 20
SO_RCVBUFFORCE = 33  # include/uapi/asm-generic/socket.h
LINK_MTU = 9000


def mac(guest, number):
    """Of a host's end of a link. The first process makes its address of the two numbers."""
    return f"52:54:00:00:{number:02x}:{guest.index + 1:02x}"


def qemu_link(folder, number, hosts):
    """A link between two hosts that QEMU emulates: for each, the paths of its own socket and of the other one."""
    ours, theirs = (folder / f"link{number}.{host}" for host in hosts)
    return (ours, theirs), (theirs, ours)


def uml_link(folder, number, hosts):
    """A link between two hosts under User Mode Linux: for each, a socket that the lab keeps open while hosts come and go. As in
    a switch, a packet for which the other end has no room is lost."""
    ends = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in hosts]
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, LINK_BYTES)
        end.bind(("127.0.0.1", 0))
    for end, other in zip(ends, reversed(ends)):
        end.connect(other.getsockname())
    return ends


def unplug(guest):
    """Before it boots: drop what a link of User Mode Linux holds for a host that was not there."""
    for end in guest.links.values() if guest.software.facts.uml else ():
        with contextlib.suppress(BlockingIOError):
            while True:
                end.recv(1, socket.MSG_DONTWAIT)


def shares(guest):
    """A folder of this machine that a guest can see: its name, the folder, and whether the guest may write."""
    found = [("ctl", guest.ctl, True), ("cache", cache.root(), False), ("src", payload.ROOT, False)]
    if guest.options.share and guest.index == 0:
        found.append(("share", Path(guest.options.share).resolve(), True))
    return found


def qemu(guest, terminal):
    """A PC with two serial lines: the kernel's log, and the command's output."""
    options, topo = guest.options, guest.topology
    icount = options.icount and guest.index == 0
    # The first process starts the other processors: the emulation hangs if one runs an instruction that another patches.
    append = ["maxcpus=1", "console=ttyS0", "loglevel=7", "panic=-1", "oops=panic", "net.ifnames=0", "random.trust_cpu=on",
              "rng_core.default_quality=0", "no_hash_pointers", "mitigations=off", "lab_ctl=ctl", *topo.cmdline, *options.append]
    argv = [str(guest.software.emulator / "usr/bin/qemu-system-x86_64"),
            # Its firmware; otherwise it looks for that in this machine's /usr/share as well.
            "-L", str(guest.software.emulator / "usr/share/qemu"), "-L", str(guest.software.emulator / "usr/share/seabios"),
            "-nodefaults", "-no-user-config", "-display", "none",
            "-uuid", f"77656674-6c61-6200-0000-{guest.index + 1:012x}",
            "-no-reboot", "-machine", ",".join(["q35", *topo.machine]), "-cpu", "max",
            "-accel", "tcg,thread=single" if icount else "tcg,thread=multi",
            "-smp", ("1" if icount else str(options.smp)) + topo.smp, "-m", options.memory + topo.memory,
            "-kernel", str(guest.software.kernel), "-initrd", str(guest.software.initrd),
            "-serial", f"file:{guest.console}",
            "-chardev", f"stdio,id=out,signal={'on' if terminal else 'off'}", "-serial", "chardev:out",
            "-qmp", f"unix:{guest.folder}/qmp,server=on,wait=off",
            "-device", "virtio-rng-pci,bus=pcie.0",
            # After a power cut, all flushed data is on the disk, with the tables of the image.
            # User Mode Linux would lock the base image in its own way. The image is never written.
            "-drive", f"file={guest.disk},if=none,id=disk,format=qcow2,backing.file.locking=off,"
                      f"cache={'writeback' if options.hosts > 1 else 'unsafe'}",
            "-device", "virtio-blk-pci,drive=disk,bus=pcie.0"]
    if icount:
        argv += ["-icount", "shift=0,sleep=off"]
    if options.plugin and guest.index == 0:
        argv += ["-plugin", options.plugin]
    if options.gdb and guest.index == 0:
        argv += ["-gdb", f"tcp:127.0.0.1:{options.gdb}", "-S"]
        append.append("nokaslr")
    for tag, path, writable in shares(guest):
        argv += ["-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap{'' if writable else ',readonly=on'}",
                 "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag},bus=pcie.0"]
    for number, (ours, theirs) in guest.links.items():
        # Connectionless, so that either side can be powered off and on. Without mergeable buffers and with an MTU above
        # 1500 the guest's driver uses no page pool. Soft-RoCE frees packets under its lock with interrupts off, and a
        # page pool lets softirqs run there: Linux 7.2 and 7.3 then hung in rxe_post_recv().
        argv += ["-netdev", f"dgram,id=net{number},local.type=unix,local.path={ours},remote.type=unix,remote.path={theirs}",
                 "-device", f"virtio-net-pci,netdev=net{number},mac={mac(guest, number)},bus=pcie.0,mrg_rxbuf=off,"
                            f"host_mtu={LINK_MTU}"]
    return [*argv, "-append", " ".join(append), *[arg.replace("{memory}", options.memory) for arg in topo.args]]


def uml(guest, terminal):
    """A process of this machine: the kernel's log is on standard error, the command's output on standard output."""
    options = guest.options
    if options.icount or options.plugin:
        raise LabError("User Mode Linux has no clock that counts instructions: take another --kernel for --icount and --plugin")
    argv = [str(guest.software.kernel), f"mem={options.memory}", "seccomp=on", "noreboot",
            f"ubd0={guest.folder}/disk.cow,{guest.software.disk}",
            *[f"ubd{number}={file}" for number, file in enumerate(guest.topology.disks.values(), 1)],
            *[f"vec{unit}:transport=fd,fd={end.fileno()},mac={mac(guest, number)},mtu={LINK_MTU}"
              for unit, (number, end) in enumerate(guest.links.items())],
            f"initrd={guest.software.initrd}", "root=/dev/ram0",
            "con=null", "con0=null,fd:2", "ssl=null", f"ssl1={'fd:0' if terminal else 'null'},fd:1",
            "loglevel=7", "oops=panic", "no_hash_pointers", f"lab_ctl={guest.ctl}", *options.append]
    if options.gdb and not shutil.which("gdbserver"):
        raise LabError("gdbserver not found; apt-get install gdbserver")
    return ["gdbserver", "--once", f"127.0.0.1:{options.gdb}", *argv] if options.gdb else argv


def mounts(guest):
    """Shell commands of the guest's first process that mount what it shares."""
    lines = []
    for tag, path, writable in shares(guest):
        place = {"ctl": None, "cache": "/lab/cache", "src": "/weft", "share": "/share"}[tag]
        if place is None:
            continue
        mode = "rw" if writable else "ro"
        if guest.software.facts.uml:
            lines.append(f"mount -t hostfs -o {mode},hostfs={path} none {place}")
        else:
            caching = "loose" if tag == "cache" else "none"
            lines.append(f"mount -t 9p -o {mode},trans=virtio,version=9p2000.L,msize=262144,cache={caching} {tag} {place}")
    return lines
