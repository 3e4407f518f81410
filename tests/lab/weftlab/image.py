# SPDX-License-Identifier: GPL-2.0-only
"""Root filesystems of Debian releases, as folders (to build in) and as disk images (to boot)."""
import contextlib
import lzma
import shutil
import subprocess
import time
from pathlib import Path

from . import LabError, cache

MIRROR = "http://deb.debian.org/debian"

# What a node of that release would have, and what it takes to build weft on it.
PACKAGES = """
linux-image-amd64 linux-headers-amd64 dkms udev kmod iproute2 pciutils procps util-linux busybox-static
fio nvme-cli rdma-core ibverbs-utils xfsprogs e2fsprogs mdadm dmsetup python3 strace
build-essential cmake pkg-config sparse uuid-dev libcli11-dev nlohmann-json3-dev libmnl-dev libblkid-dev libfmt-dev
libexpected-dev libisal-dev liburing-dev libnvme-dev librdmacm-dev libibverbs-dev
flex bison bc libelf-dev libssl-dev xz-utils zstd rsync fdisk psmisc iputils-ping systemd-sysv dbus
openssl jq man-db bash-completion ethtool xxd
debhelper dh-dkms mokutil gnuplot-nox sysstat
""".split()

# The newest kernel that weft is written for, whatever the backports have moved on to.
_NEWEST_KERNEL = (
    "name=$(apt-cache search --names-only \"^linux-image-7[.]2[.][0-9]+[+]deb13-amd64$\" | cut -d\" \" -f1 | sort -V | "
    "tail -n 1); apt-get install -y --no-install-recommends -t $1 $name linux-headers-${name#linux-image-}")

RELEASES = {
    "bookworm": {"kernels": {"debian12": "6.1."}, "backports": False},
    "trixie": {"kernels": {"debian13": "6.12.", "backports": "7.2."}, "backports": True},
}

# Modules a guest needs before it can mount its root and its shared folders.
BOOT_MODULES = ["virtio_pci", "virtio_blk", "ext4", "9pnet_virtio", "9p"]

_INITRAMFS_INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
while read -r module; do /bin/busybox insmod "/modules/$module" || echo "lab: insmod $module failed"; done </modules/order
i=0
while [ ! -b /dev/vda ] && [ $i -lt 100 ]; do /bin/busybox sleep 0.1; i=$((i + 1)); done
/bin/busybox mount -t ext4 -o noatime /dev/vda /root || exec /bin/busybox poweroff -f
/bin/busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none ctl /root/lab/ctl ||
\texec /bin/busybox poweroff -f
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /bin/sh /lab/ctl/init
"""


def release_of(kernel):
    """Which release's root filesystem a kernel runs on; the lab's own runs on the newest."""
    for release, facts in RELEASES.items():
        if kernel in facts["kernels"]:
            return release
    return "trixie"


def rootfs(release):
    """The release's root filesystem: a folder with root/ (a tree) and root.img (ext4)."""
    recipe = cache.key("rootfs 6", _NEWEST_KERNEL, release, " ".join(PACKAGES))

    def make(work):
        log = work / "log"
        cache.say(f"making a {release} root filesystem from Debian's packages (about 2 minutes)")
        root = work / "root"
        hooks = [
            "--setup-hook=mkdir -p $1/usr/local/sbin $1/lab/ctl $1/lab/cache $1/weft $1/share",
            # Guests boot from the lab's own small initramfs: making Debian's would take a minute a kernel.
            "--setup-hook=printf '#!/bin/sh\\nexit 0\\n' >$1/usr/local/sbin/update-initramfs",
            "--setup-hook=chmod 755 $1/usr/local/sbin/update-initramfs",
        ]
        sources = [f"deb {MIRROR} {release} main", f"deb {MIRROR} {release}-updates main",
                   f"deb {MIRROR}-security {release}-security main"]
        if RELEASES[release]["backports"]:
            sources.append(f"deb {MIRROR} {release}-backports main")
            hooks.append(f"--customize-hook=chroot $1 sh -ec '{_NEWEST_KERNEL}' sh {release}-backports")
        cache.call(["mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(PACKAGES)}",
                    "--aptopt=Acquire::Retries \"3\"", "--dpkgopt=path-exclude=/usr/share/doc/*",
                    "--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/man/*",
                    "--skip=cleanup/apt/lists", *hooks, release, root, *sources], log)
        (root / "usr/local/sbin/update-initramfs").unlink()
        cache.call(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", root, work / "root.img", "6G"], log)

    return cache.get(f"rootfs-{release}-{recipe}", make)


def kernel_version(base, kernel):
    """The installed version whose modules start with the prefix of `kernel`."""
    prefix = RELEASES[release_of(kernel)]["kernels"][kernel]
    found = sorted(p.name for p in (base / "root/lib/modules").iterdir() if p.name.startswith(prefix))
    if not found:
        raise LabError(f"no kernel {prefix}* in {base}")
    return found[-1]


def initramfs(name, modules, version):
    """A small initramfs for a kernel: the folder holds initrd (cpio). modules is its lib/modules/VERSION."""

    def make(work):
        tree = work / "tree"
        (tree / "bin").mkdir(parents=True)
        (tree / "modules").mkdir()
        shutil.copy("/bin/busybox", tree / "bin/busybox")
        order = []
        for path in _module_order(modules):
            data = (modules / path).read_bytes()
            target = Path(path).name
            if target.endswith(".xz"):
                data, target = lzma.decompress(data), target[:-3]
            (tree / "modules" / target).write_bytes(data)
            order.append(target)
        (tree / "modules/order").write_text("".join(f"{m}\n" for m in order))
        (tree / "init").write_text(_INITRAMFS_INIT)
        (tree / "init").chmod(0o755)
        with open(work / "initrd", "wb") as out:
            find = subprocess.Popen(["find", "."], cwd=tree, stdout=subprocess.PIPE)
            subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=tree, stdin=find.stdout, stdout=out, check=True)
        shutil.rmtree(tree)

    recipe = cache.key(_INITRAMFS_INIT, " ".join(BOOT_MODULES), name, version)
    return cache.get(f"initrd-{version}-{recipe}", make) / "initrd"


def _module_order(modules):
    """BOOT_MODULES and what they need, as paths below `modules`, in the order to load them."""
    deps, builtin = {}, set()
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        deps[path] = rest.split()
    for line in (modules / "modules.builtin").read_text().splitlines():
        builtin.add(Path(line).name.removesuffix(".ko").replace("-", "_"))
    named = {Path(p).name.split(".ko")[0].replace("-", "_"): p for p in deps}
    order = []
    for module in BOOT_MODULES:
        if module in builtin:
            continue
        if module not in named:
            raise LabError(f"the kernel in {modules} has no module {module}")
        # modules.dep lists what a module needs deepest last.
        for path in [*reversed(deps[named[module]]), named[module]]:
            if path not in order:
                order.append(path)
    # Soft dependencies that modules.dep does not know: ext4 wants a crc32c.
    for extra in ("crc32c_generic", "libcrc32c"):
        if extra in named and named[extra] not in order:
            order.insert(0, named[extra])
    return order


@contextlib.contextmanager
def overlay(lowers, upper, work, mountpoint):
    """A writable view of root filesystems: yields the tree to chroot into; what it changes is in `upper`."""
    for path in (upper, work, mountpoint):
        path.mkdir(parents=True, exist_ok=True)
    lower = ":".join(str(p) for p in lowers)
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                    f"lowerdir={lower},upperdir={upper},workdir={work}", mountpoint], check=True)
    try:
        with contextlib.ExitStack() as stack:
            for name in ("proc", "dev"):
                subprocess.run(["mount", "--bind", f"/{name}", mountpoint / name], check=True)
                stack.callback(_unmount, mountpoint / name)
            yield mountpoint
    finally:
        _unmount(mountpoint)


def _unmount(mountpoint):
    """What ran in the tree may need a moment to be gone."""
    for _ in range(50):
        if not subprocess.run(["umount", mountpoint], stderr=subprocess.DEVNULL).returncode:
            return
        time.sleep(0.2)
    raise LabError(f"{mountpoint} stays busy and cannot be unmounted")
