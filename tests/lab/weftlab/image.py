# SPDX-License-Identifier: GPL-2.0-only
"""Root filesystems of Debian releases, as folders (to build in) and as disk images (to boot)."""
import contextlib
import dataclasses
import lzma
import shutil
import subprocess
import time
from pathlib import Path

from . import Absent, LabError, cache, names

MIRROR = "http://deb.debian.org/debian"

# Packages of a node with that release, and packages to build weft on it.
PACKAGES = """
linux-image-amd64 linux-headers-amd64 dkms udev kmod iproute2 pciutils procps util-linux busybox-static
fio nvme-cli rdma-core ibverbs-utils xfsprogs e2fsprogs mdadm dmsetup python3 strace
build-essential cmake pkg-config sparse uuid-dev libcli11-dev nlohmann-json3-dev libmnl-dev libblkid-dev libfmt-dev
libexpected-dev libisal-dev liburing-dev libnvme-dev librdmacm-dev libibverbs-dev
libarchive-dev libkmod-dev libmicrohttpd-dev libmount-dev libsmartcols-dev libtomlplusplus-dev
libgrpc++-dev libprotobuf-dev protobuf-compiler-grpc
flex bison bc libelf-dev libssl-dev xz-utils zstd rsync fdisk psmisc iputils-ping systemd-sysv dbus
openssl jq man-db bash-completion ethtool xxd
debhelper dh-dkms mokutil gnuplot-nox sysstat
""".split()

# Kernels of the release's backports: the newest, and the newest of the series before it. Mirrors drop images and headers
# at any time and separately, so both have to exist. $1 is the release, $2 the file for the result.
_BACKPORTS_KERNELS = """
found=$(for image in $(apt-cache search --names-only "^linux-image-[0-9.]+[+]deb[0-9]+-amd64\\$" | cut -d" " -f1); do
	version=${image#linux-image-}
	! apt-cache show linux-headers-$version >/dev/null 2>&1 || echo $version
done | sort -V)
newest=$(echo "$found" | tail -n 1)
previous=$(echo "$found" | grep -v "^$(echo $newest | cut -d. -f1,2)[.]" | tail -n 1)
for pair in backports:$newest previous:$previous; do
	version=${pair#*:}
	[ -n "$version" ] || continue
	apt-get install -y --no-install-recommends -t $1-backports linux-image-$version linux-headers-$version
	echo "${pair%%:*} $version" >>$2
done
"""


@dataclasses.dataclass(frozen=True)
class Boot:
    """Contents of an initramfs: the root's disk, its modules, and the command to mount a share of the lab (by a tag under
    QEMU, by a folder of this machine under User Mode Linux)."""
    disk: str
    modules: tuple
    share: str

    def init(self):
        return f"""#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
while read -r module; do /bin/busybox insmod "/modules/$module" || echo "lab: insmod $module failed"; done </modules/order
i=0
while [ ! -b {self.disk} ] && [ $i -lt 100 ]; do /bin/busybox sleep 0.1; i=$((i + 1)); done
/bin/busybox mount -t ext4 -o noatime {self.disk} /root || exec /bin/busybox poweroff -f
lab_share() {{ /bin/busybox mount {self.share} "$2"; }}
for word in $(/bin/busybox cat /proc/cmdline); do
	case $word in lab_ctl=*) lab_share "${{word#*=}}" /root/lab/ctl || exec /bin/busybox poweroff -f ;;
	lab_hang) while :; do :; done ;; # for the lab's own test
	esac
done
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /bin/sh /lab/ctl/init
"""


QEMU = Boot("/dev/vda", ("virtio_pci", "virtio_blk", "ext4", "9pnet_virtio", "9p"),
            "-t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none \"$1\"")
UML = Boot("/dev/ubda", (), "-t hostfs -o \"$1\" none")


def sources(release):
    """The lines of a sources.list."""
    return [f"deb {MIRROR} {release} main", f"deb {MIRROR} {release}-updates main",
            f"deb {MIRROR}-security {release}-security main"]


def rootfs(release):
    """The release's root filesystem: a folder with root/ (a tree) and root.img (ext4)."""
    recipe = cache.key("rootfs 8", _BACKPORTS_KERNELS, release, " ".join(PACKAGES))

    def make(work):
        log = work / "log"
        cache.say(f"making a {release} root filesystem from Debian's packages (about 2 minutes)")
        root = work / "root"
        hooks = [
            "--setup-hook=mkdir -p $1/usr/local/sbin $1/lab/ctl $1/lab/cache $1/weft $1/share",
            # Guests boot from the lab's own small initramfs: to make Debian's takes a minute for each kernel.
            "--setup-hook=printf '#!/bin/sh\\nexit 0\\n' >$1/usr/local/sbin/update-initramfs",
            "--setup-hook=chmod 755 $1/usr/local/sbin/update-initramfs",
            f"--customize-hook=echo {names.RELEASES[release][0]} $(ls $1/lib/modules) >$1/lab/kernels",
        ]
        lines = sources(release)
        if names.RELEASES[release][1]:
            lines.append(f"deb {MIRROR} {release}-backports main")
            hooks.append(f"--customize-hook=chroot $1 sh -ec '{_BACKPORTS_KERNELS}' sh {release} /lab/kernels")
        cache.call(["mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(PACKAGES)}",
                    "--aptopt=Acquire::Retries \"3\"", "--dpkgopt=path-exclude=/usr/share/doc/*",
                    "--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/man/*",
                    "--skip=cleanup/apt/lists", *hooks, release, root, *lines], log)
        (root / "usr/local/sbin/update-initramfs").unlink()
        # It has a journal: the power of a guest may be cut, and nothing checks the filesystem when it boots again.
        cache.call(["mke2fs", "-q", "-t", "ext4", "-J", "size=16", "-d", root, work / "root.img", "6G"], log)

    return cache.get(f"rootfs-{release}-{recipe}", make)


def emulator():
    """A tree with Debian 13's QEMU, which emulates a guest in three quarters of the time that Debian 12's needs. Its programs run
    with cache.use_libraries()."""
    packages = "qemu-system-x86,seabios,ipxe-qemu"

    def make(work):
        cache.say("unpacking QEMU from Debian's packages (about 20 s)")
        cache.call(["mmdebstrap", "--mode=root", "--variant=extract", f"--include={packages}", "--aptopt=Acquire::Retries \"3\"",
                    "trixie", work / "root", *sources("trixie")], work / "log")

    return cache.get(f"qemu-{cache.key('qemu 1', packages)}", make) / "root"


def fetch(base, work, script, files):
    """Runs a script in a root filesystem, with the network, and moves files of the tree, by pattern, to `work`, by name."""
    with overlay([base / "root"], work / "upper", work / "ovl", work / "mnt") as tree:
        shutil.copy("/etc/resolv.conf", tree / "etc/resolv.conf")
        cache.call(["chroot", tree, "sh", "-ec", script], work / "log")
        for pattern, name in files.items():
            shutil.move(next(tree.glob(pattern)), work / name)
    for folder in ("upper", "ovl", "mnt"):
        shutil.rmtree(work / folder)


# Programs that few tests need, and their packages.
SOFTWARE = {
    "lintian": "lintian",
    "podman": "podman crun",
    "prometheus": "prometheus promtool",
    "slurm": "slurmctld slurmd slurm-client munge",
    "tls": "ktls-utils keyutils",
    "torch": "python3-torch python3-numpy python3-safetensors",
}


def software(name):
    """A folder with the files of some of Debian 13's packages, or of RELEASE's for NAME:RELEASE, and of those that they need
    beyond the root filesystem, below root/. They are unpacked, not installed."""
    name, _, release = name.partition(":")
    if name not in SOFTWARE:
        raise LabError(f"the lab knows no software called {name}; it knows {', '.join(SOFTWARE)}")
    if release and release not in names.RELEASES:
        raise LabError(f"the lab has no release called {release}; it has {', '.join(names.RELEASES)}")
    base = rootfs(release or "trixie")
    script = f"""
        mkdir -p /tmp/debs/partial /tmp/tree
        get() {{
            apt-get install -y -q --no-install-recommends --download-only -o Dir::Cache::archives=/tmp/debs {SOFTWARE[name]}
        }}
        get || {{ apt-get update -q && get; }}
        for deb in /tmp/debs/*.deb; do
            dpkg-deb --fsys-tarfile $deb | tar -C /tmp/tree -xf - --exclude=./usr/share/doc --exclude=./usr/share/man
        done
    """

    def make(work):
        cache.say(f"fetching {SOFTWARE[name].replace(' ', ', ')}")
        fetch(base, work, script, {"tmp/tree": "root"})
        # Debian 12's packages have files in /lib. In a root filesystem that is a link, which a folder would hide.
        for folder in ("bin", "lib", "lib64", "sbin"):
            if (work / "root" / folder).is_dir():
                shutil.copytree(work / "root" / folder, work / "root/usr" / folder, symlinks=True, dirs_exist_ok=True)
                shutil.rmtree(work / "root" / folder)

    stem = f"{name}-{release}" if release else name
    return cache.get(f"{stem}-{cache.key('software 1', base.name, script)}", make)


def kernels(base):
    """The installed kernels: name to version."""
    return dict(line.split() for line in (base / "root/lab/kernels").read_text().splitlines())


def kernel_version(base, kernel):
    """The installed version of the kernel that the lab calls `kernel`."""
    found = kernels(base)
    if kernel not in found:
        had = f"one series of kernels with headers ({found['backports']})" if "backports" in found else "no kernel with headers"
        raise Absent(f"Debian's backports had {had} when the root filesystem was made: there is no {kernel} one")
    return found[kernel]


def initramfs(name, modules, version, boot):
    """A small initramfs for a kernel: the file, a cpio archive. modules is its lib/modules/VERSION."""

    def make(work):
        tree = work / "tree"
        (tree / "bin").mkdir(parents=True)
        (tree / "modules").mkdir()
        shutil.copy("/bin/busybox", tree / "bin/busybox")
        order = []
        for path in _module_order(modules, boot.modules):
            data = (modules / path).read_bytes()
            target = Path(path).name
            if target.endswith(".xz"):
                data, target = lzma.decompress(data), target[:-3]
            (tree / "modules" / target).write_bytes(data)
            order.append(target)
        (tree / "modules/order").write_text("".join(f"{m}\n" for m in order))
        (tree / "init").write_text(boot.init())
        (tree / "init").chmod(0o755)
        with open(work / "initrd", "wb") as out:
            find = subprocess.Popen(["find", "."], cwd=tree, stdout=subprocess.PIPE)
            subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=tree, stdin=find.stdout, stdout=out, check=True)
        shutil.rmtree(tree)

    recipe = cache.key(boot.init(), " ".join(boot.modules), name, version)
    return cache.get(f"initrd-{version}-{recipe}", make) / "initrd"


def _module_order(modules, wanted):
    """The modules wanted and what they need, as paths below `modules`, in the order to load them."""
    deps, builtin = {}, set()
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        deps[path] = rest.split()
    for line in (modules / "modules.builtin").read_text().splitlines():
        builtin.add(Path(line).name.removesuffix(".ko").replace("-", "_"))
    named = {Path(p).name.split(".ko")[0].replace("-", "_"): p for p in deps}
    order = []
    for module in wanted:
        if module in builtin:
            continue
        if module not in named:
            raise LabError(f"the kernel in {modules} has no module {module}")
        # modules.dep lists the deepest dependency last.
        for path in [*reversed(deps[named[module]]), named[module]]:
            if path not in order:
                order.append(path)
    # modules.dep has no soft dependencies: ext4 needs a crc32c.
    for extra in ("crc32c_generic", "libcrc32c"):
        if extra in named and named[extra] not in order:
            order.insert(0, named[extra])
    return order


@contextlib.contextmanager
def overlay(lowers, upper, work, mountpoint):
    """A writable view of root filesystems: yields the tree to chroot into. Its changes are in `upper`."""
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
    """Unmount, with retries: programs that ran in the tree may need a moment to exit."""
    for _ in range(50):
        if not subprocess.run(["umount", mountpoint], stderr=subprocess.DEVNULL).returncode:
            return
        time.sleep(0.2)
    raise LabError(f"{mountpoint} stays busy and cannot be unmounted")
