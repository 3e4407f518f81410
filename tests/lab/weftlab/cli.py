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

from . import LabError, cache, guest, image, kernel, payload, topology

KERNELS = ("debian12", "debian13", "backports", "lab")

# Debian packages that the lab itself needs on this machine.
HOST_PACKAGES = ["qemu-system-x86", "qemu-utils", "mmdebstrap", "busybox-static", "cpio", "xz-utils", "e2fsprogs",
                 "debian-archive-keyring", "python3-yaml", "python3-jsonschema"]


def _machine_options(parser):
    parser.add_argument("--kernel", choices=KERNELS, default="debian13",
                        help="Debian 12's (6.1), 13's (6.12), its backports' (7.2), or the lab's own with KUnit, KASAN "
                        "and lockdep (7.2); default debian13")
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
    parser.add_argument("--append", action="append", default=[], metavar="PARAM", help="a kernel parameter")
    parser.add_argument("--plugin", metavar="PLUGIN", help="a QEMU plugin for the first host, with its arguments")
    parser.add_argument("--timeout", type=int, default=600, metavar="SECONDS", help="kill the guests then (default 600)")


def _parser():
    parser = argparse.ArgumentParser(prog="lab", description="Guests in which this checkout is built and installed.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run a command in a guest",
                           epilog="The checkout is /weft in the guest, and where the command starts. The exit status is "
                           "the command's; 1 when a kernel complained; 124 after the time limit; 125 when a guest died.")
    _machine_options(run)
    run.add_argument("--keep", action="store_true", help="keep the run's folder also on success")
    run.add_argument("command", nargs="+", metavar="COMMAND", help="after --")
    shell = verbs.add_parser("shell", help="a prompt in a guest")
    _machine_options(shell)
    shell.set_defaults(keep=False)
    verbs.add_parser("prepare", help="make what a kernel's guests need, and boot nothing").add_argument(
        "kernels", nargs="+", choices=KERNELS)
    verbs.add_parser("kernel-tools", help="print a folder with the newest kernel's checkpatch and netlink generator")
    verbs.add_parser("topologies", help="what topologies there are")
    verbs.add_parser("packages", help="print the Debian packages that the lab needs on this machine")
    build = verbs.add_parser("kbuild", help="build the modules for a kernel with extra make arguments, and print what "
                             "the compiler says")
    build.add_argument("kernel", choices=KERNELS)
    build.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="of make, after --")
    chroot = verbs.add_parser("chroot", help="run a command in a release's tree, on this machine's kernel, and forget what "
                              "it changed; the checkout is /weft there")
    chroot.add_argument("release", choices=sorted(image.RELEASES))
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
    """A writable view of root filesystems that is forgotten at the end."""
    work = cache.root() / f"{name}.{os.getpid()}"
    try:
        with image.overlay(lowers, work / "upper", work / "ovl", work / "mnt") as tree:
            yield tree
    finally:
        cache.remove(work)


def _kbuild(options):
    base = image.rootfs(image.release_of(options.kernel))
    if options.kernel == "lab":
        built = kernel.build()
        version, lowers = (built / "version").read_text(), [built / "root", base / "root"]
    else:
        version, lowers = image.kernel_version(base, options.kernel), [base / "root"]
    with _scratch(lowers, f"kbuild-{options.kernel}") as tree:
        source = tree / "tmp/weft"
        for name in payload.module_sources():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(payload.ROOT / name, source / name)
        return subprocess.run(["chroot", tree, "make", "-C", f"/lib/modules/{version}/build", "M=/tmp/weft",
                               *options.arguments, "modules"], check=False).returncode


def _chroot(options):
    with _scratch([image.rootfs(options.release) / "root"], f"chroot-{options.release}") as tree:
        subprocess.run(["mount", "--bind", "-o", "ro", payload.ROOT, tree / "weft"], check=True)
        try:
            return subprocess.run(["chroot", tree, *options.command], check=False).returncode
        finally:
            subprocess.run(["umount", "--lazy", tree / "weft"], check=True)


def main():
    options = _parser().parse_args()
    # Ends as with Ctrl-C: guests are killed, what was mounted is unmounted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if options.verb == "topologies":
            for name, function in topology.TOPOLOGIES.items():
                print(f"{name:8} {function.__doc__}")
            return 0
        if options.verb == "packages":
            print(" ".join(HOST_PACKAGES))
            return 0
        if os.geteuid():
            raise LabError("the lab makes root filesystems and mounts overlays: run it as root")
        missing = [tool for tool in ("qemu-system-x86_64", "qemu-img", "mmdebstrap", "cpio", "mke2fs") if not shutil.which(tool)]
        if missing:
            raise LabError(f"{', '.join(missing)} not found; apt-get install {' '.join(HOST_PACKAGES)}")
        if options.verb == "kernel-tools":
            print(kernel.tools())
            return 0
        if options.verb == "prepare":
            for name in options.kernels:
                guest.Software(name)
            return 0
        if options.verb == "kbuild":
            return _kbuild(options)
        if options.verb == "chroot":
            return _chroot(options)
        return _run(options)
    except LabError as problem:
        print(f"lab: {problem}", file=sys.stderr)
        return 125
    except KeyboardInterrupt:
        return 130
