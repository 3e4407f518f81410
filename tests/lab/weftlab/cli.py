# SPDX-License-Identifier: GPL-2.0-only
"""The lab's command line."""
import argparse
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys

from . import Absent, LabError, cache, guest, image, kernel, machine, names, payload, topology

# Debian packages that the lab itself needs on this machine.
HOST_PACKAGES = ["qemu-utils", "mmdebstrap", "busybox-static", "cpio", "xz-utils", "e2fsprogs",
                 "debian-archive-keyring", "python3-yaml", "python3-jsonschema"]


# The exit status if Debian does not have a file any more.
ABSENT = 77


def _machine_options(parser):
    parser.add_argument("--kernel", choices=names.KERNELS, default="debian13",
                        help="; ".join(f"{name}: {facts.what}" for name, facts in names.KERNELS.items()) + "; default debian13")
    parser.add_argument("--smp", type=int, default=2, help="processors (default 2)")
    parser.add_argument("--memory", default="2G", help="of each host, as QEMU takes it (default 2G)")
    parser.add_argument("--icount", action="store_true",
                        help="one processor whose clock counts instructions, 1 ns each: times are the same in every run")
    parser.add_argument("--topology", choices=sorted(topology.TOPOLOGIES), default="plain",
                        help="devices of the first host; 'lab topologies' says what they are")
    parser.add_argument("--peer-topology", choices=sorted(topology.TOPOLOGIES), default="plain",
                        help="devices of the other hosts; what is written to their disks survives their power")
    parser.add_argument("--hosts", type=int, choices=(1, 2, 3), default=1,
                        help="host0 has the command and reaches the others by lab-peer; each two share a link 10.77.N.0/24")
    parser.add_argument("--share", metavar="DIR", help="a folder that the first host sees as /share")
    parser.add_argument("--udev", action="store_true", help="start udev, as a node has it")
    parser.add_argument("--systemd", action="store_true", help="boot all hosts by systemd, as nodes are, udev included")
    parser.add_argument("--kmemleak", action="store_true", help="look for leaks at the end (lab kernel)")
    parser.add_argument("--coverage", action="store_true",
                        help="weft's modules count the lines that run, in /sys/kernel/debug/gcov (kernel uml)")
    parser.add_argument("--append", action="append", default=[], metavar="PARAM", help="a kernel parameter")
    parser.add_argument("--gdb", nargs="?", type=int, const=machine.GDB_PORT, metavar="PORT",
                        help="the first host waits for gdb's 'target remote :PORT' before it boots "
                        f"(default {machine.GDB_PORT})")
    parser.add_argument("--plugin", metavar="PLUGIN", help="a QEMU plugin for the first host, with its arguments")
    parser.add_argument("--boot-seconds", type=int, metavar="SECONDS",
                        help="of its own processor time in which a guest reaches its first process; then it is booted again "
                        "(default 60, and 600 for an emulated kernel with checkers)")
    parser.add_argument("--life-seconds", type=int, default=180, metavar="SECONDS",
                        help="kill the guests if one of them could not write to its folder for so long, which it tries every 5 s "
                        "(default 180)")
    parser.add_argument("--timeout", type=int, default=600, metavar="SECONDS", help="kill the guests then (default 600)")


def _parser():
    parser = argparse.ArgumentParser(prog="lab", description="Guests in which this checkout is built and installed.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run a command in a guest",
                           epilog="The checkout is /weft in the guest, and where the command starts. The exit status is "
                           "the command's; 1 when a kernel complained; 124 after the time limit; 125 when a guest died; 126 "
                           "when one stopped.")
    _machine_options(run)
    run.add_argument("--keep", action="store_true", help="keep the run's folder also on success")
    run.add_argument("command", nargs="+", metavar="COMMAND", help="after --")
    shell = verbs.add_parser("shell", help="a prompt in a guest")
    _machine_options(shell)
    shell.set_defaults(keep=False)
    verbs.add_parser("prepare", help="make what a kernel's guests need, and boot nothing").add_argument(
        "kernels", nargs="+", choices=names.KERNELS)
    verbs.add_parser("make", help="make one part of that, and what it needs itself: rootfs:RELEASE, fio:RELEASE, tools:RELEASE, "
                     "packages:RELEASE, qemu, kernel-source, kernel-tools, software:NAME, software:NAME:RELEASE, kernel:KERNEL, "
                     "modules:KERNEL, modules-coverage:KERNEL"
                     ).add_argument("part")
    verbs.add_parser("kernel-tools", help="print a folder with the newest kernel's checkpatch and netlink generator")
    verbs.add_parser("topologies", help="what topologies there are")
    verbs.add_parser("packages", help="print the Debian packages that the lab needs on this machine")
    verbs.add_parser("sparse", help="run sparse over the modules of a kernel, and print what it says").add_argument(
        "kernel", choices=names.KERNELS)
    chroot = verbs.add_parser("chroot", help="run a command in a release's tree, on this machine's kernel, and forget what "
                              "it changed; the checkout is /weft there")
    chroot.add_argument("--with", action="append", default=[], dest="parts", metavar="PART", help="with the files of this part: "
                        "tools:RELEASE, packages:RELEASE, software:NAME:RELEASE; may be given several times")
    chroot.add_argument("release", choices=sorted(names.RELEASES))
    chroot.add_argument("command", nargs="+", metavar="COMMAND", help="after --")
    return parser


def _run(options):
    folder = guest.folder_for(options.kernel)
    lab = guest.Lab(options, folder)
    if options.verb == "shell":
        status = lab.shell()
    else:
        command = options.command[0] if len(options.command) == 1 else shlex.join(options.command)
        status = lab.run(command + "\n")
    if status and not options.keep:
        cache.say(f"logs are kept in {folder}")
    elif not options.keep:
        shutil.rmtree(folder)
    return status


@contextlib.contextmanager
def _scratch(lowers, name):
    """A writable view of root filesystems. Changes are dropped at the end."""
    work = cache.root() / f"{name}.{os.getpid()}"
    try:
        with image.overlay(lowers, work / "upper", work / "ovl", work / "mnt") as tree:
            yield tree
    finally:
        cache.remove(work)


def make(part):
    """Make a part by its name in names.parts()."""
    kind, _, name = part.partition(":")
    makers = {"rootfs": image.rootfs, "fio": payload.fio, "tools": payload.tools, "packages": payload.packages,
              "kernel": kernel.make,
              "modules": payload.modules, "modules-coverage": lambda name: payload.modules(name, coverage=True),
              "kernel-source": lambda _: kernel.source(), "kernel-tools": lambda _: kernel.tools(),
              "qemu": lambda _: image.emulator(), "software": image.software}
    if kind not in makers:
        raise LabError(f"the lab makes no {part}; it makes {', '.join(makers)}")
    return makers[kind](name)


def _chroot(options):
    folders, archives = [], []
    for part in options.parts:
        made = make(part)
        (archives if (made / "payload.tar").exists() else folders).append(made)
    lowers = [*(made / "root" for made in folders), image.rootfs(options.release) / "root"]
    with _scratch(lowers, f"chroot-{options.release}") as tree:
        for made in archives:
            subprocess.run(["tar", "-C", tree, "-xf", made / "payload.tar", "--keep-directory-symlink"], check=True)
        subprocess.run(["mount", "--bind", "-o", "ro", payload.ROOT, tree / "weft"], check=True)
        try:
            return cache.run(["chroot", tree, *options.command])
        finally:
            subprocess.run(["umount", "--lazy", tree / "weft"], check=True)


def main():
    try:
        return _main(_parser().parse_args())
    except Absent as problem:
        print(f"lab: {problem}", file=sys.stderr)
        return ABSENT
    except LabError as problem:
        print(f"lab: {problem}", file=sys.stderr)
        return 125
    except KeyboardInterrupt:
        return 130


def _main(options):
    # SIGTERM ends the lab as Ctrl-C does, which a shell's background jobs ignore: guests are killed, partial builds are dropped.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    if options.verb == "topologies":
        for name, function in topology.TOPOLOGIES.items():
            print(f"{name:8} {function.__doc__}")
        return 0
    if options.verb == "packages":
        print(" ".join(HOST_PACKAGES))
        return 0
    if os.geteuid():
        raise LabError("the lab makes root filesystems and mounts overlays: run it as root")
    missing = [tool for tool in ("qemu-img", "mmdebstrap", "cpio", "mke2fs") if not shutil.which(tool)]
    if missing:
        raise LabError(f"{', '.join(missing)} not found; apt-get install {' '.join(HOST_PACKAGES)}")
    cache.private_mounts()
    if options.verb == "kernel-tools":
        print(kernel.tools())
    elif options.verb == "make":
        print(make(options.part))
    elif options.verb == "prepare":
        for name in options.kernels:
            guest.Software(name)
    else:
        verbs = {"sparse": lambda o: payload.sparse(o.kernel), "chroot": _chroot, "run": _run, "shell": _run}
        return verbs[options.verb](options)
    return 0
